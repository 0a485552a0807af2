//! From switches to who asked: replies, errors, flows that went (design §4.7, §10).
//!
//! An app gets them in its own words ([`rewrite`](crate::rewrite)); an operator's question gets the
//! parts as they are.

use std::time::Instant;

use openflow::{Dpid, ErrorMessage, FlowRemoved, Kind};
use sdk::abi::RecordKind;
use sys::rate::Rate;
use tracing::field::{DisplayValue, display};
use tracing::{debug, warn};

use super::Worker;
use crate::app_port::AppPort;
use crate::check::Expects;
use crate::connection::{Connection, Up};
use crate::ids::ConnId;
use crate::rewrite;
use crate::transactions::{By, Sender};

impl Worker {
    /// A switch answered something.
    pub(super) fn reply(&mut self, key: ConnId, kind: Kind, message: &[u8], now: Instant) {
        let connection = &mut self.connections[key.0];
        let Some(Up { switch, transactions, .. }) = connection.phase.up_mut() else { return };
        let xid = rewrite::xid(message);
        let Some(answers) = transactions.reply(xid, kind, message, now) else {
            debug!(dpid = %switch.dpid, %kind, xid, "left out a reply that nobody asked for");
            return;
        };
        if let Some((asked, answered)) = answers.mismatch {
            return self.mismatch(key, answers.by, (asked, answered), now);
        }
        let sender = match answers.by {
            By::App(sender) => sender,
            By::Operator(question) => return self.part(question, &answers, message),
            By::Kernel(app) => return self.counted(key, app, message),
        };
        let Some(app_port) = living(&mut self.dispatch.app_ports, sender) else { return };
        if answers.broken {
            return; // counted when it broke
        }
        let mut copy = std::mem::take(&mut self.scratch);
        copy.clear();
        copy.extend_from_slice(message);
        let told =
            match rewrite::reply(&app_port.rights, switch.version, kind, &mut copy, sender.xid) {
                Ok(()) => app_port.answer(RecordKind::Reply, switch, &copy),
                Err(error) => {
                    app_port.lose();
                    if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                        let address = connection.address;
                        warn!(%address, %error, suppressed, "left out a malformed message");
                    }
                    false
                }
            };
        self.scratch = copy;
        if !told {
            transactions.breaks(xid);
        }
    }

    /// A switch answered a request with a message of another type: informs the app or operator that asked.
    fn mismatch(
        &mut self,
        key: ConnId,
        by: By,
        (asked, answered): (Expects, Expects),
        now: Instant,
    ) {
        let app = match by {
            By::App(sender) => {
                let app_port = living(&mut self.dispatch.app_ports, sender);
                app_port.map(|app_port| {
                    app_port.lose();
                    app_port.name.clone()
                })
            }
            By::Operator(question) => {
                self.failed(
                    question,
                    format!("the switch answered with {answered} instead of {asked}"),
                );
                None
            }
            By::Kernel(_) => None, // asked again when it matters
        };
        if let Some(suppressed) = self.log_limits.malformed.admit(now) {
            let connection = &self.connections[key.0];
            let (dpid, address) = (shown_dpid(connection), connection.address);
            warn!(
                dpid, %address, app, %asked, %answered, suppressed,
                "switch answered a request with another type of message"
            );
        }
    }

    /// A switch could not do something: its sender is told, and the operator.
    pub(super) fn switch_error(
        &mut self,
        key: ConnId,
        error: &ErrorMessage<'_>,
        message: &[u8],
        now: Instant,
    ) {
        let connection = &mut self.connections[key.0];
        let xid = rewrite::xid(message);
        let by = connection.phase.up_mut().and_then(|up| up.transactions.error(xid));
        let mut app = None;
        if by.is_none() {
            self.lose_error(key, xid, now);
        }
        let connection = &mut self.connections[key.0];
        if let Some(By::App(sender)) = by {
            let app_port = &mut self.dispatch.app_ports[usize::from(sender.app_port)];
            app = Some(app_port.name.clone());
            if app_port.life == sender.life
                && let Some(switch) = connection.switch_mut()
            {
                let mut copy = std::mem::take(&mut self.scratch);
                copy.clear();
                copy.extend_from_slice(message);
                rewrite::error(switch.version, &mut copy, xid, sender.xid);
                app_port.answer(RecordKind::Error, switch, &copy);
                self.scratch = copy;
            }
        }
        if let Some(suppressed) = self.log_limits.errors.admit(now) {
            let address = connection.address;
            let dpid = shown_dpid(connection);
            warn!(dpid, %address, app, %error, xid, suppressed, "switch sent an error");
        }
        if let Some(By::Operator(question)) = by {
            self.failed(question, format!("the switch refused to tell: {error}"));
        }
    }

    /// Reports an error whose message is forgotten, to the apps that may have sent that message and to the operator.
    fn lose_error(&mut self, key: ConnId, xid: u32, now: Instant) {
        let connection = &self.connections[key.0];
        let dpid = shown_dpid(connection);
        let transactions = connection.phase.up().map(|up| &up.transactions);
        for slot in transactions.into_iter().flat_map(|it| it.may_have_sent(xid)) {
            let app_port = &mut self.dispatch.app_ports[slot];
            if app_port.is_attached() {
                app_port.lose();
            }
            let rate =
                self.log_limits.lost.entry(app_port.app).or_insert_with(|| Rate::seldom(now));
            if let Some(suppressed) = rate.admit(now) {
                warn!(
                    app = app_port.name,
                    dpid,
                    suppressed,
                    "lost an error of a switch: the app has sent too many messages without consecutive transaction ids \
                     to remember whose it was"
                );
            }
        }
    }

    /// A flow is gone: whose it was is told.
    pub(super) fn flow_removed(&mut self, key: ConnId, removed: &FlowRemoved, message: &[u8]) {
        let Some(switch) = self.connections[key.0].switch_mut() else { return };
        let owner = rewrite::owner(removed.cookie);
        let Some(app_port) =
            self.dispatch.app_ports.iter_mut().find(|app_port| app_port.app == owner)
        else {
            debug!(dpid = %switch.dpid, removed.cookie, "a flow of nobody here is gone");
            return;
        };
        let mut copy = std::mem::take(&mut self.scratch);
        copy.clear();
        copy.extend_from_slice(message);
        rewrite::flow_removed(switch.version, &mut copy);
        app_port.flow_removed(switch, removed, &copy);
        self.scratch = copy;
    }

    /// Gives up requests that a switch has not answered for too long.
    pub(super) fn give_up(&mut self, now: Instant) {
        let mut questions = Vec::new();
        let connections = self.connections.iter_mut();
        for up in connections.filter_map(|(_, connection)| connection.phase.up_mut()) {
            let app_ports = &mut self.dispatch.app_ports;
            up.transactions.give_up(now, |by| match by {
                By::App(sender) => {
                    if let Some(app_port) = living(app_ports, sender) {
                        app_port.lose();
                    }
                }
                By::Operator(question) => questions.push(question),
                By::Kernel(_) => {} // asked again when it matters
            });
        }
        for question in questions {
            self.failed(question, "the switch does not answer".to_owned());
        }
    }
}

/// The datapath of a connection for the log; `None` before it is a switch.
fn shown_dpid(connection: &Connection) -> Option<DisplayValue<Dpid>> {
    connection.switch().map(|switch| display(switch.dpid))
}

/// The app port of the instance that sent something; `None` if that is gone.
fn living(app_ports: &mut [AppPort], sender: Sender) -> Option<&mut AppPort> {
    let app_port = app_ports.get_mut(usize::from(sender.app_port))?;
    (app_port.life == sender.life && app_port.is_attached()).then_some(app_port)
}

//! Routes replies, errors and removed flows of a switch to the app or operator concerned.
//!
//! An app receives them with its own transaction ids and cookies ([`rewrite`](crate::rewrite)). An operator's question
//! receives the parts as the switch sent them.

use std::time::Instant;

use control::kernel::OtherSign;
use control::policy::Stage;
use openflow::{Dpid, ErrorMessage, FlowRemoved, FlowRemovedReason, Kind};
use sdk::LostRequest;
use sdk::abi::RecordKind;
use sys::rate::Rate;
use tracing::field::{DisplayValue, display};
use tracing::{debug, warn};

use super::WorkerChannels;
use super::flows::news::may_wait_to_delete;
use super::log_limits::LogLimits;
use super::own_messages::unanswered;
use super::switches::Switches;
use crate::answer_part::Part;
use crate::app_port::AppPort;
use crate::check::Expects;
use crate::connection::{Connection, Up};
use crate::dispatch::Dispatch;
use crate::flows::healing::Loss;
use crate::flows::reader::AbsentApps;
use crate::ids::AppSlot;
use crate::rewrite;
use crate::transactions::{Answers, By, PATIENCE, Sender};

/// A connection whose switch has sent a reply, and the parts of the worker that this concerns.
pub(super) struct Replies<'w> {
    pub(super) connection: &'w mut Connection,
    pub(super) dispatch: &'w mut Dispatch,
    pub(super) channels: &'w WorkerChannels,
    pub(super) log_limits: &'w mut LogLimits,
    pub(super) absent: &'w AbsentApps,
    /// Room for a message that is rewritten for an app.
    pub(super) copy: &'w mut Vec<u8>,
    pub(super) now: Instant,
}

impl Replies<'_> {
    /// Routes a reply to the sender of its request.
    pub(super) fn reply(&mut self, kind: Kind, message: &[u8]) {
        let now = self.now;
        let Some(Up { switch, transactions, .. }) = self.connection.phase.up_mut() else { return };
        let xid = rewrite::xid(message);
        if !switch.changes.is_idle() && switch.changes.reply(xid, kind, message) {
            return;
        }
        let Some(answers) = transactions.reply(xid, kind, message, now) else {
            debug!(dpid = %switch.dpid, %kind, xid, "ignored a reply without a request");
            return;
        };
        if let Some((requested, received)) = answers.mismatch {
            return self.mismatch(answers.by, (requested, received));
        }
        let sender = match answers.by {
            By::App(sender) => sender,
            By::Operator(question) => return flow_part(self.channels, question, &answers, message),
            By::Kernel(app) => return self.counted(app, message),
            By::EntryCheck => return self.entry_part(message, answers.last),
            By::Healing => return switch.healing.barrier_passed(),
            By::OwnWrites => return switch.healing.own_writes_passed(),
            By::FlowReader => return self.reading_part(message, answers.last),
            By::Outcomes => return switch.outcomes.barrier_passed(),
        };
        let Some(app_port) = living(&mut self.dispatch.app_ports, sender) else { return };
        if answers.broken {
            return; // an earlier part was lost and counted
        }
        if answers.too_long {
            app_port.request_lost(switch, sender.xid, LostRequest::TooLong);
            if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                let (dpid, app) = (switch.dpid, &app_port.name);
                warn!(%dpid, app, suppressed, "switch's reply to an app did not end; the rest is ignored");
            }
            return;
        }
        self.copy.clear();
        self.copy.extend_from_slice(message);
        let rights = app_port.rights.at(switch.dpid.0);
        let is_delivered = match rewrite::reply(rights, switch.version, kind, self.copy, sender.xid)
        {
            Ok(()) => app_port.answer(RecordKind::Reply, switch, self.copy),
            Err(error) => {
                app_port.request_lost(switch, sender.xid, LostRequest::Malformed);
                if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                    let address = self.connection.address;
                    warn!(%address, %error, suppressed, "ignored a malformed message");
                }
                false
            }
        };
        if !is_delivered {
            transactions.break_reply(xid);
        }
    }

    /// Handles a reply of another type than its request has: informs the app or operator that sent the request.
    fn mismatch(&mut self, by: By, (requested, received): (Expects, Expects)) {
        let app = match by {
            By::App(sender) => {
                let app_port = living(&mut self.dispatch.app_ports, sender);
                app_port.zip(self.connection.switch_mut()).map(|(app_port, switch)| {
                    app_port.request_lost(switch, sender.xid, LostRequest::Malformed);
                    app_port.name.clone()
                })
            }
            By::Operator(question) => {
                let why = format!("the switch answered with {received} instead of {requested}");
                self.channels.flows_failed(question, why);
                None
            }
            By::Kernel(_)
            | By::EntryCheck
            | By::Healing
            | By::OwnWrites
            | By::FlowReader
            | By::Outcomes => {
                self.own_failed(by, &format!("it answered with {received} instead of {requested}"));
                None
            }
        };
        if let Some(suppressed) = self.log_limits.malformed.admit(self.now) {
            let connection = &self.connection;
            let (dpid, address) = (shown_dpid(connection), connection.address);
            warn!(
                dpid, %address, app, %requested, %received, suppressed,
                "switch answered a request with another type of message"
            );
        }
    }

    /// Routes an error to the sender of the message that the switch refused, and logs it.
    pub(super) fn error(&mut self, error: &ErrorMessage<'_>, message: &[u8]) {
        let xid = rewrite::xid(message);
        if error.is_of_slave() {
            self.other_controller(OtherSign::Slave);
        }
        if self.own_refused(xid, error) || self.change_refused(xid, error) {
            return;
        }
        let up = self.connection.phase.up_mut();
        let by = up.and_then(|up| up.transactions.error(xid));
        if let Some(by) = by
            && !matches!(by, By::App(_) | By::Operator(_))
        {
            return self.own_failed(by, &format!("it refused it with {error}"));
        }
        if let Some(switch) = self.connection.switch_mut() {
            switch.counters.errors += 1;
        }
        if by.is_none() {
            self.lose_error(xid);
        }
        let mut app = None;
        if let Some(By::App(sender)) = by {
            self.guard_refused(sender.app, error);
            let app_port = &mut self.dispatch.app_ports[sender.app];
            app = Some(app_port.name.clone());
            if app_port.life == sender.life
                && let Some(switch) = self.connection.switch_mut()
            {
                self.copy.clear();
                self.copy.extend_from_slice(message);
                rewrite::error(switch.version, self.copy, xid, sender.xid);
                app_port.answer(RecordKind::Error, switch, self.copy);
            }
        }
        if let Some(suppressed) = self.log_limits.errors.admit(self.now) {
            let (address, dpid) = (self.connection.address, shown_dpid(self.connection));
            warn!(dpid, %address, app, %error, xid, suppressed, "switch sent an error");
        }
        if let Some(By::Operator(question)) = by {
            self.channels
                .flows_failed(question, format!("the switch refused the request: {error}"));
        }
    }

    /// Reports an error about a message that is no longer remembered, to the apps that may have sent it and to the
    /// operator.
    fn lose_error(&mut self, xid: u32) {
        let (connection, now) = (&*self.connection, self.now);
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

    /// Routes the report of a removed flow to the app that owned the flow.
    pub(super) fn flow_removed(&mut self, removed: &FlowRemoved, message: &[u8]) {
        let Some(switch) = self.connection.switch_mut() else { return };
        let owner = rewrite::owner(removed.cookie);
        // A flow monitor has reported it before, in order with the replies to barriers.
        let is_watched = switch.watch.reports_losses();
        if owner == rewrite::KERNEL {
            if !is_watched {
                self.flow_lost(Loss::Reported);
            }
            return;
        }
        let mut app_ports = AppSlot::first(self.dispatch.app_ports.len());
        let Some(slot) = app_ports.find(|slot| self.dispatch.app_ports[*slot].app == owner) else {
            debug!(dpid = %switch.dpid, removed.cookie, "ignored the removal of a flow that belongs to no app");
            return;
        };
        let app_port = &mut self.dispatch.app_ports[slot];
        if !app_port.takes(switch) {
            return; // the app does not know the switch
        }
        self.copy.clear();
        self.copy.extend_from_slice(message);
        rewrite::flow_removed(switch.version, self.copy);
        app_port.flow_removed(switch, removed, self.copy);
        let is_guard = matches!(app_port.policy.stage, Stage::Guard(_)) && app_port.is_attached();
        if removed.reason == FlowRemovedReason::Delete
            && !is_watched
            && is_guard
            && !may_wait_to_delete(self.connection, &self.dispatch.app_ports, slot)
        {
            self.flow_lost(Loss::Guard(slot));
        }
    }
}

/// Ends requests whose replies are overdue.
pub(super) fn expire_requests(
    switches: &mut Switches,
    app_ports: &mut [AppPort],
    channels: &WorkerChannels,
    log_limits: &mut LogLimits,
    now: Instant,
) {
    for up in switches.iter_mut().filter_map(|(_, connection)| connection.phase.up_mut()) {
        let Up { switch, transactions, .. } = up;
        transactions.give_up(now, |by, expects| match by {
            By::App(sender) => {
                if let Some(app_port) = living(app_ports, sender) {
                    app_port.request_lost(switch, sender.xid, LostRequest::Unanswered);
                    if let Some(suppressed) = log_limits.unanswered.admit(now) {
                        let (dpid, app, after_s) = (switch.dpid, &app_port.name, PATIENCE.as_secs());
                        warn!(%dpid, app, missing = %expects, after_s, suppressed, "switch did not answer a request of an app");
                    }
                }
            }
            By::Operator(question) => {
                channels.flows_failed(question, "the switch does not answer".to_owned());
            }
            By::Kernel(_) | By::EntryCheck | By::Healing | By::OwnWrites | By::FlowReader | By::Outcomes => {
                unanswered(switch, by, now);
            }
        });
    }
}

/// Passes a part of a switch's flows to the operator.
fn flow_part(channels: &WorkerChannels, question: u64, answers: &Answers, message: &[u8]) {
    if answers.too_long {
        let why = "its answer is longer than can be shown; query the switch itself, for example with \
                   `ovs-ofctl dump-flows BRIDGE`";
        return channels.flows_failed(question, why.to_owned());
    }
    channels.flow_part(question, Part::Of { message: message.to_vec(), last: answers.last });
}

/// The datapath of a connection for the log; `None` before it is a switch.
fn shown_dpid(connection: &Connection) -> Option<DisplayValue<Dpid>> {
    connection.switch().map(|switch| display(switch.dpid))
}

/// The app port of the instance that sent a message; `None` if that instance is gone.
pub(super) fn living(app_ports: &mut [AppPort], sender: Sender) -> Option<&mut AppPort> {
    let app_port = app_ports.get_mut(sender.app.index())?;
    (app_port.life == sender.life && app_port.is_attached()).then_some(app_port)
}

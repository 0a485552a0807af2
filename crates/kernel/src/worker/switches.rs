//! From switches: messages, and switches that come.

use std::time::{Duration, Instant};

use dal::drivers::openflow::{Closed, Event, SwitchInfo, Told, framing, recognise};
use openflow::{Action, FlowMod, Match, PacketIn, PortNo, PortReason, PortStatus, Version};
use tracing::{debug, info, warn};

use super::Worker;
use super::roster::Entry;
use crate::check::APP_SHIFT;
use crate::frame;
use crate::query::{PAGE, SwitchStatus};
use crate::rewrite::{self, KERNEL};
use crate::switch::Switch;

/// How long the known connection of a datapath has to show that it lives, when another claims
/// the same datapath.
const PROBE: Duration = Duration::from_secs(5);

/// Most changes of ports that are kept of a connection until then.
const MOST_MEANWHILE: usize = 4096;

impl Worker {
    /// Handles all whole messages of `bytes` and keeps the rest.
    pub(super) fn messages(
        &mut self,
        key: usize,
        mut bytes: &mut [u8],
        now: Instant,
    ) -> Result<(), Closed> {
        if self.connections[key].session.is_new() {
            recognise(bytes)?;
        }
        let size = bytes.len();
        loop {
            let done = self.packet_ins(key, bytes, now);
            bytes = &mut bytes[done..];
            let cut = framing::cut(bytes).inspect_err(|_| {
                let connection = &mut self.connections[key];
                connection.session.bad_length(bytes, &mut connection.out);
            });
            let Some((message, _)) = cut? else { break };
            let (message, rest) = bytes.split_at_mut(message.len());
            bytes = rest;
            self.message(key, message, now)?;
            self.call_full(now);
            if self.leads_away(key).is_some() {
                break; // the rest is handled there
            }
        }
        self.connections[key].keep(bytes, bytes.len() < size, now);
        Ok(())
    }

    /// Handles the whole packet-ins that `bytes` begins with, which is nearly all that a switch
    /// sends; returns how many bytes they are.
    fn packet_ins(&mut self, key: usize, bytes: &mut [u8], now: Instant) -> usize {
        let mut at = 0;
        loop {
            let Some(switch) = &mut self.connections[key].switch else { return at };
            loop {
                let run = self.dispatch.packet_ins(switch, &mut bytes[at..]);
                at += run;
                if run > 0 && self.dispatch.batch_waits() {
                    break;
                }
                // One at least, each time: an app may be called with a batch and leave it all.
                // Any other message, and one that is wrong, is for `message`.
                let Some(message) = frame::whole_packet_in(switch.version, &mut bytes[at..]) else {
                    return at;
                };
                let cookie = rewrite::take_cookie(switch.version, message);
                let Ok(mut view) = PacketIn::decode(message) else { return at };
                view.cookie = cookie.unwrap_or(view.cookie);
                self.dispatch.packet_in(key, switch, &view, message, now);
                at += message.len();
                if self.dispatch.batch_waits() {
                    break;
                }
            }
            self.call_full(now);
        }
    }

    /// Handles one message.
    fn message(&mut self, key: usize, message: &mut [u8], now: Instant) -> Result<(), Closed> {
        let connection = &mut self.connections[key];
        let switch = connection.switch.as_ref();
        let cookie = switch.and_then(|switch| rewrite::take_cookie(switch.version, message));
        let message = &*message;
        let event = connection.session.receive(message, &mut connection.out);
        if connection.switch.is_none() {
            connection.hold_ports(0)?;
        }
        if !connection.out.is_empty() && !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
        let Some(event) = event? else { return Ok(()) };
        match (event, &mut connection.switch) {
            (Event::PacketIn(mut view), Some(switch)) => {
                view.cookie = cookie.unwrap_or(view.cookie);
                self.dispatch.packet_in(key, switch, &view, message, now);
            }
            (Event::PortStatus(status), Some(switch)) => {
                let is_known = switch.ports.contains_key(&status.desc.port_no.0);
                let more = usize::from(status.reason != PortReason::Delete && !is_known);
                connection.hold_ports(more)?;
                let Some(switch) = &mut connection.switch else { return Ok(()) };
                if let Some(suppressed) = self.log_limits.ports.admit(now) {
                    let PortStatus { reason, desc } = status;
                    let (dpid, port, up) = (switch.dpid, desc.port_no, desc.is_up());
                    info!(%dpid, %port, up, %reason, suppressed, "port changed");
                }
                self.dispatch.port_status(key, switch, status, now);
            }
            (Event::PortStatus(status), None) if connection.claim.is_some() => {
                if connection.ports_meanwhile.len() >= MOST_MEANWHILE {
                    return Err(Closed::TooManyChanges);
                }
                connection.hold_ports(1)?;
                connection.ports_meanwhile.push(status);
            }
            (Event::Up(info), None) => return self.switch_up(key, info, now),
            (Event::Error(error), switch) => {
                if let Some(switch) = switch {
                    switch.counters.errors += 1;
                }
                self.switch_error(key, &error, message, now);
            }
            (Event::Malformed(error), _) => {
                if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                    let address = self.connections[key].address;
                    warn!(%address, %error, suppressed, "left out a malformed message");
                }
            }
            (Event::Told(Told::Tables(tables)), Some(_)) => self.tables_told(key, tables),
            (Event::Told(told), Some(switch)) => {
                debug!(dpid = %switch.dpid, ?told, "switch told of itself");
            }
            (Event::UnknownType(kind), _) => {
                if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                    let address = self.connections[key].address;
                    warn!(%address, kind, suppressed, "left out a message of an unknown type");
                }
            }
            (Event::FlowRemoved(removed), Some(_)) => self.flow_removed(key, &removed, message),
            (Event::Reply(kind) | Event::Unasked(kind), Some(_)) => {
                self.reply(key, kind, message, now);
            }
            (Event::Up(_), Some(_)) | (_, None) => {}
        }
        Ok(())
    }

    /// A switch has completed the handshake.
    pub(super) fn switch_up(
        &mut self,
        key: usize,
        info: SwitchInfo,
        now: Instant,
    ) -> Result<(), Closed> {
        let (dpid, version) = (info.dpid, info.version);
        let connection = &mut self.connections[key];
        connection.check_claim(dpid)?;
        connection.hold_ports(info.ports.len())?;
        if connection.home.is_none() {
            let home = self.channels.pool.claim_datapath(dpid.0, self.channels.me);
            let here = home.worker() == self.channels.me;
            connection.home = Some(home);
            if !here {
                connection.claim = Some((info, now));
                return Ok(());
            }
        }
        if let Some(Entry { key: other, .. }) = self.roster.get(dpid.0) {
            // Either two switches have one name, or the connection that we know is dead and nobody
            // has noticed: ask it.
            let known = &mut self.connections[other];
            known.session.probe(&mut known.out);
            self.note_dirty(other);
            self.connections[key].claim = Some((info, now));
            return Ok(());
        }
        let connection = &mut self.connections[key];
        let xid = connection.session.xid();
        table_miss(version, xid, &mut connection.out);
        let epoch = self.epoch;
        self.epoch = self.channels.pool.next_epoch(epoch);
        let address = connection.address;
        let mut switch = Switch::new(info, epoch);
        self.dispatch.switch_up(&mut switch);
        if let Some(suppressed) = self.log_limits.connected.admit(now) {
            let transport = connection.transport();
            let ports = switch.ports_that_lead_out();
            info!(%dpid, %version, %address, transport, ports, epoch, suppressed, "switch connected");
        }
        if let Some(ticket) = connection.ticket.take() {
            self.admission.leave(&ticket);
        }
        let switch = connection.switch.insert(switch);
        for status in std::mem::take(&mut connection.ports_meanwhile) {
            self.dispatch.port_status(key, switch, status, now);
        }
        self.roster.insert(dpid.0, key, epoch);
        Ok(())
    }

    /// Decides between two connections of one datapath: the known one stays if anything was heard
    /// of it since it was asked, and gives way if not.
    pub(super) fn settle_claims(&mut self, now: Instant) {
        let claims: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.claim.is_some())
            .map(|(key, _)| key)
            .collect();
        for key in claims {
            let Some((info, since)) = self.connections[key].claim.take() else { continue };
            let dpid = info.dpid;
            if let Some(Entry { key: other, .. }) = self.roster.get(dpid.0) {
                let known = &self.connections[other];
                if known.session.last_heard() > since {
                    let address = known.address.to_string();
                    let why = Closed::Duplicate { dpid, address }.to_string();
                    self.close(key, &why, now);
                    continue;
                }
                if now.saturating_duration_since(since) < PROBE {
                    self.connections[key].claim = Some((info, since));
                    continue;
                }
                self.close(other, "it was silent, and the datapath has connected anew", now);
            }
            if let Err(why) = self.switch_up(key, info, now) {
                self.close(key, &why.to_string(), now);
            }
            self.note_dirty(key);
        }
    }

    /// The switches with a greater DPID, and whether there are more.
    pub(super) fn status(&self, after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let mut dpids: Vec<(u64, usize)> = self
            .roster
            .iter()
            .map(|(dpid, entry)| (dpid, entry.key))
            .filter(|(dpid, _)| after.is_none_or(|after| *dpid > after))
            .collect();
        dpids.sort_unstable();
        let more = dpids.len() > PAGE;
        let page = dpids.iter().take(PAGE).filter_map(|(_, key)| {
            let connection = self.connections.get(*key)?;
            let switch = connection.switch.as_ref()?;
            let fullest = self.fullest(switch);
            let (address, unsent) = (connection.address, connection.unsent());
            Some(switch.status(address, connection.transport(), fullest, unsent))
        });
        (page.collect(), more)
    }
}

/// The table-miss entry, which is the kernel's: what no flow matches comes to us, whole
/// (OpenFlow 1.3.5 §5.4). In 1.0 a switch does that by itself (OpenFlow 1.0.2 §3.4), but Open vSwitch may
/// go on to drop what it dropped while it had no controller, until its flows change.
pub(super) fn table_miss(version: Version, xid: u32, out: &mut Vec<u8>) {
    let to_us = [Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }];
    let cookie = u64::from(KERNEL.0) << APP_SHIFT;
    let miss = FlowMod::add(Match::new()).priority(0).cookie(cookie).apply(&to_us);
    openflow::append(out, |out| miss.encode(version, xid, out)).expect("every version can say it");
}

//! From switches: messages, and switches that come.

use std::time::{Duration, Instant};

use dal::drivers::openflow::{Closed, Event, SwitchInfo, Told, framing, recognise};
use openflow::{Action, FlowMod, Match, PacketIn, PortNo, PortReason, PortStatus, Version};
use tracing::{debug, info, warn};

use super::Worker;
use super::roster::Entry;
use crate::check::APP_SHIFT;
use crate::connection::Claim;
use crate::frame;
use crate::ids::ConnId;
use crate::query::{PAGE, SwitchStatus};
use crate::rewrite::{self, KERNEL};

/// How long the known connection of a datapath has to show that it lives, when another claims
/// the same datapath.
const PROBE: Duration = Duration::from_secs(5);

/// Most changes of ports that are kept of a connection until then.
const MOST_MEANWHILE: usize = 4096;

impl Worker {
    /// Handles all whole messages of `bytes` and keeps the rest.
    pub(super) fn messages(
        &mut self,
        key: ConnId,
        mut bytes: &mut [u8],
        now: Instant,
    ) -> Result<(), Closed> {
        if self.connections[key.0].session.is_new() {
            recognise(bytes)?;
        }
        let size = bytes.len();
        loop {
            let done = self.packet_ins(key, bytes, now);
            bytes = &mut bytes[done..];
            let cut = framing::cut(bytes).inspect_err(|_| {
                let connection = &mut self.connections[key.0];
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
        self.connections[key.0].keep(bytes, bytes.len() < size, now);
        Ok(())
    }

    /// Handles the whole packet-ins that `bytes` begins with, which is nearly all that a switch
    /// sends; returns how many bytes they are.
    fn packet_ins(&mut self, key: ConnId, bytes: &mut [u8], now: Instant) -> usize {
        let mut at = 0;
        loop {
            let Some(switch) = self.connections[key.0].switch_mut() else { return at };
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
    fn message(&mut self, key: ConnId, message: &mut [u8], now: Instant) -> Result<(), Closed> {
        let connection = &mut self.connections[key.0];
        let cookie =
            connection.switch().and_then(|switch| rewrite::take_cookie(switch.version, message));
        let message = &*message;
        let event = connection.session.receive(message, &mut connection.out);
        if connection.switch().is_none() {
            connection.hold_ports(0)?;
        }
        if !connection.out.is_empty() && !connection.output.is_listed {
            connection.output.is_listed = true;
            self.dirty.push(key);
        }
        let Some(event) = event? else { return Ok(()) };
        match event {
            Event::Up(info) => return self.handshake_complete(key, info, now),
            Event::PortStatus(status) => return self.port_status(key, status, now),
            Event::Error(error) => {
                if let Some(switch) = connection.switch_mut() {
                    switch.counters.errors += 1;
                }
                self.switch_error(key, &error, message, now);
            }
            Event::Malformed(error) => {
                if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                    let address = connection.address;
                    warn!(%address, %error, suppressed, "ignored a malformed message");
                }
            }
            Event::UnknownType(kind) => {
                if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                    let address = connection.address;
                    warn!(%address, kind, suppressed, "ignored a message of an unknown type");
                }
            }
            Event::PacketIn(mut view) => {
                let Some(switch) = connection.switch_mut() else { return Ok(()) };
                view.cookie = cookie.unwrap_or(view.cookie);
                self.dispatch.packet_in(key, switch, &view, message, now);
            }
            Event::Told(Told::Tables(tables)) => self.tables_told(key, tables),
            Event::Told(told) => {
                if let Some(switch) = connection.switch() {
                    debug!(dpid = %switch.dpid, ?told, "switch described itself");
                }
            }
            Event::FlowRemoved(removed) => self.flow_removed(key, &removed, message),
            Event::Reply(kind) | Event::Unasked(kind) => self.reply(key, kind, message, now),
        }
        Ok(())
    }

    /// Applies a port change, or keeps it while the connection claims its datapath.
    fn port_status(&mut self, key: ConnId, status: PortStatus, now: Instant) -> Result<(), Closed> {
        let connection = &mut self.connections[key.0];
        if let Some(claim) = connection.phase.claim() {
            if claim.ports.len() >= MOST_MEANWHILE {
                return Err(Closed::TooManyChanges);
            }
            connection.hold_ports(1)?;
            connection.phase.claim_mut().into_iter().for_each(|claim| claim.ports.push(status));
            return Ok(());
        }
        let Some(switch) = connection.switch() else { return Ok(()) };
        let is_known = switch.ports.contains_key(&status.desc.port_no.0);
        let more = usize::from(status.reason != PortReason::Delete && !is_known);
        connection.hold_ports(more)?;
        let Some(switch) = connection.switch_mut() else { return Ok(()) };
        if let Some(suppressed) = self.log_limits.ports.admit(now) {
            let PortStatus { reason, desc } = status;
            let (dpid, port, up) = (switch.dpid, desc.port_no, desc.is_up());
            info!(%dpid, %port, up, %reason, suppressed, "port changed");
        }
        self.dispatch.port_status(key, switch, status, now);
        Ok(())
    }

    /// Claims the datapath for a connection that has completed the handshake.
    fn handshake_complete(
        &mut self,
        key: ConnId,
        info: SwitchInfo,
        now: Instant,
    ) -> Result<(), Closed> {
        let connection = &mut self.connections[key.0];
        connection.check_claim(info.dpid)?;
        connection.hold_ports(info.ports.len())?;
        let home = self.channels.pool.claim_datapath(info.dpid.0, self.channels.me);
        connection.phase.begin_claim(Claim { info, since: now, home, ports: Vec::new() });
        self.settle_claim(key, now);
        Ok(())
    }

    /// Decides about a new claim: the switch is up, unless another worker owns its datapath or another connection has
    /// it. That one is then probed: either two switches have one datapath id, or it is dead and nobody has noticed.
    pub(super) fn settle_claim(&mut self, key: ConnId, now: Instant) {
        let Some(claim) = self.connections[key.0].phase.claim_mut() else { return };
        if claim.home.worker() != self.channels.me {
            return; // the caller hands the connection over
        }
        if let Some(Entry { key: other, .. }) = self.roster.get(claim.info.dpid.0) {
            claim.since = now;
            let known = &mut self.connections[other.0];
            known.session.probe(&mut known.out);
            self.note_dirty(other);
            return;
        }
        self.switch_up(key, now);
    }

    /// Makes a switch of the connection that has won its datapath.
    fn switch_up(&mut self, key: ConnId, now: Instant) {
        let epoch = self.epoch;
        let connection = &mut self.connections[key.0];
        let Some(changes) = connection.phase.win_claim(epoch) else { return };
        self.epoch = self.channels.pool.next_epoch(epoch);
        let (address, transport) = (connection.address, connection.transport());
        let Some(switch) = connection.phase.switch_mut() else { return };
        let (dpid, version) = (switch.dpid, switch.version);
        table_miss(version, connection.session.xid(), &mut connection.out);
        self.dispatch.switch_up(switch);
        if let Some(suppressed) = self.log_limits.connected.admit(now) {
            let ports = switch.ports_that_lead_out();
            info!(%dpid, %version, %address, transport, ports, epoch, suppressed, "switch connected");
        }
        self.admission.leave(key);
        for status in changes {
            self.dispatch.port_status(key, switch, status, now);
        }
        self.roster.insert(dpid.0, key, epoch);
    }

    /// Decides between two connections of one datapath: the known one stays if it has sent anything since it was
    /// probed, and is closed after [`PROBE`] otherwise.
    pub(super) fn settle_claims(&mut self, now: Instant) {
        let connections = self.connections.iter();
        let claims: Vec<ConnId> = connections
            .filter(|(_, connection)| connection.phase.claim().is_some())
            .map(|(index, _)| ConnId(index))
            .collect();
        for key in claims {
            let Some(claim) = self.connections.get(key.0).and_then(|it| it.phase.claim()) else {
                continue;
            };
            let (dpid, since) = (claim.info.dpid, claim.since);
            if let Some(Entry { key: other, .. }) = self.roster.get(dpid.0) {
                let known = &self.connections[other.0];
                if known.session.last_heard() > since {
                    let address = known.address.to_string();
                    let why = Closed::Duplicate { dpid, address }.to_string();
                    self.close(key, &why, now);
                    continue;
                }
                if now.saturating_duration_since(since) < PROBE {
                    continue;
                }
                self.close(other, "it was silent, and the datapath has connected anew", now);
            }
            self.switch_up(key, now);
            self.note_dirty(key);
        }
    }

    /// The switches with a greater DPID, and whether there are more.
    pub(super) fn status(&self, after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let mut dpids: Vec<(u64, ConnId)> = self
            .roster
            .iter()
            .map(|(dpid, entry)| (dpid, entry.key))
            .filter(|(dpid, _)| after.is_none_or(|after| *dpid > after))
            .collect();
        dpids.sort_unstable();
        let more = dpids.len() > PAGE;
        let page = dpids.iter().take(PAGE).filter_map(|(_, key)| {
            let connection = self.connections.get(key.0)?;
            let switch = connection.switch()?;
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

//! Handles the messages of a switch, and decides which connection gets a datapath.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dal::{
    Closed, Description, Event, HostReport, Inbound, SwitchInfo, Taken, begins_with_packet_in,
};
use openflow::{
    ControllerStatus, DecodeError, Dpid, FlowMod, Header, Match, PortReason, PortStatus, RoleStatus,
};
use sdk::LearnedHost;
use tracing::{debug, info, warn};

use super::answers::Replies;
use super::flows::{news, reading};
use super::hosted::note_received;
use super::own_messages::{configure, table_miss};
use super::roster::RosterEntry;
use super::{Worker, WorkerEvent};
use crate::connection::{Claim, OwnOutput};
use crate::dispatch::{Dispatched, End};
use crate::ids::ConnId;
use crate::rewrite;
use control::kernel::RefusedSwitch;
use control::query::NoPackets;
use control::sabotage::{self, Sabotage};

/// Time in which the known connection of a datapath must answer a probe when another one claims the datapath.
const PROBE: Duration = Duration::from_secs(5);

/// Most port changes that are kept for a claiming connection.
const MOST_MEANWHILE: usize = 4096;

/// Most bytes of a controller's address in a line of the log.
const MOST_URI: usize = 256;

impl Worker {
    /// Handles all complete messages of `bytes` and keeps the rest for the next read.
    pub(super) fn messages(
        &mut self,
        id: ConnId,
        bytes: &mut [u8],
        now: Instant,
    ) -> Result<(), Closed> {
        let mut room = std::mem::take(&mut self.scratch.translated);
        let handled = self.whole_messages(id, bytes, &mut room, now);
        self.scratch.translated = room;
        let handled = handled?;
        if handled > 0 {
            self.switches[id].session.note_received(now);
        }
        self.switches[id].keep(&bytes[handled..], handled > 0, now);
        Ok(())
    }

    /// Handles complete messages until there are no more, or the connection must move. Returns their size. `room` is a buffer
    /// into which a driver translates.
    fn whole_messages(
        &mut self,
        id: ConnId,
        bytes: &mut [u8],
        room: &mut Vec<u8>,
        now: Instant,
    ) -> Result<usize, Closed> {
        let mut at = 0;
        loop {
            let connection = &mut self.switches[id];
            // A message is noted before the session handles it, so that the record of a crash contains it, and only with its
            // first part. Packet-ins are noted with their number, after their dispatch.
            let version = connection.switch().map(|switch| switch.version);
            let rest = &bytes[at..];
            let is_packet_in = version.is_some_and(|it| begins_with_packet_in(it, rest));
            let is_noted = is_packet_in || at == 0 && connection.has_partial();
            if !rest.is_empty() && !is_noted {
                let dpid = connection.switch().map_or(0, |switch| switch.dpid.0);
                note_received(&mut self.calls.flight_slot, dpid, rest, 1);
            }
            let before = connection.out.len();
            let taken = connection.session.take(&mut bytes[at..], room, &mut connection.out);
            if connection.switch().is_none() {
                connection.hold_ports(0)?;
            }
            self.note_growth(id, before);
            let Some(Taken { size, inbound }) = taken? else { return Ok(at) };
            let read = match inbound {
                Inbound::PacketIns(run) => self.packet_ins(id, run, now),
                Inbound::Message(event, message) => {
                    self.event(id, event, message, now)?;
                    self.note_growth(id, before);
                    message.len()
                }
                Inbound::Nothing => 0,
            };
            at += size.unwrap_or(read);
            self.call_full(now);
            if self.other_owner(id).is_some() {
                return Ok(at); // the other worker handles the rest
            }
        }
    }

    /// Notes that a connection has more output than `before` bytes.
    fn note_growth(&mut self, id: ConnId, before: usize) {
        let connection = &mut self.switches[id];
        if connection.out.len() > before {
            self.output.note(id, connection);
        }
    }

    /// Handles the packet-ins that `run` begins with, as nearly all messages of a switch are. Returns their size. Packet-ins before
    /// the switch is admitted are ignored, one for each call.
    fn packet_ins(&mut self, id: ConnId, run: &mut [u8], now: Instant) -> usize {
        let mut at = 0;
        loop {
            let Some(switch) = self.switches[id].switch_mut() else {
                let message = Header::decode(&run[at..]);
                return message.map_or(run.len(), |header| at + usize::from(header.length));
            };
            let before = switch.counters.packet_ins;
            let Dispatched { size, end } =
                self.dispatch.packet_ins(id, switch, &mut run[at..], now);
            if size > 0 {
                let count = switch.counters.packet_ins.wrapping_sub(before);
                note_received(&mut self.calls.flight_slot, switch.dpid.0, &run[at..], count);
            }
            at += size;
            match end {
                End::Run => return at,
                End::Batch => {}
                End::Malformed(error) => self.ignore_malformed(id, &error, now),
            }
            self.call_full(now);
        }
    }

    fn ignore_malformed(&mut self, id: ConnId, error: &DecodeError, now: Instant) {
        if let Some(suppressed) = self.log_limits.malformed.admit(now) {
            let address = self.switches[id].address;
            warn!(%address, %error, suppressed, "ignored a malformed message");
        }
    }

    /// Handles one message that is no packet-in.
    fn event(
        &mut self,
        id: ConnId,
        event: Event<'_>,
        message: &[u8],
        now: Instant,
    ) -> Result<(), Closed> {
        match event {
            Event::Up(info) => return self.handshake_complete(id, info, now),
            Event::PortStatus(status) => return self.port_status(id, status, now),
            Event::Error(error) => {
                self.replies(id, now).error(&error, message);
                self.advance_changes(id, now);
            }
            Event::Malformed(error) => self.ignore_malformed(id, &error, now),
            Event::UnknownType(kind) => {
                if let Some(suppressed) = self.log_limits.malformed.admit(now) {
                    let address = self.switches[id].address;
                    warn!(%address, kind, suppressed, "ignored a message of an unknown type");
                }
            }
            Event::Described(Description::Tables(tables)) => self.replies(id, now).tables(tables),
            Event::Described(Description::Config(config)) => {
                self.replies(id, now).configured(config);
            }
            Event::Described(description) => {
                if let Some(switch) = self.switches[id].switch() {
                    debug!(dpid = %switch.dpid, ?description, "switch described itself");
                }
            }
            Event::Host(report) => self.learned_host(id, report),
            Event::FlowRemoved(removed) => {
                self.replies(id, now).flow_removed(&removed, message);
                self.note_restoration(id);
            }
            Event::Flows(news) => {
                self.replies(id, now).flow_news(news);
                self.note_restoration(id);
            }
            Event::TableStatus(status) => self.replies(id, now).table_status(status),
            Event::RoleStatus(status) => self.log_role(id, status, now),
            Event::ControllerStatus(status) => self.log_controller(id, &status, now),
            Event::Reply(kind) | Event::Other(kind) => {
                self.replies(id, now).reply(kind, message);
                self.advance_changes(id, now);
            }
        }
        Ok(())
    }

    /// Reports a host that a switch has learned by itself. Those of a switch that is not usable yet are repeated by it.
    fn learned_host(&mut self, id: ConnId, report: HostReport) {
        let Some(switch) = self.switches[id].switch_mut() else { return };
        let HostReport { port, mac, vlan, ip, is_gone } = report;
        let (dpid, epoch, version) = (switch.dpid, switch.epoch, switch.version);
        let switch_of = sdk::Switch { dpid, epoch, version };
        let host = LearnedHost { switch: switch_of, port, mac, vlan, ip, is_gone };
        for app_port in &mut self.dispatch.app_ports {
            app_port.learned_host(switch, &host);
        }
    }

    /// Handles the messages that sessions have without bytes of their switches.
    pub(super) fn messages_of_sessions(&mut self, now: Instant) {
        let waiting = self.switches.iter_mut().filter(|(_, it)| it.session.has_messages());
        for id in waiting.map(|(id, _)| id).collect::<Vec<_>>() {
            if self.switches.get(id).is_none() {
                continue; // another of them has claimed its datapath
            }
            if let Err(why) = self.messages(id, &mut [], now) {
                self.close(id, &why.to_string(), now);
            } else if let Some(owner) = self.other_owner(id) {
                self.hand_over(id, owner);
            }
        }
    }

    /// Logs that a switch has given Rosemary another role.
    fn log_role(&mut self, id: ConnId, status: RoleStatus, now: Instant) {
        if let (Some(switch), Some(suppressed)) =
            (self.switches[id].switch(), self.log_limits.controllers.admit(now))
        {
            let (dpid, RoleStatus { role, reason, .. }) = (switch.dpid, status);
            info!(%dpid, %role, ?reason, suppressed, "switch has given Rosemary another role");
        }
    }

    /// Logs the state of a controller of a switch.
    fn log_controller(&mut self, id: ConnId, status: &ControllerStatus, now: Instant) {
        if let (Some(switch), Some(suppressed)) =
            (self.switches[id].switch(), self.log_limits.controllers.admit(now))
        {
            let uri = status.uri.get(..MOST_URI).unwrap_or(&status.uri);
            let (dpid, uri) = (switch.dpid, String::from_utf8_lossy(uri));
            let ControllerStatus { role, is_up, .. } = status;
            info!(%dpid, %role, up = is_up, %uri, suppressed, "switch reported the state of a controller");
        }
    }

    /// The routing of a switch's replies and errors.
    pub(super) fn replies(&mut self, id: ConnId, now: Instant) -> Replies<'_> {
        Replies {
            connection: &mut self.switches[id],
            dispatch: &mut self.dispatch,
            channels: &self.channels,
            log_limits: &mut self.log_limits,
            absent: &self.absent,
            copy: &mut self.scratch.copy,
            now,
        }
    }

    /// Applies a port change, or keeps it while the connection claims its datapath.
    fn port_status(&mut self, id: ConnId, status: PortStatus, now: Instant) -> Result<(), Closed> {
        let connection = &mut self.switches[id];
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
        self.dispatch.port_status(id, switch, status, now);
        Ok(())
    }

    /// Claims the datapath for a connection that has completed the handshake.
    fn handshake_complete(
        &mut self,
        id: ConnId,
        info: SwitchInfo,
        now: Instant,
    ) -> Result<(), Closed> {
        if let Err(why) = self.switches[id].check_claim(info.dpid) {
            self.report_refused(id, info.dpid, &why, now);
            return Err(why);
        }
        let connection = &mut self.switches[id];
        connection.hold_ports(info.ports.len())?;
        let datapath = self.channels.pool.claim_datapath(info.dpid.0, self.channels.me);
        let claim = Claim { info, since: now, probed: None, datapath, ports: Vec::new() };
        connection.phase.begin_claim(claim);
        self.settle_claim(id, now);
        Ok(())
    }

    /// Decides about a new claim: the switch is up, unless another worker owns its datapath or another connection has
    /// it. Such a connection is probed: it may be dead without a sign of that, or two switches have the same datapath
    /// id.
    pub(super) fn settle_claim(&mut self, id: ConnId, now: Instant) {
        let Some(claim) = self.switches[id].phase.claim() else { return };
        if claim.datapath.worker() != self.channels.me {
            return; // the caller hands the connection over
        }
        if let Some(RosterEntry { key: other, epoch }) = self.switches.roster.get(claim.info.dpid.0)
        {
            if let Some(claim) = self.switches[id].phase.claim_mut() {
                (claim.since, claim.probed) = (now, Some(epoch));
            }
            let known = &mut self.switches[other];
            known.session.probe(&mut known.out);
            self.output.note(other, known);
            return;
        }
        self.switch_up(id, now);
    }

    /// Makes a switch of the connection that has won its datapath.
    fn switch_up(&mut self, id: ConnId, now: Instant) {
        let epoch = self.switches.next_epoch;
        let connection = &mut self.switches[id];
        let Some(changes) = connection.phase.win_claim(epoch) else { return };
        let (address, transport) = (connection.address, connection.transport());
        let Some(switch) = connection.phase.switch_mut() else { return };
        let (dpid, version) = (switch.dpid, switch.version);
        let own = &mut OwnOutput::new(&mut *connection.session, &mut connection.out);
        if sabotage::is(Sabotage::WipeFlows) {
            let wipe = FlowMod::delete(Match::new());
            own.send(|_, out| wipe.encode(version, 0, out))
                .expect("every version has this message");
        }
        switch.entry_cookie = rewrite::kernel_cookie(self.channels.pool.installation());
        configure(switch, own);
        table_miss(switch, own);
        let (memory, ended) =
            (self.channels.pool.memory(), self.channels.pool.ends_when_monitored(dpid.0));
        news::begin(switch, own, (memory, ended));
        reading::new_switch(switch, &self.dispatch.app_ports, &self.absent, now);
        self.dispatch.switch_up(switch);
        if let Some(suppressed) = self.log_limits.connected.admit(now) {
            let ports = switch.physical_ports();
            info!(%dpid, %version, %address, transport, ports, epoch, suppressed, "switch connected");
            if let Some(NoPackets { why, apps }) = self.dispatch.no_packets(switch) {
                let apps = apps.join(", ");
                warn!(%dpid, why, apps, "apps that need packet-ins do not get the switch");
            }
        }
        for status in changes {
            self.dispatch.port_status(id, switch, status, now);
        }
        self.switches.next_epoch = self.channels.pool.next_epoch(epoch);
        self.switches.admission.leave(id);
        self.switches.roster.insert(dpid.0, id, epoch);
        self.reader.classify(id, &mut self.switches[id], &self.dispatch);
        self.channels.pool.note_address(address.ip().to_canonical(), dpid.0);
        self.output.note(id, &mut self.switches[id]);
    }

    /// Reports to the monitor that a connection has claimed a datapath that it may not have. The caller closes the connection.
    fn report_refused(&mut self, id: ConnId, dpid: Dpid, why: &Closed, now: Instant) {
        let address = self.switches[id].address;
        let (dpid, why) = (dpid.to_string(), why.to_string());
        self.send_refused(RefusedSwitch { dpid, address, why, closed_by_switch: false }, now);
    }

    /// Reports a connection that was closed before its handshake was complete, if a switch that is not connected now was
    /// connected from its address before.
    pub(super) fn report_unfinished(
        &mut self,
        address: SocketAddr,
        why: &str,
        closed_by_switch: bool,
        now: Instant,
    ) {
        if let Some(dpid) = self.channels.pool.absent_at(address.ip().to_canonical()) {
            let (dpid, why) = (Dpid(dpid).to_string(), why.to_owned());
            self.send_refused(RefusedSwitch { dpid, address, why, closed_by_switch }, now);
        }
    }

    fn send_refused(&mut self, refused: RefusedSwitch, now: Instant) {
        if self.log_limits.claims.admit(now).is_some() {
            self.channels.notify(WorkerEvent::SwitchRefused(refused));
        }
    }

    /// Decides between two connections of one datapath. The known connection stays if it answers the probe. It also stays if it
    /// has sent a message when [`PROBE`] has passed. Otherwise it is closed.
    pub(super) fn settle_claims(&mut self, now: Instant) {
        for id in self.switches.claims() {
            let Some(claim) = self.switches.get(id).and_then(|it| it.phase.claim()) else {
                continue;
            };
            let (dpid, since, probed) = (claim.info.dpid, claim.since, claim.probed);
            if let Some(RosterEntry { key: other, epoch }) = self.switches.roster.get(dpid.0) {
                if probed != Some(epoch) {
                    self.settle_claim(id, now); // another claim has won the datapath since
                    continue;
                }
                let known = &self.switches[other];
                let is_over = now.saturating_duration_since(since) >= PROBE;
                // The last messages of a connection can be read after the probe, and its end only after them.
                if known.session.has_answered() || is_over && known.session.last_received() > since
                {
                    let address = known.address.to_string();
                    let why = Closed::Duplicate { dpid, address };
                    self.report_refused(id, dpid, &why, now);
                    self.close(id, &why.to_string(), now);
                    continue;
                }
                if !is_over {
                    continue;
                }
                self.close(other, "it was silent, and the datapath has connected again", now);
            }
            self.switch_up(id, now);
            self.output.note(id, &mut self.switches[id]);
        }
    }
}

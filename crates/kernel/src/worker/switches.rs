//! From switches: messages, and switches that come.

use std::time::Instant;

use dal::drivers::openflow::{Closed, Event, SwitchInfo, framing, recognise};
use openflow::{
    Action, ErrorMessage, FlowMod, Header, Match, PortNo, PortReason, PortStatus, Version,
};
use tracing::{debug, info, warn};

use super::Worker;
use crate::connection::{Counters, Switch};
use crate::dispatch;
use crate::link::Link;
use crate::query::{PAGE, SwitchStatus};

impl Worker {
    /// Handles all whole messages of `bytes` and keeps the rest.
    pub(super) fn messages(
        &mut self,
        key: usize,
        mut bytes: &[u8],
        now: Instant,
    ) -> Result<(), Closed> {
        if self.connections[key].session.is_new() {
            recognise(bytes)?;
        }
        while let Some((message, rest)) = framing::cut(bytes)? {
            bytes = rest;
            self.message(key, message, now)?;
        }
        self.connections[key].keep(bytes);
        Ok(())
    }

    /// Handles one message.
    fn message(&mut self, key: usize, message: &[u8], now: Instant) -> Result<(), Closed> {
        let connection = &mut self.connections[key];
        let event = connection.session.receive(message, &mut connection.out);
        if !connection.out.is_empty() && !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
        let Some(event) = event? else { return Ok(()) };
        match (event, &mut connection.switch) {
            (Event::PacketIn(view), Some(switch)) => {
                dispatch::packet_in(&mut self.links, switch, &view, message);
            }
            (Event::PortStatus(status), Some(switch)) => {
                port_status(&mut self.links, switch, status);
            }
            (Event::Up(info), None) => return self.switch_up(key, info),
            (Event::Error(error), switch) => {
                if let Some(switch) = switch {
                    switch.counters.errors += 1;
                }
                self.switch_error(key, &error, now);
            }
            (Event::Malformed(error), _) => {
                if let Some(suppressed) = self.rates.malformed.admit(now) {
                    let address = self.connections[key].address;
                    warn!(%address, %error, suppressed, "left out a malformed message");
                }
            }
            (Event::Unasked(kind), _) => debug!(?kind, "left out a message nobody asked for"),
            (Event::Up(_), Some(_)) | (_, None) => {}
        }
        Ok(())
    }

    /// A switch has completed the handshake.
    fn switch_up(&mut self, key: usize, info: SwitchInfo) -> Result<(), Closed> {
        let (dpid, version) = (info.dpid, info.version);
        self.connections[key].check_claim(dpid)?;
        if let Some(other) = self.by_dpid.get(&dpid.0) {
            let address = self.connections[*other].address;
            return Err(Closed::Duplicate { dpid, address: address.to_string() });
        }
        let connection = &mut self.connections[key];
        if version >= Version::V1_3 {
            let xid = connection.session.xid();
            table_miss(version, xid, &mut connection.out);
        }
        let epoch = self.epochs.entry(dpid.0).or_insert(0);
        *epoch += 1;
        let ports = info.ports.len();
        let address = connection.address;
        let counters = Counters::default();
        let mut switch = Switch { info, epoch: *epoch, announced: Vec::new(), counters };
        for link in &mut self.links {
            link.announce(&mut switch);
        }
        let transport = connection.transport();
        info!(%dpid, %version, %address, transport, ports, epoch, "switch connected");
        if let Some(ticket) = connection.ticket.take() {
            self.door.leave(&ticket);
        }
        connection.switch = Some(switch);
        self.by_dpid.insert(dpid.0, key);
        Ok(())
    }

    fn switch_error(&mut self, key: usize, error: &ErrorMessage<'_>, now: Instant) {
        if let Some(suppressed) = self.rates.errors.admit(now) {
            let address = self.connections[key].address;
            let dpid = self.connections[key].switch.as_ref().map(|switch| switch.info.dpid);
            let about = Header::decode(error.data).ok().map(|header| header.xid);
            warn!(?dpid, %address, %error, xid = about, suppressed, "switch sent an error");
        }
    }

    /// The switches with a greater DPID, and whether there are more.
    pub(super) fn status(&self, after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let mut dpids: Vec<(u64, usize)> = self
            .by_dpid
            .iter()
            .map(|(dpid, key)| (*dpid, *key))
            .filter(|(dpid, _)| after.is_none_or(|after| *dpid > after))
            .collect();
        dpids.sort_unstable();
        let more = dpids.len() > PAGE;
        let page = dpids.iter().take(PAGE).filter_map(|(_, key)| {
            let connection = self.connections.get(*key)?;
            connection
                .switch
                .as_ref()
                .map(|switch| switch.status(connection.address, connection.transport()))
        });
        (page.collect(), more)
    }
}

/// Takes in a change of a port and tells the apps.
fn port_status(links: &mut [Link], switch: &mut Switch, status: PortStatus) {
    let PortStatus { reason, desc } = status;
    let ports = &mut switch.info.ports;
    let place = ports.iter().position(|port| port.port_no == desc.port_no);
    match (reason, place) {
        (PortReason::Delete, Some(place)) => {
            ports.remove(place);
        }
        (PortReason::Delete, None) => return,
        (_, Some(place)) => ports[place] = desc,
        (_, None) if ports.len() >= usize::from(u16::MAX) => return,
        (_, None) => ports.push(desc),
    }
    info!(dpid = %switch.info.dpid, port = %desc.port_no, up = desc.is_up(), ?reason, "port changed");
    let reason = match reason {
        PortReason::Add => 0,
        PortReason::Delete => 1,
        PortReason::Modify => 2,
    };
    for link in links {
        link.port(switch, reason, &desc);
    }
}

/// The table-miss entry, which is the kernel's: what no flow matches comes to us, whole
/// (OpenFlow 1.3.5 §5.4). In 1.0 that is what a switch does by itself (OpenFlow 1.0.2 §3.4).
fn table_miss(version: Version, xid: u32, out: &mut Vec<u8>) {
    let to_us = [Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }];
    let miss = FlowMod::add(Match::new()).priority(0).apply(&to_us);
    openflow::append(out, |out| miss.encode(version, xid, out)).expect("every version can say it");
}

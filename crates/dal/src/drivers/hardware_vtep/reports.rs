//! Makes the session's reports: the device is up, ports and flows changed, hosts came and went.

use openflow::{
    Capabilities, ErrorMessage, Features, FlowModFlags, FlowRemoved, FlowRemovedReason, Header,
    Kind, PortReason, PortStatus,
};

use super::answers::Facts;
use super::device::Device;
use super::ownership::Owner;
use super::rule::Key;
use super::{NO_PACKETS, OF};
use crate::session::{Description, Event, HostReport, Inbound, SwitchInfo, Table};

/// Something for the caller.
#[derive(Debug)]
pub(super) enum Report {
    /// The device is up. The bytes are its features.
    Up(SwitchInfo, Vec<u8>),
    /// A message of OpenFlow.
    Message(Vec<u8>),
    /// A learned host.
    Host(HostReport),
    /// The table of flows.
    Tables(Table),
}

impl Report {
    /// Returns the report as the caller reads it. `room` takes its bytes.
    pub(super) fn into_inbound(self, room: &mut Vec<u8>) -> Inbound<'_> {
        room.clear();
        match self {
            Self::Up(info, message) => {
                *room = message;
                Inbound::Message(Event::Up(info), room)
            }
            Self::Host(host) => Inbound::Message(Event::Host(host), room),
            Self::Tables(table) => {
                let description = Description::Tables(vec![table]);
                Inbound::Message(Event::Described(description), room)
            }
            Self::Message(message) => {
                *room = message;
                Inbound::Message(event(room), room)
            }
        }
    }

    /// Reports that the device is up.
    pub(super) fn up(device: &Device) -> Self {
        let features = Features {
            dpid: device.dpid,
            n_buffers: 0,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS,
            actions: 0,
            ports: Vec::new(),
        };
        let message = encoded(|out| features.encode(OF, 0, out));
        let info = SwitchInfo {
            version: OF,
            dpid: device.dpid,
            n_tables: features.n_tables,
            n_buffers: features.n_buffers,
            capabilities: features.capabilities,
            actions: 0,
            ports: device.ports.values().copied().collect(),
            no_packets: Some(NO_PACKETS),
        };
        Self::Up(info, message)
    }

    /// Reports the table of flows.
    pub(super) fn tables(device: &Device) -> Self {
        let active_count = u32::try_from(device.entries.len()).ok();
        Self::Tables(Table { table_id: 0, max_entries: None, active_count })
    }
}

/// Reports the differences between two states of the device: ports, then flows that are gone, then hosts.
pub(super) fn changes(before: &Facts<'_>, after: &Device) -> Vec<Report> {
    let mut reports = Vec::new();
    ports(before.device, after, &mut reports);
    for (entry, owner) in before.device.own_entries() {
        let key = entry.rule.key();
        let is_there = after.entries.get(&key).is_some_and(|it| it.owner.is_some());
        if !is_there && owner.flags.contains(FlowModFlags::SEND_FLOW_REM) {
            reports.push(flow_removed(before, key, owner));
        }
    }
    hosts(before.device, after, &mut reports);
    reports
}

fn ports(before: &Device, after: &Device, reports: &mut Vec<Report>) {
    let mut report = |reason, desc| {
        let status = PortStatus { reason, desc };
        reports.push(Report::Message(encoded(|out| status.encode(OF, 0, out))));
    };
    for (number, desc) in &before.ports {
        if !after.ports.contains_key(number) {
            report(PortReason::Delete, *desc);
        }
    }
    for (number, desc) in &after.ports {
        match before.ports.get(number) {
            None => report(PortReason::Add, *desc),
            Some(old) if old != desc => report(PortReason::Modify, *desc),
            Some(_) => {}
        }
    }
}

fn flow_removed(before: &Facts<'_>, key: Key, owner: Owner) -> Report {
    let since = before.since.get(&key).copied().unwrap_or(before.now);
    let removed = FlowRemoved {
        match_: key.to_match(),
        cookie: owner.cookie,
        priority: owner.priority,
        reason: FlowRemovedReason::Delete,
        table_id: 0,
        duration: before.now.saturating_duration_since(since),
        idle_timeout: 0,
        hard_timeout: 0,
        packet_count: u64::MAX,
        byte_count: u64::MAX,
    };
    Report::Message(encoded(|out| removed.encode(OF, 0, out)))
}

fn hosts(before: &Device, after: &Device, reports: &mut Vec<Report>) {
    for (name, host) in &before.hosts {
        if after.hosts.get(name).is_none_or(|now| now.port != host.port) {
            reports.push(Report::Host(HostReport { is_gone: true, ..*host }));
        }
    }
    for (name, host) in &after.hosts {
        if before.hosts.get(name) != Some(host) {
            reports.push(Report::Host(*host));
        }
    }
}

/// The meaning of one of the session's own messages.
fn event(message: &[u8]) -> Event<'_> {
    let kind = Header::decode(message).and_then(|it| Kind::from_wire(OF, it.kind));
    match kind {
        Ok(Kind::Error) => {
            ErrorMessage::decode(message).map_or_else(Event::Malformed, Event::Error)
        }
        Ok(Kind::PortStatus) => {
            PortStatus::decode(message).map_or_else(Event::Malformed, Event::PortStatus)
        }
        Ok(Kind::FlowRemoved) => {
            FlowRemoved::decode(message).map_or_else(Event::Malformed, Event::FlowRemoved)
        }
        Ok(kind) => Event::Reply(kind),
        Err(error) => Event::Malformed(error),
    }
}

/// Returns a message of the session's own.
pub(super) fn encoded(
    encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>,
) -> Vec<u8> {
    let mut message = Vec::new();
    let result = openflow::append(&mut message, encode);
    debug_assert!(result.is_ok(), "OpenFlow 1.3 has each of them");
    message
}

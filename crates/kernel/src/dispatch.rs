//! Which app gets what, and the record that it gets.
//!
//! A record is the fixed head of the app ABI, with what is already known about the message, and
//! behind it the raw OpenFlow message, or a fixed structure for what is not a message.

use dal::drivers::openflow::SwitchInfo;
use openflow::{PacketIn, PortDesc};
use sdk::Refusal;
use sdk::abi::{Port, Record, RecordKind};

use crate::connection::Switch;
use crate::link::Link;

/// Bytes of a refused message that its app gets back.
const REFUSED_SIZE: usize = 64;

/// Bytes of a port's body.
#[expect(clippy::cast_possible_truncation, reason = "48")]
const PORT_BODY: u16 = sdk::abi::PORT_SIZE as u16;

/// Gives a packet-in to the apps that want it: at present to every app.
///
/// `message` is the whole OpenFlow message that `packet_in` is a view of.
pub(crate) fn packet_in(
    links: &mut [Link],
    switch: &mut Switch,
    packet_in: &PacketIn<'_>,
    message: &[u8],
) {
    switch.counters.packet_ins += 1;
    let Some(record) = packet_in_record(switch, packet_in, message) else {
        switch.counters.dropped += 1;
        return;
    };
    for link in links {
        if !link.packet_in(switch, &record, message) {
            switch.counters.dropped += 1;
        }
    }
}

/// The head for a packet-in; `None` if it is longer than any OpenFlow message.
fn packet_in_record(switch: &Switch, packet_in: &PacketIn<'_>, message: &[u8]) -> Option<Record> {
    Some(Record {
        in_port: packet_in.in_port.0,
        buffer_id: packet_in.buffer_id.unwrap_or(u32::MAX),
        // The packet is the message's end.
        data_offset: u16::try_from(message.len() - packet_in.data.len()).ok()?,
        data_size: u16::try_from(packet_in.data.len()).ok()?,
        cookie: packet_in.cookie,
        reason: packet_in.reason.wire(),
        table_id: packet_in.table_id,
        body_size: u16::try_from(message.len()).ok()?,
        total_len: packet_in.total_len,
        ..switch_record(RecordKind::PacketIn, &switch.info, switch.epoch)
    })
}

/// The head of a record about a switch.
pub(crate) fn switch_record(kind: RecordKind, info: &SwitchInfo, epoch: u32) -> Record {
    Record::new(kind, info.version.wire(), info.dpid.0, epoch)
}

/// A port and what happened to it, as head and body.
pub(crate) fn port_record(
    info: &SwitchInfo,
    epoch: u32,
    reason: u8,
    port: &PortDesc,
) -> (Record, [u8; sdk::abi::PORT_SIZE]) {
    let body = Port {
        port_no: port.port_no.0,
        config: port.config.0,
        state: port.state.0,
        hw_addr: port.hw_addr.0,
        reserved: [0; 2],
        name: port.name.0,
        curr_speed: port.curr_speed,
        reserved2: [0; 2],
    }
    .to_bytes();
    let record =
        Record { reason, body_size: PORT_BODY, ..switch_record(RecordKind::Port, info, epoch) };
    (record, body)
}

/// A message that was refused, as head and body.
pub(crate) fn refused_record(
    version: u8,
    dpid: u64,
    epoch: u32,
    why: Refusal,
    message: &[u8],
) -> (Record, &[u8]) {
    let body = message.get(..REFUSED_SIZE).unwrap_or(message);
    let record = Record {
        reason: why as u8,
        body_size: u16::try_from(body.len()).expect("at most REFUSED_SIZE"),
        ..Record::new(RecordKind::Refused, version, dpid, epoch)
    };
    (record, body)
}

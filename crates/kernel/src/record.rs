//! Makes the records for apps: the fixed head of the app ABI, with the fields that the kernel has decoded, followed by
//! the raw OpenFlow message, or by a fixed structure for other events.

use std::borrow::Cow;

use openflow::{PacketIn, PortDesc};
use sdk::Refusal;
use sdk::abi::{Port, Record, RecordKind};

use crate::switch::Switch;

/// Bytes of a refused message that the app receives, and of the text behind it.
const REFUSED_SIZE: usize = 64;
const REMEDY_SIZE: usize = 1024;

/// Bytes of a port's body.
#[expect(clippy::cast_possible_truncation, reason = "48")]
const PORT_BODY: u16 = sdk::abi::PORT_SIZE as u16;

/// Makes the head for a packet-in, with the cookie of its flow; `None` if the record would be longer than any OpenFlow
/// message.
#[inline]
pub(crate) fn packet_in_record(
    switch: &Switch,
    packet_in: &PacketIn<'_>,
    message: &[u8],
) -> Option<Record> {
    packet_in_record_with_head(&switch_record(RecordKind::PacketIn, switch), packet_in, message)
}

/// The same with `head`, a [`switch_record`] that the caller makes once for a run of packet-ins.
#[inline]
pub(crate) fn packet_in_record_with_head(
    head: &Record,
    packet_in: &PacketIn<'_>,
    message: &[u8],
) -> Option<Record> {
    Some(Record {
        in_port: packet_in.in_port.0,
        buffer_id: packet_in.buffer_id.unwrap_or(u32::MAX),
        // The packet is the end of the message.
        data_offset: u16::try_from(message.len() - packet_in.data.len()).ok()?,
        data_size: u16::try_from(packet_in.data.len()).ok()?,
        cookie: packet_in.cookie,
        reason: packet_in.reason.wire(),
        table_id: packet_in.table_id,
        body_size: u16::try_from(message.len()).ok()?,
        total_len: packet_in.total_len,
        ..*head
    })
}

/// Makes the head of a record about a switch.
#[inline]
pub(crate) fn switch_record(kind: RecordKind, switch: &Switch) -> Record {
    Record::new(kind, switch.version.wire(), switch.dpid.0, switch.epoch)
}

/// Makes the head and body of a record about a port and its change.
pub(crate) fn port_record(
    switch: &Switch,
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
    let record = Record { reason, body_size: PORT_BODY, ..switch_record(RecordKind::Port, switch) };
    (record, body)
}

/// Makes the head and body of a record about lost messages.
pub(crate) fn lost_record(count: u64) -> (Record, [u8; size_of::<u64>()]) {
    let body = count.to_le_bytes();
    let body_size = u16::try_from(body.len()).expect("eight");
    (Record { body_size, ..Record::new(RecordKind::Lost, 0, 0, 0) }, body)
}

/// Makes the head and body of a record about a refused message. If there is a remedy, its text follows the message and
/// the head says where it begins.
pub(crate) fn refused_record<'m>(
    (dpid, epoch): (u64, u32),
    why: Refusal,
    message: &'m [u8],
    remedy: Option<&str>,
) -> (Record, Cow<'m, [u8]>) {
    let version = message.first().copied().unwrap_or(0);
    let head = Record::new(RecordKind::Refused, version, dpid, epoch);
    let message = message.get(..REFUSED_SIZE).unwrap_or(message);
    let size = |body: &[u8]| u16::try_from(body.len()).expect("two short texts");
    let record = Record { reason: why as u8, body_size: size(message), ..head };
    let Some(remedy) = remedy else { return (record, message.into()) };
    let remedy = remedy.get(..REMEDY_SIZE).unwrap_or(remedy);
    let body = [message, remedy.as_bytes()].concat();
    let (data_offset, data_size) = (size(message), size(remedy.as_bytes()));
    (Record { body_size: size(&body), data_offset, data_size, ..record }, body.into())
}

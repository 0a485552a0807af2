//! Packet-in and packet-out messages. OpenFlow 1.3.5 §7.4.1, §7.3.7.
//!
//! The packet-in has the same layout in OpenFlow 1.4 and 1.5 (1.5.1 §7.4.1), the packet-out in 1.1 (§A.3.7), 1.2
//! (§A.3.6) and 1.4 (1.4.1 §7.3.7).
//!
//! Layout of a packet-in's body, with offsets in bytes:
//!
//! ```text
//!  0        4           6        7          8        16
//! +--------+-----------+--------+----------+--------+
//! | buffer | total_len | reason | table_id | cookie |
//! +--------+-----------+--------+----------+--------+
//! 16                          16+m    18+m
//! +---------------------------+-------+-------------+
//! | match, m bytes, m % 8 = 0 | pad 2 | packet ...  |
//! +---------------------------+-------+-------------+
//! ```

use super::Match;
use super::action::Action;
use crate::wire::{List, Pad, WireFormat, wire_struct};
use crate::{DecodeError, PortNo, Reader, Writer};

wire_struct! {
    /// The body of a packet-in (`ofp_packet_in`).
    pub struct PacketIn<'a> = "packet_in" {
        /// Id of the switch's buffer; `0xffffffff` means none.
        buffer_id: u32,
        /// Length of the packet at the switch, in bytes.
        total_len: u16,
        /// Reason: `ofp_packet_in_reason`.
        reason: u8,
        /// Number of the table that sent it.
        table_id: u8,
        /// The cookie of the entry that sent it.
        cookie: u64,
        /// In-port, and other pipeline fields.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
        /// Padding: puts the packet's IP header on a multiple of 4.
        pad: Pad<2>,
        /// The packet, starting with its Ethernet header.
        data: &'a [u8],
    }
}

/// The body of a packet-out (`ofp_packet_out`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PacketOut<'a, const V: u8> {
    /// Id of the buffered packet to send; with `0xffffffff`, `data` is the packet.
    pub buffer_id: u32,
    /// In-port for the actions, or [`PortNo::CONTROLLER`].
    pub in_port: PortNo,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Pad<6>,
    /// Actions on the packet.
    pub actions: List<'a, Action<'a, V>>,
    /// The packet, starting with its Ethernet header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a, const V: u8> WireFormat<'a> for PacketOut<'a, V> {
    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let buffer_id = from.u32("packet_out.buffer_id")?;
        let in_port = PortNo(from.u32("packet_out.in_port")?);
        let offset = from.offset();
        let found = usize::from(from.u16("packet_out.actions_len")?);
        let pad = Pad::read(from, "packet_out.pad")?;
        if found > from.left() {
            return Err(DecodeError::BadLength {
                field: "packet_out.actions_len",
                offset,
                found,
                expected: "no more than the bytes left",
            });
        }
        let mut actions = from.sub("packet_out.actions", found)?;
        Ok(Self {
            buffer_id,
            in_port,
            pad,
            actions: List::read(&mut actions, "packet_out.actions")?,
            data: from.rest(),
        })
    }

    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.buffer_id);
        to.u32(self.in_port.0);
        let actions_len_at = to.position();
        to.u16(0);
        self.pad.write(to);
        let actions_at = to.position();
        self.actions.write(to);
        to.patch_size(actions_len_at, actions_at);
        to.bytes(self.data);
    }
}

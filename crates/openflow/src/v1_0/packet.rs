//! Packet-in and packet-out messages. OpenFlow 1.0.2 §5.4.1, §5.3.6.

use super::Action;
use crate::wire::{List, Pad, WireFormat, wire_struct};
use crate::{DecodeError, Reader, Writer};

wire_struct! {
    /// The body of a packet-in (`ofp_packet_in`).
    pub struct PacketIn<'a> = "packet_in" {
        /// Id of the switch's buffer; `0xffffffff` means none.
        buffer_id: u32,
        /// Length of the packet at the switch, in bytes.
        total_len: u16,
        /// In-port of the packet.
        in_port: u16,
        /// Reason: `ofp_packet_in_reason`.
        reason: u8,
        /// Padding: puts the packet's IP header on a multiple of 4.
        pad: Pad<1>,
        /// The packet, starting with its Ethernet header.
        data: &'a [u8],
    }
}

/// The body of a packet-out (`ofp_packet_out`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PacketOut<'a> {
    /// Id of the buffered packet to send; with `0xffffffff`, `data` is the packet.
    pub buffer_id: u32,
    /// In-port for the actions; `0xffff` means none.
    pub in_port: u16,
    /// Actions on the packet.
    pub actions: List<'a, Action<'a>>,
    /// The packet, starting with its Ethernet header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> WireFormat<'a> for PacketOut<'a> {
    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let buffer_id = from.u32("packet_out.buffer_id")?;
        let in_port = from.u16("packet_out.in_port")?;
        let offset = from.offset();
        let found = usize::from(from.u16("packet_out.actions_len")?);
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
            actions: List::read(&mut actions, "packet_out.actions")?,
            data: from.rest(),
        })
    }

    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.buffer_id);
        to.u16(self.in_port);
        let actions_len_at = to.position();
        to.u16(0);
        let actions_at = to.position();
        self.actions.write(to);
        to.patch_size(actions_len_at, actions_at);
        to.bytes(self.data);
    }
}

//! Packet-out messages. OpenFlow 1.5.1 §7.3.6.
//!
//! Layout of the body, with offsets in bytes:
//!
//! ```text
//!  0        4             6     8                            8+m
//! +--------+-------------+-----+----------------------------+-------------+------------+
//! | buffer | actions_len | pad | match, m bytes, m % 8 = 0  | actions ... | packet ... |
//! +--------+-------------+-----+----------------------------+-------------+------------+
//! ```

use crate::v1_3::Match;
use crate::v1_3::action::Action;
use crate::wire::{List, Pad, WireFormat};
use crate::{DecodeError, Reader, Writer};

/// The body of a packet-out (`ofp_packet_out`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PacketOut<'a> {
    /// Id of the buffered packet to send; with `0xffffffff`, `data` is the packet.
    pub buffer_id: u32,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Pad<2>,
    /// Pipeline fields of the packet; the in-port must be among them.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match<'a>,
    /// Actions on the packet.
    pub actions: List<'a, Action<'a, 6>>,
    /// The packet, starting with its Ethernet header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> WireFormat<'a> for PacketOut<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let buffer_id = from.u32("packet_out.buffer_id")?;
        let offset = from.offset();
        let found = usize::from(from.u16("packet_out.actions_len")?);
        let pad = Pad::read(from, "packet_out.pad")?;
        let match_ = Match::read(from, "packet_out.match")?;
        if found > from.left() {
            return Err(DecodeError::BadLength {
                field: "packet_out.actions_len",
                offset,
                found,
                expected: "no more than the bytes left",
            });
        }
        let mut actions = from.sub("packet_out.actions", found)?;
        let actions = List::read(&mut actions, "packet_out.actions")?;
        Ok(Self { buffer_id, pad, match_, actions, data: from.rest() })
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.buffer_id);
        let actions_len_at = to.position();
        to.u16(0);
        self.pad.write(to);
        self.match_.write(to);
        let actions_at = to.position();
        self.actions.write(to);
        to.patch_size(actions_len_at, actions_at);
        to.bytes(self.data);
    }
}

#[cfg(feature = "serde")]
crate::json::as_field!(PacketOut<'_>);

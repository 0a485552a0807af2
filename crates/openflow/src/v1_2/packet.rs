//! Packet-in messages. OpenFlow 1.2 §A.4.1.

use crate::v1_3::Match;
use crate::wire::{Pad, wire_struct};

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
        /// In-port, and other pipeline fields.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
        /// Padding: puts the packet's IP header on a multiple of 4.
        pad: Pad<2>,
        /// The packet, starting with its Ethernet header.
        data: &'a [u8],
    }
}

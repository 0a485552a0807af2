//! Packet-in messages. OpenFlow 1.1.0 §A.4.1.

use crate::PortNo;
use crate::wire::wire_struct;

wire_struct! {
    /// The body of a packet-in (`ofp_packet_in`).
    pub struct PacketIn<'a> = "packet_in" {
        /// Id of the switch's buffer; `0xffffffff` means none.
        buffer_id: u32,
        /// In-port of the packet.
        in_port: PortNo,
        /// Physical port behind a logical in-port; otherwise the same.
        in_phy_port: PortNo,
        /// Length of the packet at the switch, in bytes.
        total_len: u16,
        /// Reason: `ofp_packet_in_reason`.
        reason: u8,
        /// Number of the table that sent it.
        table_id: u8,
        /// The packet, starting with its Ethernet header.
        data: &'a [u8],
    }
}

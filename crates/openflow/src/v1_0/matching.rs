//! The match. OpenFlow 1.0.2 §5.2.3.
//!
//! It always has twelve fields, and a word of wildcard bits:
//!
//! ```text
//!  bit  0        in_port        bit  5        nw_proto
//!       1        dl_vlan             6        tp_src (or ICMP type)
//!       2        dl_src              7        tp_dst (or ICMP code)
//!       3        dl_dst              8..14    nw_src: how many low bits do not count, 32 on: none
//!       4        dl_type            14..20    nw_dst: the same
//!                                   20        dl_vlan_pcp
//!                                   21        nw_tos
//! ```

use std::net::Ipv4Addr;

use crate::MacAddr;
use crate::wire::{Pad, wire_struct};
use crate::write::put;

/// Wildcard bits (`ofp_flow_wildcards`).
pub mod wildcard {
    /// The port.
    pub const IN_PORT: u32 = 1 << 0;
    /// The VLAN id.
    pub const DL_VLAN: u32 = 1 << 1;
    /// The Ethernet source.
    pub const DL_SRC: u32 = 1 << 2;
    /// The Ethernet destination.
    pub const DL_DST: u32 = 1 << 3;
    /// The ethertype.
    pub const DL_TYPE: u32 = 1 << 4;
    /// The IP protocol, or the ARP opcode.
    pub const NW_PROTO: u32 = 1 << 5;
    /// The TCP or UDP source, or the ICMP type.
    pub const TP_SRC: u32 = 1 << 6;
    /// The TCP or UDP destination, or the ICMP code.
    pub const TP_DST: u32 = 1 << 7;
    /// Position of the 6-bit wildcard count of the IPv4 source.
    pub const NW_SRC_SHIFT: u32 = 8;
    /// Position of the 6-bit wildcard count of the IPv4 destination.
    pub const NW_DST_SHIFT: u32 = 14;
    /// The VLAN priority.
    pub const DL_VLAN_PCP: u32 = 1 << 20;
    /// The type of service.
    pub const NW_TOS: u32 = 1 << 21;
    /// Every field, as Open vSwitch encodes it: 32 low bits of each address.
    pub const ALL: u32 = IN_PORT
        | DL_VLAN
        | DL_SRC
        | DL_DST
        | DL_TYPE
        | NW_PROTO
        | TP_SRC
        | TP_DST
        | 32 << NW_SRC_SHIFT
        | 32 << NW_DST_SHIFT
        | DL_VLAN_PCP
        | NW_TOS;
}

wire_struct! {
    /// A match (`ofp_match`), 40 bytes.
    pub struct Match = "match" {
        /// Wildcarded fields: [`wildcard`].
        wildcards: u32,
        /// The port the packet came in through.
        in_port: u16,
        /// The Ethernet source.
        dl_src: MacAddr,
        /// The Ethernet destination.
        dl_dst: MacAddr,
        /// The VLAN id; `0xffff` is "no tag".
        dl_vlan: u16,
        /// The VLAN priority.
        dl_vlan_pcp: u8,
        /// Padding.
        pad: Pad<1>,
        /// The ethertype; 0x05ff stands for an 802.2 frame with a length (below 0x600).
        dl_type: u16,
        /// The type of service: DSCP in the upper 6 bits.
        nw_tos: u8,
        /// The IP protocol, or the low byte of the ARP opcode.
        nw_proto: u8,
        /// Padding.
        pad2: Pad<2>,
        /// The IPv4 source, or the ARP sender.
        nw_src: Ipv4Addr,
        /// The IPv4 destination, or the ARP target.
        nw_dst: Ipv4Addr,
        /// The TCP or UDP source, or the ICMP type.
        tp_src: u16,
        /// The TCP or UDP destination, or the ICMP code.
        tp_dst: u16,
    }
}

impl Match {
    /// Writes the same bytes as [`WireFormat::write`](crate::wire::WireFormat), in one copy.
    #[inline]
    pub(crate) fn put(&self, room: &mut [u8; 40]) {
        put(room, 0, self.wildcards.to_be_bytes());
        put(room, 4, self.in_port.to_be_bytes());
        put(room, 6, self.dl_src.0);
        put(room, 12, self.dl_dst.0);
        put(room, 18, self.dl_vlan.to_be_bytes());
        put(room, 20, [self.dl_vlan_pcp, 0]);
        put(room, 22, self.dl_type.to_be_bytes());
        put(room, 24, [self.nw_tos, self.nw_proto, 0, 0]);
        put(room, 28, self.nw_src.octets());
        put(room, 32, self.nw_dst.octets());
        put(room, 36, self.tp_src.to_be_bytes());
        put(room, 38, self.tp_dst.to_be_bytes());
    }
}

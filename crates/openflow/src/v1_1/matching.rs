//! The match. OpenFlow 1.1.0 §A.2.3.
//!
//! It always has the same fields. A word of wildcard bits excludes whole fields; addresses and metadata have masks,
//! whose bits of 1 do not count:
//!
//! ```text
//!  bit  0        in_port        bit  5        nw_proto
//!       1        dl_vlan             6        tp_src (or ICMP type)
//!       2        dl_vlan_pcp         7        tp_dst (or ICMP code)
//!       3        dl_type             8        mpls_label
//!       4        nw_tos              9        mpls_tc
//! ```

use std::net::Ipv4Addr;

use crate::wire::{Pad, WireFormat, wire_struct};
use crate::{DecodeError, MacAddr, PortNo, Reader, Writer};

/// Wildcard bits (`ofp_flow_wildcards`).
pub mod wildcard {
    /// The port.
    pub const IN_PORT: u32 = 1 << 0;
    /// The VLAN id.
    pub const DL_VLAN: u32 = 1 << 1;
    /// The VLAN priority.
    pub const DL_VLAN_PCP: u32 = 1 << 2;
    /// The ethertype.
    pub const DL_TYPE: u32 = 1 << 3;
    /// The type of service.
    pub const NW_TOS: u32 = 1 << 4;
    /// The IP protocol, or the ARP opcode.
    pub const NW_PROTO: u32 = 1 << 5;
    /// The TCP, UDP or SCTP source, or the ICMP type.
    pub const TP_SRC: u32 = 1 << 6;
    /// The TCP, UDP or SCTP destination, or the ICMP code.
    pub const TP_DST: u32 = 1 << 7;
    /// The MPLS label.
    pub const MPLS_LABEL: u32 = 1 << 8;
    /// The MPLS traffic class.
    pub const MPLS_TC: u32 = 1 << 9;
    /// Every field.
    pub const ALL: u32 = (1 << 10) - 1;
}

/// `OFPMT_STANDARD`, the only match type.
const STANDARD: u16 = 0;
/// Size of a match, in bytes (`OFPMT_STANDARD_LENGTH`).
pub const SIZE: u16 = 88;

/// Type and length of a match, which are the same in every match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head;

impl<'a> WireFormat<'a> for Head {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let offset = from.offset();
        let kind = from.u16("match.type")?;
        if kind != STANDARD {
            return Err(DecodeError::BadValue {
                field: "match.type",
                offset,
                found: kind.into(),
                expected: "0 (standard)",
            });
        }
        let offset = from.offset();
        let length = from.u16("match.length")?;
        if length != SIZE {
            return Err(DecodeError::BadLength {
                field: "match.length",
                offset,
                found: length.into(),
                expected: "88",
            });
        }
        Ok(Self)
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.u16(STANDARD);
        to.u16(SIZE);
    }
}

#[cfg(feature = "serde")]
impl crate::json::AsField for Head {
    fn serialize_field<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
    fn says_nothing(&self) -> bool {
        true
    }
}

wire_struct! {
    /// A match (`ofp_match`), 88 bytes.
    pub struct Match = "match" {
        /// Type and length.
        head: Head,
        /// The port the packet came in through.
        in_port: PortNo,
        /// Wildcarded fields: [`wildcard`].
        wildcards: u32,
        /// The Ethernet source.
        dl_src: MacAddr,
        /// Bits of `dl_src` that do not count.
        dl_src_mask: MacAddr,
        /// The Ethernet destination.
        dl_dst: MacAddr,
        /// Bits of `dl_dst` that do not count.
        dl_dst_mask: MacAddr,
        /// The VLAN id; `0xffff` is "no tag", `0xfffe` any tag.
        dl_vlan: u16,
        /// The VLAN priority.
        dl_vlan_pcp: u8,
        /// Padding.
        pad: Pad<1>,
        /// The ethertype.
        dl_type: u16,
        /// The type of service: DSCP in the upper 6 bits.
        nw_tos: u8,
        /// The IP protocol, or the low byte of the ARP opcode.
        nw_proto: u8,
        /// The IPv4 source, or the ARP sender.
        nw_src: Ipv4Addr,
        /// Bits of `nw_src` that do not count.
        nw_src_mask: Ipv4Addr,
        /// The IPv4 destination, or the ARP target.
        nw_dst: Ipv4Addr,
        /// Bits of `nw_dst` that do not count.
        nw_dst_mask: Ipv4Addr,
        /// The TCP, UDP or SCTP source, or the ICMP type.
        tp_src: u16,
        /// The TCP, UDP or SCTP destination, or the ICMP code.
        tp_dst: u16,
        /// The MPLS label.
        mpls_label: u32,
        /// The MPLS traffic class.
        mpls_tc: u8,
        /// Padding.
        pad2: Pad<3>,
        /// Metadata written by earlier tables.
        metadata: u64,
        /// Bits of `metadata` that do not count.
        metadata_mask: u64,
    }
}

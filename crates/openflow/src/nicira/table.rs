//! The table of [`field`](super::field): the fields that the specification's class does not have.
//!
//! Source: Open vSwitch, `include/openvswitch/meta-flow.h` and `build-aux/extract-ofp-fields`. The fields of tunnel metadata,
//! numbers 40 to 103 of class 1, have no rows.

use super::field::Prerequisite::{
    self, Arp, Icmpv4, Icmpv6, Ip, Ipv4, Ipv6, Mpls, Nd, NdAdvert, NdSolicit, Nsh, Protocol,
};
use crate::experimenter::ONF;

/// A field.
#[derive(Debug)]
pub(super) struct Row {
    /// The name in matches; fields that the specification's class has too end in their class.
    pub(super) name: &'static str,
    /// The name in actions.
    pub(super) nxm: &'static str,
    pub(super) class: u16,
    pub(super) number: u8,
    /// 0 outside of the experimenter class.
    pub(super) experimenter: u32,
    pub(super) bits: u16,
    /// The size of a value, in bytes.
    pub(super) size: u8,
    pub(super) maskable: bool,
    pub(super) writable: bool,
    pub(super) needs: Prerequisite,
    /// The number of the specification's field with the same meaning.
    pub(super) same_as: Option<u8>,
}

/// Of a row: whether a match can have a mask, and whether an action can write the field.
const MASK: [bool; 2] = [true, false];
const WRITE: [bool; 2] = [false, true];
const BOTH: [bool; 2] = [true, true];
const NEITHER: [bool; 2] = [false, false];

const NX: u32 = super::NICIRA;
const NSH: u32 = 0x005a_d650;

const fn row(
    [name, nxm]: [&'static str; 2],
    (class, number, experimenter): (u16, u8, u32),
    (bits, size): (u16, u8),
    [maskable, writable]: [bool; 2],
    (needs, same_as): (Prerequisite, Option<u8>),
) -> Row {
    Row { name, nxm, class, number, experimenter, bits, size, maskable, writable, needs, same_as }
}

/// All fields.
#[rustfmt::skip]
pub(super) const ALL: &[Row] = &[
    row(["in_port_nxm", "NXM_OF_IN_PORT"], (0, 0, 0), (16, 2), WRITE, (Prerequisite::None, Some(0))),
    row(["eth_dst_nxm", "NXM_OF_ETH_DST"], (0, 1, 0), (48, 6), BOTH, (Prerequisite::None, Some(3))),
    row(["eth_src_nxm", "NXM_OF_ETH_SRC"], (0, 2, 0), (48, 6), BOTH, (Prerequisite::None, Some(4))),
    row(["eth_type_nxm", "NXM_OF_ETH_TYPE"], (0, 3, 0), (16, 2), NEITHER, (Prerequisite::None, Some(5))),
    row(["vlan_tci", "NXM_OF_VLAN_TCI"], (0, 4, 0), (16, 2), BOTH, (Prerequisite::None, None)),
    row(["ip_tos", "NXM_OF_IP_TOS"], (0, 5, 0), (8, 1), WRITE, (Ip, None)),
    row(["ip_proto_nxm", "NXM_OF_IP_PROTO"], (0, 6, 0), (8, 1), NEITHER, (Ip, Some(10))),
    row(["ip_src", "NXM_OF_IP_SRC"], (0, 7, 0), (32, 4), BOTH, (Ipv4, Some(11))),
    row(["ip_dst", "NXM_OF_IP_DST"], (0, 8, 0), (32, 4), BOTH, (Ipv4, Some(12))),
    row(["tcp_src_nxm", "NXM_OF_TCP_SRC"], (0, 9, 0), (16, 2), BOTH, (Protocol(6), Some(13))),
    row(["tcp_dst_nxm", "NXM_OF_TCP_DST"], (0, 10, 0), (16, 2), BOTH, (Protocol(6), Some(14))),
    row(["udp_src_nxm", "NXM_OF_UDP_SRC"], (0, 11, 0), (16, 2), BOTH, (Protocol(17), Some(15))),
    row(["udp_dst_nxm", "NXM_OF_UDP_DST"], (0, 12, 0), (16, 2), BOTH, (Protocol(17), Some(16))),
    row(["icmp_type", "NXM_OF_ICMP_TYPE"], (0, 13, 0), (8, 1), WRITE, (Icmpv4, Some(19))),
    row(["icmp_code", "NXM_OF_ICMP_CODE"], (0, 14, 0), (8, 1), WRITE, (Icmpv4, Some(20))),
    row(["arp_op_nxm", "NXM_OF_ARP_OP"], (0, 15, 0), (16, 2), WRITE, (Arp, Some(21))),
    row(["arp_spa_nxm", "NXM_OF_ARP_SPA"], (0, 16, 0), (32, 4), BOTH, (Arp, Some(22))),
    row(["arp_tpa_nxm", "NXM_OF_ARP_TPA"], (0, 17, 0), (32, 4), BOTH, (Arp, Some(23))),
    row(["reg0", "NXM_NX_REG0"], (1, 0, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg1", "NXM_NX_REG1"], (1, 1, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg2", "NXM_NX_REG2"], (1, 2, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg3", "NXM_NX_REG3"], (1, 3, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg4", "NXM_NX_REG4"], (1, 4, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg5", "NXM_NX_REG5"], (1, 5, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg6", "NXM_NX_REG6"], (1, 6, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg7", "NXM_NX_REG7"], (1, 7, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg8", "NXM_NX_REG8"], (1, 8, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg9", "NXM_NX_REG9"], (1, 9, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg10", "NXM_NX_REG10"], (1, 10, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg11", "NXM_NX_REG11"], (1, 11, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg12", "NXM_NX_REG12"], (1, 12, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg13", "NXM_NX_REG13"], (1, 13, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg14", "NXM_NX_REG14"], (1, 14, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["reg15", "NXM_NX_REG15"], (1, 15, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["tun_id", "NXM_NX_TUN_ID"], (1, 16, 0), (64, 8), BOTH, (Prerequisite::None, Some(38))),
    row(["arp_sha_nxm", "NXM_NX_ARP_SHA"], (1, 17, 0), (48, 6), BOTH, (Arp, Some(24))),
    row(["arp_tha_nxm", "NXM_NX_ARP_THA"], (1, 18, 0), (48, 6), BOTH, (Arp, Some(25))),
    row(["ipv6_src_nxm", "NXM_NX_IPV6_SRC"], (1, 19, 0), (128, 16), BOTH, (Ipv6, Some(26))),
    row(["ipv6_dst_nxm", "NXM_NX_IPV6_DST"], (1, 20, 0), (128, 16), BOTH, (Ipv6, Some(27))),
    row(["icmpv6_type_nxm", "NXM_NX_ICMPV6_TYPE"], (1, 21, 0), (8, 1), WRITE, (Icmpv6, Some(29))),
    row(["icmpv6_code_nxm", "NXM_NX_ICMPV6_CODE"], (1, 22, 0), (8, 1), WRITE, (Icmpv6, Some(30))),
    row(["nd_target", "NXM_NX_ND_TARGET"], (1, 23, 0), (128, 16), BOTH, (Nd, Some(31))),
    row(["nd_sll", "NXM_NX_ND_SLL"], (1, 24, 0), (48, 6), BOTH, (NdSolicit, Some(32))),
    row(["nd_tll", "NXM_NX_ND_TLL"], (1, 25, 0), (48, 6), BOTH, (NdAdvert, Some(33))),
    row(["ip_frag", "NXM_NX_IP_FRAG"], (1, 26, 0), (2, 1), MASK, (Ip, None)),
    row(["ipv6_label", "NXM_NX_IPV6_LABEL"], (1, 27, 0), (20, 4), BOTH, (Ipv6, Some(28))),
    row(["nw_ecn", "NXM_NX_IP_ECN"], (1, 28, 0), (2, 1), WRITE, (Ip, Some(9))),
    row(["nw_ttl", "NXM_NX_IP_TTL"], (1, 29, 0), (8, 1), WRITE, (Ip, None)),
    row(["mpls_ttl", "NXM_NX_MPLS_TTL"], (1, 30, 0), (8, 1), WRITE, (Mpls, None)),
    row(["tun_src", "NXM_NX_TUN_IPV4_SRC"], (1, 31, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["tun_dst", "NXM_NX_TUN_IPV4_DST"], (1, 32, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["pkt_mark", "NXM_NX_PKT_MARK"], (1, 33, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["tcp_flags_nxm", "NXM_NX_TCP_FLAGS"], (1, 34, 0), (12, 2), MASK, (Protocol(6), Some(42))),
    row(["dp_hash", "NXM_NX_DP_HASH"], (1, 35, 0), (32, 4), MASK, (Prerequisite::None, None)),
    row(["recirc_id", "NXM_NX_RECIRC_ID"], (1, 36, 0), (32, 4), NEITHER, (Prerequisite::None, None)),
    row(["conj_id", "NXM_NX_CONJ_ID"], (1, 37, 0), (32, 4), NEITHER, (Prerequisite::None, None)),
    row(["tun_gbp_id", "NXM_NX_TUN_GBP_ID"], (1, 38, 0), (16, 2), BOTH, (Prerequisite::None, None)),
    row(["tun_gbp_flags", "NXM_NX_TUN_GBP_FLAGS"], (1, 39, 0), (8, 1), BOTH, (Prerequisite::None, None)),
    row(["tun_flags", "NXM_NX_TUN_FLAGS"], (1, 104, 0), (1, 2), BOTH, (Prerequisite::None, None)),
    row(["ct_state", "NXM_NX_CT_STATE"], (1, 105, 0), (32, 4), MASK, (Prerequisite::None, None)),
    row(["ct_zone", "NXM_NX_CT_ZONE"], (1, 106, 0), (16, 2), NEITHER, (Prerequisite::None, None)),
    row(["ct_mark", "NXM_NX_CT_MARK"], (1, 107, 0), (32, 4), BOTH, (Prerequisite::None, None)),
    row(["ct_label", "NXM_NX_CT_LABEL"], (1, 108, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["tun_ipv6_src", "NXM_NX_TUN_IPV6_SRC"], (1, 109, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["tun_ipv6_dst", "NXM_NX_TUN_IPV6_DST"], (1, 110, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["xxreg0", "NXM_NX_XXREG0"], (1, 111, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["xxreg1", "NXM_NX_XXREG1"], (1, 112, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["xxreg2", "NXM_NX_XXREG2"], (1, 113, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["xxreg3", "NXM_NX_XXREG3"], (1, 114, 0), (128, 16), BOTH, (Prerequisite::None, None)),
    row(["ct_nw_proto", "NXM_NX_CT_NW_PROTO"], (1, 119, 0), (8, 1), NEITHER, (Prerequisite::None, None)),
    row(["ct_nw_src", "NXM_NX_CT_NW_SRC"], (1, 120, 0), (32, 4), MASK, (Ipv4, None)),
    row(["ct_nw_dst", "NXM_NX_CT_NW_DST"], (1, 121, 0), (32, 4), MASK, (Ipv4, None)),
    row(["ct_ipv6_src", "NXM_NX_CT_IPV6_SRC"], (1, 122, 0), (128, 16), MASK, (Ipv6, None)),
    row(["ct_ipv6_dst", "NXM_NX_CT_IPV6_DST"], (1, 123, 0), (128, 16), MASK, (Ipv6, None)),
    row(["ct_tp_src", "NXM_NX_CT_TP_SRC"], (1, 124, 0), (16, 2), MASK, (Prerequisite::None, None)),
    row(["ct_tp_dst", "NXM_NX_CT_TP_DST"], (1, 125, 0), (16, 2), MASK, (Prerequisite::None, None)),
    row(["xreg0", "OXM_OF_PKT_REG0"], (0x8001, 0, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg1", "OXM_OF_PKT_REG1"], (0x8001, 1, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg2", "OXM_OF_PKT_REG2"], (0x8001, 2, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg3", "OXM_OF_PKT_REG3"], (0x8001, 3, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg4", "OXM_OF_PKT_REG4"], (0x8001, 4, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg5", "OXM_OF_PKT_REG5"], (0x8001, 5, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg6", "OXM_OF_PKT_REG6"], (0x8001, 6, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["xreg7", "OXM_OF_PKT_REG7"], (0x8001, 7, 0), (64, 8), BOTH, (Prerequisite::None, None)),
    row(["tcp_flags_onf", "ONFOXM_ET_TCP_FLAGS"], (0xffff, 42, ONF), (12, 2), MASK, (Protocol(6), Some(42))),
    row(["actset_output_onf", "ONFOXM_ET_ACTSET_OUTPUT"], (0xffff, 43, ONF), (32, 4), NEITHER, (Prerequisite::None, Some(43))),
    row(["tun_erspan_idx", "NXOXM_ET_ERSPAN_IDX"], (0xffff, 11, NX), (20, 4), BOTH, (Prerequisite::None, None)),
    row(["tun_erspan_ver", "NXOXM_ET_ERSPAN_VER"], (0xffff, 12, NX), (4, 1), BOTH, (Prerequisite::None, None)),
    row(["tun_erspan_dir", "NXOXM_ET_ERSPAN_DIR"], (0xffff, 13, NX), (1, 1), BOTH, (Prerequisite::None, None)),
    row(["tun_erspan_hwid", "NXOXM_ET_ERSPAN_HWID"], (0xffff, 14, NX), (6, 1), BOTH, (Prerequisite::None, None)),
    row(["tun_gtpu_flags", "NXOXM_ET_GTPU_FLAGS"], (0xffff, 15, NX), (8, 1), MASK, (Prerequisite::None, None)),
    row(["tun_gtpu_msgtype", "NXOXM_ET_GTPU_MSGTYPE"], (0xffff, 16, NX), (8, 1), MASK, (Prerequisite::None, None)),
    row(["nsh_flags", "NXOXM_NSH_FLAGS"], (0xffff, 1, NSH), (8, 1), BOTH, (Nsh, None)),
    row(["nsh_mdtype", "NXOXM_NSH_MDTYPE"], (0xffff, 2, NSH), (8, 1), NEITHER, (Nsh, None)),
    row(["nsh_np", "NXOXM_NSH_NP"], (0xffff, 3, NSH), (8, 1), NEITHER, (Nsh, None)),
    row(["nsh_spi", "NXOXM_NSH_SPI"], (0xffff, 4, NSH), (24, 4), WRITE, (Nsh, None)),
    row(["nsh_si", "NXOXM_NSH_SI"], (0xffff, 5, NSH), (8, 1), WRITE, (Nsh, None)),
    row(["nsh_c1", "NXOXM_NSH_C1"], (0xffff, 6, NSH), (32, 4), BOTH, (Nsh, None)),
    row(["nsh_c2", "NXOXM_NSH_C2"], (0xffff, 7, NSH), (32, 4), BOTH, (Nsh, None)),
    row(["nsh_c3", "NXOXM_NSH_C3"], (0xffff, 8, NSH), (32, 4), BOTH, (Nsh, None)),
    row(["nsh_c4", "NXOXM_NSH_C4"], (0xffff, 9, NSH), (32, 4), BOTH, (Nsh, None)),
    row(["nsh_ttl", "NXOXM_NSH_TTL"], (0xffff, 10, NSH), (8, 1), WRITE, (Nsh, None)),
];

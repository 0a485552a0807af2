//! Converts between the version-independent types and OpenFlow 1.1.

use super::matching::{Head, Match as WiredMatch, wildcard};
use crate::action::Action;
use crate::matching::{Field, Masked, Match, VLAN_PRESENT};
use crate::v1_0::action::{Byte, DlAddr, TpPort, VlanVid};
use crate::v1_3::action::Action as Wired;
use crate::wire::Pad;
use crate::{EncodeError, MacAddr, PortNo, Version};
use std::net::Ipv4Addr;

/// `dl_vlan` of a packet without a tag, and of one with any tag (`ofp_vlan_id`, OpenFlow 1.1.0 §A.2.3).
const VLAN_NONE: u16 = 0xffff;
const VLAN_ANY: u16 = 0xfffe;
/// The ethertypes and IP protocols that determine the meaning of shared fields.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// The match that accepts every packet.
const ALL: WiredMatch = WiredMatch {
    head: Head,
    in_port: PortNo(0),
    wildcards: wildcard::ALL,
    dl_src: MacAddr([0; 6]),
    dl_src_mask: MacAddr([0xff; 6]),
    dl_dst: MacAddr([0; 6]),
    dl_dst_mask: MacAddr([0xff; 6]),
    dl_vlan: 0,
    dl_vlan_pcp: 0,
    pad: Pad([0]),
    dl_type: 0,
    nw_tos: 0,
    nw_proto: 0,
    nw_src: Ipv4Addr::UNSPECIFIED,
    nw_src_mask: Ipv4Addr::BROADCAST,
    nw_dst: Ipv4Addr::UNSPECIFIED,
    nw_dst_mask: Ipv4Addr::BROADCAST,
    tp_src: 0,
    tp_dst: 0,
    mpls_label: 0,
    mpls_tc: 0,
    pad2: Pad([0; 3]),
    metadata: 0,
    metadata_mask: u64::MAX,
};

fn unsupported(field: &'static str) -> EncodeError {
    EncodeError::Unsupported { field, version: Version::V1_1 }
}

/// Returns a mask whose bits of 1 do not count.
fn inverted(mask: Option<MacAddr>) -> MacAddr {
    MacAddr(mask.map_or([0; 6], |mask| mask.0.map(|byte| !byte)))
}

/// Returns an address and a mask whose bits of 1 do not count.
fn address(masked: Masked<Ipv4Addr>) -> (Ipv4Addr, Ipv4Addr) {
    let mask = masked.mask.map_or(u32::MAX, u32::from);
    (masked.value, (!mask).into())
}

/// Converts to the equivalent match of OpenFlow 1.1.
///
/// # Errors
/// [`EncodeError::Unsupported`], naming the field, if there is none.
pub(crate) fn match_to_wire(match_: &Match) -> Result<WiredMatch, EncodeError> {
    let mut wire = ALL;
    // In canonical order, ethertype and IP protocol come before the fields that need them.
    for oxm in match_.oxms() {
        set_field(&mut wire, &Field::from_oxm(&oxm))?;
    }
    Ok(wire)
}

/// Sets a field.
///
/// # Errors
/// [`EncodeError::Unsupported`] also for a field whose ethertype or IP protocol is missing in the
/// match: the switch would ignore it, or interpret it as the other field in the same place.
fn set_field(wire: &mut WiredMatch, field: &Field) -> Result<(), EncodeError> {
    if !is_looked_at(wire, field) {
        return Err(unsupported("a match field without the ethertype or IP protocol it needs"));
    }
    let bit = match *field {
        Field::InPort(in_port) => {
            wire.in_port = in_port;
            wildcard::IN_PORT
        }
        Field::EthSrc(Masked { value, mask }) => {
            (wire.dl_src, wire.dl_src_mask) = (value, inverted(mask));
            0
        }
        Field::EthDst(Masked { value, mask }) => {
            (wire.dl_dst, wire.dl_dst_mask) = (value, inverted(mask));
            0
        }
        Field::Metadata(Masked { value, mask }) => {
            (wire.metadata, wire.metadata_mask) = (value, !mask.unwrap_or(u64::MAX));
            0
        }
        Field::EthType(value) => {
            wire.dl_type = value;
            wildcard::DL_TYPE
        }
        Field::VlanVid(vid) => {
            wire.dl_vlan = vlan_to_wire(vid)?;
            wildcard::DL_VLAN
        }
        Field::VlanPcp(value @ 0..=7) => {
            wire.dl_vlan_pcp = value;
            wildcard::DL_VLAN_PCP
        }
        Field::IpDscp(value @ 0..=63) => {
            wire.nw_tos = value << 2;
            wildcard::NW_TOS
        }
        Field::IpProto(value) => {
            wire.nw_proto = value;
            wildcard::NW_PROTO
        }
        Field::ArpOp(value) => {
            wire.nw_proto = u8::try_from(value).map_err(|_| unsupported("arp_op above 255"))?;
            wildcard::NW_PROTO
        }
        Field::Ipv4Src(value) | Field::ArpSpa(value) => {
            (wire.nw_src, wire.nw_src_mask) = address(value);
            0
        }
        Field::Ipv4Dst(value) | Field::ArpTpa(value) => {
            (wire.nw_dst, wire.nw_dst_mask) = address(value);
            0
        }
        Field::TcpSrc(value) | Field::UdpSrc(value) | Field::SctpSrc(value) => {
            wire.tp_src = value;
            wildcard::TP_SRC
        }
        Field::TcpDst(value) | Field::UdpDst(value) | Field::SctpDst(value) => {
            wire.tp_dst = value;
            wildcard::TP_DST
        }
        Field::Icmpv4Type(value) => {
            wire.tp_src = value.into();
            wildcard::TP_SRC
        }
        Field::Icmpv4Code(value) => {
            wire.tp_dst = value.into();
            wildcard::TP_DST
        }
        Field::MplsLabel(value) => {
            wire.mpls_label = value;
            wildcard::MPLS_LABEL
        }
        Field::MplsTc(value) => {
            wire.mpls_tc = value;
            wildcard::MPLS_TC
        }
        ref field => return Err(unsupported(field.name())),
    };
    wire.wildcards &= !bit;
    Ok(())
}

/// Converts a condition on the VLAN id.
fn vlan_to_wire(vid: Masked<u16>) -> Result<u16, EncodeError> {
    match (vid.value, vid.mask) {
        (0, None) => Ok(VLAN_NONE),
        (VLAN_PRESENT, Some(VLAN_PRESENT)) => Ok(VLAN_ANY),
        (vid, None) if vid & !0x0fff == VLAN_PRESENT => Ok(vid & 0x0fff),
        _ => Err(unsupported("vlan_vid with this mask")),
    }
}

/// Whether a switch would test this field, given the fields set before.
fn is_looked_at(wire: &WiredMatch, field: &Field) -> bool {
    let has = |bit| wire.wildcards & bit == 0;
    let ethertype = |wanted| has(wildcard::DL_TYPE) && wire.dl_type == wanted;
    let proto = |wanted| ethertype(IPV4) && has(wildcard::NW_PROTO) && wire.nw_proto == wanted;
    match field {
        Field::VlanPcp(_) => has(wildcard::DL_VLAN) && wire.dl_vlan != VLAN_NONE,
        Field::IpDscp(_) | Field::IpProto(_) | Field::Ipv4Src(_) | Field::Ipv4Dst(_) => {
            ethertype(IPV4)
        }
        Field::ArpOp(_) | Field::ArpSpa(_) | Field::ArpTpa(_) => ethertype(ARP),
        Field::TcpSrc(_) | Field::TcpDst(_) => proto(TCP),
        Field::UdpSrc(_) | Field::UdpDst(_) => proto(UDP),
        Field::SctpSrc(_) | Field::SctpDst(_) => proto(SCTP),
        Field::Icmpv4Type(_) | Field::Icmpv4Code(_) => proto(ICMP),
        Field::MplsLabel(_) | Field::MplsTc(_) => MPLS.iter().any(|&wanted| ethertype(wanted)),
        _ => true,
    }
}

/// Converts a match of OpenFlow 1.1.
///
/// A field that the switch would ignore, such as `tp_dst` without a protocol that has ports, is
/// skipped.
pub(crate) fn match_from_wire(wire: &WiredMatch) -> Match {
    let has = |bit| wire.wildcards & bit == 0;
    let mut match_ = Match::new();
    if has(wildcard::IN_PORT) {
        match_ = match_.in_port(wire.in_port);
    }
    match_.set(&Field::Metadata(Masked::new(wire.metadata, !wire.metadata_mask)));
    match_.set(&Field::EthDst(Masked::new(wire.dl_dst, inverted(Some(wire.dl_dst_mask)))));
    match_.set(&Field::EthSrc(Masked::new(wire.dl_src, inverted(Some(wire.dl_src_mask)))));
    if has(wildcard::DL_VLAN) {
        match_.set(&Field::VlanVid(match wire.dl_vlan {
            VLAN_NONE => 0.into(),
            VLAN_ANY => Masked::new(VLAN_PRESENT, VLAN_PRESENT),
            vid => (VLAN_PRESENT | vid & 0x0fff).into(),
        }));
        if has(wildcard::DL_VLAN_PCP) && wire.dl_vlan != VLAN_NONE {
            match_.set(&Field::VlanPcp(wire.dl_vlan_pcp & 7));
        }
    }
    if has(wildcard::DL_TYPE) {
        match_ = match_.eth_type(wire.dl_type);
        network_from_wire(wire, &mut match_);
    }
    match_
}

/// Converts the fields that depend on the ethertype.
fn network_from_wire(wire: &WiredMatch, match_: &mut Match) {
    let has = |bit| wire.wildcards & bit == 0;
    let source = Masked::new(wire.nw_src, (!u32::from(wire.nw_src_mask)).into());
    let target = Masked::new(wire.nw_dst, (!u32::from(wire.nw_dst_mask)).into());
    if wire.dl_type == ARP {
        if has(wildcard::NW_PROTO) {
            match_.set(&Field::ArpOp(wire.nw_proto.into()));
        }
        match_.set(&Field::ArpSpa(source));
        match_.set(&Field::ArpTpa(target));
    } else if wire.dl_type == IPV4 {
        match_.set(&Field::Ipv4Src(source));
        match_.set(&Field::Ipv4Dst(target));
        if has(wildcard::NW_TOS) {
            match_.set(&Field::IpDscp(wire.nw_tos >> 2));
        }
        if has(wildcard::NW_PROTO) {
            match_.set(&Field::IpProto(wire.nw_proto));
            transport_from_wire(wire, match_);
        }
    } else if MPLS.contains(&wire.dl_type) {
        if has(wildcard::MPLS_LABEL) {
            match_.set(&Field::MplsLabel(wire.mpls_label));
        }
        if has(wildcard::MPLS_TC) {
            match_.set(&Field::MplsTc(wire.mpls_tc));
        }
    }
}

/// Converts the fields that depend on the IP protocol.
fn transport_from_wire(wire: &WiredMatch, match_: &mut Match) {
    let [_, icmp_type] = wire.tp_src.to_be_bytes();
    let [_, icmp_code] = wire.tp_dst.to_be_bytes();
    let (source, target) = match wire.nw_proto {
        TCP => (Field::TcpSrc(wire.tp_src), Field::TcpDst(wire.tp_dst)),
        UDP => (Field::UdpSrc(wire.tp_src), Field::UdpDst(wire.tp_dst)),
        SCTP => (Field::SctpSrc(wire.tp_src), Field::SctpDst(wire.tp_dst)),
        ICMP => (Field::Icmpv4Type(icmp_type), Field::Icmpv4Code(icmp_code)),
        _ => return,
    };
    if wire.wildcards & wildcard::TP_SRC == 0 {
        match_.set(&source);
    }
    if wire.wildcards & wildcard::TP_DST == 0 {
        match_.set(&target);
    }
}

/// Converts a set-field to the specific action of OpenFlow 1.1 (§A.2.6).
///
/// # Errors
/// [`EncodeError::Unsupported`] for a field without such an action.
pub(crate) fn set_field_to_wire<const V: u8>(
    field: &Field,
) -> Result<Wired<'static, V>, EncodeError> {
    let byte = |value| Byte { value, pad: Pad::default() };
    let mac = |dl_addr| DlAddr { dl_addr, pad: Pad::default() };
    let tp = |tp_port| TpPort { tp_port, pad: Pad::default() };
    Ok(match *field {
        Field::VlanVid(Masked { value, mask: None }) if value & VLAN_PRESENT != 0 => {
            let vlan_vid = value & !VLAN_PRESENT;
            Wired::SetVlanVid(VlanVid { vlan_vid, pad: Pad::default() })
        }
        Field::VlanPcp(value) => Wired::SetVlanPcp(byte(value)),
        Field::EthSrc(Masked { value, mask: None }) => Wired::SetDlSrc(mac(value)),
        Field::EthDst(Masked { value, mask: None }) => Wired::SetDlDst(mac(value)),
        Field::Ipv4Src(Masked { value, mask: None }) => Wired::SetNwSrc(value),
        Field::Ipv4Dst(Masked { value, mask: None }) => Wired::SetNwDst(value),
        Field::IpDscp(value @ 0..=63) => Wired::SetNwTos(byte(value << 2)),
        Field::IpEcn(value) => Wired::SetNwEcn(byte(value)),
        Field::MplsLabel(value) => Wired::SetMplsLabel(value),
        Field::MplsTc(value) => Wired::SetMplsTc(byte(value)),
        Field::TcpSrc(value) | Field::UdpSrc(value) | Field::SctpSrc(value) => {
            Wired::SetTpSrc(tp(value))
        }
        Field::TcpDst(value) | Field::UdpDst(value) | Field::SctpDst(value) => {
            Wired::SetTpDst(tp(value))
        }
        ref field => return Err(unsupported(field.name())),
    })
}

/// Converts one of the specific actions to a set-field.
pub(crate) fn read_set_field<const V: u8>(action: &Wired<'_, V>) -> Action {
    Action::SetField(match *action {
        Wired::SetVlanVid(action) => Field::VlanVid((VLAN_PRESENT | action.vlan_vid).into()),
        Wired::SetVlanPcp(action) => Field::VlanPcp(action.value),
        Wired::SetDlSrc(action) => Field::EthSrc(action.dl_addr.into()),
        Wired::SetDlDst(action) => Field::EthDst(action.dl_addr.into()),
        Wired::SetNwSrc(address) => Field::Ipv4Src(address.into()),
        Wired::SetNwDst(address) => Field::Ipv4Dst(address.into()),
        Wired::SetNwTos(action) => Field::IpDscp(action.value >> 2),
        Wired::SetNwEcn(action) => Field::IpEcn(action.value),
        Wired::SetMplsLabel(label) => Field::MplsLabel(label),
        Wired::SetMplsTc(action) => Field::MplsTc(action.value),
        // The caller converts all others.
        ref other => return Action::Unknown { kind: other.kind(), body: Box::default() },
    })
}

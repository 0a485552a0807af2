//! Converts between the version-independent types and OpenFlow 1.0.

use super::action::{self, Action as Wired};
use super::matching::{Match as WiredMatch, wildcard};
use super::{port_from_wire, port_to_wire};
use crate::action::Action;
use crate::matching::{Field, Masked, Match, VLAN_PRESENT};
use crate::wire::Pad;
use crate::write::put;
use crate::{EncodeError, MacAddr, PortNo, Version, Writer, nicira};
use std::net::Ipv4Addr;

/// `dl_vlan` of a packet without a tag (`OFP_VLAN_NONE`, OpenFlow 1.0.2 §5.2.3).
const VLAN_NONE: u16 = 0xffff;
/// The ethertypes and IP protocols that determine the meaning of shared fields.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The match that accepts every packet.
const ALL: WiredMatch = WiredMatch {
    wildcards: wildcard::ALL,
    in_port: 0,
    dl_src: MacAddr([0; 6]),
    dl_dst: MacAddr([0; 6]),
    dl_vlan: 0,
    dl_vlan_pcp: 0,
    pad: Pad([0]),
    dl_type: 0,
    nw_tos: 0,
    nw_proto: 0,
    pad2: Pad([0; 2]),
    nw_src: Ipv4Addr::UNSPECIFIED,
    nw_dst: Ipv4Addr::UNSPECIFIED,
    tp_src: 0,
    tp_dst: 0,
};

fn unsupported(field: &'static str) -> EncodeError {
    EncodeError::Unsupported { field, version: Version::V1_0 }
}

/// Returns the 16-bit number of a port.
///
/// # Errors
/// [`EncodeError::Unsupported`], naming `field`, if it has no such number.
#[inline]
pub(crate) fn port(port: PortNo, field: &'static str) -> Result<u16, EncodeError> {
    port_to_wire(port).ok_or_else(|| unsupported(field))
}

/// Converts to the equivalent match of OpenFlow 1.0.
///
/// # Errors
/// [`EncodeError::Unsupported`], naming the field, if there is none.
pub(crate) fn match_to_wire(match_: &Match) -> Result<WiredMatch, EncodeError> {
    let mut wire = ALL;
    let link = match_.link();
    if let Some(in_port) = link.in_port() {
        wire.in_port = port(PortNo(u32::from_be_bytes(in_port)), "in_port")?;
        wire.wildcards &= !wildcard::IN_PORT;
    }
    if let Some(eth_dst) = link.eth_dst() {
        wire.dl_dst = MacAddr(eth_dst);
        wire.wildcards &= !wildcard::DL_DST;
    }
    if let Some(eth_src) = link.eth_src() {
        wire.dl_src = MacAddr(eth_src);
        wire.wildcards &= !wildcard::DL_SRC;
    }
    if let Some(eth_type) = link.eth_type() {
        wire.dl_type = u16::from_be_bytes(eth_type);
        wire.wildcards &= !wildcard::DL_TYPE;
    }
    // The ethertype is set by now. In canonical order the IP protocol comes before the fields that need it.
    for oxm in match_.other_oxms() {
        set_field(&mut wire, &Field::from_oxm(&oxm))?;
    }
    Ok(wire)
}

/// Writes the bytes of [`match_to_wire`]; for common matches directly from their fields.
///
/// # Errors
/// Like `match_to_wire`.
#[inline]
pub(crate) fn put_match(match_: &Match, room: &mut [u8; 40]) -> Result<(), EncodeError> {
    let link = match_.link();
    let in_port = match link.in_port() {
        None => [0; 2],
        // Reserved ports (0xff00 and above) have other numbers.
        Some([0, 0, high, low]) if high < 0xff => [high, low],
        Some(_) => return put_every_match(match_, room),
    };
    if !match_.is_only_link() {
        return put_every_match(match_, room);
    }
    let mut wildcards = wildcard::ALL;
    let mut counts = |bit: u32, is_set| wildcards &= if is_set { !bit } else { u32::MAX };
    let (eth_src, eth_dst, eth_type) = (link.eth_src(), link.eth_dst(), link.eth_type());
    counts(wildcard::IN_PORT, link.in_port().is_some());
    counts(wildcard::DL_SRC, eth_src.is_some());
    counts(wildcard::DL_DST, eth_dst.is_some());
    counts(wildcard::DL_TYPE, eth_type.is_some());
    put(room, 0, wildcards.to_be_bytes());
    put(room, 4, in_port);
    put(room, 6, eth_src.unwrap_or_default());
    put(room, 12, eth_dst.unwrap_or_default());
    put(room, 18, [0; 4]); // VLAN
    put(room, 22, eth_type.unwrap_or_default());
    put(room, 24, [0; 16]); // network and transport layer
    Ok(())
}

#[inline(never)]
fn put_every_match(match_: &Match, room: &mut [u8; 40]) -> Result<(), EncodeError> {
    match_to_wire(match_)?.put(room);
    Ok(())
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
            wire.in_port = port(in_port, "in_port")?;
            wildcard::IN_PORT
        }
        Field::EthSrc(Masked { value, mask: None }) => {
            wire.dl_src = value;
            wildcard::DL_SRC
        }
        Field::EthDst(Masked { value, mask: None }) => {
            wire.dl_dst = value;
            wildcard::DL_DST
        }
        Field::EthType(value) => {
            wire.dl_type = value;
            wildcard::DL_TYPE
        }
        Field::VlanVid(Masked { value: 0, mask: None }) => {
            wire.dl_vlan = VLAN_NONE;
            wildcard::DL_VLAN
        }
        Field::VlanVid(Masked { value, mask: None }) if value & !0x0fff == VLAN_PRESENT => {
            wire.dl_vlan = value & 0x0fff;
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
            return set_prefix(wire, value, wildcard::NW_SRC_SHIFT, field.name());
        }
        Field::Ipv4Dst(value) | Field::ArpTpa(value) => {
            return set_prefix(wire, value, wildcard::NW_DST_SHIFT, field.name());
        }
        Field::TcpSrc(value) | Field::UdpSrc(value) => {
            wire.tp_src = value;
            wildcard::TP_SRC
        }
        Field::TcpDst(value) | Field::UdpDst(value) => {
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
        ref field => return Err(unsupported(field.name())),
    };
    wire.wildcards &= !bit;
    Ok(())
}

/// Whether a switch would test this field, given the fields set before.
fn is_looked_at(wire: &WiredMatch, field: &Field) -> bool {
    let has = |bit| wire.wildcards & bit == 0;
    let ethertype = |wanted| has(wildcard::DL_TYPE) && wire.dl_type == wanted;
    let proto = |wanted| ethertype(IPV4) && has(wildcard::NW_PROTO) && wire.nw_proto == wanted;
    match field {
        Field::VlanPcp(_) => !has(wildcard::DL_VLAN) || wire.dl_vlan != VLAN_NONE,
        Field::IpDscp(_) | Field::IpProto(_) | Field::Ipv4Src(_) | Field::Ipv4Dst(_) => {
            ethertype(IPV4)
        }
        Field::ArpOp(_) | Field::ArpSpa(_) | Field::ArpTpa(_) => ethertype(ARP),
        Field::TcpSrc(_) | Field::TcpDst(_) => proto(TCP),
        Field::UdpSrc(_) | Field::UdpDst(_) => proto(UDP),
        Field::Icmpv4Type(_) | Field::Icmpv4Code(_) => proto(ICMP),
        _ => true,
    }
}

/// Sets an IPv4 address whose mask must be a prefix.
fn set_prefix(
    wire: &mut WiredMatch,
    address: Masked<Ipv4Addr>,
    shift: u32,
    name: &'static str,
) -> Result<(), EncodeError> {
    let mask = address.mask.map_or(u32::MAX, u32::from);
    let wild_bits = mask.trailing_zeros();
    if mask.leading_ones() + wild_bits != u32::BITS {
        return Err(unsupported(name));
    }
    wire.wildcards = wire.wildcards & !(0x3f << shift) | wild_bits << shift;
    match shift {
        wildcard::NW_SRC_SHIFT => wire.nw_src = address.value,
        _ => wire.nw_dst = address.value,
    }
    Ok(())
}

/// Converts a match of OpenFlow 1.0.
///
/// A field that the switch would ignore, such as `tp_dst` without a protocol that has ports, is
/// skipped.
pub(crate) fn match_from_wire(wire: &WiredMatch) -> Match {
    let has = |bit| wire.wildcards & bit == 0;
    let mut match_ = Match::new();
    if has(wildcard::IN_PORT) {
        match_ = match_.in_port(port_from_wire(wire.in_port));
    }
    if has(wildcard::DL_SRC) {
        match_ = match_.eth_src(wire.dl_src);
    }
    if has(wildcard::DL_DST) {
        match_ = match_.eth_dst(wire.dl_dst);
    }
    let mut tagged = true;
    if has(wildcard::DL_VLAN) {
        tagged = wire.dl_vlan != VLAN_NONE;
        let vid = if tagged { VLAN_PRESENT | wire.dl_vlan & 0x0fff } else { 0 };
        match_.set(&Field::VlanVid(vid.into()));
    }
    if has(wildcard::DL_VLAN_PCP) && tagged {
        match_.set(&Field::VlanPcp(wire.dl_vlan_pcp & 7));
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
    let source = masked(wire.nw_src.into(), wire.wildcards >> wildcard::NW_SRC_SHIFT);
    let target = masked(wire.nw_dst.into(), wire.wildcards >> wildcard::NW_DST_SHIFT);
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
    }
}

/// Converts the fields that depend on the IP protocol.
fn transport_from_wire(wire: &WiredMatch, match_: &mut Match) {
    let [_, icmp_type] = wire.tp_src.to_be_bytes();
    let [_, icmp_code] = wire.tp_dst.to_be_bytes();
    let (source, target) = match wire.nw_proto {
        TCP => (Field::TcpSrc(wire.tp_src), Field::TcpDst(wire.tp_dst)),
        UDP => (Field::UdpSrc(wire.tp_src), Field::UdpDst(wire.tp_dst)),
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

/// Returns an address whose low `wild_bits` (6-bit count) are masked out.
fn masked(address: u32, wild_bits: u32) -> Masked<Ipv4Addr> {
    let mask = u32::MAX.checked_shl(wild_bits & 0x3f).unwrap_or(0);
    Masked::new(address.into(), mask.into())
}

/// Writes an action.
///
/// # Errors
/// [`EncodeError::Unsupported`] for actions that OpenFlow 1.0 does not have.
#[inline]
pub(crate) fn write_action(action: &Action, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    if let Action::Output { port: out, max_len } = *action {
        let out = port(out, "action output")?;
        if let Some(room) = to.array::<8>() {
            put(room, 0, [0, 0, 0, 8]); // type and length
            put(room, 4, out.to_be_bytes());
            put(room, 6, max_len.to_be_bytes());
        }
        return Ok(());
    }
    write_other_action(action, to)
}

/// Writes an uncommon action.
fn write_other_action(action: &Action, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    let wired = match *action {
        Action::Output { port: out, max_len } => {
            Wired::Output(action::Output { port: port(out, "action output")?, max_len })
        }
        Action::Enqueue { port: out, queue_id } => Wired::Enqueue(action::Enqueue {
            port: port(out, "action enqueue")?,
            pad: Pad::default(),
            queue_id,
        }),
        Action::SetField(ref field) => set_field_to_wire(field)?,
        Action::SetTpSrc(tp_port) => {
            Wired::SetTpSrc(action::TpPort { tp_port, pad: Pad::default() })
        }
        Action::SetTpDst(tp_port) => {
            Wired::SetTpDst(action::TpPort { tp_port, pad: Pad::default() })
        }
        Action::PopVlan => Wired::StripVlan(action::NoArgument { pad: Pad::default() }),
        Action::Experimenter { experimenter, ref data } => {
            Wired::Vendor(action::Vendor { vendor: experimenter, data })
        }
        Action::Nicira(ref nicira) => return nicira.write(Version::V1_0, to),
        Action::Unknown { kind, ref body } => Wired::Unknown { kind, body },
        Action::PushVlan(_) => return Err(unsupported("action push_vlan")),
        Action::PushMpls(_) => return Err(unsupported("action push_mpls")),
        Action::PopMpls(_) => return Err(unsupported("action pop_mpls")),
        Action::PushPbb(_) => return Err(unsupported("action push_pbb")),
        Action::PopPbb => return Err(unsupported("action pop_pbb")),
        Action::SetQueue(_) => return Err(unsupported("action set_queue")),
        Action::Group(_) => return Err(unsupported("action group")),
        Action::SetNwTtl(_) => return Err(unsupported("action set_nw_ttl")),
        Action::DecNwTtl => return Err(unsupported("action dec_nw_ttl")),
        Action::SetMplsTtl(_) => return Err(unsupported("action set_mpls_ttl")),
        Action::DecMplsTtl => return Err(unsupported("action dec_mpls_ttl")),
        Action::CopyTtlOut => return Err(unsupported("action copy_ttl_out")),
        Action::CopyTtlIn => return Err(unsupported("action copy_ttl_in")),
        Action::CopyField { .. } => return Err(unsupported("action copy_field")),
        Action::Meter(_) => return Err(unsupported("action meter")),
    };
    crate::tlv::write_aligned(&wired, to)
}

fn set_field_to_wire(field: &Field) -> Result<Wired<'static>, EncodeError> {
    let byte = |value| action::Byte { value, pad: Pad::default() };
    let tp = |tp_port| action::TpPort { tp_port, pad: Pad::default() };
    let mac = |dl_addr| action::DlAddr { dl_addr, pad: Pad::default() };
    Ok(match *field {
        Field::VlanVid(Masked { value, mask: None }) if value & VLAN_PRESENT != 0 => {
            Wired::SetVlanVid(action::VlanVid {
                vlan_vid: value & !VLAN_PRESENT,
                pad: Pad::default(),
            })
        }
        Field::VlanPcp(value) => Wired::SetVlanPcp(byte(value)),
        Field::EthSrc(Masked { value, mask: None }) => Wired::SetDlSrc(mac(value)),
        Field::EthDst(Masked { value, mask: None }) => Wired::SetDlDst(mac(value)),
        Field::Ipv4Src(Masked { value, mask: None }) => Wired::SetNwSrc(value),
        Field::Ipv4Dst(Masked { value, mask: None }) => Wired::SetNwDst(value),
        Field::IpDscp(value) => Wired::SetNwTos(byte(value << 2)),
        Field::TcpSrc(value) | Field::UdpSrc(value) => Wired::SetTpSrc(tp(value)),
        Field::TcpDst(value) | Field::UdpDst(value) => Wired::SetTpDst(tp(value)),
        ref field => return Err(unsupported(field.name())),
    })
}

/// Converts an action of OpenFlow 1.0.
pub(crate) fn read_action(action: &Wired<'_>) -> Action {
    Action::SetField(match *action {
        Wired::Output(action::Output { port, max_len }) => {
            return Action::Output { port: port_from_wire(port), max_len };
        }
        Wired::SetVlanVid(action) => Field::VlanVid((VLAN_PRESENT | action.vlan_vid).into()),
        Wired::SetVlanPcp(action) => Field::VlanPcp(action.value),
        Wired::StripVlan(_) => return Action::PopVlan,
        Wired::SetDlSrc(action) => Field::EthSrc(action.dl_addr.into()),
        Wired::SetDlDst(action) => Field::EthDst(action.dl_addr.into()),
        Wired::SetNwSrc(address) => Field::Ipv4Src(address.into()),
        Wired::SetNwDst(address) => Field::Ipv4Dst(address.into()),
        Wired::SetNwTos(action) => Field::IpDscp(action.value >> 2),
        Wired::SetTpSrc(action) => return Action::SetTpSrc(action.tp_port),
        Wired::SetTpDst(action) => return Action::SetTpDst(action.tp_port),
        Wired::Enqueue(action::Enqueue { port, queue_id, .. }) => {
            return Action::Enqueue { port: port_from_wire(port), queue_id };
        }
        Wired::Vendor(action::Vendor { vendor, data }) => {
            return nicira::action(Version::V1_0, vendor, data);
        }
        Wired::Unknown { kind, body } => return Action::Unknown { kind, body: body.into() },
    })
}

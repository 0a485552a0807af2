//! The fields that a match can test and an action can set, under one name for all versions.
//!
//! OpenFlow 1.3.5, 1.4.1 and 1.5.1 §7.2.3.7. Each field has an OXM number, a value type and a byte encoding.

use crate::oxm::{EXPERIMENTER, OPENFLOW_BASIC, Oxm, basic_size};
use crate::{MacAddr, PortNo};
use core::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// If this bit is set, the packet has a VLAN tag and bits 0 to 11 of [`Field::VlanVid`] are its id
/// (`OFPVID_PRESENT`). OpenFlow 1.3.5 §7.2.3.7.
pub const VLAN_PRESENT: u16 = 0x1000;

/// A value with an optional mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Masked<T> {
    /// The value.
    pub value: T,
    /// Mask; `None` means an exact value.
    pub mask: Option<T>,
}

impl<T> Masked<T> {
    /// Creates a masked value.
    pub fn new(value: T, mask: T) -> Self {
        Self { value, mask: Some(mask) }
    }
}

impl<T> From<T> for Masked<T> {
    fn from(value: T) -> Self {
        Self { value, mask: None }
    }
}

impl<T: fmt::Display> fmt::Display for Masked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mask {
            None => self.value.fmt(f),
            Some(mask) => write!(f, "{}/{mask}", self.value),
        }
    }
}

impl<T: fmt::LowerHex> Masked<T> {
    /// `name=0x1/0xf`
    fn hex(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}={:#x}", self.value)?;
        match &self.mask {
            None => Ok(()),
            Some(mask) => write!(f, "/{mask:#x}"),
        }
    }
}

/// A VLAN id for people: `7`, `none` without a tag, otherwise hexadecimal.
struct Vid(Masked<u16>);

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.value, self.0.mask) {
            (0, None) => f.write_str("none"),
            (vid, None) if vid & !0x0fff == VLAN_PRESENT => write!(f, "{}", vid & 0x0fff),
            (vid, None) => write!(f, "{vid:#06x}"),
            (vid, Some(mask)) => write!(f, "{vid:#06x}/{mask:#06x}"),
        }
    }
}

/// A field that this crate does not know, as raw bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OpaqueField {
    /// Class: who defined the field.
    pub class: u16,
    /// The field's number in its class.
    pub field: u8,
    /// Whether the second half of the payload is a mask.
    pub has_mask: bool,
    /// Experimenter id (if any), value and mask; at most 255 bytes.
    pub payload: Box<[u8]>,
}

/// `oxm_0x8000_42=0012/00ff`; with an experimenter id: `oxm_0xffff_2(0x4f4e4600)=01`.
impl fmt::Display for OpaqueField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, field, has_mask, payload } = self;
        if let Some(written) = crate::nicira::display_field(self, f) {
            return written;
        }
        let oxm = Oxm { class: *class, field: *field, has_mask: *has_mask, payload };
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        write!(f, "oxm_{class:#06x}_{field}")?;
        if let (EXPERIMENTER, Some(id)) = (*class, payload.first_chunk()) {
            write!(f, "({:#x})", u32::from_be_bytes(*id))?;
        }
        f.write_str("=")?;
        let (value, mask) = oxm.value_and_mask();
        hex(f, value)?;
        match mask {
            Some(mask) => {
                f.write_str("/")?;
                hex(f, mask)
            }
            None if *has_mask => f.write_str("/(no half of it is a mask)"),
            None => Ok(()),
        }
    }
}

/// Maximum size of an OXM: header and 255 bytes.
const MAX_OXM_SIZE: usize = 4 + 255;

/// A field value as big-endian bytes.
pub(crate) trait Value: Copy {
    /// The bytes.
    type Bytes: AsRef<[u8]>;
    /// Converts to bytes.
    fn to_bytes(self) -> Self::Bytes;
    /// Converts from bytes; `None` if their number is wrong.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

macro_rules! value {
    ($($type:ty, $size:literal, |$v:ident| $to:expr, |$b:ident| $from:expr;)*) => {$(
        impl Value for $type {
            type Bytes = [u8; $size];
            #[inline]
            fn to_bytes(self) -> Self::Bytes {
                let $v = self;
                $to
            }
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let $b: [u8; $size] = bytes.try_into().ok()?;
                Some($from)
            }
        }
    )*};
}
value! {
    u8, 1, |v| [v], |b| u8::from_be_bytes(b);
    u16, 2, |v| v.to_be_bytes(), |b| u16::from_be_bytes(b);
    u32, 4, |v| v.to_be_bytes(), |b| u32::from_be_bytes(b);
    u64, 8, |v| v.to_be_bytes(), |b| u64::from_be_bytes(b);
    Isid, 3, |v| { let [_, a, b, c] = v.0.to_be_bytes(); [a, b, c] }, |b| {
        let [a, b, c] = b;
        Isid(u32::from_be_bytes([0, a, b, c]))
    };
    PortNo, 4, |v| v.0.to_be_bytes(), |b| PortNo(u32::from_be_bytes(b));
    MacAddr, 6, |v| v.0, |b| MacAddr(b);
    Ipv4Addr, 4, |v| v.octets(), |b| Ipv4Addr::from(b);
    Ipv6Addr, 16, |v| v.octets(), |b| Ipv6Addr::from(b);
}

/// A PBB service instance id: 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Isid(pub u32);

impl fmt::Display for Isid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! fields {
    (
        plain { $( $(#[$pm:meta])* $plain:ident($pt:ty) = $pn:literal, $pname:literal; )* }
        masked { $( $(#[$mm:meta])* $masked:ident($mt:ty) = $mn:literal, $mname:literal; )* }
    ) => {
        /// A field of a packet or of the pipeline, with its value.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Field {
            $( $(#[$pm])* $plain($pt), )*
            $( $(#[$mm])* $masked(Masked<$mt>), )*
            /// An unknown field, kept unchanged.
            Opaque(OpaqueField),
        }

        /// The number of each field, by its variant's name.
        #[expect(non_upper_case_globals, reason = "the names of the variants")]
        #[allow(dead_code, reason = "not every field is built from its number")]
        pub(super) mod number {
            $( pub(in crate::matching) const $plain: u8 = $pn; )*
            $( pub(in crate::matching) const $masked: u8 = $mn; )*
        }

        impl Field {
            /// Returns the field's name, as Open vSwitch and the specification write it.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$plain(_) => $pname, )*
                    $( Self::$masked(_) => $mname, )*
                    Self::Opaque(_) => "an experimenter's or unknown match field",
                }
            }

            /// Returns the name of the specification's field with this number.
            pub fn name_of(number: u8) -> Option<&'static str> {
                match number {
                    $( $pn => Some($pname), )*
                    $( $mn => Some($mname), )*
                    _ => None,
                }
            }

            /// Returns the number of the specification's field with this name.
            pub fn number_of(name: &str) -> Option<u8> {
                match name {
                    $( $pname => Some($pn), )*
                    $( $mname => Some($mn), )*
                    _ => None,
                }
            }

            /// Calls `with` with the field as an OXM.
            #[inline]
            pub(crate) fn with_oxm<R>(&self, with: impl FnOnce(Oxm<'_>) -> R) -> R {
                match self {
                    $( Self::$plain(value) => with(basic($pn, false, value.to_bytes().as_ref())), )*
                    $( Self::$masked(Masked { value, mask: None }) => {
                        with(basic($mn, false, value.to_bytes().as_ref()))
                    } )*
                    $( Self::$masked(Masked { value, mask: Some(mask) }) => {
                        let mut both = [0; 32];
                        let (value, mask) = (value.to_bytes(), mask.to_bytes());
                        let bytes = value.as_ref().iter().chain(mask.as_ref());
                        let mut size = 0;
                        for (to, from) in both.iter_mut().zip(bytes) {
                            *to = *from;
                            size += 1;
                        }
                        with(basic($mn, true, both.get(..size).unwrap_or_default()))
                    } )*
                    Self::Opaque(opaque) => with(Oxm {
                        class: opaque.class,
                        field: opaque.field & 0x7f,
                        has_mask: opaque.has_mask,
                        payload: opaque.payload.get(..255).unwrap_or(&opaque.payload),
                    }),
                }
            }

            /// Converts an OXM to a field.
            pub fn from_oxm(oxm: &Oxm<'_>) -> Self {
                Self::known(oxm).unwrap_or_else(|| Self::Opaque(OpaqueField {
                    class: oxm.class,
                    field: oxm.field,
                    has_mask: oxm.has_mask,
                    payload: oxm.payload.into(),
                }))
            }

            fn known(oxm: &Oxm<'_>) -> Option<Self> {
                if oxm.class != OPENFLOW_BASIC {
                    return None;
                }
                let (value, mask) = oxm.value_and_mask();
                Some(match (oxm.field, mask) {
                    $( ($pn, None) => Self::$plain(<$pt>::from_bytes(value)?), )*
                    $( ($mn, None) => Self::$masked(<$mt>::from_bytes(value)?.into()), )*
                    $( ($mn, Some(mask)) => Self::$masked(Masked::new(
                        <$mt>::from_bytes(value)?, <$mt>::from_bytes(mask)?)), )*
                    _ => return None,
                })
            }
        }

        impl fmt::Display for Field {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = self.name();
                match self {
                    Self::EthType(ethertype) => return write!(f, "{name}={ethertype:#06x}"),
                    Self::VlanVid(vid) => return write!(f, "{name}={}", Vid(*vid)),
                    Self::Metadata(value) | Self::TunnelId(value) => return value.hex(name, f),
                    Self::Ipv6Flabel(value) => return value.hex(name, f),
                    Self::Ipv6Exthdr(value) | Self::TcpFlags(value) => return value.hex(name, f),
                    Self::PacketType(kind) => return write!(f, "{name}={kind:#x}"),
                    _ => {}
                }
                match self {
                    $( Self::$plain(value) => write!(f, "{}={value}", $pname), )*
                    $( Self::$masked(value) => write!(f, "{}={value}", $mname), )*
                    Self::Opaque(opaque) => opaque.fmt(f),
                }
            }
        }
    };
}

fields! {
    plain {
        /// The port the packet came in through.
        InPort(PortNo) = 0, "in_port";
        /// The physical port behind a logical in-port.
        InPhyPort(PortNo) = 1, "in_phy_port";
        /// The ethertype, after VLAN tags.
        EthType(u16) = 5, "eth_type";
        /// The VLAN priority, 3 bits.
        VlanPcp(u8) = 7, "vlan_pcp";
        /// The differentiated services code point, 6 bits.
        IpDscp(u8) = 8, "ip_dscp";
        /// The explicit congestion notification, 2 bits.
        IpEcn(u8) = 9, "ip_ecn";
        /// The IP protocol.
        IpProto(u8) = 10, "ip_proto";
        /// The TCP source.
        TcpSrc(u16) = 13, "tcp_src";
        /// The TCP destination.
        TcpDst(u16) = 14, "tcp_dst";
        /// The UDP source.
        UdpSrc(u16) = 15, "udp_src";
        /// The UDP destination.
        UdpDst(u16) = 16, "udp_dst";
        /// The SCTP source.
        SctpSrc(u16) = 17, "sctp_src";
        /// The SCTP destination.
        SctpDst(u16) = 18, "sctp_dst";
        /// The ICMP type.
        Icmpv4Type(u8) = 19, "icmpv4_type";
        /// The ICMP code.
        Icmpv4Code(u8) = 20, "icmpv4_code";
        /// The ARP opcode.
        ArpOp(u16) = 21, "arp_op";
        /// The ICMPv6 type.
        Icmpv6Type(u8) = 29, "icmpv6_type";
        /// The ICMPv6 code.
        Icmpv6Code(u8) = 30, "icmpv6_code";
        /// The target of a neighbour discovery message.
        Ipv6NdTarget(Ipv6Addr) = 31, "ipv6_nd_target";
        /// The source link-layer address in a neighbour discovery message.
        Ipv6NdSll(MacAddr) = 32, "ipv6_nd_sll";
        /// The target link-layer address in a neighbour discovery message.
        Ipv6NdTll(MacAddr) = 33, "ipv6_nd_tll";
        /// The outermost MPLS label, 20 bits.
        MplsLabel(u32) = 34, "mpls_label";
        /// The outermost MPLS traffic class, 3 bits.
        MplsTc(u8) = 35, "mpls_tc";
        /// Whether the outermost MPLS label is the last, 1 bit.
        MplsBos(u8) = 36, "mpls_bos";
        /// Use of the customer's addresses in PBB, 1 bit. OpenFlow 1.4.1 §7.2.3.7.
        PbbUca(u8) = 41, "pbb_uca";
        /// The port that the action set outputs to; [`PortNo::UNSET`] is none. OpenFlow 1.5.1 §7.2.3.7.
        ActsetOutput(PortNo) = 43, "actset_output";
        /// The type of the packet: a namespace in the upper 16 bits, the type in it below. OpenFlow 1.5.1 §7.2.3.12.
        PacketType(u32) = 44, "packet_type";
    }
    masked {
        /// Metadata written by earlier tables.
        Metadata(u64) = 2, "metadata";
        /// The Ethernet destination.
        EthDst(MacAddr) = 3, "eth_dst";
        /// The Ethernet source.
        EthSrc(MacAddr) = 4, "eth_src";
        /// The VLAN id, with [`VLAN_PRESENT`] if there is a tag; 0 is "no tag".
        VlanVid(u16) = 6, "vlan_vid";
        /// The IPv4 source.
        Ipv4Src(Ipv4Addr) = 11, "ipv4_src";
        /// The IPv4 destination.
        Ipv4Dst(Ipv4Addr) = 12, "ipv4_dst";
        /// The IPv4 sender in ARP.
        ArpSpa(Ipv4Addr) = 22, "arp_spa";
        /// The IPv4 target in ARP.
        ArpTpa(Ipv4Addr) = 23, "arp_tpa";
        /// The Ethernet sender in ARP.
        ArpSha(MacAddr) = 24, "arp_sha";
        /// The Ethernet target in ARP.
        ArpTha(MacAddr) = 25, "arp_tha";
        /// The IPv6 source.
        Ipv6Src(Ipv6Addr) = 26, "ipv6_src";
        /// The IPv6 destination.
        Ipv6Dst(Ipv6Addr) = 27, "ipv6_dst";
        /// The IPv6 flow label, 20 bits.
        Ipv6Flabel(u32) = 28, "ipv6_flabel";
        /// The PBB service instance.
        PbbIsid(Isid) = 37, "pbb_isid";
        /// Tunnel id assigned by a logical port.
        TunnelId(u64) = 38, "tunnel_id";
        /// IPv6 extension header flags, 9 bits.
        Ipv6Exthdr(u16) = 39, "ipv6_exthdr";
        /// TCP flags, 12 bits. OpenFlow 1.5.1 §7.2.3.7.
        TcpFlags(u16) = 42, "tcp_flags";
    }
}

/// Creates an OXM of the specification's class.
#[inline]
pub(super) fn basic(field: u8, has_mask: bool, payload: &[u8]) -> Oxm<'_> {
    Oxm { class: OPENFLOW_BASIC, field, has_mask, payload }
}

/// Sort key of an OXM: fields of the specification first, by number, so that a field follows those
/// it depends on.
#[inline]
pub(crate) fn order(oxm: &Oxm<'_>) -> u64 {
    if oxm.class == OPENFLOW_BASIC {
        return oxm.field.into();
    }
    let experimenter = match oxm.class {
        EXPERIMENTER => oxm.payload.first_chunk().copied().unwrap_or_default(),
        _ => [0; 4],
    };
    1 << 63
        | u64::from(oxm.class) << 40
        | u64::from(oxm.field) << 32
        | u64::from(u32::from_be_bytes(experimenter))
}

/// Returns the value size of a field of the specification in bytes, if this crate knows it: also of fields that only OpenFlow
/// 1.4 and later define. Their lengths are not checked in messages, because they are unknown fields in other versions.
fn known_size(field: u8) -> Option<usize> {
    match field {
        number::PbbUca => Some(1),
        number::TcpFlags => Some(2),
        number::ActsetOutput | number::PacketType => Some(4),
        _ => basic_size(field),
    }
}

/// Converts an OXM to canonical form; `None` if its mask is zero, which matches everything.
///
/// A mask of all ones is dropped, and value bits outside the mask are cleared. An unknown field
/// keeps both, because their meaning is unknown too.
#[inline]
pub(crate) fn with_canonical<R>(oxm: &Oxm<'_>, with: impl FnOnce(Oxm<'_>) -> R) -> Option<R> {
    let (value, Some(mask)) = oxm.value_and_mask() else { return Some(with(*oxm)) };
    if oxm.class != OPENFLOW_BASIC || known_size(oxm.field) != Some(value.len()) {
        return Some(with(*oxm));
    }
    if mask.iter().all(|&byte| byte == 0) {
        return None;
    }
    let id = oxm.payload.len() - value.len() - mask.len();
    let exact = mask.iter().all(|&byte| byte == 0xff);
    let mut room = [0; MAX_OXM_SIZE];
    for (to, from) in room.iter_mut().zip(oxm.payload) {
        *to = *from;
    }
    for (to, mask) in room.iter_mut().skip(id).zip(mask) {
        *to &= mask;
    }
    let size = if exact { id + value.len() } else { oxm.payload.len() };
    Some(with(Oxm { has_mask: !exact, payload: room.get(..size).unwrap_or_default(), ..*oxm }))
}

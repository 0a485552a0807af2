//! The packet that is traced: the fields that matches compare, from `key=value` text or from the bytes of a frame.
//!
//! A field has the number that OpenFlow 1.3 gives it (`OXM_OF_*`, OpenFlow 1.3.5 §7.2.3.7). A field that the packet lacks is
//! absent, and no match on it holds. A packet without a VLAN tag has the VLAN id 0; a tagged one has the bit
//! `OFPVID_PRESENT`. Fields of Open vSwitch have the numbers that `nicira.rs` gives them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use openflow::ethernet::{ARP, IPV4, IPV6, is_vlan_tag, packet};
use openflow::ip::IpPacket;
use openflow::nicira::FieldId;
use openflow::oxm::OPENFLOW_BASIC;
use openflow::{Field, MacAddr, Match, PortNo};

/// Numbers of fields.
pub(super) mod number {
    pub(in super::super) const IN_PORT: u8 = 0;
    pub(in super::super) const IN_PHY_PORT: u8 = 1;
    pub(in super::super) const METADATA: u8 = 2;
    pub(in super::super) const ETH_DST: u8 = 3;
    pub(in super::super) const ETH_SRC: u8 = 4;
    pub(in super::super) const ETH_TYPE: u8 = 5;
    pub(in super::super) const VLAN_VID: u8 = 6;
    pub(in super::super) const VLAN_PCP: u8 = 7;
    pub(in super::super) const IP_DSCP: u8 = 8;
    pub(in super::super) const IP_ECN: u8 = 9;
    pub(in super::super) const IP_PROTO: u8 = 10;
    pub(in super::super) const IPV4_SRC: u8 = 11;
    pub(in super::super) const IPV4_DST: u8 = 12;
    pub(in super::super) const TCP_SRC: u8 = 13;
    pub(in super::super) const UDP_SRC: u8 = 15;
    pub(in super::super) const SCTP_SRC: u8 = 17;
    pub(in super::super) const ICMPV4_TYPE: u8 = 19;
    pub(in super::super) const ARP_OP: u8 = 21;
    pub(in super::super) const ARP_SPA: u8 = 22;
    pub(in super::super) const ARP_SHA: u8 = 24;
    pub(in super::super) const IPV6_SRC: u8 = 26;
    pub(in super::super) const IPV6_DST: u8 = 27;
    pub(in super::super) const IPV6_FLABEL: u8 = 28;
    pub(in super::super) const ICMPV6_TYPE: u8 = 29;
    pub(in super::super) const ND_TARGET: u8 = 31;
    pub(in super::super) const ND_SLL: u8 = 32;
    pub(in super::super) const ND_TLL: u8 = 33;
    pub(in super::super) const MPLS_LABEL: u8 = 34;
    pub(in super::super) const MPLS_TC: u8 = 35;
    pub(in super::super) const MPLS_BOS: u8 = 36;
    pub(in super::super) const TUNNEL_ID: u8 = 38;
}

use number::{
    ARP_OP, ARP_SHA, ARP_SPA, ETH_DST, ETH_SRC, ETH_TYPE, ICMPV4_TYPE, ICMPV6_TYPE, IN_PHY_PORT,
    IN_PORT, IP_DSCP, IP_ECN, IP_PROTO, IPV4_DST, IPV4_SRC, IPV6_DST, IPV6_FLABEL, IPV6_SRC,
    METADATA, MPLS_BOS, MPLS_LABEL, MPLS_TC, ND_SLL, ND_TARGET, ND_TLL, SCTP_SRC, TCP_SRC,
    TUNNEL_ID, UDP_SRC, VLAN_PCP, VLAN_VID,
};

use super::nicira::{FIRST_REGISTER, name_of_key};
use super::prerequisites::complete;

/// The bit of a VLAN id that says that there is a tag (`OFPVID_PRESENT`, OpenFlow 1.3.5 §7.2.3.7).
pub(super) const VLAN_PRESENT: u16 = 0x1000;

pub(super) const RARP: u16 = 0x8035;
pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP6: u8 = 58;
pub(super) const SCTP: u8 = 132;

/// How the value of a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Number {
        bits: u32,
    },
    /// A port's number, or `LOCAL`.
    Port,
    Mac,
    V4,
    V6,
    /// A VLAN id.
    Vid,
    /// The type of service, whose upper six bits are the DSCP and whose others are the ECN.
    Tos,
}

/// Keys that name one field, each with the field and its form: the names of OpenFlow, and those of Open vSwitch.
const KEYS: [(&str, u8, Form); 54] = {
    use Form::{Mac, Number, Port, Tos, V4, V6, Vid};
    [
        ("in_port", IN_PORT, Port),
        ("metadata", METADATA, Number { bits: 64 }),
        ("eth_dst", ETH_DST, Mac),
        ("dl_dst", ETH_DST, Mac),
        ("eth_src", ETH_SRC, Mac),
        ("dl_src", ETH_SRC, Mac),
        ("eth_type", ETH_TYPE, Number { bits: 16 }),
        ("dl_type", ETH_TYPE, Number { bits: 16 }),
        ("vlan_vid", VLAN_VID, Vid),
        ("dl_vlan", VLAN_VID, Vid),
        ("vlan_pcp", VLAN_PCP, Number { bits: 3 }),
        ("dl_vlan_pcp", VLAN_PCP, Number { bits: 3 }),
        ("ip_dscp", IP_DSCP, Number { bits: 6 }),
        ("nw_tos", IP_DSCP, Tos),
        ("ip_ecn", IP_ECN, Number { bits: 2 }),
        ("nw_ecn", IP_ECN, Number { bits: 2 }),
        ("ip_proto", IP_PROTO, Number { bits: 8 }),
        ("nw_proto", IP_PROTO, Number { bits: 8 }),
        ("ipv4_src", IPV4_SRC, V4),
        ("nw_src", IPV4_SRC, V4),
        ("ip_src", IPV4_SRC, V4),
        ("ipv4_dst", IPV4_DST, V4),
        ("nw_dst", IPV4_DST, V4),
        ("ip_dst", IPV4_DST, V4),
        ("tcp_src", TCP_SRC, Number { bits: 16 }),
        ("tcp_dst", TCP_SRC + 1, Number { bits: 16 }),
        ("udp_src", UDP_SRC, Number { bits: 16 }),
        ("udp_dst", UDP_SRC + 1, Number { bits: 16 }),
        ("sctp_src", SCTP_SRC, Number { bits: 16 }),
        ("sctp_dst", SCTP_SRC + 1, Number { bits: 16 }),
        ("icmpv4_type", ICMPV4_TYPE, Number { bits: 8 }),
        ("icmpv4_code", ICMPV4_TYPE + 1, Number { bits: 8 }),
        ("arp_op", ARP_OP, Number { bits: 16 }),
        ("arp_spa", ARP_SPA, V4),
        ("arp_tpa", ARP_SPA + 1, V4),
        ("arp_sha", ARP_SHA, Mac),
        ("arp_tha", ARP_SHA + 1, Mac),
        ("ipv6_src", IPV6_SRC, V6),
        ("ipv6_dst", IPV6_DST, V6),
        ("ipv6_flabel", IPV6_FLABEL, Number { bits: 20 }),
        ("ipv6_label", IPV6_FLABEL, Number { bits: 20 }),
        ("icmpv6_type", ICMPV6_TYPE, Number { bits: 8 }),
        ("icmpv6_code", ICMPV6_TYPE + 1, Number { bits: 8 }),
        ("ipv6_nd_target", ND_TARGET, V6),
        ("nd_target", ND_TARGET, V6),
        ("ipv6_nd_sll", ND_SLL, Mac),
        ("nd_sll", ND_SLL, Mac),
        ("ipv6_nd_tll", ND_TLL, Mac),
        ("nd_tll", ND_TLL, Mac),
        ("mpls_label", MPLS_LABEL, Number { bits: 20 }),
        ("mpls_tc", MPLS_TC, Number { bits: 3 }),
        ("mpls_bos", MPLS_BOS, Number { bits: 1 }),
        ("tunnel_id", TUNNEL_ID, Number { bits: 64 }),
        ("tun_id", TUNNEL_ID, Number { bits: 64 }),
    ]
};

/// Words that stand for an ethertype and a protocol.
const WORDS: [(&str, u16, Option<u8>); 12] = [
    ("ip", IPV4, None),
    ("ipv6", IPV6, None),
    ("arp", ARP, None),
    ("rarp", RARP, None),
    ("icmp", IPV4, Some(ICMP)),
    ("tcp", IPV4, Some(TCP)),
    ("udp", IPV4, Some(UDP)),
    ("sctp", IPV4, Some(SCTP)),
    ("icmp6", IPV6, Some(ICMP6)),
    ("tcp6", IPV6, Some(TCP)),
    ("udp6", IPV6, Some(UDP)),
    ("sctp6", IPV6, Some(SCTP)),
];

/// The port that a packet comes in through: a number, or `LOCAL` for the switch itself, as `ofproto/trace` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPort(u32);

/// What [`InPort`] reads.
const IN_PORTS: &str = "the number of a port, or LOCAL";

impl FromStr for InPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("LOCAL") {
            return Ok(Self(PortNo::LOCAL.0));
        }
        let number = parse_number("in_port", text, 32).ok().and_then(|it| u32::try_from(it).ok());
        number.map(Self).ok_or_else(|| format!("expected {IN_PORTS}"))
    }
}

/// The fields of a packet in a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet(BTreeMap<u8, u128>);

impl Packet {
    /// Reads `key=value` text, such as `in_port=1,icmp,nw_src=10.0.0.1`, or hexadecimal digits of a frame.
    ///
    /// # Errors
    /// A phrase that names the mistake and the expected form.
    pub fn read(text: &str, in_port: Option<InPort>) -> Result<Self, String> {
        let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
        let is_frame = digits.len() >= 28 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut packet = if is_frame { Self::of_digits(&digits)? } else { Self::of_text(text)? };
        if let Some(port) = in_port {
            packet.0.insert(IN_PORT, port.0.into());
        }
        if !packet.0.contains_key(&IN_PORT) {
            return Err("in which port? Add in_port=N to the packet, or --in-port N".into());
        }
        packet.fill_in();
        Ok(packet)
    }

    fn of_text(text: &str) -> Result<Self, String> {
        let mut packet = Self::default();
        let mut by_protocol = Vec::new();
        for item in text.split(|c: char| c == ',' || c.is_whitespace()).filter(|it| !it.is_empty())
        {
            let Some((key, value)) = item.split_once('=') else {
                let word = WORDS.iter().find(|(word, ..)| *word == item);
                let (_, ethertype, protocol) = word.ok_or_else(|| {
                    format!("{item:?} is neither key=value nor one of ip, ipv6, arp, icmp, tcp, udp, ...")
                })?;
                packet.0.insert(ETH_TYPE, (*ethertype).into());
                if let Some(protocol) = protocol {
                    packet.0.insert(IP_PROTO, (*protocol).into());
                }
                continue;
            };
            match key {
                // Which field it is depends on the protocol, which may come later.
                "tp_src" | "tp_dst" | "icmp_type" | "icmp_code" => by_protocol.push((key, value)),
                _ => packet.set_text(key, value)?,
            }
        }
        complete(&mut packet.0, name)?;
        for (key, value) in by_protocol {
            let number = parse_number(key, value, 16)?;
            let is_second = matches!(key, "tp_dst" | "icmp_code");
            let first = packet.transport().ok_or_else(|| {
                format!("{key} needs a protocol: tcp, udp, sctp, icmp, tcp6, ...")
            })?;
            packet.0.insert(first + u8::from(is_second), number);
        }
        Ok(packet)
    }

    fn set_text(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some(register) = key.strip_prefix("reg").and_then(|it| it.parse::<u8>().ok())
            && register < 16
        {
            self.0.insert(FIRST_REGISTER + register, parse_number(key, value, 32)?);
            return Ok(());
        }
        let (_, field, form) = KEYS
            .iter()
            .find(|(name, ..)| *name == key)
            .ok_or_else(|| format!("{key:?} is not a field of a packet"))?;
        let expected = |what: &str| format!("{key}={value}: expected {what}");
        let number = match form {
            Form::Number { bits } => parse_number(key, value, *bits)?,
            Form::Port => {
                value.parse().map(|InPort(port)| port.into()).map_err(|_| expected(IN_PORTS))?
            }
            Form::Mac => {
                let mac: MacAddr = value.parse().map_err(|_| expected("an Ethernet address"))?;
                mac.0.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
            }
            Form::V4 => {
                let ip: Ipv4Addr = value.parse().map_err(|_| expected("an IPv4 address"))?;
                ip.to_bits().into()
            }
            Form::V6 => {
                let ip: Ipv6Addr = value.parse().map_err(|_| expected("an IPv6 address"))?;
                ip.to_bits()
            }
            Form::Vid => parse_number(key, value, 13)? | u128::from(VLAN_PRESENT),
            Form::Tos => {
                let tos = parse_number(key, value, 8)?;
                self.0.insert(IP_ECN, tos & 3);
                tos >> 2
            }
        };
        self.0.insert(*field, number);
        Ok(())
    }

    fn of_digits(digits: &str) -> Result<Self, String> {
        let pairs = digits.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
            pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        let frame: Option<Vec<u8>> = pairs.collect();
        Self::of_frame(&frame.ok_or("a frame has an even number of hexadecimal digits")?)
            .ok_or_else(|| "the frame is shorter than an Ethernet header".into())
    }

    /// Reads a frame from its Ethernet header on; `None` if it is shorter than that header.
    fn of_frame(frame: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| {
            bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
        };
        let layer = packet(frame)?;
        let mut fields = BTreeMap::new();
        fields.insert(ETH_DST, number(frame.get(..6)?));
        fields.insert(ETH_SRC, number(frame.get(6..12)?));
        fields.insert(ETH_TYPE, layer.ethertype.into());
        let outer = u16::from_be_bytes(*frame.get(12..)?.first_chunk()?);
        if is_vlan_tag(outer)
            && let Some(tag) = frame.get(14..16)
        {
            let tci = number(tag);
            fields.insert(VLAN_VID, tci & 0xfff | u128::from(VLAN_PRESENT));
            fields.insert(VLAN_PCP, tci >> 13);
        }
        if let Some(ip) = IpPacket::in_layer(&layer) {
            match (ip.src, ip.dst) {
                (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
                    fields.insert(IPV4_SRC, src.to_bits().into());
                    fields.insert(IPV4_DST, dst.to_bits().into());
                }
                (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
                    fields.insert(IPV6_SRC, src.to_bits());
                    fields.insert(IPV6_DST, dst.to_bits());
                    fields.insert(IPV6_FLABEL, number(layer.payload.get(..4)?) & 0xf_ffff);
                }
                _ => {}
            }
            fields.insert(IP_DSCP, (ip.traffic_class >> 2).into());
            fields.insert(IP_ECN, (ip.traffic_class & 3).into());
            if let Some(protocol) = ip.protocol {
                fields.insert(IP_PROTO, protocol.into());
            }
            let packet = Self(fields);
            let transport = packet.transport();
            Self(fields) = packet;
            match (transport, ip.ports(), ip.payload) {
                (Some(first @ (ICMPV4_TYPE | ICMPV6_TYPE)), _, [kind, code, rest @ ..]) => {
                    fields.insert(first, (*kind).into());
                    fields.insert(first + 1, (*code).into());
                    if let (ICMPV6_TYPE, 135 | 136, Some(target)) = (first, kind, rest.get(6..22)) {
                        fields.insert(ND_TARGET, number(target));
                    }
                }
                (Some(first @ (TCP_SRC | UDP_SRC | SCTP_SRC)), Some((src, dst)), _) => {
                    fields.insert(first, src.into());
                    fields.insert(first + 1, dst.into());
                }
                _ => {}
            }
        } else if matches!(layer.ethertype, ARP | RARP)
            && let Some(arp) = layer.payload.get(..28)
        {
            fields.insert(ARP_OP, number(&arp[6..8]));
            fields.insert(ARP_SHA, number(&arp[8..14]));
            fields.insert(ARP_SPA, number(&arp[14..18]));
            fields.insert(ARP_SHA + 1, number(&arp[18..24]));
            fields.insert(ARP_SPA + 1, number(&arp[24..28]));
        }
        Some(Self(fields))
    }

    /// Adds the fields that a packet of this kind has, with the value 0 as `ofproto/trace` does.
    fn fill_in(&mut self) {
        let in_port = self.0.get(&IN_PORT).copied().unwrap_or(0);
        let mut has = |field: u8, value: u128| {
            self.0.entry(field).or_insert(value);
        };
        has(IN_PHY_PORT, in_port);
        for field in [METADATA, ETH_DST, ETH_SRC, ETH_TYPE, TUNNEL_ID, VLAN_VID] {
            has(field, 0);
        }
        let fields: &[u8] = match self.ethertype() {
            IPV4 => &[IP_DSCP, IP_ECN, IP_PROTO, IPV4_SRC, IPV4_DST],
            IPV6 => &[IP_DSCP, IP_ECN, IP_PROTO, IPV6_SRC, IPV6_DST, IPV6_FLABEL],
            ARP | RARP => &[ARP_OP, ARP_SPA, ARP_SPA + 1, ARP_SHA, ARP_SHA + 1],
            _ => &[],
        };
        for field in fields {
            self.0.entry(*field).or_insert(0);
        }
        if let Some(first) = self.transport() {
            self.0.entry(first).or_insert(0);
            self.0.entry(first + 1).or_insert(0);
        }
        if self.0[&VLAN_VID] != 0 {
            self.0.entry(VLAN_PCP).or_insert(0);
        }
    }

    fn ethertype(&self) -> u16 {
        self.0.get(&ETH_TYPE).and_then(|it| u16::try_from(*it).ok()).unwrap_or(0)
    }

    /// The first of the two fields of the transport protocol: the source port, or the ICMP type.
    pub(super) fn transport(&self) -> Option<u8> {
        let protocol = self.0.get(&IP_PROTO).and_then(|it| u8::try_from(*it).ok())?;
        match (self.ethertype(), protocol) {
            (IPV4 | IPV6, TCP) => Some(TCP_SRC),
            (IPV4 | IPV6, UDP) => Some(UDP_SRC),
            (IPV4 | IPV6, SCTP) => Some(SCTP_SRC),
            (IPV4, ICMP) => Some(ICMPV4_TYPE),
            (IPV6, ICMP6) => Some(ICMPV6_TYPE),
            _ => None,
        }
    }

    /// Returns the port that it came in through.
    pub(super) fn in_port(&self) -> u32 {
        self.0.get(&IN_PORT).and_then(|it| u32::try_from(*it).ok()).unwrap_or(0)
    }

    /// Returns the packet as it enters another switch.
    pub(super) fn entering(&self, in_port: u32) -> Self {
        let mut packet = self.clone();
        for field in [IN_PORT, IN_PHY_PORT] {
            packet.0.insert(field, in_port.into());
        }
        packet.0.insert(METADATA, 0);
        packet.0.retain(|field, _| *field < FIRST_REGISTER);
        packet
    }

    /// Whether it has all fields of a match, with their values.
    pub(super) fn is_matched_by(&self, match_: &Match) -> bool {
        match_.oxms().all(|oxm| {
            let (value, mask) = halves(oxm.payload, oxm.has_mask);
            let field = match oxm.class {
                OPENFLOW_BASIC => self.number(oxm.field),
                _ => FieldId::of_oxm(&oxm).and_then(|(field, ..)| self.value_of(field)),
            };
            field.is_some_and(|field| (field ^ value) & mask == 0)
        })
    }

    /// Sets a field.
    pub(super) fn set(&mut self, field: &Field) {
        if let (Field::Opaque(_), Some((id, value, mask))) = (field, FieldId::of_field(field)) {
            let mask = mask.unwrap_or(u128::MAX);
            let old = self.value_of(id).unwrap_or(0);
            self.set_value(id, old & !mask | value & mask);
            return;
        }
        let match_ = Match::new().with(field);
        for oxm in match_.oxms().filter(|oxm| oxm.class == 0x8000) {
            let (value, _) = halves(oxm.payload, oxm.has_mask);
            self.0.insert(oxm.field, value);
        }
    }

    /// Returns a field by its number.
    pub(super) fn number(&self, field: u8) -> Option<u128> {
        self.0.get(&field).copied()
    }

    /// Changes the port as from which the packet is looked up.
    pub(super) fn look_up_from(&mut self, in_port: u32) {
        self.0.insert(IN_PORT, in_port.into());
    }

    /// Sets a field by its number.
    pub(super) fn set_number(&mut self, field: u8, value: u128) {
        self.0.insert(field, value);
    }

    /// Adds a tag with VLAN id 0.
    pub(super) fn push_vlan(&mut self) {
        self.0.insert(VLAN_VID, VLAN_PRESENT.into());
        self.0.entry(VLAN_PCP).or_insert(0);
    }

    /// Adds a tag if there is none.
    pub(super) fn have_vlan(&mut self) {
        if self.0.get(&VLAN_VID).is_none_or(|vid| *vid == 0) {
            self.push_vlan();
        }
    }

    /// Removes the tag.
    pub(super) fn pop_vlan(&mut self) {
        self.0.insert(VLAN_VID, 0);
        self.0.remove(&VLAN_PCP);
    }

    /// Changes the metadata under a mask.
    pub(super) fn write_metadata(&mut self, value: u64, mask: u64) {
        let metadata = self.0.entry(METADATA).or_insert(0);
        *metadata = *metadata & !u128::from(mask) | u128::from(value & mask);
    }
}

/// The name of a field in OpenFlow.
fn name(field: u8) -> &'static str {
    KEYS.iter().find(|(_, number, _)| *number == field).map_or("a field", |(name, ..)| name)
}

/// Value and mask of an OXM's payload.
fn halves(payload: &[u8], has_mask: bool) -> (u128, u128) {
    let number =
        |bytes: &[u8]| bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    if has_mask {
        let (value, mask) = payload.split_at(payload.len() / 2);
        (number(value), number(mask))
    } else {
        (number(payload), u128::MAX)
    }
}

fn parse_number(key: &str, value: &str, bits: u32) -> Result<u128, String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    number
        .filter(|number| number.checked_shr(bits).unwrap_or(0) == 0)
        .ok_or_else(|| format!("{key}={value}: expected a number of at most {bits} bits"))
}

/// Prints the fields that are not 0, as [`Packet::read`] accepts them.
impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in_port={}", PortNo(self.in_port()))?;
        let is_shown =
            |field: u8, value: u128| value != 0 && !matches!(field, IN_PORT | IN_PHY_PORT);
        for (field, value) in self.0.iter().filter(|(field, value)| is_shown(**field, **value)) {
            let Some((key, _, form)) = KEYS.iter().find(|(_, number, _)| number == field) else {
                if let Some(name) = name_of_key(*field) {
                    write!(f, ",{name}={value}")?;
                }
                continue;
            };
            let low = |bits: u32| value & ((1 << bits) - 1);
            match form {
                Form::Mac => {
                    let mut mac = [0; 6];
                    mac.copy_from_slice(&value.to_be_bytes()[10..]);
                    write!(f, ",{key}={}", MacAddr(mac))?;
                }
                Form::V4 => {
                    let bits = u32::try_from(low(32)).unwrap_or(0);
                    write!(f, ",{key}={}", Ipv4Addr::from_bits(bits))?;
                }
                Form::V6 => write!(f, ",{key}={}", Ipv6Addr::from_bits(*value))?,
                Form::Vid => write!(f, ",{key}={}", low(12))?,
                Form::Number { .. } | Form::Tos if *field == ETH_TYPE => {
                    write!(f, ",{key}={value:#06x}")?;
                }
                Form::Number { .. } | Form::Port | Form::Tos => write!(f, ",{key}={value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "packet/tests.rs"]
mod tests;

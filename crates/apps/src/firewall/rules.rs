//! Reads the firewall's rules, makes flows of them, and decides which packets they deny.
//!
//! ```toml
//! [[deny]]
//! from = "10.0.0.0/8"
//! to = "192.0.2.7"
//! protocol = "tcp"
//! to-port = [22, 23]
//! ```
//!
//! There is no `allow`: a packet passes to the other apps and to their flows unless a rule denies it. In the
//! only table of OpenFlow 1.0, a flow above those of the other apps can drop a packet, and cannot
//! pass it to them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rosemary_sdk::openflow::ethernet::{IPV4, IPV6};
use rosemary_sdk::openflow::{Field, Masked};
use rosemary_sdk::{Dpid, MacAddr, Match, PortNo};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::packet::Packet;

/// Most flows of all rules together.
const MOST_FLOWS: usize = 4096;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// A flow that drops packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DropFlow {
    /// Which packets.
    pub(super) match_: Match,
    /// The rule's place in the file, counted from 1.
    pub(super) rule: u64,
    /// The switch; `None` for all.
    pub(super) switch: Option<Dpid>,
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// Their flows.
    pub(super) entries: Vec<DropFlow>,
}

impl Rules {
    /// Reads the operator's text.
    ///
    /// # Errors
    /// A phrase with the line and the rule.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let rule = rule_at(text, at).map_or(String::new(), |rule| format!("rule {rule}: "));
            format!("line {}: {rule}{}", line_of(text, at), error.message().replace('\n', "; "))
        })?;
        let mut all = Self::default();
        for (number, rule) in (1_u64..).zip(file.deny) {
            let line = line_of(text, rule.span().start);
            let rule = rule.into_inner();
            let matches =
                rule.matches().map_err(|why| format!("line {line}: rule {number}: {why}"))?;
            let switch = rule.switch.map(|it| it.0);
            all.entries.extend(matches.into_iter().map(|match_| DropFlow {
                match_,
                rule: number,
                switch,
            }));
            if all.entries.len() > MOST_FLOWS {
                return Err(format!(
                    "line {line}: rule {number}: with it there are {} flows to put into switches, and \
                     {MOST_FLOWS} is the most; leave ports out, or join addresses",
                    all.entries.len()
                ));
            }
            all.rules.push(rule);
        }
        Ok(all)
    }

    /// Returns how many rules there are.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether a rule denies a packet that came in through this port.
    pub(super) fn deny(&self, switch: Dpid, in_port: PortNo, packet: &Packet) -> bool {
        self.rules.iter().any(|rule| rule.denies(switch, in_port, packet))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    deny: Vec<Spanned<Rule>>,
}

/// A `[[deny]]` as the operator writes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Rule {
    from: Option<Net>,
    to: Option<Net>,
    from_mac: Option<Read<MacAddr>>,
    to_mac: Option<Read<MacAddr>>,
    protocol: Option<Protocol>,
    #[serde(default)]
    from_port: Ports,
    #[serde(default)]
    to_port: Ports,
    switch: Option<Read<Dpid>>,
    in_port: Option<u32>,
    /// Whether packets in the other direction are denied, too.
    #[serde(default)]
    both_ways: bool,
}

impl Rule {
    /// Returns the flows that it needs.
    fn matches(&self) -> Result<Vec<Match>, String> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from.ethertype() != to.ethertype()
        {
            return Err("from and to are of two versions of IP".into());
        }
        let ports = !self.from_port.0.is_empty() || !self.to_port.0.is_empty();
        if ports && !self.protocol.is_some_and(Protocol::has_ports) {
            return Err("ports need protocol = \"tcp\", \"udp\" or \"sctp\"".into());
        }
        let nets = [self.from, self.to];
        let ethertypes = match nets.iter().flatten().next() {
            Some(net) => vec![Some(net.ethertype())],
            None if self.protocol.is_some() => vec![Some(IPV4), Some(IPV6)],
            None => vec![None],
        };
        let mut matches = Vec::new();
        for (rule, _) in self.ways() {
            for ethertype in &ethertypes {
                let base = rule.match_of(*ethertype);
                for from_port in rule.from_port.each() {
                    for to_port in rule.to_port.each() {
                        matches.push(rule.with_ports(base.clone(), from_port, to_port));
                    }
                }
            }
        }
        if matches.iter().any(Match::is_empty) {
            return Err("it would deny everything; say from, to, from-mac, to-mac, protocol or \
                        in-port"
                .into());
        }
        Ok(matches)
    }

    /// Returns the rule, and its reverse if packets in the other direction are denied, too.
    fn ways(&self) -> impl Iterator<Item = (Self, bool)> {
        let back = Self {
            from: self.to,
            to: self.from,
            from_mac: self.to_mac,
            to_mac: self.from_mac,
            from_port: self.to_port.clone(),
            to_port: self.from_port.clone(),
            ..self.clone()
        };
        [(self.clone(), false), (back, true)]
            .into_iter()
            .filter(|(_, back)| !back || self.both_ways)
    }

    fn match_of(&self, ethertype: Option<u16>) -> Match {
        let mut match_ = Match::new();
        if let Some(port) = self.in_port {
            match_ = match_.in_port(PortNo(port));
        }
        if let Some(mac) = self.from_mac {
            match_ = match_.eth_src(mac.0);
        }
        if let Some(mac) = self.to_mac {
            match_ = match_.eth_dst(mac.0);
        }
        let Some(ethertype) = ethertype else { return match_ };
        match_ = match_.eth_type(ethertype);
        if let Some(from) = self.from {
            match_.set(&from.field(true));
        }
        if let Some(to) = self.to {
            match_.set(&to.field(false));
        }
        match self.protocol {
            Some(protocol) => match_.ip_proto(protocol.number(ethertype)),
            None => match_,
        }
    }

    fn with_ports(&self, mut match_: Match, from: Option<u16>, to: Option<u16>) -> Match {
        let Some(protocol) = self.protocol else { return match_ };
        for (port, is_source) in [(from, true), (to, false)] {
            if let Some(port) = port {
                match_.set(&protocol.port_field(port, is_source));
            }
        }
        match_
    }

    fn denies(&self, switch: Dpid, in_port: PortNo, packet: &Packet) -> bool {
        self.switch.is_none_or(|it| it.0 == switch)
            && self.in_port.is_none_or(|it| it == in_port.0)
            && (self.is_about(packet) || self.both_ways && self.is_about(&packet.back()))
    }

    /// Returns whether addresses, protocol and ports match a packet.
    fn is_about(&self, packet: &Packet) -> bool {
        let is = |net: Option<Net>, address: Option<IpAddr>| {
            net.is_none_or(|net| address.is_some_and(|address| net.holds(address)))
        };
        let has = |ports: &Ports, port: Option<u16>| {
            ports.0.is_empty() || port.is_some_and(|port| ports.0.contains(&port))
        };
        let mac = |rule: Option<Read<MacAddr>>, mac| rule.is_none_or(|it| it.0 == mac);
        mac(self.from_mac, packet.eth_src)
            && mac(self.to_mac, packet.eth_dst)
            && is(self.from, packet.from)
            && is(self.to, packet.to)
            && self.protocol.is_none_or(|it| {
                packet.protocol == Some(it.number(packet.ethertype)) && packet.from.is_some()
            })
            && has(&self.from_port, packet.from_port)
            && has(&self.to_port, packet.to_port)
    }
}

/// Addresses with the same beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Net {
    V4(u32, u32),
    V6(u128, u128),
}

impl Net {
    fn ethertype(self) -> u16 {
        match self {
            Self::V4(..) => IPV4,
            Self::V6(..) => IPV6,
        }
    }

    fn holds(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(net, mask), IpAddr::V4(it)) => it.to_bits() & mask == net,
            (Self::V6(net, mask), IpAddr::V6(it)) => it.to_bits() & mask == net,
            _ => false,
        }
    }

    fn field(self, is_source: bool) -> Field {
        match self {
            Self::V4(net, mask) => {
                let net = Masked::new(Ipv4Addr::from_bits(net), Ipv4Addr::from_bits(mask));
                if is_source { Field::Ipv4Src(net) } else { Field::Ipv4Dst(net) }
            }
            Self::V6(net, mask) => {
                let net = Masked::new(Ipv6Addr::from_bits(net), Ipv6Addr::from_bits(mask));
                if is_source { Field::Ipv6Src(net) } else { Field::Ipv6Dst(net) }
            }
        }
    }
}

impl FromStr for Net {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected an address, or one with the bits that count, as 10.0.0.0/8";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| FORM)?)),
            None => (text, None),
        };
        let net = match address.parse().map_err(|_| FORM)? {
            IpAddr::V4(address) => {
                let left = 32_u32.checked_sub(bits.unwrap_or(32)).ok_or(FORM)?;
                let mask = u32::MAX.checked_shl(left).unwrap_or(0);
                (address.to_bits() & !mask == 0).then_some(Self::V4(address.to_bits(), mask))
            }
            IpAddr::V6(address) => {
                let left = 128_u32.checked_sub(bits.unwrap_or(128)).ok_or(FORM)?;
                let mask = u128::MAX.checked_shl(left).unwrap_or(0);
                (address.to_bits() & !mask == 0).then_some(Self::V6(address.to_bits(), mask))
            }
        };
        net.ok_or("the address has bits behind those that count, which must be 0")
    }
}

impl<'de> Deserialize<'de> for Net {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Read::deserialize(from).map(|it| it.0)
    }
}

/// A value that people write as a text.
#[derive(Debug, Clone, Copy)]
struct Read<T>(T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(|why| de::Error::custom(format!("{text:?}: {why}")))
    }
}

/// A protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

impl Protocol {
    /// Returns its number in this version of IP.
    fn number(self, ethertype: u16) -> u8 {
        match self {
            Self::Tcp => TCP,
            Self::Udp => UDP,
            Self::Sctp => SCTP,
            Self::Icmp if ethertype == IPV6 => ICMP6,
            Self::Icmp => ICMP,
        }
    }

    fn has_ports(self) -> bool {
        self != Self::Icmp
    }

    fn port_field(self, port: u16, is_source: bool) -> Field {
        match (self, is_source) {
            (Self::Udp, true) => Field::UdpSrc(port),
            (Self::Udp, false) => Field::UdpDst(port),
            (Self::Sctp, true) => Field::SctpSrc(port),
            (Self::Sctp, false) => Field::SctpDst(port),
            (Self::Tcp | Self::Icmp, true) => Field::TcpSrc(port),
            (Self::Tcp | Self::Icmp, false) => Field::TcpDst(port),
        }
    }
}

/// One port, or a list of them; none stands for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ports(Vec<u16>);

impl Ports {
    /// Returns each port, or one `None` for all.
    fn each(&self) -> impl Iterator<Item = Option<u16>> + Clone {
        let all = self.0.is_empty().then_some(None);
        self.0.iter().copied().map(Some).chain(all)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Ports;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port from 0 to 65535, or a list of them that is not empty")
            }

            fn visit_i64<E: de::Error>(self, port: i64) -> Result<Ports, E> {
                let invalid = || E::invalid_value(de::Unexpected::Signed(port), &self);
                Ok(Ports(vec![port.try_into().map_err(|_| invalid())?]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Ports, A::Error> {
                let mut ports = Vec::new();
                while let Some(port) = list.next_element()? {
                    ports.push(port);
                }
                if ports.is_empty() {
                    return Err(de::Error::invalid_length(0, &self));
                }
                Ok(Ports(ports))
            }
        }

        from.deserialize_any(Visitor)
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Returns the number of the rule at byte `at`, counted from 1; `None` before the first.
fn rule_at(text: &str, at: usize) -> Option<usize> {
    let end = text.get(at..)?.find('\n').map_or(text.len(), |more| at + more);
    let heads = text.get(..end)?.lines().filter(|line| line.trim_start().starts_with("[[deny]]"));
    Some(heads.count()).filter(|count| *count > 0)
}

#[cfg(test)]
#[path = "rules/tests.rs"]
mod tests;

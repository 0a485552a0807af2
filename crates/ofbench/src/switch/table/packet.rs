//! A packet, as a flow table sees it.

use std::net::Ipv4Addr;

use openflow::matching::VLAN_PRESENT;
use openflow::{Field, MacAddr, Masked, Match, PortNo};

use super::covers;

/// A packet: what each field of it is, and where it came in. Ethernet, one VLAN tag, ARP, IPv4, IPv6
/// addresses, ports of TCP, UDP and SCTP, ICMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    fields: Match,
}

impl Packet {
    /// The packet that a frame is; what is cut short has the fields that are there.
    pub fn new(in_port: PortNo, frame: &[u8]) -> Self {
        let mut packet = Self { fields: Match::new().in_port(in_port) };
        packet.set(&Field::Metadata(0.into()));
        // Whatever is missing ends the reading.
        let _: Option<()> = packet.read(frame);
        packet
    }

    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let (dst, rest) = frame.split_first_chunk::<6>()?;
        let (src, rest) = rest.split_first_chunk::<6>()?;
        self.set(&Field::EthDst(MacAddr(*dst).into()));
        self.set(&Field::EthSrc(MacAddr(*src).into()));
        let (ethertype, rest) = rest.split_first_chunk::<2>()?;
        let (ethertype, body) = match u16::from_be_bytes(*ethertype) {
            0x8100 | 0x88a8 => {
                let ([high, low, e, f], body) = rest.split_first_chunk::<4>()?;
                let tag = u16::from_be_bytes([*high, *low]);
                self.set(&Field::VlanVid((VLAN_PRESENT | tag & 0x0fff).into()));
                self.set(&Field::VlanPcp(high >> 5));
                (u16::from_be_bytes([*e, *f]), body)
            }
            ethertype => {
                self.set(&Field::VlanVid(0.into()));
                (ethertype, rest)
            }
        };
        self.set(&Field::EthType(ethertype));
        match ethertype {
            0x0800 => self.read_ipv4(body),
            0x0806 => self.read_arp(body),
            0x86dd => self.read_ipv6(body),
            _ => Some(()),
        }
    }

    fn read_ipv4(&mut self, body: &[u8]) -> Option<()> {
        let head = body.first_chunk::<20>()?;
        self.set(&Field::IpDscp(head[1] >> 2));
        self.set(&Field::IpEcn(head[1] & 3));
        self.set(&Field::IpProto(head[9]));
        self.set(&Field::Ipv4Src(address(head, 12)?.into()));
        self.set(&Field::Ipv4Dst(address(head, 16)?.into()));
        let is_later_fragment = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
        let size = usize::from(head[0] & 0xf) * 4;
        if is_later_fragment || size < 20 {
            return None;
        }
        self.read_transport(head[9], body.get(size..)?)
    }

    fn read_ipv6(&mut self, body: &[u8]) -> Option<()> {
        let (head, rest) = body.split_first_chunk::<40>()?;
        let class = head[0] << 4 | head[1] >> 4;
        self.set(&Field::IpDscp(class >> 2));
        self.set(&Field::IpEcn(class & 3));
        self.set(&Field::IpProto(head[6]));
        let v6 = |at: usize| head[at..].first_chunk::<16>().map(|bytes| (*bytes).into());
        self.set(&Field::Ipv6Src(Masked { value: v6(8)?, mask: None }));
        self.set(&Field::Ipv6Dst(Masked { value: v6(24)?, mask: None }));
        self.read_transport(head[6], rest)
    }

    fn read_transport(&mut self, proto: u8, body: &[u8]) -> Option<()> {
        let [a, b, c, d] = *body.first_chunk::<4>()?;
        let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let [one, other] = match proto {
            1 => [Field::Icmpv4Type(a), Field::Icmpv4Code(b)],
            6 => [Field::TcpSrc(src), Field::TcpDst(dst)],
            17 => [Field::UdpSrc(src), Field::UdpDst(dst)],
            58 => [Field::Icmpv6Type(a), Field::Icmpv6Code(b)],
            132 => [Field::SctpSrc(src), Field::SctpDst(dst)],
            _ => return Some(()),
        };
        self.set(&one);
        self.set(&other);
        Some(())
    }

    fn read_arp(&mut self, body: &[u8]) -> Option<()> {
        let body = body.first_chunk::<28>()?;
        let mac = |at: usize| body[at..].first_chunk::<6>().map(|bytes| MacAddr(*bytes));
        self.set(&Field::ArpOp(u16::from_be_bytes([body[6], body[7]])));
        self.set(&Field::ArpSha(mac(8)?.into()));
        self.set(&Field::ArpSpa(address(body, 14)?.into()));
        self.set(&Field::ArpTha(mac(18)?.into()));
        self.set(&Field::ArpTpa(address(body, 24)?.into()));
        Some(())
    }

    /// Whether a match takes it.
    pub fn is_in(&self, match_: &Match) -> bool {
        covers(match_, &self.fields)
    }

    /// Its fields, as the match that fits nothing but it.
    pub fn fields(&self) -> &Match {
        &self.fields
    }

    pub(super) fn set(&mut self, field: &Field) {
        self.fields.set(field);
    }

    pub(super) fn write_metadata(&mut self, bits: u64, mask: u64) {
        let now = self.fields.fields().find_map(|field| match field {
            Field::Metadata(Masked { value, .. }) => Some(value),
            _ => None,
        });
        let now = now.unwrap_or(0);
        self.set(&Field::Metadata((now & !mask | bits & mask).into()));
    }

    /// Sets a port of whichever transport there is.
    pub(super) fn set_transport(&mut self, port: u16, source: bool) {
        let field = self.fields.fields().find_map(|field| {
            Some(match (field, source) {
                (Field::TcpSrc(_), true) => Field::TcpSrc(port),
                (Field::UdpSrc(_), true) => Field::UdpSrc(port),
                (Field::TcpDst(_), false) => Field::TcpDst(port),
                (Field::UdpDst(_), false) => Field::UdpDst(port),
                _ => return None,
            })
        });
        if let Some(field) = field {
            self.set(&field);
        }
    }
}

/// The IPv4 address at `at`.
fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| (*bytes).into())
}

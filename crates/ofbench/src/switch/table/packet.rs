//! Reads a frame into the fields that flow tables match.

use std::net::{IpAddr, Ipv4Addr};

use openflow::ethernet::{self, ARP, is_vlan_tag};
use openflow::ip::{IpPacket, protocol};
use openflow::matching::VLAN_PRESENT;
use openflow::{Action, Field, MacAddr, Masked, Match, PortNo};

use super::{LookupResult, covers};

/// The VLAN id of a packet without a tag (`OFPVID_NONE`).
const NO_VLAN: u16 = 0;

/// A packet: its fields and its in-port. The fields are those of Ethernet, the outer VLAN tag, ARP, IPv4, IPv6, ICMP
/// and the ports of TCP, UDP and SCTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    fields: Match,
}

impl Packet {
    /// Reads a frame; a frame that is cut off has the fields before the cut.
    pub fn new(in_port: PortNo, frame: &[u8]) -> Self {
        let mut packet = Self { fields: Match::new().in_port(in_port) };
        packet.set(&Field::Metadata(0.into()));
        // `None` is the cut: the fields read so far stay.
        let _: Option<()> = packet.read(frame);
        packet
    }

    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let (dst, rest) = frame.split_first_chunk::<6>()?;
        let (src, rest) = rest.split_first_chunk::<6>()?;
        self.set(&Field::EthDst(MacAddr(*dst).into()));
        self.set(&Field::EthSrc(MacAddr(*src).into()));
        let (outer, rest) = rest.split_first_chunk()?;
        if is_vlan_tag(u16::from_be_bytes(*outer)) {
            let [high, low] = *rest.first_chunk()?;
            let tag = u16::from_be_bytes([high, low]);
            self.set(&Field::VlanVid((VLAN_PRESENT | tag & 0x0fff).into()));
            self.set(&Field::VlanPcp(high >> 5));
        } else {
            self.set(&Field::VlanVid(NO_VLAN.into()));
        }
        let layer = ethernet::packet(frame)?;
        self.set(&Field::EthType(layer.ethertype));
        if layer.ethertype == ARP {
            return self.read_arp(layer.payload);
        }
        self.set_ip(&IpPacket::in_layer(&layer)?)
    }

    fn set_ip(&mut self, ip: &IpPacket<'_>) -> Option<()> {
        self.set(&Field::IpDscp(ip.traffic_class >> 2));
        self.set(&Field::IpEcn(ip.traffic_class & 3));
        if let Some(protocol) = ip.protocol {
            self.set(&Field::IpProto(protocol));
        }
        self.set(&match ip.src {
            IpAddr::V4(address) => Field::Ipv4Src(address.into()),
            IpAddr::V6(address) => Field::Ipv6Src(address.into()),
        });
        self.set(&match ip.dst {
            IpAddr::V4(address) => Field::Ipv4Dst(address.into()),
            IpAddr::V6(address) => Field::Ipv6Dst(address.into()),
        });
        let (src, dst) = ip.ports()?;
        let [kind, code] = src.to_be_bytes();
        let [one, other] = match ip.protocol? {
            protocol::ICMP => [Field::Icmpv4Type(kind), Field::Icmpv4Code(code)],
            protocol::TCP => [Field::TcpSrc(src), Field::TcpDst(dst)],
            protocol::UDP => [Field::UdpSrc(src), Field::UdpDst(dst)],
            protocol::ICMPV6 => [Field::Icmpv6Type(kind), Field::Icmpv6Code(code)],
            protocol::SCTP => [Field::SctpSrc(src), Field::SctpDst(dst)],
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

    /// Whether a match covers the packet.
    pub fn is_in(&self, match_: &Match) -> bool {
        covers(match_, &self.fields)
    }

    /// The fields, as the match that covers this packet only.
    pub fn fields(&self) -> &Match {
        &self.fields
    }

    fn set(&mut self, field: &Field) {
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

    /// Sets the source port of TCP or UDP, if the packet has one.
    fn set_source_port(&mut self, port: u16) {
        self.set_first(|field| match field {
            Field::TcpSrc(_) => Some(Field::TcpSrc(port)),
            Field::UdpSrc(_) => Some(Field::UdpSrc(port)),
            _ => None,
        });
    }

    /// Sets the destination port of TCP or UDP, if the packet has one.
    fn set_destination_port(&mut self, port: u16) {
        self.set_first(|field| match field {
            Field::TcpDst(_) => Some(Field::TcpDst(port)),
            Field::UdpDst(_) => Some(Field::UdpDst(port)),
            _ => None,
        });
    }

    /// Sets the first field for which `replace` returns one.
    fn set_first(&mut self, replace: impl Fn(Field) -> Option<Field>) {
        let field = self.fields.fields().find_map(replace);
        if let Some(field) = field {
            self.set(&field);
        }
    }

    /// Applies actions to the packet and adds its outputs to `result`. Actions that change no field that flow tables match
    /// have no effect.
    pub(crate) fn apply_actions(&mut self, actions: &[Action], result: &mut LookupResult) {
        for action in actions {
            match action {
                Action::Output { port: PortNo::CONTROLLER, .. } => result.to_controller = true,
                Action::Output { port, .. } | Action::Enqueue { port, .. } => {
                    result.ports.push(*port);
                }
                Action::SetField(field) => self.set(field),
                Action::SetTpSrc(port) => self.set_source_port(*port),
                Action::SetTpDst(port) => self.set_destination_port(*port),
                Action::PopVlan => self.set(&Field::VlanVid(NO_VLAN.into())),
                _ => {}
            }
        }
    }
}

/// The IPv4 address at `at`.
fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| (*bytes).into())
}

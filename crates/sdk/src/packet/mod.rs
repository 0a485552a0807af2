//! Reads and builds packets: Ethernet, VLAN, ARP, IPv4, IPv6, ICMP, TCP, UDP, LLDP and DHCP.
//!
//! [`Packet::parse`] reads the packet of a packet-in. Type, addresses, protocol and ports are those that a switch compares with
//! a match: one parser, [`openflow::ethernet`] and [`openflow::ip`], serves the kernel and apps. The crate [`etherparse`]
//! reads the headers of ARP, ICMP, TCP and UDP behind them. Its [`PacketBuilder`] builds packets with lengths and checksums:
//!
//! ```
//! use rosemary_sdk::packet::{Packet, PacketBuilder};
//!
//! let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
//!     .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
//!     .udp(1000, 53);
//! let mut frame = Vec::with_capacity(builder.size(5));
//! builder.write(&mut frame, b"query")?;
//!
//! let packet = Packet::parse(&frame).ok_or("too short")?;
//! assert_eq!(packet.src_ip(), Some([10, 0, 0, 1].into()));
//! assert_eq!(packet.ports(), Some((1000, 53)));
//! assert_eq!(packet.udp().map(|udp| udp.payload()), Some(&b"query"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A packet-in may contain only the beginning of a packet, and anyone can send any bytes. A part that is missing or
//! malformed is `None`; no input is an error and none panics.

pub mod dhcp;
pub mod lldp;

use std::net::{IpAddr, Ipv4Addr};

/// The crate behind [`PacketBuilder`] and the header types of this module.
pub use etherparse;
use etherparse::{ArpHardwareId, EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
pub use etherparse::{Icmpv4Slice, Icmpv6Slice, PacketBuilder, TcpSlice, UdpSlice};
use openflow::MacAddr;
use openflow::ethernet;
use openflow::ip::{Fragment, IpPacket, protocol};

use dhcp::Dhcp;
use lldp::Lldp;

/// The ports of DHCP over IPv4: server and client (RFC 2131 §4.1).
const DHCP_PORTS: [u16; 2] = [67, 68];

/// A packet from its Ethernet header on.
#[derive(Debug, Clone)]
pub struct Packet<'a> {
    /// Its destination.
    pub eth_dst: MacAddr,
    /// Its source.
    pub eth_src: MacAddr,
    /// The VLAN identifier of its outermost tag, if it has a tag.
    pub vlan: Option<u16>,
    /// The type of what is behind VLAN tags and SNAP.
    pub ethertype: u16,
    /// The bytes behind that type.
    pub payload: &'a [u8],
    ip: Option<IpPacket<'a>>,
    arp: Option<Arp>,
    transport: Option<TransportSlice<'a>>,
}

impl<'a> Packet<'a> {
    /// Reads a packet, or returns `None` if it is shorter than an Ethernet header.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let (eth_dst, rest) = frame.split_first_chunk()?;
        let (eth_src, behind) = rest.split_first_chunk()?;
        let layer = ethernet::packet(frame)?;
        let inner = LaxSlicedPacket::from_ether_type(EtherType(layer.ethertype), layer.payload);
        let arp = match &inner.net {
            Some(LaxNetSlice::Arp(arp)) => Arp::of(arp),
            _ => None,
        };
        let ip = IpPacket::in_layer(&layer);
        // A switch knows no ports of a later fragment; neither may the app, although the bytes look like a header.
        let is_first = ip.as_ref().is_some_and(|ip| ip.fragment == Fragment::Whole);
        Some(Self {
            eth_dst: MacAddr(*eth_dst),
            eth_src: MacAddr(*eth_src),
            vlan: vlan(behind),
            ethertype: layer.ethertype,
            payload: layer.payload,
            ip,
            arp,
            transport: inner.transport.filter(|_| is_first),
        })
    }

    /// Returns the source address of IPv4 or IPv6.
    pub fn src_ip(&self) -> Option<IpAddr> {
        self.ip.map(|ip| ip.src)
    }

    /// Returns the destination address of IPv4 or IPv6.
    pub fn dst_ip(&self) -> Option<IpAddr> {
        self.ip.map(|ip| ip.dst)
    }

    /// Returns the packet of IPv4 or IPv6.
    pub fn ip(&self) -> Option<&IpPacket<'a>> {
        self.ip.as_ref()
    }

    /// Returns the protocol behind the headers of IP, as [`openflow::ip::protocol::TCP`].
    pub fn protocol(&self) -> Option<u8> {
        self.ip.and_then(|ip| ip.protocol)
    }

    /// Returns the source and destination port of TCP, UDP or SCTP.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let has_ports = matches!(self.protocol()?, protocol::TCP | protocol::UDP | protocol::SCTP);
        self.ip.filter(|_| has_ports)?.ports()
    }

    /// Returns the ARP packet, if it is one for Ethernet and IPv4.
    pub fn arp(&self) -> Option<Arp> {
        self.arp
    }

    /// Returns the TCP segment, if its header is whole and the packet no fragment.
    pub fn tcp(&self) -> Option<&TcpSlice<'a>> {
        match &self.transport {
            Some(TransportSlice::Tcp(tcp)) => Some(tcp),
            _ => None,
        }
    }

    /// Returns the UDP datagram, if its header is whole and the packet no fragment.
    pub fn udp(&self) -> Option<&UdpSlice<'a>> {
        match &self.transport {
            Some(TransportSlice::Udp(udp)) => Some(udp),
            _ => None,
        }
    }

    /// Returns the ICMP message of IPv4, if its header is whole and the packet no fragment.
    pub fn icmpv4(&self) -> Option<&Icmpv4Slice<'a>> {
        match &self.transport {
            Some(TransportSlice::Icmpv4(icmp)) => Some(icmp),
            _ => None,
        }
    }

    /// Returns the ICMP message of IPv6, if its header is whole and the packet no fragment.
    pub fn icmpv6(&self) -> Option<&Icmpv6Slice<'a>> {
        match &self.transport {
            Some(TransportSlice::Icmpv6(icmp)) => Some(icmp),
            _ => None,
        }
    }

    /// Returns the LLDP data unit, if the packet has one.
    pub fn lldp(&self) -> Option<Lldp<'a>> {
        (self.ethertype == ethernet::LLDP).then(|| Lldp::decode(self.payload)).flatten()
    }

    /// Returns the DHCP message, if this is UDP over IPv4 between a server's and a client's port.
    pub fn dhcp(&self) -> Option<Dhcp<'a>> {
        let udp = self.udp()?;
        let is_dhcp = [udp.source_port(), udp.destination_port()]
            .iter()
            .all(|port| DHCP_PORTS.contains(port));
        (is_dhcp && self.src_ip()?.is_ipv4()).then(|| Dhcp::decode(udp.payload())).flatten()
    }
}

/// Reads the VLAN identifier behind the two addresses.
fn vlan(behind_addresses: &[u8]) -> Option<u16> {
    let [tpid_high, tpid_low, high, low] = *behind_addresses.first_chunk()?;
    ethernet::is_vlan_tag(u16::from_be_bytes([tpid_high, tpid_low]))
        .then(|| u16::from_be_bytes([high, low]) & 0x0fff)
}

/// An ARP packet for Ethernet and IPv4 (RFC 826).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// 1 for a request, 2 for a reply.
    pub operation: u16,
    /// Address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Address of the target; zeros in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// `operation` of a request.
    pub const REQUEST: u16 = 1;
    /// `operation` of a reply.
    pub const REPLY: u16 = 2;

    fn of(arp: &etherparse::ArpPacketSlice<'_>) -> Option<Self> {
        let is_ethernet = arp.hw_addr_type() == ArpHardwareId::ETHERNET;
        let arp = arp.to_packet().try_eth_ipv4().ok().filter(|_| is_ethernet)?;
        Some(Self {
            operation: arp.operation.0,
            sender_mac: MacAddr(arp.sender_mac),
            sender_ip: arp.sender_ipv4.into(),
            target_mac: MacAddr(arp.target_mac),
            target_ip: arp.target_ipv4.into(),
        })
    }

    /// Builds the frame with which the owner of `mac` answers this request.
    pub fn reply(&self, mac: MacAddr) -> Vec<u8> {
        let reply = Self {
            operation: Self::REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        };
        reply.frame(self.sender_mac)
    }

    /// Builds the frame from the sender to `eth_dst`.
    pub fn frame(&self, eth_dst: MacAddr) -> Vec<u8> {
        let head = [&eth_dst.0[..], &self.sender_mac.0, &ethernet::ARP.to_be_bytes()];
        let fixed = [&[0, 1, 8, 0, 6, 4][..], &self.operation.to_be_bytes()]; // Ethernet and IPv4, with their sizes
        let sender = [&self.sender_mac.0[..], &self.sender_ip.octets()];
        let target = [&self.target_mac.0[..], &self.target_ip.octets()];
        [head.concat(), fixed.concat(), sender.concat(), target.concat()].concat()
    }
}

#[cfg(test)]
mod tests;

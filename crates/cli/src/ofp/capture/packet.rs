//! Finds the TCP segment in a captured packet.
//!
//! | link type | bytes before IP |
//! | --- | --- |
//! | Ethernet | Ethernet, VLAN tags, SNAP |
//! | Linux cooked 1 and 2 (`tcpdump -i any`) | 16 or 20 bytes; the ethertype is at 14 or 0 |
//! | null, loop (BSD loopback) | 4 bytes of address family |
//! | raw, IPv4, IPv6 | none |
//!
//! Fragments of IP packets are counted and not reassembled, because TCP avoids them.

use std::net::SocketAddr;

use openflow::ethernet::{self, Layer};
use openflow::ip::{Fragment, IpPacket, TcpSegment, protocol};
use pcap_parser::Linktype;

/// A TCP segment, as far as it was captured.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    /// The next byte that the sender expects from the other direction.
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) bytes: &'a [u8],
}

/// The content of a packet.
#[derive(Debug)]
pub(super) enum Packet<'a> {
    Tcp(Segment<'a>),
    /// A fragment of an IP packet.
    Fragment,
    /// Something else, or a packet that is cut off before its content.
    Other,
}

/// Whether [`look`] reads packets of this link type.
pub(super) fn is_known(link: Linktype) -> bool {
    matches!(
        link,
        Linktype::ETHERNET
            | Linktype::LINUX_SLL
            | Linktype::LINUX_SLL2
            | Linktype::NULL
            | Linktype::LOOP
            | Linktype::RAW
            | Linktype::IPV4
            | Linktype::IPV6
    )
}

/// Looks for a TCP segment in a packet.
pub(super) fn look(link: Linktype, packet: &[u8]) -> Packet<'_> {
    let ip = match link {
        Linktype::ETHERNET => ethernet::packet(packet).and_then(|layer| IpPacket::in_layer(&layer)),
        Linktype::LINUX_SLL => cooked(packet, 14, 16),
        Linktype::LINUX_SLL2 => cooked(packet, 0, 20),
        Linktype::NULL | Linktype::LOOP => packet.get(4..).and_then(either_version),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => either_version(packet),
        _ => None,
    };
    ip.map_or(Packet::Other, |ip| segment(&ip))
}

fn cooked(packet: &[u8], ethertype_at: usize, size: usize) -> Option<IpPacket<'_>> {
    let ethertype = packet.get(ethertype_at..)?.first_chunk()?;
    let ethertype = u16::from_be_bytes(*ethertype);
    let layer = Layer { ethertype, payload: packet.get(size..)? };
    IpPacket::in_layer(&layer.innermost())
}

/// Each version checks the packet's version number, so at most one of them fits.
fn either_version(packet: &[u8]) -> Option<IpPacket<'_>> {
    IpPacket::read_v4(packet).or_else(|| IpPacket::read_v6(packet))
}

fn segment<'a>(ip: &IpPacket<'a>) -> Packet<'a> {
    if ip.fragment != Fragment::Whole {
        return Packet::Fragment;
    }
    if ip.protocol != Some(protocol::TCP) {
        return Packet::Other;
    }
    // The padding of a short Ethernet frame is no part of the stream.
    let Some(tcp) = TcpSegment::read(ip.unpadded_payload()) else { return Packet::Other };
    Packet::Tcp(Segment {
        from: SocketAddr::new(ip.src, tcp.src_port),
        to: SocketAddr::new(ip.dst, tcp.dst_port),
        seq: tcp.seq,
        ack: tcp.ack,
        syn: tcp.syn,
        bytes: tcp.payload,
    })
}

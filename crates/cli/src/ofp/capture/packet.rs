//! From a captured packet to the TCP segment in it.
//!
//! | link type | what comes before IP |
//! | --- | --- |
//! | Ethernet | Ethernet, VLAN tags |
//! | Linux cooked 1 and 2 (`tcpdump -i any`) | 16 or 20 bytes; the ethertype is at 14 or 0 |
//! | null, loop (BSD loopback) | 4 bytes of address family |
//! | raw, IPv4, IPv6 | nothing |
//!
//! IP packets in fragments are not put together: TCP avoids them. They are counted.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::Linktype;

/// A TCP segment, as far as it was captured.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    /// What the sender has received of the other direction.
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) bytes: &'a [u8],
}

/// What a packet holds.
#[derive(Debug)]
pub(super) enum Packet<'a> {
    Tcp(Segment<'a>),
    /// A piece of an IP packet.
    Fragment,
    /// Something else, or cut before it says.
    Other,
}

/// Whether packets of this link type can be looked into.
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
    let sliced = match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(packet).ok(),
        Linktype::LINUX_SLL => cooked(packet, 14, 16),
        Linktype::LINUX_SLL2 => cooked(packet, 0, 20),
        Linktype::NULL | Linktype::LOOP => from_ip(packet.get(4..)),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => from_ip(Some(packet)),
        _ => None,
    };
    sliced.map_or(Packet::Other, |sliced| segment(&sliced))
}

fn cooked(packet: &[u8], ethertype_at: usize, size: usize) -> Option<LaxSlicedPacket<'_>> {
    let ethertype = packet.get(ethertype_at..ethertype_at + 2)?;
    let ethertype = EtherType(u16::from_be_bytes([ethertype[0], ethertype[1]]));
    Some(LaxSlicedPacket::from_ether_type(ethertype, packet.get(size..)?))
}

fn from_ip(packet: Option<&[u8]>) -> Option<LaxSlicedPacket<'_>> {
    LaxSlicedPacket::from_ip(packet?).ok()
}

fn segment<'a>(packet: &LaxSlicedPacket<'a>) -> Packet<'a> {
    let (from, to, fragmented): (IpAddr, IpAddr, bool) = match &packet.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let addresses = (header.source_addr(), header.destination_addr());
            (addresses.0.into(), addresses.1.into(), ip.is_payload_fragmented())
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let addresses = (header.source_addr(), header.destination_addr());
            (addresses.0.into(), addresses.1.into(), ip.is_payload_fragmented())
        }
        _ => return Packet::Other,
    };
    if fragmented {
        return Packet::Fragment;
    }
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return Packet::Other };
    Packet::Tcp(Segment {
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        bytes: tcp.payload(),
    })
}

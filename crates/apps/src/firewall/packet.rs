//! Reads the fields of a packet that rules can match, in the same way as a switch: behind VLAN tags, SNAP and the
//! extension headers of IPv6.
//!
//! A field is `None` if the packet is too short for it, or is a later fragment of a longer packet. No rule about that
//! field matches then, neither here nor in a switch.

use std::net::IpAddr;

use rosemary_sdk::MacAddr;
use rosemary_sdk::openflow::ethernet;
use rosemary_sdk::openflow::ip::IpPacket;

/// A packet's addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) eth_src: MacAddr,
    pub(super) eth_dst: MacAddr,
    /// The type of what is behind VLAN tags and SNAP.
    pub(super) ethertype: u16,
    pub(super) from: Option<IpAddr>,
    pub(super) to: Option<IpAddr>,
    /// The transport protocol of an IP packet.
    pub(super) protocol: Option<u8>,
    pub(super) from_port: Option<u16>,
    pub(super) to_port: Option<u16>,
}

impl Packet {
    /// Reads a frame from its Ethernet header on; `None` if the frame is shorter than that header.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let (eth_dst, rest) = frame.split_first_chunk()?;
        let (eth_src, _) = rest.split_first_chunk()?;
        let layer = ethernet::packet(frame)?;
        let mut packet = Self {
            eth_src: MacAddr(*eth_src),
            eth_dst: MacAddr(*eth_dst),
            ethertype: layer.ethertype,
            from: None,
            to: None,
            protocol: None,
            from_port: None,
            to_port: None,
        };
        if let Some(ip) = IpPacket::in_layer(&layer) {
            (packet.from, packet.to, packet.protocol) = (Some(ip.src), Some(ip.dst), ip.protocol);
            if let Some((from, to)) = ip.ports() {
                (packet.from_port, packet.to_port) = (Some(from), Some(to));
            }
        }
        Some(packet)
    }

    /// The packet of the opposite direction.
    pub(super) fn back(&self) -> Self {
        Self {
            eth_src: self.eth_dst,
            eth_dst: self.eth_src,
            from: self.to,
            to: self.from,
            from_port: self.to_port,
            to_port: self.from_port,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::openflow::ethernet::IPV4;
    use rosemary_sdk::openflow::ip::protocol::FRAGMENT;

    use super::*;

    fn frame(ethertype: &[u8], rest: &[&[u8]]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], ethertype, &rest.concat()].concat()
    }

    /// An IPv4 header with this protocol, fragment offset and number of words.
    fn v4(protocol: u8, offset: u8, words: u8) -> Vec<u8> {
        let mut head = vec![0; usize::from(words) * 4];
        (head[0], head[7], head[9]) = (0x40 | words, offset, protocol);
        head[12..16].copy_from_slice(&[10, 0, 0, 1]);
        head[16..20].copy_from_slice(&[10, 0, 0, 2]);
        head
    }

    fn v6(next: u8) -> Vec<u8> {
        let mut head = vec![0; 40];
        (head[0], head[6], head[23], head[39]) = (0x60, next, 1, 2);
        head
    }

    const PORTS: [u8; 4] = [0x12, 0x34, 0, 80];

    #[test]
    fn fields_are_read_behind_tags_and_options() {
        let snap = [0x81, 0, 0, 7, 0, 60, 0xaa, 0xaa, 3, 0, 0, 0];
        for tags in [&[][..], &snap, &snap[4..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]] {
            for words in [5, 15] {
                let ethertype = [tags, &[8, 0]].concat();
                let packet = Packet::of(&frame(&ethertype, &[&v4(6, 0, words), &PORTS])).unwrap();
                assert_eq!((packet.ethertype, packet.protocol), (IPV4, Some(6)));
                assert_eq!(packet.from, Some("10.0.0.1".parse().unwrap()));
                assert_eq!(packet.to, Some("10.0.0.2".parse().unwrap()));
                assert_eq!((packet.from_port, packet.to_port), (Some(0x1234), Some(80)));
                assert_eq!(packet.back().back(), packet);
                assert_eq!(packet.back().from_port, Some(80));
            }
        }
        let options: Vec<u8> = [&[60, 0][..], &[0; 6], &[17, 1], &[0; 14]].concat();
        let packet = Packet::of(&frame(&[0x86, 0xdd], &[&v6(0), &options, &PORTS])).unwrap();
        assert_eq!((packet.protocol, packet.to_port), (Some(17), Some(80)));
        assert_eq!(packet.from, Some("::1".parse().unwrap()));
    }

    #[test]
    fn later_fragments_have_a_protocol_and_no_ports() {
        let packet = Packet::of(&frame(&[8, 0], &[&v4(6, 1, 5), &PORTS])).unwrap();
        assert_eq!((packet.protocol, packet.to_port), (Some(6), None));
        for (offset, port) in [(0, Some(80)), (8, None)] {
            let fragment = [6, 0, 0, offset, 0, 0, 0, 1];
            let packet =
                Packet::of(&frame(&[0x86, 0xdd], &[&v6(FRAGMENT), &fragment, &PORTS])).unwrap();
            assert_eq!((packet.protocol, packet.to_port), (Some(6), port));
        }
    }

    #[test]
    fn packet_cut_anywhere_keeps_the_fields_before_the_cut() {
        let whole = frame(&[0x86, 0xdd], &[&v6(0), &[6, 0, 0, 0, 0, 0, 0, 0], &PORTS]);
        let mut known = 0;
        for end in 0..=whole.len() {
            let packet = Packet::of(&whole[..end]);
            assert_eq!(packet.is_some(), end >= 14);
            let Some(packet) = packet else { continue };
            let now = [packet.from.is_some(), packet.protocol.is_some(), packet.to_port.is_some()];
            let now = now.into_iter().filter(|it| *it).count();
            assert!(now >= known, "at {end}");
            known = now;
        }
        assert_eq!(known, 3);
        let endless = frame(&[0x86, 0xdd], &[&v6(0), &[0; 800]]);
        assert_eq!(Packet::of(&endless).unwrap().protocol, None);
        let short = frame(&[8, 0], &[&v4(6, 0, 5)[..], &PORTS]);
        let mut lies = short.clone();
        lies[14] = 0x41; // a header shorter than a header
        assert_eq!(Packet::of(&lies).unwrap().to_port, None);
        lies[14] = 0x65;
        assert_eq!(Packet::of(&lies).unwrap().from, None);
    }
}

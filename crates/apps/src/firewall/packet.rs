//! Reads the parts of a packet that rules match, as a switch reads them: behind VLAN tags and SNAP, and
//! behind IPv6 extension headers.
//!
//! A missing part is `None`, and no rule about it matches: the packet is too short, or a later fragment of a longer one.
//! A switch does the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rosemary_sdk::MacAddr;
use rosemary_sdk::openflow::ethernet;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;

/// Most IPv6 extension headers that are skipped.
const MOST_HEADERS: usize = 8;

// Types of extension headers: hop-by-hop options, routing, destination options; fragment (RFC 8200 §4).
const OPTIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;

/// A packet's addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) eth_src: MacAddr,
    pub(super) eth_dst: MacAddr,
    /// Behind VLAN tags and SNAP.
    pub(super) ethertype: u16,
    pub(super) from: Option<IpAddr>,
    pub(super) to: Option<IpAddr>,
    /// The protocol above IP.
    pub(super) protocol: Option<u8>,
    pub(super) from_port: Option<u16>,
    pub(super) to_port: Option<u16>,
}

impl Packet {
    /// Reads a frame from its Ethernet header on; `None` if it is too short for one.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let (eth_dst, rest) = frame.split_first_chunk()?;
        let (eth_src, _) = rest.split_first_chunk()?;
        let ethernet::Layer { ethertype, payload } = ethernet::packet(frame)?;
        let mut packet = Self {
            eth_src: MacAddr(*eth_src),
            eth_dst: MacAddr(*eth_dst),
            ethertype,
            from: None,
            to: None,
            protocol: None,
            from_port: None,
            to_port: None,
        };
        // `None` ends the packet; the parts read so far remain.
        let _ = match ethertype {
            IPV4 => packet.read_v4(payload),
            IPV6 => packet.read_v6(payload),
            _ => None,
        };
        Some(packet)
    }

    /// Returns the packet with source and destination exchanged.
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

    fn read_v4(&mut self, ip: &[u8]) -> Option<()> {
        let head: &[u8; 20] = ip.first_chunk()?;
        if head[0] >> 4 != 4 {
            return None;
        }
        let address = |at: usize| {
            IpAddr::V4(Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]))
        };
        (self.from, self.to, self.protocol) = (Some(address(12)), Some(address(16)), Some(head[9]));
        let is_first = u16::from_be_bytes([head[6], head[7]]) << 3 == 0; // behind the flags
        let size = usize::from(head[0] & 0x0f) * 4;
        if is_first && size >= head.len() {
            self.read_ports(ip.get(size..)?)?;
        }
        Some(())
    }

    fn read_v6(&mut self, ip: &[u8]) -> Option<()> {
        let (head, mut rest) = ip.split_first_chunk::<40>()?;
        if head[0] >> 4 != 6 {
            return None;
        }
        let address = |bytes: &[u8]| {
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        };
        (self.from, self.to) = (address(&head[8..24]), address(&head[24..40]));
        let mut next = head[6];
        for _ in 0..MOST_HEADERS {
            if OPTIONS.contains(&next) {
                let size = 8 * (1 + usize::from(*rest.get(1)?));
                (next, rest) = (*rest.first()?, rest.get(size..)?);
            } else if next == FRAGMENT {
                let (header, behind) = rest.split_first_chunk::<8>()?;
                (next, rest) = (header[0], behind);
                if u16::from_be_bytes([header[2], header[3]]) >> 3 != 0 {
                    self.protocol = Some(next);
                    return Some(());
                }
            } else {
                self.protocol = Some(next);
                return self.read_ports(rest);
            }
        }
        None
    }

    fn read_ports(&mut self, segment: &[u8]) -> Option<()> {
        let (from, rest) = u16_first(segment)?;
        let (to, _) = u16_first(rest)?;
        (self.from_port, self.to_port) = (Some(from), Some(to));
        Some(())
    }
}

fn u16_first(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*first), rest))
}

#[cfg(test)]
mod tests {
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
    fn addresses_protocol_and_ports_are_read_behind_tags_and_options() {
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
    fn packet_cut_anywhere_has_what_is_there_and_chains_of_headers_end() {
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

//! Reads the headers of IPv4, IPv6 and TCP.
//!
//! | header | source |
//! | --- | --- |
//! | IPv4 | RFC 791 §3.1 |
//! | IPv6 and its extension headers | RFC 8200 §3 and §4 |
//! | TCP | RFC 9293 §3.1 |
//!
//! A packet-in or a capture may contain only the beginning of a packet. The parts behind its end are `None` or
//! empty, and no input is an error.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ethernet;

/// Protocol numbers of the IANA registry "Assigned Internet Protocol Numbers".
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// Extension header of IPv6: options for every hop.
    pub const HOP_BY_HOP: u8 = 0;
    /// Extension header of IPv6: routing.
    pub const ROUTING: u8 = 43;
    /// Extension header of IPv6: fragment.
    pub const FRAGMENT: u8 = 44;
    /// Extension header of IPv6: options for the destination.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

/// Mask of the fragment offset in the flags and offset of IPv4.
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// Flag of IPv4: this is not the last fragment.
const MORE_FRAGMENTS: u16 = 0x2000;

/// Most extension headers of IPv6 that are skipped, so that a chain of empty ones costs little.
const MAX_EXTENSIONS: usize = 8;

/// An IPv4 or IPv6 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// The source address.
    pub src: IpAddr,
    /// The destination address.
    pub dst: IpAddr,
    /// DSCP in the upper 6 bits and ECN in the lower 2.
    pub traffic_class: u8,
    /// The protocol of the payload; `None` if the packet is cut off before it, or has more than 8 extension headers.
    pub protocol: Option<u8>,
    /// Whether the packet is a part of a longer one.
    pub fragment: Fragment,
    /// The bytes behind the last header, and the padding of a short Ethernet frame, if any. Empty for a later
    /// fragment, whose bytes begin anywhere in the transport's segment.
    pub payload: &'a [u8],
    /// The payload's size according to the header; `None` if it states none, as packets do whose segmentation is
    /// left to the network card.
    payload_size: Option<usize>,
}

/// Which part of a packet a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fragment {
    /// The packet is no fragment.
    Whole,
    /// The first part, with the transport's header.
    First,
    /// Another part.
    Later,
}

impl Fragment {
    #[inline]
    fn new(is_at_start: bool, is_followed: bool) -> Self {
        match (is_at_start, is_followed) {
            (false, _) => Self::Later,
            (true, true) => Self::First,
            (true, false) => Self::Whole,
        }
    }
}

impl<'a> IpPacket<'a> {
    /// Reads the packet of an [`ethernet::Layer`]; `None` if it is neither IPv4 nor IPv6, or shorter than its header.
    #[inline]
    pub fn in_layer(layer: &ethernet::Layer<'a>) -> Option<Self> {
        match layer.ethertype {
            ethernet::IPV4 => Self::read_v4(layer.payload),
            ethernet::IPV6 => Self::read_v6(layer.payload),
            _ => None,
        }
    }

    /// Reads an IPv4 packet. One whose header is shorter than a header, or cut off in its options, has no payload.
    #[inline]
    pub fn read_v4(packet: &'a [u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        #[rustfmt::skip]
        let &[
            version_and_words, traffic_class, size_high, size_low,
            _, _, offset_high, offset_low,
            _, protocol, _, _,
            s0, s1, s2, s3,
            d0, d1, d2, d3,
        ] = header;
        if version_and_words >> 4 != 4 {
            return None;
        }
        let flags_and_offset = u16::from_be_bytes([offset_high, offset_low]);
        let fragment = Fragment::new(
            flags_and_offset & FRAGMENT_OFFSET == 0,
            flags_and_offset & MORE_FRAGMENTS != 0,
        );
        let header_size = usize::from(version_and_words & 0x0f) * 4;
        let has_payload = fragment != Fragment::Later && header_size >= header.len();
        let payload = if has_payload { packet.get(header_size..) } else { None };
        let size = usize::from(u16::from_be_bytes([size_high, size_low]));
        Some(Self {
            src: Ipv4Addr::new(s0, s1, s2, s3).into(),
            dst: Ipv4Addr::new(d0, d1, d2, d3).into(),
            traffic_class,
            protocol: Some(protocol),
            fragment,
            payload: payload.unwrap_or_default(),
            payload_size: size.checked_sub(header_size),
        })
    }

    /// Reads an IPv6 packet and skips its extension headers: options, routing and fragment.
    #[inline]
    pub fn read_v6(packet: &'a [u8]) -> Option<Self> {
        let (start, rest) = packet.split_first_chunk::<8>()?;
        let (src, rest) = rest.split_first_chunk::<16>()?;
        let (dst, behind) = rest.split_first_chunk::<16>()?;
        let &[version_and_class, class_and_label, _, _, size_high, size_low, next, _] = start;
        if version_and_class >> 4 != 6 {
            return None;
        }
        let mut packet = Self {
            src: Ipv6Addr::from(*src).into(),
            dst: Ipv6Addr::from(*dst).into(),
            traffic_class: version_and_class << 4 | class_and_label >> 4,
            protocol: None,
            fragment: Fragment::Whole,
            payload: &[],
            payload_size: None,
        };
        // A packet that ends in its extension headers has neither protocol nor payload.
        if packet.skip_extensions(next, behind).is_some() && packet.fragment != Fragment::Later {
            let skipped = behind.len() - packet.payload.len();
            packet.payload_size = match usize::from(u16::from_be_bytes([size_high, size_low])) {
                0 => None,
                // A size that ends inside the extension headers leaves no payload.
                size => Some(size.saturating_sub(skipped)),
            };
        }
        Some(packet)
    }

    /// Finds the protocol and the payload behind the extension headers in `rest`. `next` is the type of the first one.
    #[inline]
    fn skip_extensions(&mut self, mut next: u8, mut rest: &'a [u8]) -> Option<()> {
        for _ in 0..MAX_EXTENSIONS {
            match next {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    (next, rest) = split_extension(rest)?;
                }
                protocol::FRAGMENT => {
                    let (&[then, _, high, low, ..], behind) = rest.split_first_chunk::<8>()?;
                    (next, rest) = (then, behind);
                    let offset_and_flag = u16::from_be_bytes([high, low]);
                    let fragment =
                        Fragment::new(offset_and_flag >> 3 == 0, offset_and_flag & 1 != 0);
                    // A second fragment header does not make a fragment whole again.
                    self.fragment = self.fragment.max(fragment);
                    if self.fragment == Fragment::Later {
                        self.protocol = Some(next);
                        return Some(());
                    }
                }
                found => {
                    (self.protocol, self.payload) = (Some(found), rest);
                    return Some(());
                }
            }
        }
        None
    }

    /// The payload without the padding of a short Ethernet frame.
    pub fn unpadded_payload(&self) -> &'a [u8] {
        let size = self.payload_size.unwrap_or(usize::MAX);
        self.payload.get(..size).unwrap_or(self.payload)
    }

    /// Source and destination port of a packet whose transport is TCP, UDP or SCTP: the first 4 bytes of its payload.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let &[s0, s1, d0, d1] = self.payload.first_chunk()?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }
}

/// Splits an extension header of IPv6 with options or routing off: the number of the next header, and its bytes.
#[inline]
pub fn split_extension(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let &[next, words] = bytes.first_chunk()?;
    Some((next, bytes.get(8 + 8 * usize::from(words)..)?))
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    /// The source port.
    pub src_port: u16,
    /// The destination port.
    pub dst_port: u16,
    /// The sequence number of the payload's first byte, or of the SYN.
    pub seq: u32,
    /// The next sequence number that the sender expects from its peer, if the ACK flag is set.
    pub ack: Option<u32>,
    /// Whether the SYN flag is set.
    pub syn: bool,
    /// The bytes behind header and options.
    pub payload: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    /// Reads a segment; `None` if it ends before its payload, or its header is shorter than a header.
    pub fn read(segment: &'a [u8]) -> Option<Self> {
        let header: &[u8; 20] = segment.first_chunk()?;
        #[rustfmt::skip]
        let &[
            p0, p1, p2, p3,
            s0, s1, s2, s3,
            a0, a1, a2, a3,
            words, flags, _, _,
            _, _, _, _,
        ] = header;
        let size = usize::from(words >> 4) * 4;
        if size < header.len() {
            return None;
        }
        Some(Self {
            src_port: u16::from_be_bytes([p0, p1]),
            dst_port: u16::from_be_bytes([p2, p3]),
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            ack: (flags & 0x10 != 0).then_some(u32::from_be_bytes([a0, a1, a2, a3])),
            syn: flags & 0x02 != 0,
            payload: segment.get(size..)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header for `payload` bytes, with these flags, fragment offset and number of words.
    fn v4(flags_and_offset: u16, words: u8, payload: u16) -> Vec<u8> {
        let mut header = vec![0; usize::from(words) * 4];
        (header[0], header[1], header[9]) = (0x40 | words, 0xb9, protocol::TCP);
        let size = u16::from(words) * 4 + payload;
        header[2..4].copy_from_slice(&size.to_be_bytes());
        header[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
        header[12..16].copy_from_slice(&[10, 0, 0, 1]);
        header[16..20].copy_from_slice(&[10, 0, 0, 2]);
        header
    }

    /// An IPv6 header for `payload` bytes that begin with a header of the type `next`.
    fn v6(next: u8, payload: u16) -> Vec<u8> {
        let mut header = vec![0; 40];
        (header[0], header[1], header[6], header[23], header[39]) = (0x6b, 0x90, next, 1, 2);
        header[4..6].copy_from_slice(&payload.to_be_bytes());
        header
    }

    const SEGMENT: [u8; 24] = [
        0x12, 0x34, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x12, 0, 0, 0, 0, 0, 0, b'd', b'a', b't',
        b'a',
    ];

    #[test]
    fn headers_are_read_behind_options_and_extensions() {
        for words in [5, 15] {
            let bytes = [v4(0x4000, words, 24), SEGMENT.to_vec()].concat();
            let packet = IpPacket::read_v4(&bytes).unwrap();
            assert_eq!((packet.src, packet.dst), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
            assert_eq!((packet.traffic_class, packet.fragment), (0xb9, Fragment::Whole));
            assert_eq!(
                (packet.protocol, packet.ports()),
                (Some(protocol::TCP), Some((0x1234, 80)))
            );
        }
        let extensions =
            [[60, 0, 0, 0, 0, 0, 0, 0], [44, 0, 0, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 9]];
        let bytes = [v6(protocol::HOP_BY_HOP, 48), extensions.concat(), SEGMENT.to_vec()].concat();
        let packet = IpPacket::read_v6(&bytes).unwrap();
        assert_eq!((packet.src, packet.traffic_class), ("::1".parse::<IpAddr>().unwrap(), 0xb9));
        assert_eq!((packet.protocol, packet.payload), (Some(protocol::TCP), &SEGMENT[..]));
        assert_eq!(packet.fragment, Fragment::Whole, "a fragment header alone makes no fragment");
    }

    #[test]
    fn padding_of_a_frame_is_no_payload() {
        let padded = [&SEGMENT[..], &[0; 6]].concat();
        let (four, six) = ([v4(0, 5, 24), padded.clone()].concat(), [v6(6, 24), padded].concat());
        for packet in [IpPacket::read_v4(&four).unwrap(), IpPacket::read_v6(&six).unwrap()] {
            assert_eq!(packet.payload.len(), 30);
            assert_eq!(packet.unpadded_payload(), SEGMENT);
        }
        let with_options =
            [v6(0, 32), vec![6, 0, 0, 0, 0, 0, 0, 0], SEGMENT.to_vec(), vec![0; 6]].concat();
        assert_eq!(IpPacket::read_v6(&with_options).unwrap().unpadded_payload(), SEGMENT);
    }

    #[test]
    fn payload_without_valid_size_is_the_rest() {
        let mut unstated = [v4(0, 5, 0), SEGMENT.to_vec()].concat();
        unstated[2..4].fill(0);
        assert_eq!(IpPacket::read_v4(&unstated).unwrap().unpadded_payload(), SEGMENT);
        for size in [0, 1_000] {
            let packet = [v6(6, size), SEGMENT.to_vec()].concat();
            assert_eq!(IpPacket::read_v6(&packet).unwrap().unpadded_payload(), SEGMENT);
        }
    }

    #[test]
    fn later_fragments_have_a_protocol_and_no_ports() {
        let fragments =
            [(0x2000, 1, Fragment::First), (1, 8, Fragment::Later), (0x2001, 9, Fragment::Later)];
        for (in_v4, in_v6, expected) in fragments {
            let four = [v4(in_v4, 5, 24), SEGMENT.to_vec()].concat();
            let six =
                [v6(protocol::FRAGMENT, 32), vec![6, 0, 0, in_v6, 0, 0, 0, 0], SEGMENT.to_vec()]
                    .concat();
            for packet in [IpPacket::read_v4(&four).unwrap(), IpPacket::read_v6(&six).unwrap()] {
                assert_eq!((packet.fragment, packet.protocol), (expected, Some(protocol::TCP)));
                assert_eq!(packet.ports().is_some(), expected == Fragment::First);
            }
        }
    }

    #[test]
    fn second_fragment_header_makes_no_fragment_whole() {
        let headers = [[protocol::FRAGMENT, 0, 0, 1, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0]];
        let bytes = [v6(protocol::FRAGMENT, 40), headers.concat(), SEGMENT.to_vec()].concat();
        assert_eq!(IpPacket::read_v6(&bytes).unwrap().fragment, Fragment::First);
    }

    #[test]
    fn size_that_ends_in_extension_headers_leaves_no_payload() {
        let bytes = [v6(0, 3), vec![6, 0, 0, 0, 0, 0, 0, 0], SEGMENT.to_vec()].concat();
        let packet = IpPacket::read_v6(&bytes).unwrap();
        assert_eq!((packet.ports(), packet.unpadded_payload()), (Some((0x1234, 80)), &[][..]));
    }

    #[test]
    fn packet_cut_anywhere_has_the_parts_before_the_cut() {
        let whole = [v6(0, 32), vec![6, 0, 0, 0, 0, 0, 0, 0], SEGMENT.to_vec()].concat();
        for end in 0..=whole.len() {
            let packet = IpPacket::read_v6(&whole[..end]);
            assert_eq!(packet.is_some(), end >= 40, "{end}");
            assert_eq!(packet.and_then(|it| it.protocol).is_some(), end >= 48, "{end}");
            assert_eq!(packet.and_then(|it| it.ports()).is_some(), end >= 52, "{end}");
            let segment = packet.and_then(|it| TcpSegment::read(it.payload));
            assert_eq!(segment.is_some(), end >= 68, "{end}");
        }
        let whole = [v4(0, 6, 24), SEGMENT.to_vec()].concat();
        for end in 0..=whole.len() {
            let packet = IpPacket::read_v4(&whole[..end]);
            assert_eq!(packet.is_some(), end >= 20, "{end}");
            assert_eq!(packet.and_then(|it| it.ports()).is_some(), end >= 28, "{end}");
        }
    }

    #[test]
    fn impossible_headers_have_no_payload() {
        for (first, is_packet) in [(0x44, true), (0x4f, true), (0x65, false), (0x05, false)] {
            let mut bytes = [v4(0, 5, 24), SEGMENT.to_vec()].concat();
            bytes[0] = first;
            let packet = IpPacket::read_v4(&bytes);
            assert_eq!(packet.is_some(), is_packet, "{first:#x}");
            assert_eq!(packet.and_then(|it| it.ports()), None, "{first:#x}");
        }
        let endless = [v6(0, 800), vec![0; 800]].concat();
        let packet = IpPacket::read_v6(&endless).unwrap();
        assert_eq!((packet.protocol, packet.payload), (None, &[][..]));
    }

    #[test]
    fn segment_has_its_flags_and_the_bytes_behind_its_options() {
        let segment = TcpSegment::read(&SEGMENT).unwrap();
        assert_eq!((segment.src_port, segment.dst_port), (0x1234, 80));
        assert_eq!((segment.seq, segment.ack, segment.syn), (0x0102_0304, Some(0x0506_0708), true));
        assert_eq!(segment.payload, b"data");
        let mut other = SEGMENT;
        (other[12], other[13]) = (0x60, 0x08);
        let segment = TcpSegment::read(&other).unwrap();
        assert_eq!((segment.ack, segment.syn, segment.payload), (None, false, &[][..]));
        other[12] = 0x40;
        assert_eq!(TcpSegment::read(&other), None);
    }
}

//! Recognises packets that a network cannot do without.

use openflow::ethernet::{self, ARP, IPV6, LLDP, Layer};
use openflow::ip::protocol::{HOP_BY_HOP, ICMPV6};
use openflow::ip::split_extension;

/// The types of ICMPv6 that are neighbour discovery (RFC 4861 §4).
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// Whether a network cannot do without the packet: LLDP, ARP and IPv6 neighbour discovery. The kernel drops these
/// packets last, see `docs/packet-in.md`.
pub(crate) fn is_vital(frame: &[u8]) -> bool {
    match ethernet::packet(frame) {
        Some(Layer { ethertype: ARP | LLDP, .. }) => true,
        Some(Layer { ethertype: IPV6, payload }) => {
            icmpv6_type(payload).is_some_and(|kind| NEIGHBOUR_DISCOVERY.contains(&kind))
        }
        _ => false,
    }
}

/// The type of the ICMPv6 message in an IPv6 packet, if it carries one.
///
/// Hosts may put hop-by-hop options before neighbour discovery, and no other extension header. An ICMPv6 message
/// behind another one is an ordinary packet, so this does not skip the whole chain.
fn icmpv6_type(packet: &[u8]) -> Option<u8> {
    let (mut next, mut rest) = (*packet.get(6)?, packet.get(40..)?);
    if next == HOP_BY_HOP {
        (next, rest) = split_extension(rest)?;
    }
    if next == ICMPV6 { rest.first().copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[6] = next;
        packet.extend(rest);
        packet
    }

    #[test]
    fn arp_lldp_and_neighbour_discovery_are_vital() {
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            for (ethertype, packet, vital) in [
                (ARP, vec![], true),
                (LLDP, vec![2], true),
                (0x0800, ipv6(ICMPV6, &[135]), false),
                (IPV6, ipv6(ICMPV6, &[132]), false),
                (IPV6, ipv6(ICMPV6, &[133]), true),
                (IPV6, ipv6(ICMPV6, &[137]), true),
                (IPV6, ipv6(ICMPV6, &[138]), false),
                (IPV6, ipv6(17, &[135]), false),
                (IPV6, ipv6(HOP_BY_HOP, &[ICMPV6, 0, 0, 0, 0, 0, 0, 0, 135]), true),
                (IPV6, ipv6(HOP_BY_HOP, &[17, 0, 0, 0, 0, 0, 0, 0, 135]), false),
            ] {
                assert_eq!(is_vital(&frame(tags, ethertype, &packet)), vital, "{ethertype:#x}");
            }
        }
    }

    #[test]
    fn frame_cut_anywhere_is_no_panic() {
        let whole = frame(&[0x8100], IPV6, &ipv6(HOP_BY_HOP, &[ICMPV6, 1, 0, 0, 0, 0, 0, 0]));
        for end in 0..whole.len() {
            assert!(!is_vital(&whole[..end]), "{end}");
        }
    }
}

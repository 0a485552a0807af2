//! Answers requests for the Ethernet address of a host that the table of hosts knows: ARP (RFC 826) and IPv6 neighbour
//! solicitations (RFC 4861 §4.3).
//!
//! The app answers only broadcast and multicast requests of a host about another. Requests that look for duplicates of
//! the sender's own address go to all hosts: only the owner may answer them. So do solicitations for link-local
//! addresses, because a router's neighbours remember whether an answer came from a router, and the table does not know.

use std::net::{IpAddr, Ipv6Addr};

use rosemary_sdk::MacAddr;
use rosemary_sdk::openflow::ethernet::{self, ARP, IPV6, is_vlan_tag};
use rosemary_sdk::openflow::ip::{IpPacket, protocol};
use rosemary_sdk::packet::{Arp, Packet, PacketBuilder};

use crate::neighbour_discovery;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// The solicited flag. Without the override flag, the sender prefers an answer of the host itself.
const SOLICITED: u8 = 0x40;
/// Option with the Ethernet address of the target, and its length in units of 8 bytes.
const TARGET_ADDRESS: [u8; 2] = [2, 1];

/// Returns whether a frame asks all hosts for the address of one: ARP, or IPv6 to a solicited-node multicast address.
pub(crate) fn is_question(frame: &[u8]) -> bool {
    let Some(packet) = Packet::parse(frame) else { return false };
    packet.ethertype == ARP && packet.eth_dst == MacAddr::BROADCAST
        || packet.ethertype == IPV6 && packet.eth_dst.0.starts_with(&[0x33, 0x33, 0xff])
}

/// Returns the frame that answers a request, if the owner of the address is known. `owner` looks it up.
pub(crate) fn answer(
    frame: &[u8],
    owner: impl Fn(IpAddr, u16) -> Option<MacAddr>,
) -> Option<Vec<u8>> {
    let packet = Packet::parse(frame)?;
    let tags = tags(frame, &packet)?;
    let vlan = packet.vlan.unwrap_or(0);
    let answer = match packet.ethertype {
        ARP => answer_arp(&packet, |ip| owner(ip, vlan))?,
        IPV6 => answer_solicitation(&packet, |ip| owner(ip, vlan))?,
        _ => return None,
    };
    let (addresses, rest) = answer.split_at_checked(12)?;
    Some([addresses, tags, rest].concat())
}

/// Returns the IP address, VLAN and Ethernet address that a message of ARP or of neighbour discovery states for each other; its
/// receivers believe it.
pub(crate) fn stated(frame: &[u8]) -> Option<(IpAddr, u16, MacAddr)> {
    if !may_state(frame) {
        return None;
    }
    let packet = Packet::parse(frame)?;
    let vlan = packet.vlan.unwrap_or(0);
    let (ip, mac) = match packet.ethertype {
        ARP => {
            let arp = packet.arp().filter(|arp| !arp.sender_ip.is_unspecified())?;
            (arp.sender_ip.into(), arp.sender_mac)
        }
        IPV6 => {
            let layer = ethernet::packet(frame)?;
            let stated = neighbour_discovery::read(&layer, &IpPacket::in_layer(&layer)?)?;
            let ip = stated.ip.filter(|ip| !ip.is_unspecified())?;
            (ip, stated.mac.or(stated.is_advertisement.then_some(packet.eth_src))?)
        }
        _ => return None,
    };
    Some((ip, vlan, mac))
}

/// Returns false for most other packets, which need not be parsed: for those without a tag by the ethertype, and for TCP and UDP by
/// the next header of IPv6 (RFC 8200 §3). Another next header may be an extension.
fn may_state(frame: &[u8]) -> bool {
    let Some(ethertype) = frame.get(12..).and_then(|rest| rest.first_chunk()) else { return false };
    match u16::from_be_bytes(*ethertype) {
        ARP => true,
        IPV6 => !matches!(frame.get(20), None | Some(&protocol::TCP | &protocol::UDP)),
        ethertype => is_vlan_tag(ethertype),
    }
}

/// Returns the VLAN tag of a frame, or nothing. `None` if it has several, or another encapsulation.
fn tags<'f>(frame: &'f [u8], packet: &Packet<'_>) -> Option<&'f [u8]> {
    let size = if packet.vlan.is_some() { 4 } else { 0 };
    let ethertype = frame.get(12 + size..14 + size)?;
    (ethertype == packet.ethertype.to_be_bytes()).then(|| frame.get(12..12 + size))?
}

fn answer_arp(packet: &Packet<'_>, owner: impl Fn(IpAddr) -> Option<MacAddr>) -> Option<Vec<u8>> {
    let arp = packet.arp()?;
    let is_question = arp.operation == Arp::REQUEST
        && arp.sender_mac == packet.eth_src
        && !arp.sender_ip.is_unspecified()
        && arp.sender_ip != arp.target_ip;
    let mac = owner(arp.target_ip.into()).filter(|mac| is_question && *mac != packet.eth_src)?;
    Some(arp.reply(mac))
}

fn answer_solicitation(
    packet: &Packet<'_>,
    owner: impl Fn(IpAddr) -> Option<MacAddr>,
) -> Option<Vec<u8>> {
    let icmp = packet.icmpv6()?;
    let (Some(IpAddr::V6(sender)), Some(IpAddr::V6(to))) = (packet.src_ip(), packet.dst_ip())
    else {
        return None;
    };
    let target: [u8; 16] = *icmp.slice().get(8..)?.first_chunk()?;
    let target = Ipv6Addr::from(target);
    let is_question = icmp.type_u8() == SOLICITATION
        && icmp.code_u8() == 0
        && to.is_multicast()
        && !sender.is_unspecified()
        && !target.is_multicast()
        && !target.is_unicast_link_local();
    let mac = owner(target.into()).filter(|mac| is_question && *mac != packet.eth_src)?;
    let builder = PacketBuilder::ethernet2(mac.0, packet.eth_src.0)
        .ipv6(target.octets(), sender.octets(), 255)
        .icmpv6_raw(ADVERTISEMENT, 0, [SOLICITED, 0, 0, 0]);
    let body = [&target.octets()[..], &TARGET_ADDRESS, &mac.0].concat();
    let mut frame = Vec::with_capacity(builder.size(body.len()));
    builder.write(&mut frame, &body).ok()?;
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

    fn bob(known: &'static str) -> impl Fn(IpAddr, u16) -> Option<MacAddr> {
        move |ip, vlan| (ip == known.parse::<IpAddr>().unwrap() && vlan == 7).then_some(BOB)
    }

    fn tagged(frame: &[u8]) -> Vec<u8> {
        [&frame[..12], &[0x81, 0, 0x20, 7], &frame[12..]].concat()
    }

    fn request(sender: &str, target: &str) -> Vec<u8> {
        let arp = Arp {
            operation: Arp::REQUEST,
            sender_mac: ALICE,
            sender_ip: sender.parse().unwrap(),
            target_mac: MacAddr([0; 6]),
            target_ip: target.parse().unwrap(),
        };
        tagged(&arp.frame(MacAddr::BROADCAST))
    }

    fn solicitation(sender: &str, target: &str) -> Vec<u8> {
        let (sender, target): (Ipv6Addr, Ipv6Addr) =
            (sender.parse().unwrap(), target.parse().unwrap());
        let to: Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
        let builder = PacketBuilder::ethernet2(ALICE.0, [0x33, 0x33, 0xff, 0, 0, 2])
            .ipv6(sender.octets(), to.octets(), 255)
            .icmpv6_raw(SOLICITATION, 0, [0; 4]);
        let mut frame = Vec::new();
        builder.write(&mut frame, &target.octets()).unwrap();
        tagged(&frame)
    }

    #[test]
    fn arp_request_is_answered_with_its_tag() {
        let frame = answer(&request("10.0.0.1", "10.0.0.2"), bob("10.0.0.2")).expect("an answer");
        assert_eq!(frame[12..16], [0x81, 0, 0x20, 7]);
        let packet = Packet::parse(&frame).unwrap();
        assert_eq!((packet.eth_src, packet.eth_dst), (BOB, ALICE));
        let arp = packet.arp().expect("ARP");
        assert_eq!((arp.operation, arp.sender_mac, arp.target_mac), (Arp::REPLY, BOB, ALICE));
        assert_eq!(arp.sender_ip.to_string(), "10.0.0.2");
    }

    #[test]
    fn solicitation_is_answered() {
        let frame = answer(&solicitation("fd00::1", "fd00::2"), bob("fd00::2")).expect("an answer");
        assert_eq!(frame[12..16], [0x81, 0, 0x20, 7]);
        let packet = Packet::parse(&frame).unwrap();
        assert_eq!((packet.eth_src, packet.eth_dst), (BOB, ALICE));
        assert_eq!(packet.src_ip(), Some("fd00::2".parse().unwrap()));
        assert_eq!(packet.dst_ip(), Some("fd00::1".parse().unwrap()));
        let icmp = packet.icmpv6().expect("ICMPv6");
        assert_eq!((icmp.type_u8(), icmp.slice()[4]), (ADVERTISEMENT, SOLICITED));
        assert!(is_question(&solicitation("fd00::1", "fd00::2")) && !is_question(&frame));
        assert!(is_question(&request("10.0.0.1", "10.0.0.2")) && !is_question(&[0xff; 20]));
        assert_eq!(icmp.slice()[24..32], [2, 1, 2, 0, 0, 0, 0, 0xb]);
        assert_eq!(packet.ip().unwrap().unpadded_payload().len(), 32);
        assert_eq!(stated(&frame), Some(("fd00::2".parse().unwrap(), 7, BOB)));
        assert_eq!(stated(&solicitation("fd00::1", "fd00::2")), None);
        for end in 0..frame.len() {
            assert!(stated(&frame[..end]).is_none_or(|(.., mac)| mac == BOB), "cut at {end}");
        }
    }

    /// A solicitation of ALICE for `fd00::2` from `fd00::1`, with the option of a source of this Ethernet address.
    fn solicitation_from(mac: MacAddr, hop_by_hop: &[u8]) -> Vec<u8> {
        let plain = solicitation("fd00::1", "fd00::2");
        let (head, icmp) = plain.split_at(18 + 40);
        let message = [hop_by_hop, icmp, &[1, 1], &mac.0].concat();
        let mut frame = [head, &message].concat();
        let size = u16::try_from(message.len()).unwrap();
        frame[18 + 4..18 + 6].copy_from_slice(&size.to_be_bytes());
        if !hop_by_hop.is_empty() {
            frame[18 + 6] = 0;
        }
        frame
    }

    #[test]
    fn solicitation_states_its_source() {
        let expected = Some(("fd00::1".parse().unwrap(), 7, BOB));
        assert_eq!(stated(&solicitation_from(BOB, &[])), expected);
        let hop_by_hop = [58, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(stated(&solicitation_from(BOB, &hop_by_hop)), expected, "behind an extension");
        let untagged = |frame: &[u8]| [&frame[..12], &frame[16..]].concat();
        let frame = untagged(&solicitation_from(BOB, &hop_by_hop));
        assert_eq!(stated(&frame).map(|it| it.2), Some(BOB));
    }

    #[test]
    fn arp_states_its_sender() {
        let ip = "10.0.0.1".parse().unwrap();
        assert_eq!(stated(&request("10.0.0.1", "10.0.0.2")), Some((ip, 7, ALICE)));
        assert_eq!(stated(&request("0.0.0.0", "10.0.0.2")), None, "an ARP probe");
        assert_eq!(stated(&[0xff; 60]), None);
    }

    #[test]
    fn only_questions_about_known_others_are_answered() {
        for (frame, why) in [
            (request("10.0.0.1", "10.0.0.3"), "nobody is known to have it"),
            (request("10.0.0.2", "10.0.0.2"), "gratuitous ARP"),
            (request("0.0.0.0", "10.0.0.2"), "an ARP probe"),
        ] {
            assert_eq!(answer(&frame, bob("10.0.0.2")), None, "{why}");
        }
        assert_eq!(answer(&solicitation("::", "fd00::2"), bob("fd00::2")), None, "a duplicate?");
        assert_eq!(answer(&solicitation("fe80::1", "fe80::2"), bob("fe80::2")), None);
        let own = |_: IpAddr, _: u16| Some(ALICE);
        assert_eq!(answer(&request("10.0.0.1", "10.0.0.2"), own), None);
        let twice = tagged(&request("10.0.0.1", "10.0.0.2"));
        assert_eq!(answer(&twice, bob("10.0.0.2")), None, "two tags");
        let whole = request("10.0.0.1", "10.0.0.2");
        for end in 0..whole.len() {
            assert_eq!(answer(&whole[..end], bob("10.0.0.2")), None, "cut at {end}");
        }
    }
}

//! Builds the packets that ask a host whether it is still there: an ARP request (RFC 5227 §2.1.1) or a neighbour
//! solicitation (RFC 4861 §4.3).
//!
//! A probe goes to one host alone. It comes from [`PROBE_MAC`], which no host has, so no flow matches the answer and the
//! switch sends it to the controller.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rosemary_sdk::MacAddr;
use rosemary_sdk::packet::{Arp, PacketBuilder};
use rosemary_sdk::services::hosts::{PROBE_MAC, UNTAGGED};

/// The link-local address of [`PROBE_MAC`] (RFC 4291, appendix A).
const PROBE_IPV6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x0c52, 0x6fff, 0xfe73, 0x6501);

const NEIGHBOUR_SOLICITATION: u8 = 135;

/// Builds the probe for a host with this address; `None` if the packet cannot be built.
pub(super) fn frame(mac: MacAddr, vlan: u16, ip: IpAddr) -> Option<Vec<u8>> {
    let frame = match ip {
        IpAddr::V4(ip) => arp(mac, ip),
        IpAddr::V6(ip) => solicitation(mac, ip)?,
    };
    Some(if vlan == UNTAGGED { frame } else { tagged(&frame, vlan)? })
}

/// A request without a sender's IP address, so that the host does not learn one.
fn arp(mac: MacAddr, ip: Ipv4Addr) -> Vec<u8> {
    let request = Arp {
        operation: Arp::REQUEST,
        sender_mac: PROBE_MAC,
        sender_ip: Ipv4Addr::UNSPECIFIED,
        target_mac: MacAddr([0; 6]),
        target_ip: ip,
    };
    request.frame(mac)
}

/// A solicitation with the sender's Ethernet address, without which the host would first have to ask for it.
fn solicitation(mac: MacAddr, ip: Ipv6Addr) -> Option<Vec<u8>> {
    let option = [&[1, 1][..], &PROBE_MAC.0].concat();
    let behind = [&ip.octets()[..], &option].concat();
    let builder = PacketBuilder::ethernet2(PROBE_MAC.0, mac.0)
        .ipv6(PROBE_IPV6.octets(), ip.octets(), 255)
        .icmpv6_raw(NEIGHBOUR_SOLICITATION, 0, [0; 4]);
    let mut frame = Vec::with_capacity(builder.size(behind.len()));
    builder.write(&mut frame, &behind).ok()?;
    Some(frame)
}

fn tagged(frame: &[u8], vlan: u16) -> Option<Vec<u8>> {
    let (addresses, rest) = frame.split_at_checked(12)?;
    Some([addresses, &[0x81, 0x00], &vlan.to_be_bytes(), rest].concat())
}

//! Reads what a packet says about the host that sent it: its Ethernet address, its VLAN and its IP address.
//!
//! | packet | address of the sender | proof |
//! | --- | --- | --- |
//! | ARP (RFC 826) | sender's protocol address | stated |
//! | neighbour and router solicitation, router advertisement (RFC 4861 §4) | source of IPv6 | stated |
//! | neighbour advertisement (RFC 4861 §4.4) | target | stated |
//! | DHCP from a client (RFC 2131) | the address that the client has | stated |
//! | DHCP acknowledgement | the client's new address, as a lease beside the server's own | stated |
//! | other IPv4 and IPv6 | source | used |
//!
//! A host that states an address says that it is its own. A packet's source can be another network's, behind a router.
//! A message that states another Ethernet address than the packet's source is forged, and nothing is learned from it.

use std::net::{IpAddr, Ipv4Addr};

use rosemary_sdk::MacAddr;
use rosemary_sdk::openflow::ethernet;
use rosemary_sdk::openflow::ip::{IpPacket, protocol};
use rosemary_sdk::packet::{Packet, dhcp};
use rosemary_sdk::services::hosts::{PROBE_MAC, UNTAGGED};

use crate::neighbour_discovery::{self, Neighbour};

/// How well an address is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The host said that the address is its own.
    Stated,
    /// It is the source of a packet.
    Used,
}

/// The addresses of a packet's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) mac: MacAddr,
    pub(super) vlan: u16,
    pub(super) ip: Option<(IpAddr, Proof)>,
}

/// The protocol of a forged message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Forged {
    Arp,
    NeighbourDiscovery,
    Dhcp,
}

/// The meaning of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing about a host.
    Nothing,
    /// Its sender is a host.
    Host(Sighting),
    /// Its sender is a DHCP server that gave an address to a client.
    Lease {
        /// The server.
        server: Sighting,
        /// The client, with its new address.
        client: Sighting,
    },
    /// It states that `stated` is the sender.
    Forged {
        /// The sender of the packet, without an address.
        sender: Sighting,
        /// The Ethernet address in the message.
        stated: MacAddr,
        /// The protocol of the message.
        what: Forged,
    },
}

/// Reads a packet from its Ethernet header on, or only its beginning.
pub(super) fn read(frame: &[u8]) -> Reading {
    let Some((source, behind)) = frame.get(6..).and_then(|rest| rest.split_first_chunk()) else {
        return Reading::Nothing;
    };
    let mac = MacAddr(*source);
    if mac.is_multicast() || mac == MacAddr([0; 6]) || mac == PROBE_MAC {
        return Reading::Nothing;
    }
    let mut sender = Sighting { mac, vlan: vlan(behind), ip: None };
    let Some(layer) = ethernet::packet(frame) else { return Reading::Host(sender) };
    match layer.ethertype {
        ethernet::LLDP => Reading::Nothing, // of a switch or of a probe, not of a host
        ethernet::ARP => arp(layer.payload, sender),
        ethernet::IPV4 | ethernet::IPV6 => {
            let Some(ip) = IpPacket::in_layer(&layer) else { return Reading::Host(sender) };
            if let Some(neighbour) = neighbour_discovery::read(&layer, &ip) {
                return of_neighbour(&neighbour, sender);
            }
            if is_dhcp(&ip) {
                return of_dhcp(frame, &ip, sender);
            }
            sender.ip = learnable(ip.src).map(|ip| (ip, Proof::Used));
            Reading::Host(sender)
        }
        _ => Reading::Host(sender),
    }
}

/// Returns the source of a frame and its VLAN, without a judgement.
pub(super) fn sender(frame: &[u8]) -> Option<(MacAddr, u16)> {
    let (source, behind) = frame.get(6..)?.split_first_chunk()?;
    Some((MacAddr(*source), vlan(behind)))
}

/// Reads the VLAN behind the two addresses.
fn vlan(behind_addresses: &[u8]) -> u16 {
    let Some(&[tpid_high, tpid_low, high, low]) = behind_addresses.first_chunk() else {
        return UNTAGGED;
    };
    let is_tag = ethernet::is_vlan_tag(u16::from_be_bytes([tpid_high, tpid_low]));
    if is_tag { u16::from_be_bytes([high, low]) & 0x0fff } else { UNTAGGED }
}

/// Reads an ARP packet for Ethernet and IPv4 (RFC 826): types and sizes, operation, sender, target.
fn arp(packet: &[u8], mut sender: Sighting) -> Reading {
    const TYPES: [u8; 6] = [0, 1, 8, 0, 6, 4];
    let stated = packet.strip_prefix(&TYPES).and_then(|rest| {
        let (mac, rest) = rest.get(2..)?.split_first_chunk::<6>()?;
        let (ip, target) = rest.split_first_chunk::<4>()?;
        (target.len() >= 10).then_some((MacAddr(*mac), IpAddr::from(*ip)))
    });
    let Some((stated, ip)) = stated else { return Reading::Host(sender) };
    if stated != sender.mac {
        return Reading::Forged { sender, stated, what: Forged::Arp };
    }
    sender.ip = learnable(ip).map(|ip| (ip, Proof::Stated));
    Reading::Host(sender)
}

fn of_neighbour(neighbour: &Neighbour, mut sender: Sighting) -> Reading {
    if let Some(stated) = neighbour.mac.filter(|stated| *stated != sender.mac) {
        return Reading::Forged { sender, stated, what: Forged::NeighbourDiscovery };
    }
    sender.ip = neighbour.ip.and_then(learnable).map(|ip| (ip, Proof::Stated));
    Reading::Host(sender)
}

fn is_dhcp(ip: &IpPacket<'_>) -> bool {
    ip.protocol == Some(protocol::UDP) && matches!(ip.ports(), Some((67 | 68, 67 | 68)))
}

fn of_dhcp(frame: &[u8], ip: &IpPacket<'_>, mut sender: Sighting) -> Reading {
    sender.ip = learnable(ip.src).map(|ip| (ip, Proof::Used));
    let packet = Packet::parse(frame);
    let Some(message) = packet.as_ref().and_then(Packet::dhcp) else {
        return Reading::Host(sender);
    };
    let is_relayed = !message.relay_ip.is_unspecified();
    if message.op == 1 && !is_relayed {
        if message.client_mac != sender.mac {
            let sender = Sighting { ip: None, ..sender };
            return Reading::Forged { sender, stated: message.client_mac, what: Forged::Dhcp };
        }
        sender.ip = learnable(message.client_ip.into()).map(|ip| (ip, Proof::Stated));
    }
    let is_lease = message.op == 2 && message.message_type() == Some(dhcp::ACK);
    match learnable(message.your_ip.into()).filter(|_| is_lease && !is_relayed) {
        Some(given) => {
            let (mac, ip) = (message.client_mac, Some((given, Proof::Stated)));
            Reading::Lease { server: sender, client: Sighting { mac, ip, ..sender } }
        }
        None => Reading::Host(sender),
    }
}

/// Returns an address that can be one host's.
fn learnable(ip: IpAddr) -> Option<IpAddr> {
    let is_ones = match ip {
        IpAddr::V4(v4) => {
            !(v4.is_broadcast() || v4.octets()[0] == 0 || v4.octets()[0] >= 240)
                && v4 != Ipv4Addr::UNSPECIFIED
        }
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
    };
    (is_ones && !ip.is_multicast() && !ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

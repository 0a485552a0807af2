//! Adds the ethertype and the protocol that the fields of a packet need, or refuses a packet that cannot exist.
//!
//! A switch compares a field only in packets that have it: `tcp_dst` exists in TCP over IPv4 or IPv6 (OpenFlow 1.3.5
//! §7.2.3.8). A traced packet without the ethertype would take a way that no real packet takes. What only one kind of packet
//! can have is added. What several kinds can have must be stated, as in `ofproto/trace`.

use std::collections::BTreeMap;

use openflow::ethernet::{ARP, IPV4, IPV6};

use super::packet::number::{
    ARP_OP, ETH_TYPE, ICMPV4_TYPE, ICMPV6_TYPE, IP_DSCP, IP_PROTO, IPV4_DST, IPV4_SRC, IPV6_FLABEL,
    IPV6_SRC, MPLS_BOS, MPLS_LABEL, ND_TLL, SCTP_SRC, TCP_SRC, UDP_SRC, VLAN_PCP, VLAN_VID,
};
use super::packet::{ICMP, ICMP6, RARP, SCTP, TCP, UDP, VLAN_PRESENT};

const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;

const IP: &[u16] = &[IPV4, IPV6];

/// The needs of a field: one of these ethertypes, a protocol, and words for the mistake.
struct Needs {
    ethertypes: &'static [u16],
    protocol: Option<u8>,
    words: &'static str,
}

/// Returns the needs of a field; `None` for a field of all packets.
fn needs(field: u8) -> Option<Needs> {
    let (ethertypes, protocol, words): (&'static [u16], _, _) = match field {
        IP_DSCP..=IP_PROTO => (IP, None, "ip or ipv6"),
        IPV4_SRC..=IPV4_DST => (&[IPV4], None, "ip"),
        TCP_SRC..UDP_SRC => (IP, Some(TCP), "tcp or tcp6"),
        UDP_SRC..SCTP_SRC => (IP, Some(UDP), "udp or udp6"),
        SCTP_SRC..ICMPV4_TYPE => (IP, Some(SCTP), "sctp or sctp6"),
        ICMPV4_TYPE..ARP_OP => (&[IPV4], Some(ICMP), "icmp"),
        ARP_OP..IPV6_SRC => (&[ARP, RARP], None, "arp or rarp"),
        IPV6_SRC..=IPV6_FLABEL => (&[IPV6], None, "ipv6"),
        ICMPV6_TYPE..=ND_TLL => (&[IPV6], Some(ICMP6), "icmp6"),
        MPLS_LABEL..=MPLS_BOS => (&[MPLS, MPLS_MULTICAST], None, "eth_type=0x8847"),
        _ => return None,
    };
    Some(Needs { ethertypes, protocol, words })
}

/// Completes the fields of a packet. `name` names a field.
///
/// # Errors
/// A phrase that names the field, and what to add.
pub(super) fn complete(
    fields: &mut BTreeMap<u8, u128>,
    name: impl Fn(u8) -> &'static str,
) -> Result<(), String> {
    if fields.contains_key(&VLAN_PCP) {
        fields.entry(VLAN_VID).or_insert(VLAN_PRESENT.into());
    }
    let needed = fields.keys().filter_map(|field| Some((*field, needs(*field)?)));
    let needed: Vec<(u8, Needs)> = needed.collect();
    let stated = fields.get(&ETH_TYPE).and_then(|it| u16::try_from(*it).ok());
    let mut possible: Option<Vec<u16>> = stated.map(|ethertype| vec![ethertype]);
    for (field, needs) in &needed {
        let possible = possible.get_or_insert_with(|| needs.ethertypes.to_vec());
        possible.retain(|ethertype| needs.ethertypes.contains(ethertype));
        if possible.is_empty() {
            return Err(format!(
                "{} is a field of another kind of packet than the rest; it needs {}",
                name(*field),
                needs.words
            ));
        }
        if let Some(protocol) = needs.protocol
            && *fields.entry(IP_PROTO).or_insert(protocol.into()) != u128::from(protocol)
        {
            let (field, words) = (name(*field), needs.words);
            return Err(format!(
                "{field} is a field of another protocol than ip_proto; it needs {words}"
            ));
        }
    }
    let Some(possible) = possible else { return Ok(()) };
    let ethertype = match possible[..] {
        [first, ..] if first != IPV4 => first, // RARP and multicast must be stated
        [only] => only,
        _ => {
            let strict = needed.iter().max_by_key(|(_, needs)| needs.protocol);
            let (field, words) =
                strict.map_or(("it", "ip or ipv6"), |(field, needs)| (name(*field), needs.words));
            return Err(format!("{field} is a field of IPv4 and of IPv6: add {words}"));
        }
    };
    fields.insert(ETH_TYPE, ethertype.into());
    Ok(())
}

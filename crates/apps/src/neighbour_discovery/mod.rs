//! Reads what a message of neighbour discovery states about its sender: an IPv6 address and an Ethernet address.
//!
//! | message (RFC 4861 §4) | type | IPv6 address | option with the Ethernet address |
//! | --- | --- | --- | --- |
//! | router solicitation, router advertisement | 133, 134 | source | 1, of the source |
//! | neighbour solicitation | 135 | source | 1, of the source |
//! | neighbour advertisement | 136 | target | 2, of the target |

use std::net::{IpAddr, Ipv6Addr};

use rosemary_sdk::MacAddr;
use rosemary_sdk::openflow::ethernet::Layer;
use rosemary_sdk::openflow::ip::{Fragment, IpPacket, protocol};

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Options with an Ethernet address (RFC 4861 §4.6.1).
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

/// Neighbour discovery counts only with this hop limit, so that nothing comes from beyond a router (RFC 4861 §7.1).
const HOP_LIMIT: u8 = 255;

/// The addresses that a message states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// Whether the message is an advertisement, whose receivers believe the packet's source if it has no option.
    pub(crate) is_advertisement: bool,
    /// The IPv6 address; `None` if the message ends before it.
    pub(crate) ip: Option<IpAddr>,
    /// The Ethernet address in the option, if there is one.
    pub(crate) mac: Option<MacAddr>,
}

/// Reads the message in a packet; `None` if the packet is no neighbour discovery.
pub(crate) fn read(layer: &Layer<'_>, ip: &IpPacket<'_>) -> Option<Neighbour> {
    let is_it = ip.src.is_ipv6()
        && ip.protocol == Some(protocol::ICMPV6)
        && ip.fragment == Fragment::Whole
        && layer.payload.get(7) == Some(&HOP_LIMIT);
    let message = is_it.then(|| ip.unpadded_payload())?;
    let kind = *message.first()?;
    let (fixed, wanted) = match kind {
        ROUTER_SOLICITATION => (8, SOURCE_ADDRESS),
        ROUTER_ADVERTISEMENT => (16, SOURCE_ADDRESS),
        NEIGHBOUR_SOLICITATION => (24, SOURCE_ADDRESS),
        NEIGHBOUR_ADVERTISEMENT => (24, TARGET_ADDRESS),
        _ => return None,
    };
    let is_advertisement = kind == NEIGHBOUR_ADVERTISEMENT;
    let Some(options) = message.get(fixed..) else {
        return Some(Neighbour { is_advertisement, ip: None, mac: None });
    };
    let target = message.get(8..).and_then(|bytes| bytes.first_chunk::<16>());
    let ip = if is_advertisement {
        target.map(|bytes| Ipv6Addr::from(*bytes).into())
    } else {
        Some(ip.src)
    };
    Some(Neighbour { is_advertisement, ip, mac: option(options, wanted) })
}

/// Returns the Ethernet address in the first option of this type.
fn option(mut options: &[u8], wanted: u8) -> Option<MacAddr> {
    loop {
        let [kind, words] = *options.first_chunk()?;
        let size = usize::from(words) * 8;
        let (option, rest) = options.split_at_checked(size).filter(|_| size > 0)?;
        if kind == wanted {
            return option.get(2..)?.first_chunk().map(|bytes| MacAddr(*bytes));
        }
        options = rest;
    }
}

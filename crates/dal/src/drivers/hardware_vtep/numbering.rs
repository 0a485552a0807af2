//! Numbers a device and its ports, always in the same way: flows that operators keep name them.
//!
//! ```text
//! datapath id   "VT" (16 bits) | FNV-1a of the device's name, folded to 48 bits
//! port          1 to 4095 physical | P * 4096 + V a VLAN of a physical port | an IPv4 address, from 1.0.0.0 on
//! ```
//!
//! FNV-1a: draft-eastlake-fnv. A management address would change with the network, and the identifier of a row with a new database.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use names::VTEP_PREFIX;
use openflow::{Dpid, PortNo};

/// The number of ports of each physical port: one for each VLAN.
const VLANS: u32 = 4096;

/// The highest number of a physical port.
pub(super) const MOST_PHYSICAL: u32 = VLANS - 1;

/// The number of the first tunnel: the address 1.0.0.0. Lower ones are no addresses of devices.
const FIRST_TUNNEL: u32 = 1 << 24;

/// Returns the datapath id of the device with this name.
pub fn dpid_of(name: &str) -> Dpid {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = name.bytes().fold(OFFSET, step);
    Dpid(u64::from(VTEP_PREFIX) << 48 | (hash ^ hash >> 48) & 0xffff_ffff_ffff)
}

/// A VLAN of a physical port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binding {
    /// The number of the physical port.
    pub(super) port: u32,
    /// The VLAN; 0 for frames without a tag.
    pub(super) vlan: u16,
}

/// The meaning of a port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortKind {
    /// A physical port.
    Physical(u32),
    /// A VLAN of one.
    Binding(Binding),
    /// The tunnel to a device.
    Tunnel(Ipv4Addr),
    /// A reserved number.
    Reserved,
}

impl Binding {
    pub(super) fn port_no(self) -> PortNo {
        PortNo(self.port * VLANS + u32::from(self.vlan))
    }
}

/// Returns the port of the tunnel to a device; `None` if no device can have the address.
pub(super) fn tunnel(to: Ipv4Addr) -> Option<PortNo> {
    let is_unicast = !(to.is_multicast() || to.is_loopback() || to.octets()[0] >= 240);
    let number = u32::from(to);
    (is_unicast && number >= FIRST_TUNNEL).then_some(PortNo(number))
}

pub(super) fn kind_of(port: PortNo) -> PortKind {
    match port.0 {
        1..=MOST_PHYSICAL => PortKind::Physical(port.0),
        VLANS..FIRST_TUNNEL => {
            let vlan = u16::try_from(port.0 % VLANS).unwrap_or_default();
            PortKind::Binding(Binding { port: port.0 / VLANS, vlan })
        }
        number => match Ipv4Addr::from(number) {
            to if tunnel(to).is_some() => PortKind::Tunnel(to),
            _ => PortKind::Reserved,
        },
    }
}

/// Numbers physical ports by their names: `eth3` is port 3, unless another name before it in the order of names ends with the same
/// number. The others get the lowest free numbers. Returns `None` if there are too many.
pub(super) fn number_ports<'n>(
    names: impl Iterator<Item = &'n str> + Clone,
) -> Option<BTreeMap<u32, &'n str>> {
    let mut numbers = BTreeMap::new();
    let mut others = Vec::new();
    let mut sorted: Vec<&str> = names.collect();
    sorted.sort_unstable();
    for name in sorted {
        match number_at_end(name) {
            Some(number) if !numbers.contains_key(&number) => {
                numbers.insert(number, name);
            }
            _ => others.push(name),
        }
    }
    let mut next = 1;
    for name in others {
        while numbers.contains_key(&next) {
            next += 1;
        }
        if next > MOST_PHYSICAL {
            return None;
        }
        numbers.insert(next, name);
    }
    Some(numbers)
}

fn number_at_end(name: &str) -> Option<u32> {
    let head = name.trim_end_matches(|it: char| it.is_ascii_digit());
    let digits = name.get(head.len()..)?;
    digits.parse().ok().filter(|number| (1..=MOST_PHYSICAL).contains(number))
}

#[cfg(test)]
mod tests {
    use names::Southbound;

    use super::*;

    #[test]
    fn datapath_id_depends_on_the_name_only() {
        assert_eq!(dpid_of("leaf1").to_string(), "56:54:57:0a:49:75:4f:8d");
        assert_ne!(dpid_of("leaf1"), dpid_of("leaf2"));
        assert_eq!(Southbound::of_datapath(dpid_of("").0), Some(Southbound::HardwareVtep));
        assert_eq!(Southbound::of_datapath(1), None);
    }

    #[test]
    fn port_numbers_have_one_meaning() {
        let binding = Binding { port: 3, vlan: 100 };
        assert_eq!(binding.port_no(), PortNo(12_388));
        assert_eq!(kind_of(PortNo(12_388)), PortKind::Binding(binding));
        assert_eq!(kind_of(PortNo(3)), PortKind::Physical(3));
        let to = Ipv4Addr::new(10, 0, 0, 2);
        assert_eq!(tunnel(to), Some(PortNo(0x0a00_0002)));
        assert_eq!(kind_of(PortNo(0x0a00_0002)), PortKind::Tunnel(to));
        for reserved in [PortNo(0), PortNo::LOCAL, PortNo::FLOOD, PortNo(0xe000_0001)] {
            assert_eq!(kind_of(reserved), PortKind::Reserved, "{reserved}");
        }
        assert_eq!(tunnel(Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn ports_are_numbered_by_their_names() {
        let names = ["eth10", "eth2", "mgmt", "et-0/0/2", "swp99999"];
        let numbers = number_ports(names.iter().copied()).unwrap();
        let expected = [(1, "eth2"), (2, "et-0/0/2"), (3, "mgmt"), (4, "swp99999"), (10, "eth10")];
        assert_eq!(numbers, expected.into());
        let many: Vec<String> = (0..5000).map(|it| format!("p{it}x")).collect();
        assert_eq!(number_ports(many.iter().map(String::as_str)), None);
    }
}

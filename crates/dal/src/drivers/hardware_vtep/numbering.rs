//! Numbers a device and its ports. The numbers are stable, because flows that operators keep name them.
//!
//! ```text
//! datapath id   "VT" (16 bits) | FNV-1a of the device's name, folded to 48 bits
//! port          1 to 4095 physical ([`Numbers`]) | P * 4096 + V a VLAN of a physical port | an IPv4 address, from 1.0.0.0 on
//! ```
//!
//! FNV-1a: draft-eastlake-fnv. A management address would change with the network, and the identifier of a row with a new database.

use std::collections::{BTreeMap, BTreeSet};
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

/// The longest name of an absent port that a session remembers, in bytes.
const LONGEST_NAME: usize = 256;

/// Chooses a number for the port with this name.
type Choice<'c> = &'c dyn Fn(&str) -> Option<u32>;

/// The numbers of physical ports in one session.
///
/// A port gets the first of these numbers that is free:
///
/// 1. the number that the database keeps;
/// 2. the number that the port had earlier in the session;
/// 3. the number at the end of its name, as 3 for `eth3`;
/// 4. the lowest number.
///
/// The number of a port that is absent stays taken for the session, so that flows for it do not concern another port.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<String, u32>);

impl Numbers {
    /// Numbers the ports, given by name with the number that the database keeps. Returns `None` if there are too many.
    pub(super) fn assign<'n>(
        &mut self,
        ports: &BTreeMap<&'n str, Option<u32>>,
    ) -> Option<BTreeMap<u32, &'n str>> {
        let mut numbers = self.number(ports);
        if numbers.is_none() {
            self.0.retain(|name, _| ports.contains_key(name.as_str()));
            numbers = self.number(ports);
        }
        let numbers = numbers?;
        self.0.retain(|name, number| !numbers.contains_key(number) && name.len() <= LONGEST_NAME);
        self.0.extend(numbers.iter().map(|(number, name)| ((*name).to_owned(), *number)));
        Some(numbers)
    }

    fn number<'n>(&self, ports: &BTreeMap<&'n str, Option<u32>>) -> Option<BTreeMap<u32, &'n str>> {
        let kept = |name: &str| ports.get(name).copied().flatten();
        let earlier = |name: &str| self.0.get(name).copied();
        let absent: BTreeSet<u32> = self
            .0
            .iter()
            .filter(|(name, _)| !ports.contains_key(name.as_str()))
            .map(|(_, number)| *number)
            .collect();
        let at_end = |name: &str| number_at_end(name).filter(|number| !absent.contains(number));
        let mut numbers = BTreeMap::new();
        let mut rest: Vec<&str> = ports.keys().copied().collect();
        for choice in [&kept as Choice<'_>, &earlier, &at_end] {
            rest.retain(|name| {
                let number = choice(name).filter(|it| (1..=MOST_PHYSICAL).contains(it));
                match number.filter(|it| !numbers.contains_key(it)) {
                    Some(number) => {
                        numbers.insert(number, *name);
                        false
                    }
                    None => true,
                }
            });
        }
        let mut next = 1;
        for name in rest {
            while numbers.contains_key(&next) || absent.contains(&next) {
                next += 1;
            }
            if next > MOST_PHYSICAL {
                return None;
            }
            numbers.insert(next, name);
        }
        Some(numbers)
    }
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

    /// Assigns numbers to ports, each with the number that the database keeps.
    fn assigned(numbers: &mut Numbers, ports: &[(&str, Option<u32>)]) -> Vec<(u32, String)> {
        let ports = ports.iter().copied().collect();
        let numbers = numbers.assign(&ports).unwrap();
        numbers.into_iter().map(|(number, name)| (number, name.to_owned())).collect()
    }

    fn expected(numbers: &[(u32, &str)]) -> Vec<(u32, String)> {
        numbers.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
    }

    #[test]
    fn ports_are_numbered_by_their_names() {
        let names = ["eth10", "eth2", "mgmt", "et-0/0/2", "swp99999"].map(|name| (name, None));
        assert_eq!(
            assigned(&mut Numbers::default(), &names),
            expected(&[(1, "eth2"), (2, "et-0/0/2"), (3, "mgmt"), (4, "swp99999"), (10, "eth10")])
        );
        let many: Vec<String> = (0..5000).map(|it| format!("p{it}x")).collect();
        let many = many.iter().map(|name| (name.as_str(), None)).collect();
        assert_eq!(Numbers::default().assign(&many), None);
    }

    #[test]
    fn new_port_moves_no_other_port() {
        let mut numbers = Numbers::default();
        let before = [("mgmt", None), ("xe", None)];
        assert_eq!(assigned(&mut numbers, &before), expected(&[(1, "mgmt"), (2, "xe")]));
        let with_new = [("aux", None), ("eth1", None), ("mgmt", None), ("xe", None)];
        let after = expected(&[(1, "mgmt"), (2, "xe"), (3, "aux"), (4, "eth1")]);
        assert_eq!(assigned(&mut numbers, &with_new), after);
    }

    #[test]
    fn absent_port_finds_its_number_again() {
        let mut numbers = Numbers::default();
        assigned(&mut numbers, &[("eth3", None), ("mgmt", None)]);
        let without = [("mgmt", None), ("swp3", None)];
        assert_eq!(assigned(&mut numbers, &without), expected(&[(1, "mgmt"), (2, "swp3")]));
        let again = [("eth3", None), ("mgmt", None), ("swp3", None)];
        let all = expected(&[(1, "mgmt"), (2, "swp3"), (3, "eth3")]);
        assert_eq!(assigned(&mut numbers, &again), all);
        // Nor does the lowest free number belong to an absent port.
        assert_eq!(assigned(&mut numbers, &[("aux", None)]), expected(&[(4, "aux")]));
        // Absent ports give way if there are too many.
        let many: Vec<String> = (0..4095).map(|it| format!("p{it}x")).collect();
        let many = many.iter().map(|name| (name.as_str(), None)).collect();
        assert_eq!(numbers.assign(&many).unwrap().len(), 4095);
    }

    #[test]
    fn kept_number_precedes_the_name() {
        let ports = [("eth1", None), ("eth2", Some(1)), ("mgmt", Some(1)), ("x9", Some(5000))];
        let numbers = expected(&[(1, "eth2"), (2, "eth1"), (3, "mgmt"), (9, "x9")]);
        // `eth1` and `mgmt` find their numbers taken.
        assert_eq!(assigned(&mut Numbers::default(), &ports), numbers);
    }
}

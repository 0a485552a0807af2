use std::collections::HashMap;

use proptest::prelude::*;

use super::super::layout::{Placement, Writes};
use super::*;

fn mac(number: u64) -> MacAddr {
    mac_of(0x0200_0000_0000 | number)
}

fn host(number: u64, vlan: u16, port: u32) -> Host {
    Host {
        mac: mac(number),
        vlan,
        dpid: Dpid(u64::MAX - number),
        port: PortNo(port),
        is_contested: port.is_multiple_of(2),
        is_doubted: port.is_multiple_of(3),
        first_seen_s: number,
        last_seen_s: number + 1,
    }
}

fn ip(number: u32) -> IpAddr {
    match number % 2 {
        0 => IpAddr::V4(number.into()),
        _ => IpAddr::V6((u128::from(number) << 90 | 1).into()),
    }
}

fn address(number: u32, vlan: u16, of: u64) -> Address {
    Address { ip: ip(number), vlan, mac: mac(of), last_seen_s: of }
}

/// A table as the service keeps it, and the records that it should hold.
struct Pair {
    table: Vec<Slot>,
    placement: Placement,
    hosts: HashMap<(MacAddr, u16), (u32, Host)>,
    addresses: HashMap<(IpAddr, u16), (u32, Address)>,
    without_room: u64,
}

impl Pair {
    fn new(capacity: u32) -> Self {
        let mut writes = Writes::new();
        let placement = Placement::new(capacity, &mut writes).expect("a table");
        let table = vec![[0; WORDS]; capacity as usize];
        let (hosts, addresses) = (HashMap::new(), HashMap::new());
        let mut pair = Self { table, placement, hosts, addresses, without_room: 0 };
        pair.write(writes);
        pair
    }

    fn write(&mut self, writes: Writes) {
        for (slot, record) in writes {
            self.table[slot as usize] = record;
        }
    }

    fn put_host(&mut self, host: Host) {
        let name = (host.mac, host.vlan);
        let mut writes = Writes::new();
        let slot = match self.hosts.get(&name) {
            Some((slot, _)) => {
                writes.push((*slot, host.to_slot()));
                Some(*slot)
            }
            None => {
                self.placement.insert(host_name(host.mac, host.vlan), host.to_slot(), &mut writes)
            }
        };
        self.write(writes);
        let Some(slot) = slot else {
            self.without_room += 1;
            return;
        };
        self.hosts.insert(name, (slot, host));
    }

    fn put_address(&mut self, address: Address) {
        let name = (address.ip, address.vlan);
        let mut writes = Writes::new();
        let slot = if let Some((slot, _)) = self.addresses.get(&name) {
            writes.push((*slot, address.to_slot()));
            Some(*slot)
        } else {
            let name = address_name(address.ip, address.vlan);
            self.placement.insert(name, address.to_slot(), &mut writes)
        };
        self.write(writes);
        let Some(slot) = slot else {
            self.without_room += 1;
            return;
        };
        self.addresses.insert(name, (slot, address));
    }

    fn free(&mut self, name: Name, slot: u32) {
        let mut writes = Writes::new();
        self.placement.remove(name, slot, &mut writes);
        self.write(writes);
    }

    /// Compares what a reader finds with what was written.
    fn check(&self, names: u64) {
        for number in 0..names {
            for vlan in [UNTAGGED, 7] {
                let known = self.hosts.get(&(mac(number), vlan)).map(|(_, host)| *host);
                assert_eq!(find_host(&self.table, mac(number), vlan), known);
                let ip = ip(u32::try_from(number).expect("a few"));
                let known = self.addresses.get(&(ip, vlan)).map(|(_, it)| *it);
                assert_eq!(find_address(&self.table, ip, vlan), known);
            }
        }
        assert_eq!(hosts(&self.table).count(), self.hosts.len());
        assert_eq!(addresses(&self.table).count(), self.addresses.len());
        assert_eq!(self.placement.len(), self.hosts.len() + self.addresses.len());
        assert_eq!(self.placement.without_room(), self.without_room);
        for found in hosts(&self.table) {
            assert_eq!(self.hosts[&(found.mac, found.vlan)].1, found);
        }
    }
}

proptest! {
    #[test]
    fn reader_finds_what_was_written(
        capacity in prop::sample::select(vec![3_u32, 16, 24, 64, 67, 1024]),
        steps in prop::collection::vec((0_u8..4, 0_u32..40, any::<bool>(), 0_u32..4), 0..200),
    ) {
        let mut pair = Pair::new(capacity);
        for (what, number, tagged, port) in steps {
            let vlan = if tagged { 7 } else { UNTAGGED };
            let of = u64::from(number);
            match what {
                0 => pair.put_host(host(of, vlan, port)),
                1 => pair.put_address(address(number, vlan, u64::from(port))),
                2 => {
                    if let Some((slot, _)) = pair.hosts.remove(&(mac(of), vlan)) {
                        pair.free(host_name(mac(of), vlan), slot);
                    }
                }
                _ => {
                    if let Some((slot, _)) = pair.addresses.remove(&(ip(number), vlan)) {
                        pair.free(address_name(ip(number), vlan), slot);
                    }
                }
            }
        }
        pair.check(40);
    }

    #[test]
    fn random_slots_are_read_without_panic(
        slots in prop::collection::vec(any::<Slot>(), 0..40),
        head in any::<[u64; 3]>(),
        (buckets, end) in (0_u64..50, 0_u64..50),
    ) {
        let mut table: Vec<Slot> = slots;
        if let Some(slot) = table.first_mut() {
            *slot = [0xff, head[0], head[1], head[2], buckets, end, 0];
        }
        find_host(&table, mac(1), 0);
        find_address(&table, ip(1), 0);
        records(&table).count();
        for slot in &table {
            if let Some(Record::Host(host)) = Record::of_slot(slot) {
                prop_assert_eq!(Host::of_slot(&host.to_slot()), Some(host));
            }
        }
    }
}

#[test]
fn full_table_keeps_its_records() {
    let mut pair = Pair::new(64);
    let capacity = pair.placement.capacity();
    for number in 0..500 {
        pair.put_host(host(number, UNTAGGED, 1));
    }
    assert!(pair.hosts.len() > 45 && pair.hosts.len() <= capacity as usize);
    assert_eq!(pair.without_room, 500 - pair.hosts.len() as u64);
    pair.check(500);
}

#[test]
fn few_records_take_few_slots() {
    let mut pair = Pair::new(524_288);
    for number in 0..1000 {
        pair.put_host(host(number, UNTAGGED, 1));
    }
    let index = 524_288 / 12;
    let beyond = pair.table.iter().skip(index + 1 + 1000).filter(|slot| **slot != [0; WORDS]);
    assert_eq!(beyond.count(), 0);
    pair.check(1000);
}

#[test]
fn a_hundred_thousand_hosts_with_two_addresses_find_room() {
    let mut pair = Pair::new(524_288);
    for number in 0..100_000_u32 {
        pair.put_host(host(number.into(), UNTAGGED, 1));
        pair.put_address(address(2 * number, UNTAGGED, number.into()));
        pair.put_address(address(2 * number + 1, UNTAGGED, number.into()));
    }
    assert_eq!(pair.without_room, 0);
    assert_eq!(find_host(&pair.table, mac(99_999), UNTAGGED), Some(host(99_999, UNTAGGED, 1)));
    assert_eq!(find_host(&pair.table, mac(100_000), UNTAGGED), None);
}

#[test]
fn table_without_key_has_no_hosts() {
    let mut table = vec![[0; WORDS]; 64];
    assert_eq!(find_host(&table, mac(1), UNTAGGED), None);
    table.truncate(2);
    assert_eq!(find_address(&table, ip(1), UNTAGGED), None);
    assert!(Placement::new(2, &mut Writes::new()).is_none());
    assert!(Placement::new(3, &mut Writes::new()).is_some());
    assert!(Placement::new(1 << 24, &mut Writes::new()).is_none());
}

#[test]
fn changes_name_what_happened() {
    let (old, new) = (host(1, 7, 1), Host { port: PortNo(3), ..host(1, 7, 1) });
    let of = |before: Slot, after: Slot| -> Vec<HostChange> {
        HostChange::of(&Change { slot: 9, before, after }).collect()
    };
    let empty = [0; WORDS];
    assert_eq!(of(empty, old.to_slot()), [HostChange::Appeared(old)]);
    assert_eq!(of(old.to_slot(), new.to_slot()), [HostChange::Changed { before: old, now: new }]);
    assert_eq!(of(old.to_slot(), empty), [HostChange::Gone(old)]);
    let heard = Host { last_seen_s: 90, ..old };
    assert_eq!(of(old.to_slot(), heard.to_slot()), []);
    let other = address(4, 7, 1);
    assert_eq!(
        of(old.to_slot(), other.to_slot()),
        [HostChange::Gone(old), HostChange::AddressAppeared(other)]
    );
    let moved = Address { mac: mac(2), ..other };
    let changed = HostChange::AddressMoved { before: other, now: moved };
    assert_eq!(of(other.to_slot(), moved.to_slot()), [changed]);
    let pair = Pair::new(16);
    assert_eq!(of(empty, pair.table[0]), [], "the head is no host");
}

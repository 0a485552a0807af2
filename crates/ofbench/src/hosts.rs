//! Generates the hosts behind the emulated switches and their traffic pattern.
//!
//! A host is a number below `--macs`. Its address is that number under a 40-bit permutation chosen
//! by the seed. Such addresses look random to a hash table in the controller, are distinct, and map
//! back to the number without a table. `--addresses alike` uses the digits of the number instead,
//! one per byte in the smallest sufficient base: similar addresses, as an attacker would choose to
//! cause hash collisions.
//!
//! The port follows from the number. Each switch XORs the addresses with its own key, so a thousand
//! switches share one table that stays in the cache.
//!
//! Hosts send in the order of their numbers: the generator reads its table sequentially while the
//! addresses are random to the controller.

use std::sync::Arc;

use openflow::MacAddr;

/// Chosen bits of an address: five bytes. The first byte marks it as unicast and locally
/// administered (IEEE 802-2014 §8.2.2).
const BITS: u32 = 40;
const MASK: u64 = (1 << BITS) - 1;
/// First byte of every address.
const LOCAL: u64 = 0x02;
/// Mask of an address; its least significant byte is the first on the wire.
const ADDRESS: u64 = (1 << 48) - 1;

/// Number of laps after which the pairs repeat, so that controllers' state stays bounded.
const LAPS: u64 = 8;

/// Maximum number of hosts per switch.
pub const MAX_HOSTS: usize = 16_000_000;

/// A permutation of the 40-bit numbers.
#[derive(Debug, Clone, Copy)]
struct Scramble {
    multiply: [u64; 2],
    divide: [u64; 2],
}

impl Scramble {
    fn new(seed: u64) -> Self {
        let multiply = [1, 2].map(|round| mix(seed.wrapping_add(round)) | 1);
        Self { multiply, divide: multiply.map(inverse) }
    }

    fn apply(self, number: u64) -> u64 {
        self.multiply.iter().fold(number & MASK, |number, factor| {
            let number = number.wrapping_mul(*factor) & MASK;
            number ^ number >> (BITS / 2)
        })
    }

    /// Inverts [`Scramble::apply`].
    #[inline]
    fn undo(self, scrambled: u64) -> u64 {
        let [first, second] = self.divide;
        [second, first].iter().fold(scrambled & MASK, |number, factor| {
            // The upper half is unchanged, so applying the shift again inverts it.
            let number = number ^ number >> (BITS / 2);
            number.wrapping_mul(*factor) & MASK
        })
    }
}

/// Returns the inverse of an odd number modulo 2^64, by Newton's iteration. Each round doubles the
/// number of correct bits, which starts at three.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |found, _| found.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(found))))
}

/// Hashes a number so that every bit depends on every bit of `seed` (splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// How host addresses are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Addresses {
    /// Random addresses
    #[default]
    Random,
    /// Similar addresses: each byte takes as few values as possible
    Alike,
}

/// Maps host numbers to addresses and back.
#[derive(Debug, Clone, Copy)]
enum AddressScheme {
    Random(Scramble),
    /// Base of the digits.
    Alike(u64),
}

impl AddressScheme {
    fn new(addresses: Addresses, seed: u64, hosts: usize) -> Self {
        match addresses {
            Addresses::Random => Self::Random(Scramble::new(mix(seed))),
            Addresses::Alike => {
                let enough = |base: &u64| base.pow(BITS / 8) >= hosts as u64;
                Self::Alike((2..256).find(enough).unwrap_or(256))
            }
        }
    }

    fn apply(self, number: u64) -> u64 {
        match self {
            Self::Random(scramble) => scramble.apply(number),
            Self::Alike(base) => {
                (0..BITS / 8).map(|digit| (number / base.pow(digit) % base) << (8 * digit)).sum()
            }
        }
    }

    /// Inverts [`AddressScheme::apply`]; `None` if no number maps to this address.
    #[inline]
    fn undo(self, address: u64) -> Option<u64> {
        match self {
            Self::Random(scramble) => Some(scramble.undo(address)),
            Self::Alike(base) => (0..BITS / 8).rev().try_fold(0, |number, digit| {
                let digit = address >> (8 * digit) & 0xff;
                (digit < base).then_some(number * base + digit)
            }),
        }
    }
}

/// The host table of a run, shared by all switches.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Address in the lower 48 bits, port in the upper 16.
    table: Arc<[u64]>,
    scheme: AddressScheme,
    ports: u16,
    seed: u64,
}

impl Hosts {
    /// Creates `hosts` hosts per switch with random addresses, spread over `ports` ports.
    ///
    /// # Panics
    /// Like [`Hosts::with`].
    pub fn new(seed: u64, hosts: usize, ports: u16) -> Self {
        Self::with(Addresses::Random, seed, hosts, ports)
    }

    /// Creates `hosts` hosts per switch, spread over `ports` ports.
    ///
    /// # Panics
    /// If there are fewer than two hosts or ports, or more than [`MAX_HOSTS`] hosts.
    pub fn with(addresses: Addresses, seed: u64, hosts: usize, ports: u16) -> Self {
        assert!((2..=MAX_HOSTS).contains(&hosts), "at least two hosts");
        assert!((2..0xff00).contains(&ports), "a number of ports that OpenFlow 1.0 can express");
        let scheme = AddressScheme::new(addresses, seed, hosts);
        let table = (0..hosts as u64)
            .map(|number| {
                let address = LOCAL | scheme.apply(number) << 8;
                address | (1 + number % u64::from(ports)) << 48
            })
            .collect();
        Self { table, scheme, ports, seed }
    }

    /// Returns the hosts of switch number `switch`.
    pub fn of_switch(&self, switch: u64) -> SwitchHosts {
        let key = mix(self.seed ^ mix(switch)) & MASK;
        SwitchHosts { hosts: self.clone(), key: key << 8, lap: Lap::new(0, self.table.len()) }
    }
}

/// The hosts of one switch.
///
/// Traffic goes in laps. In each lap every host sends once, in order, and each lap uses another
/// distance from source to destination; after [`LAPS`] laps the pattern repeats. The sequence
/// number of a packet therefore determines its pair, and no pair is stored.
#[derive(Debug, Clone)]
pub struct SwitchHosts {
    hosts: Hosts,
    /// Combined by XOR with addresses so that those of two switches differ.
    key: u64,
    /// The lap of the last lookup.
    lap: Lap,
}

/// A lap.
#[derive(Debug, Clone, Copy)]
struct Lap {
    /// Sequence number of its first packet.
    start: u64,
    /// Distance from source to destination.
    stride: usize,
}

impl Lap {
    /// Returns the lap of a sequence number.
    #[cold]
    fn of(talk: u64, hosts: usize) -> Self {
        Self::new(talk / hosts as u64, hosts)
    }

    fn new(number: u64, hosts: usize) -> Self {
        let others = hosts as u64 - 1;
        let stride = usize::try_from(1 + number % LAPS * 7919 % others).unwrap_or(1);
        Self { start: number * hosts as u64, stride }
    }
}

/// Source, destination, in-port and expected out-port of a packet-in's frame.
///
/// Two integers hold the fields in frame order, least significant byte first: destination and
/// source with six bytes each, then in-port and out-port with two bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair([u64; 2]);

impl Pair {
    #[inline]
    fn new(dst: u64, src: u64, in_port: u64, out_port: u64) -> Self {
        Self([dst | src << 48, src >> 16 | in_port << 32 | out_port << 48])
    }

    /// Returns the destination and source as they appear in the frame.
    #[inline]
    pub fn addresses(self) -> [u8; 12] {
        let mut addresses = [0; 12];
        addresses[..8].copy_from_slice(&self.0[0].to_le_bytes());
        addresses[8..].copy_from_slice(&self.0[1].to_le_bytes()[..4]);
        addresses
    }

    /// Returns the destination; its least significant byte is the first on the wire.
    #[inline]
    pub(crate) fn eth_dst(self) -> u64 {
        self.0[0] & ADDRESS
    }

    /// Returns the source; its least significant byte is the first on the wire.
    #[inline]
    pub(crate) fn eth_src(self) -> u64 {
        self.0[0] >> 48 | (self.0[1] & 0xffff_ffff) << 16
    }

    /// Returns the port on which the packet arrives.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only 16 bits are kept")]
    pub fn in_port(self) -> u16 {
        (self.0[1] >> 32) as u16
    }

    /// Returns the port of its destination.
    #[inline]
    pub fn out_port(self) -> u16 {
        (self.0[1] >> 48) as u16
    }
}

/// Converts the number of [`Pair::eth_dst`] to an address.
pub(crate) fn address(number: u64) -> MacAddr {
    let mut address = [0; 6];
    address.copy_from_slice(&number.to_le_bytes()[..6]);
    MacAddr(address)
}

impl SwitchHosts {
    /// Returns the number of hosts.
    pub fn count(&self) -> usize {
        self.hosts.table.len()
    }

    /// Returns the number of ports over which the hosts are spread.
    pub fn ports(&self) -> u16 {
        self.hosts.ports
    }

    /// Returns the pair of a sequence number. Source and destination are behind different ports.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "every packet-in and every answer calls it")]
    pub fn pair(&mut self, number: u64) -> Pair {
        let table = &*self.hosts.table;
        let place = number.wrapping_sub(self.lap.start);
        #[expect(clippy::cast_possible_truncation, reason = "a host's number is far below 2^32")]
        let (place, stride) = if place < table.len() as u64 {
            (place as usize, self.lap.stride)
        } else {
            self.lap = Lap::of(number, table.len());
            ((number - self.lap.start) as usize, self.lap.stride)
        };
        let src = table[place];
        let mut other = place + stride;
        if other >= table.len() {
            other -= table.len();
        }
        let mut dst = table[other];
        // A packet to the same port would not be forwarded: take the next host behind another port.
        while dst >> 48 == src >> 48 {
            other = if other + 1 == table.len() { 0 } else { other + 1 };
            dst = table[other];
        }
        let (to, from) = ((dst ^ self.key) & ADDRESS, (src ^ self.key) & ADDRESS);
        Pair::new(to, from, src >> 48, dst >> 48)
    }

    /// Returns the port of the host with this address; `None` if no host of this switch has it.
    #[inline]
    pub(crate) fn port_of(&self, address: u64) -> Option<u16> {
        let scrambled = address ^ self.key;
        if scrambled & 0xff != LOCAL || scrambled > ADDRESS {
            return None;
        }
        let number = self.hosts.scheme.undo(scrambled >> 8)?;
        let entry = *self.hosts.table.get(usize::try_from(number).ok()?)?;
        u16::try_from(entry >> 48).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_host_sends_once_a_lap_to_another_port() {
        for (hosts, ports) in [(2, 2), (3, 2), (7, 3), (100, 8), (1000, 4), (9, 8)] {
            let mut switch = Hosts::new(7, hosts, ports).of_switch(3);
            for lap in 0..20 {
                let first = lap * hosts as u64;
                let sources: HashSet<u64> = (first..first + hosts as u64)
                    .map(|number| {
                        let pair = switch.pair(number);
                        assert_ne!(pair.in_port(), pair.out_port());
                        assert_eq!(switch.port_of(pair.eth_src()), Some(pair.in_port()));
                        assert_eq!(switch.port_of(pair.eth_dst()), Some(pair.out_port()));
                        assert!((1..=ports).contains(&pair.out_port()));
                        pair.eth_src()
                    })
                    .collect();
                assert_eq!(sources.len(), hosts);
            }
        }
    }

    #[test]
    fn addresses_depend_on_seed_and_switch() {
        let first = |seed, switch| Hosts::new(seed, 10, 2).of_switch(switch).pair(0);
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(2, 1));
        assert_ne!(first(1, 1), first(1, 2));
    }

    #[test]
    fn unknown_address_has_no_port() {
        let switch = Hosts::new(1, 10, 2).of_switch(1);
        let other = Hosts::new(1, 10, 2).of_switch(2).pair(0);
        assert_eq!(switch.port_of(other.eth_src()), None);
        assert_eq!(switch.port_of(ADDRESS), None);
        assert_eq!(switch.port_of(u64::MAX), None);
        assert_eq!(switch.port_of(0), None);
    }

    #[test]
    fn pair_of_a_sequence_number_is_stable() {
        let mut switch = Hosts::new(1, 10, 3).of_switch(1);
        let pairs: Vec<Pair> = (0..100).map(|number| switch.pair(number)).collect();
        for number in [99, 5, 50, 49, 51, 0] {
            assert_eq!(switch.pair(number), pairs[usize::try_from(number).unwrap()]);
        }
        assert_ne!(pairs[..10], pairs[10..20]);
        assert_eq!(pairs[..10], pairs[80..90]);
    }

    #[test]
    fn scramble_is_inverted() {
        for seed in 0..200 {
            let scramble = Scramble::new(mix(seed));
            for number in [0, 1, 2, 99_999, 1 << 20, MASK, mix(seed) & MASK] {
                let scrambled = scramble.apply(number);
                assert!(scrambled <= MASK);
                assert_eq!(scramble.undo(scrambled), number);
            }
        }
    }

    #[test]
    fn alike_addresses_are_distinct_with_few_byte_values() {
        for (hosts, values) in [(2, 2), (32, 2), (33, 3), (100_000, 10)] {
            let switch = Hosts::with(Addresses::Alike, 1, hosts, 2).of_switch(1);
            let own = |entry: &u64| (*entry ^ switch.key) & ADDRESS;
            let addresses: HashSet<u64> = switch.hosts.table.iter().map(own).collect();
            assert_eq!(addresses.len(), hosts);
            for byte in 0..6 {
                let found: HashSet<u64> =
                    addresses.iter().map(|a| a >> (8 * byte) & 0xff).collect();
                assert!(found.len() <= values, "{hosts} hosts, byte {byte}: {found:?}");
            }
            for address in addresses {
                assert!(switch.port_of(address).is_some());
            }
            assert_eq!(switch.port_of(LOCAL | (0xff << 8 ^ switch.key)), None);
        }
    }

    #[test]
    fn pair_equals_the_first_bytes_of_the_frame() {
        let pair = Hosts::new(5, 10, 2).of_switch(1).pair(0);
        let addresses = pair.addresses();
        assert_eq!(addresses[..6], address(pair.eth_dst()).0);
        assert_eq!(addresses[6..], address(pair.eth_src()).0);
        assert_eq!((addresses[0], addresses[6]), (2, 2));
    }
}

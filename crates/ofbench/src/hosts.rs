//! The hosts behind the emulated switches, and who talks to whom.
//!
//! A host is a number below `--macs`. Its address is that number, scrambled by a permutation of 40
//! bits that the seed chooses: as random as a table look-up in the controller needs it, different
//! for every host, and turned back into the number without a table. Or it is the number's digits, a
//! byte each, in the smallest base that does: addresses as much alike as so many can be, as an attacker
//! might choose them who wants them to collide in a table. Its port follows from the number. Each switch has hosts of its own: their addresses are those of the table, xored with a
//! key of the switch's, so that a thousand switches share one table that stays in the cache.
//!
//! Hosts talk in the order of their numbers, so that the generator reads its table from front to
//! back, while the addresses that the controller sees are random.

use std::sync::Arc;

use openflow::MacAddr;

/// Bits of an address that are chosen: five bytes. The first byte says "unicast, local" (IEEE
/// 802-2014 §8.2.2).
const BITS: u32 = 40;
const MASK: u64 = (1 << BITS) - 1;
/// An address' first byte.
const LOCAL: u64 = 0x02;
/// An address, as a number whose least significant byte is the first on the wire.
const ADDRESS: u64 = (1 << 48) - 1;

/// Laps after which the pairs come again: what controllers remember of them stays bounded.
const LAPS: u64 = 8;

/// The most hosts a switch can have.
pub const MOST: usize = 16_000_000;

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

    /// What [`Scramble::apply`] made this of.
    #[inline]
    fn undo(self, scrambled: u64) -> u64 {
        let [first, second] = self.divide;
        [second, first].iter().fold(scrambled & MASK, |number, factor| {
            // The upper half is as it was, so the shift undoes itself.
            let number = number ^ number >> (BITS / 2);
            number.wrapping_mul(*factor) & MASK
        })
    }
}

/// The number that multiplies an odd one to 1, modulo a power of two (Newton's iteration: each round
/// doubles the bits that are right, of which there are three at first).
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |found, _| found.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(found))))
}

/// A number in which every bit depends on every bit of `seed` (splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// How hosts' addresses are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Addresses {
    /// At random.
    #[default]
    Random,
    /// As much alike as they can be: each byte has as few values as will do
    Alike,
}

/// What makes an address of a number, and the number of an address.
#[derive(Debug, Clone, Copy)]
enum Numbering {
    Random(Scramble),
    /// The base of the digits.
    Alike(u64),
}

impl Numbering {
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

    /// What [`Numbering::apply`] made this of; `None` if it made this of nothing.
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

/// The hosts of a run, from which each switch gets its own.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Address in the lower 48 bits, port above.
    table: Arc<[u64]>,
    numbering: Numbering,
    ports: u16,
    seed: u64,
}

impl Hosts {
    /// `hosts` hosts for each switch, spread over `ports` ports, at random addresses.
    ///
    /// # Panics
    /// As [`Hosts::with`].
    pub fn new(seed: u64, hosts: usize, ports: u16) -> Self {
        Self::with(Addresses::Random, seed, hosts, ports)
    }

    /// `hosts` hosts for each switch, spread over `ports` ports.
    ///
    /// # Panics
    /// With fewer than two hosts or ports, nobody could talk to anybody; there are at most [`MOST`]
    /// hosts.
    pub fn with(addresses: Addresses, seed: u64, hosts: usize, ports: u16) -> Self {
        assert!((2..=MOST).contains(&hosts), "a number of hosts that can talk to each other");
        assert!((2..0xff00).contains(&ports), "a number of ports that OpenFlow 1.0 has");
        let numbering = Numbering::new(addresses, seed, hosts);
        let table = (0..hosts as u64)
            .map(|number| {
                let address = LOCAL | numbering.apply(number) << 8;
                address | (1 + number % u64::from(ports)) << 48
            })
            .collect();
        Self { table, numbering, ports, seed }
    }

    /// Those of switch number `switch`.
    pub fn of_switch(&self, switch: u64) -> SwitchHosts {
        let key = mix(self.seed ^ mix(switch)) & MASK;
        SwitchHosts { hosts: self.clone(), key: key << 8, lap: Lap::new(0, self.table.len()) }
    }
}

/// The hosts of one switch.
///
/// They talk in laps: in each, every host is a source once, in order, and each lap has another
/// distance from source to destination, until after eight of them all begins anew. So a talk's number says who talks to whom, and nothing has
/// to be kept of it.
#[derive(Debug, Clone)]
pub struct SwitchHosts {
    hosts: Hosts,
    /// What tells this switch's addresses from others'.
    key: u64,
    /// The lap of the talk that was looked at last.
    lap: Lap,
}

/// A lap.
#[derive(Debug, Clone, Copy)]
struct Lap {
    /// The number of its first talk.
    start: u64,
    /// How far the destination is from the source.
    stride: usize,
}

impl Lap {
    /// The lap of a talk.
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

/// A packet that a switch asks about: who sends it to whom, where it comes in, and where it has to
/// go once the destination is known.
///
/// In two numbers whose bytes, the least significant first, are: destination and source, six each,
/// as they stand in the frame; in-port, out-port, two each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair([u64; 2]);

impl Pair {
    #[inline]
    fn new(dst: u64, src: u64, in_port: u64, out_port: u64) -> Self {
        Self([dst | src << 48, src >> 16 | in_port << 32 | out_port << 48])
    }

    /// The frame's destination and source, as they stand in it.
    #[inline]
    pub fn addresses(self) -> [u8; 12] {
        let mut addresses = [0; 12];
        addresses[..8].copy_from_slice(&self.0[0].to_le_bytes());
        addresses[8..].copy_from_slice(&self.0[1].to_le_bytes()[..4]);
        addresses
    }

    /// The destination, the first byte on the wire in the least significant.
    #[inline]
    pub(crate) fn eth_dst(self) -> u64 {
        self.0[0] & ADDRESS
    }

    /// The source, the first byte on the wire in the least significant.
    #[inline]
    pub(crate) fn eth_src(self) -> u64 {
        self.0[0] >> 48 | (self.0[1] & 0xffff_ffff) << 16
    }

    /// Where the packet comes in.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "16 bits are meant")]
    pub fn in_port(self) -> u16 {
        (self.0[1] >> 32) as u16
    }

    /// Where its destination is.
    #[inline]
    pub fn out_port(self) -> u16 {
        (self.0[1] >> 48) as u16
    }
}

/// An address from the number that [`Pair::eth_dst`] gives.
pub(crate) fn address(number: u64) -> MacAddr {
    let mut address = [0; 6];
    address.copy_from_slice(&number.to_le_bytes()[..6]);
    MacAddr(address)
}

impl SwitchHosts {
    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.hosts.table.len()
    }

    /// Over how many ports they are spread, from 1 on.
    pub fn ports(&self) -> u16 {
        self.hosts.ports
    }

    /// The pair of the talk with this number; source and destination are behind different ports.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each question and each answer needs it")]
    pub fn talk(&mut self, number: u64) -> Pair {
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
        while dst >> 48 == src >> 48 {
            other = if other + 1 == table.len() { 0 } else { other + 1 };
            dst = table[other];
        }
        let (to, from) = ((dst ^ self.key) & ADDRESS, (src ^ self.key) & ADDRESS);
        Pair::new(to, from, src >> 48, dst >> 48)
    }

    /// The port of the host with an address, if it is one of ours.
    #[inline]
    pub(crate) fn port_of(&self, address: u64) -> Option<u16> {
        let scrambled = address ^ self.key;
        if scrambled & 0xff != LOCAL || scrambled > ADDRESS {
            return None;
        }
        let number = self.hosts.numbering.undo(scrambled >> 8)?;
        let entry = *self.hosts.table.get(usize::try_from(number).ok()?)?;
        u16::try_from(entry >> 48).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_host_is_a_source_once_a_lap_and_talks_to_another_port() {
        for (hosts, ports) in [(2, 2), (3, 2), (7, 3), (100, 8), (1000, 4), (9, 8)] {
            let mut switch = Hosts::new(7, hosts, ports).of_switch(3);
            for lap in 0..20 {
                let first = lap * hosts as u64;
                let sources: HashSet<u64> = (first..first + hosts as u64)
                    .map(|number| {
                        let pair = switch.talk(number);
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
    fn addresses_depend_on_the_seed_and_the_switch_alone() {
        let first = |seed, switch| Hosts::new(seed, 10, 2).of_switch(switch).talk(0);
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(2, 1));
        assert_ne!(first(1, 1), first(1, 2));
    }

    #[test]
    fn address_of_nobody_has_no_port() {
        let switch = Hosts::new(1, 10, 2).of_switch(1);
        let other = Hosts::new(1, 10, 2).of_switch(2).talk(0);
        assert_eq!(switch.port_of(other.eth_src()), None);
        assert_eq!(switch.port_of(ADDRESS), None);
        assert_eq!(switch.port_of(u64::MAX), None);
        assert_eq!(switch.port_of(0), None);
    }

    #[test]
    fn talk_is_the_same_whenever_it_is_looked_at() {
        let mut switch = Hosts::new(1, 10, 3).of_switch(1);
        let talks: Vec<Pair> = (0..100).map(|number| switch.talk(number)).collect();
        for number in [99, 5, 50, 49, 51, 0] {
            assert_eq!(switch.talk(number), talks[usize::try_from(number).unwrap()]);
        }
        assert_ne!(talks[..10], talks[10..20]);
        assert_eq!(talks[..10], talks[80..90]);
    }

    #[test]
    fn scrambling_is_undone() {
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
    fn alike_addresses_are_different_and_of_few_values_a_byte() {
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
    fn pair_is_the_frames_first_bytes() {
        let pair = Hosts::new(5, 10, 2).of_switch(1).talk(0);
        let addresses = pair.addresses();
        assert_eq!(addresses[..6], address(pair.eth_dst()).0);
        assert_eq!(addresses[6..], address(pair.eth_src()).0);
        assert_eq!((addresses[0], addresses[6]), (2, 2));
    }
}

//! Which port each host of a switch is behind: a table with a bound that costs one cache line to
//! look into, whatever addresses somebody invents.
//!
//! ```text
//! line h(address):    | entry | entry | entry | entry | entry | entry | entry | entry |   64 bytes
//! line h(address)+1:  | ...                 the next three, for what finds no room there |
//!
//! entry: 63          16 15     14              0
//!        +-------------+--------+---------------+
//!        | address     | recent | port's place  |   place 0: the entry is empty
//!        +-------------+--------+---------------+
//! ```
//!
//! The lines double until there are [`MOST_LINES`]. Then a host that is new takes the place of
//! one that has not spoken since its line was last searched for such (CLOCK).
//!
//! The hash is simple tabulation ([`Secret`]; Pătraşcu and Thorup, "The power of simple tabulation
//! hashing", STOC 2011): whatever addresses are chosen by who does not know the secret, the lines fill
//! as with random ones.

use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;

use rosemary_sdk::{MacAddr, PortNo};

/// Entries of a line: 64 bytes.
const WAYS: usize = 8;

/// Lines of a table at first, and at most: 262,144 hosts in 2 MiB.
const LEAST_LINES: usize = 8;
const MOST_LINES: usize = 32 * 1024;

const PLACE: u64 = (1 << 15) - 1;
const RECENT: u64 = 1 << 15;
const ADDRESS_SHIFT: u32 = 16;

/// Lines in which a host may be: its own, and those behind it, if there was no room. With 100,000 hosts
/// one in seventy lines is full.
const NEAR: usize = 4;

type Line = [u64; WAYS];

/// A random number for each value of each byte of an address: 6 KiB, for all switches.
#[derive(Debug)]
pub(crate) struct Secret([[u32; 256]; 6]);

impl Secret {
    /// One that nobody knows.
    pub(crate) fn new() -> Rc<Self> {
        let random = RandomState::new();
        let number = |byte, value| {
            let [a, b, c, d, ..] = random.hash_one((byte, value)).to_ne_bytes();
            u32::from_ne_bytes([a, b, c, d])
        };
        Rc::new(Self(std::array::from_fn(|byte| std::array::from_fn(|value| number(byte, value)))))
    }

    #[inline]
    fn hash(&self, host: MacAddr) -> u32 {
        let numbers = self.0.iter().zip(host.0).map(|(numbers, byte)| numbers[usize::from(byte)]);
        numbers.fold(0, |hash, number| hash ^ number)
    }
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// A power of two of them, and those behind the last.
    lines: Vec<Line>,
    secret: Rc<Secret>,
    /// An entry's place counts from 1.
    ports: Vec<PortNo>,
}

impl Hosts {
    /// An empty table.
    pub(crate) fn new(secret: Rc<Secret>) -> Self {
        Self { lines: vec![[0; WAYS]; LEAST_LINES + NEAR - 1], secret, ports: Vec::new() }
    }

    /// Remembers a host; the port that it was behind before, if that was another.
    #[inline]
    pub(crate) fn learn(&mut self, host: MacAddr, port: PortNo) -> Option<PortNo> {
        let place = self.place_of(port)?;
        let entry = bits(host) << ADDRESS_SHIFT | RECENT | place;
        let Some((line, way)) = self.find(host) else {
            self.insert(entry);
            return None;
        };
        let known = &mut self.lines[line][way];
        let before = *known;
        if before != entry {
            *known = entry; // and if not, the line stays clean
        }
        (before & PLACE != place).then(|| self.port(before))
    }

    /// The port that a host is behind.
    #[inline]
    pub(crate) fn port_of(&self, host: MacAddr) -> Option<PortNo> {
        let (line, way) = self.find(host)?;
        Some(self.port(self.lines[line][way]))
    }

    /// In which line a host is, and where in it.
    #[inline]
    fn find(&self, host: MacAddr) -> Option<(usize, usize)> {
        let first = self.line_of(host);
        let in_line = |line| way_of(&self.lines[line], host).map(|way| (line, way));
        // Nearly all are in their own.
        in_line(first).or_else(|| self.find_near(first, host))
    }

    #[inline(never)]
    fn find_near(&self, first: usize, host: MacAddr) -> Option<(usize, usize)> {
        let in_line = |line| way_of(&self.lines[line], host).map(|way| (line, way));
        (first + 1..first + NEAR).find_map(in_line)
    }

    /// Looks at what [`learn`](Self::learn) and [`port_of`](Self::port_of) of this host will look
    /// at, so that it is in the cache by then. What it returns means nothing.
    pub(crate) fn touch(&self, host: MacAddr) -> u64 {
        self.lines[self.line_of(host)][0]
    }

    /// Forgets the hosts behind a port.
    pub(crate) fn forget(&mut self, port: PortNo) {
        let Some(place) = self.known_place(port) else { return };
        let gone = self.lines.iter_mut().flatten().filter(|entry| **entry & PLACE == place);
        gone.for_each(|entry| *entry = 0);
    }

    fn insert(&mut self, entry: u64) {
        loop {
            let first = self.line_of(address(entry));
            for line in &mut self.lines[first..first + NEAR] {
                if let Some(empty) = line.iter_mut().find(|entry| **entry == 0) {
                    *empty = entry;
                    return;
                }
            }
            if self.lines.len() >= MOST_LINES {
                let line = &mut self.lines[first];
                let silent = line.iter().position(|entry| entry & RECENT == 0);
                for entry in line.iter_mut() {
                    *entry &= !RECENT;
                }
                line[silent.unwrap_or(0)] = entry;
                return;
            }
            self.double();
        }
    }

    fn double(&mut self) {
        let lines = 2 * (self.lines.len() - (NEAR - 1)) + NEAR - 1;
        let before = std::mem::replace(&mut self.lines, vec![[0; WAYS]; lines]);
        for entry in before.into_iter().flatten().filter(|entry| *entry != 0) {
            self.insert(entry);
        }
    }

    fn line_of(&self, host: MacAddr) -> usize {
        self.secret.hash(host) as usize & (self.lines.len() - NEAR)
    }

    /// The place of a port, which gets one; `None` if there are too many ports.
    fn place_of(&mut self, port: PortNo) -> Option<u64> {
        if let Some(place) = self.known_place(port) {
            return Some(place);
        }
        self.ports.push(port);
        let place = self.ports.len() as u64;
        if place > PLACE {
            self.ports.pop();
            return None;
        }
        Some(place)
    }

    fn known_place(&self, port: PortNo) -> Option<u64> {
        // Most switches number their ports from 1.
        let likely = (port.0 as usize).wrapping_sub(1);
        if self.ports.get(likely) == Some(&port) {
            return Some(likely as u64 + 1);
        }
        self.ports.iter().position(|known| *known == port).map(|place| place as u64 + 1)
    }

    fn port(&self, entry: u64) -> PortNo {
        self.ports[(entry & PLACE) as usize - 1]
    }
}

fn bits(host: MacAddr) -> u64 {
    let mut bytes = [0; 8];
    bytes[2..].copy_from_slice(&host.0);
    u64::from_be_bytes(bytes)
}

fn address(entry: u64) -> MacAddr {
    let [host @ .., _, _] = entry.to_be_bytes();
    MacAddr(host)
}

/// Where in a line a host is.
///
/// All entries are compared whichever it is: a jump that nobody can foresee costs more.
#[inline]
fn way_of(line: &Line, host: MacAddr) -> Option<usize> {
    // Its entry has a place, whose lowest number is 1.
    let lowest = (bits(host) << ADDRESS_SHIFT) + 1;
    let is_of = |entry: u64| entry.wrapping_sub(lowest) < RECENT | PLACE;
    let bit = |way: usize| u32::from(is_of(line[way])) << way;
    let found = (0..WAYS).fold(0, |found, way| found | bit(way));
    (found != 0).then(|| found.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn host(number: u64) -> MacAddr {
        let [_, _, address @ ..] = number.to_be_bytes();
        MacAddr(address)
    }

    fn port(number: u64) -> PortNo {
        PortNo(u32::try_from(number % 23).unwrap() + 1)
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code, and takes many minutes there")]
    fn hundred_thousand_hosts_are_all_known_however_their_addresses_are_chosen() {
        for step in [1, 2, 0x100, 0x1_0000, 0x100_0001, 0x9e37_79b9_7f4b] {
            let (mut hosts, mut model) = (Hosts::new(Secret::new()), HashMap::new());
            for number in 0..100_000_u64 {
                let host = host(number.wrapping_mul(step) & 0xffff_ffff_ffff);
                let before = model.insert(host, port(number));
                let moved_from = before.filter(|before| *before != port(number));
                assert_eq!(hosts.learn(host, port(number)), moved_from, "step {step:#x}");
            }
            let lost = model.iter().filter(|(host, port)| hosts.port_of(**host) != Some(**port));
            assert_eq!(lost.count(), 0, "step {step:#x}");
        }
    }

    #[test]
    fn host_that_moves_and_port_that_goes() {
        let mut hosts = Hosts::new(Secret::new());
        assert_eq!(hosts.learn(host(0), PortNo(7)), None, "the address of zeros is one too");
        assert_eq!(hosts.learn(host(0), PortNo(7)), None);
        assert_eq!(hosts.learn(host(0), PortNo(8)), Some(PortNo(7)));
        assert_eq!(hosts.port_of(host(0)), Some(PortNo(8)));
        hosts.learn(host(1), PortNo(7));
        hosts.forget(PortNo(8));
        hosts.forget(PortNo(9));
        assert_eq!((hosts.port_of(host(0)), hosts.port_of(host(1))), (None, Some(PortNo(7))));
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code, and takes many minutes there")]
    fn flood_of_invented_addresses_stays_within_the_bound_and_keeps_who_speaks() {
        let mut hosts = Hosts::new(Secret::new());
        let residents: Vec<MacAddr> = (0..1000).map(|number| host(1 << 40 | number)).collect();
        for number in 0..600_000_u64 {
            hosts.learn(host(number), PortNo(1));
            // Each resident speaks once while a thousand strangers do.
            let resident = residents[usize::try_from(number % 1000).unwrap()];
            hosts.learn(resident, PortNo(2));
        }
        assert_eq!(hosts.lines.len(), MOST_LINES + NEAR - 1);
        let kept = residents.iter().filter(|host| hosts.port_of(**host) == Some(PortNo(2)));
        assert!(kept.count() > 990);
    }
}

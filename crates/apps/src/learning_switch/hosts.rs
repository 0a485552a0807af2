//! Which port each host of a switch is behind: a table with a bound that costs one cache line to
//! look into, whatever addresses somebody invents.
//!
//! ```text
//! line h:    | 0, 7 tags: a byte each | entry 1 | entry 2 | ...                | entry 7 |   64 bytes
//! line h+1:  | ...                 the next seven, for what finds no room there          |
//!
//! tag: 0 for no entry, or 7 bits of the address's hash, and 1 if these are 0
//!
//! entry: 63          16 15     14              0
//!        +-------------+--------+---------------+
//!        | address     | recent | port's place  |
//!        +-------------+--------+---------------+
//! ```
//!
//! The tags of a line are compared all at once; an entry is looked at if its tag is the one that is
//! searched for, which one in twenty times is another's.
//!
//! The lines double until there are [`MOST_LINES`]. Then a host that is new takes the place of
//! one that has not spoken since its line was last searched for such (CLOCK).
//!
//! The hash is two folded multiplications by secret numbers ([`Secret`]). No way is known to choose addresses that
//! crowd a few lines without knowing the numbers; if somebody finds one, a host is looked for in [`NEAR`]
//! lines, no more.

use std::hash::{BuildHasher as _, RandomState};

use rosemary_sdk::{MacAddr, PortNo};

/// Entries of a line.
const WAYS: usize = 7;

/// Lines of a table at first, and at most: 229,376 hosts in 2 MiB.
const LEAST_LINES: usize = 8;
const MOST_LINES: usize = 32 * 1024;

/// Lines of a table of which many are in no near cache: more than 64 KiB.
const LARGE: usize = 1024;

const PLACE: u64 = (1 << 15) - 1;
const RECENT: u64 = 1 << 15;
const ADDRESS_SHIFT: u32 = 16;

/// Lines in which a host may be: its own, and those behind it, if there was no room. With 100,000 hosts
/// one in thirty lines is full.
const NEAR: usize = 8;

/// See the module's description. The first word's byte `n` is the tag of entry `n`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; 1 + WAYS]);

/// A byte in each place of a word.
const EACH: u64 = 0x0101_0101_0101_0101;

impl Line {
    /// Where in it a host is.
    #[inline]
    fn way_of(&self, host: Host) -> Option<usize> {
        let Self([tags, ..]) = self;
        let differs = tags ^ (EACH * host.tag());
        // The highest bit of each byte that is zero: none of `differs` has that bit, so none borrows of the next.
        let mut found = ((EACH << 7) - differs) & (EACH << 7);
        while found != 0 {
            let way = found.trailing_zeros() as usize / 8;
            if self.0[way] >> ADDRESS_SHIFT == host.address {
                return Some(way);
            }
            found &= found - 1;
        }
        None
    }

    /// Where in it is no entry.
    fn empty(&self) -> Option<usize> {
        (1..=WAYS).find(|way| self.tag(*way) == 0)
    }

    fn tag(&self, way: usize) -> u64 {
        self.0[0] >> (8 * way) & 0xff
    }

    fn put(&mut self, way: usize, tag: u64, entry: u64) {
        let others = self.0[0] & !(0xff << (8 * way));
        (self.0[0], self.0[way]) = (others | tag << (8 * way), entry);
    }
}

/// A host, and by what it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its address, the first byte lowest.
    address: u64,
    hash: u32,
}

impl Host {
    /// Its address.
    #[inline]
    pub(crate) fn address(self) -> MacAddr {
        let [address @ .., _, _] = self.address.to_le_bytes();
        MacAddr(address)
    }

    /// Whether the address names many hosts (IEEE 802-2014 §8.2.2): never a source.
    #[inline]
    pub(crate) fn is_group(self) -> bool {
        self.address & 1 == 1
    }

    /// Whether a bridge must not forward to this address (IEEE 802.1Q-2018 table 8-1): LLDP, spanning
    /// tree, pause frames.
    #[inline]
    pub(crate) fn stays_on_its_link(self) -> bool {
        let [address @ .., last] = self.address().0;
        address == [0x01, 0x80, 0xc2, 0, 0] && last < 0x10
    }

    #[inline]
    fn tag(self) -> u64 {
        u64::from(self.hash >> 25).max(1)
    }
}

/// Random numbers that nobody outside knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret([u64; 3]);

impl Secret {
    /// One that nobody knows.
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        let [before, first, second] = std::array::from_fn(|place| random.hash_one(place));
        Self([before, first | 1, second | 1])
    }

    /// The hosts with the addresses that a frame begins with: destination and source.
    #[inline]
    pub(crate) fn hosts(self, frame: &[u8; 12]) -> [Host; 2] {
        let word =
            |at: usize| frame[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        [word(0) & u64::MAX >> ADDRESS_SHIFT, word(4) >> ADDRESS_SHIFT].map(|it| self.host_at(it))
    }

    #[inline]
    fn host_at(self, address: u64) -> Host {
        let Self([before, first, second]) = self;
        #[expect(clippy::cast_possible_truncation, reason = "any of its bits will do")]
        let hash = fold(fold(address ^ before, first), second) as u32;
        Host { address, hash }
    }
}

/// The halves of a product, one upon the other: each bit of it depends on nearly all of both.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// A power of two of them, and those behind the last.
    lines: Vec<Line>,
    secret: Secret,
    /// An entry's place is where its port is here: 0 is nobody's, so that port n is mostly at n.
    ports: Vec<PortNo>,
}

impl Hosts {
    /// An empty table.
    pub(crate) fn new(secret: Secret) -> Self {
        let lines = vec![Line::default(); LEAST_LINES + NEAR - 1];
        Self { lines, secret, ports: vec![PortNo::ANY] }
    }

    /// What its hosts are found by.
    #[inline]
    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// Remembers a host; the port that it was behind before, if that was another.
    #[inline]
    pub(crate) fn learn(&mut self, host: Host, port: PortNo) -> Option<PortNo> {
        let place = self.place_of(port)?;
        let entry = host.address << ADDRESS_SHIFT | RECENT | place;
        let Some((line, way)) = self.find(host) else {
            self.insert(host, entry);
            return None;
        };
        let known = &mut self.lines[line].0[way];
        let before = *known;
        if before != entry {
            *known = entry; // and if not, the line stays clean
        }
        (before & PLACE != place).then(|| self.port(before))
    }

    /// Whether [`learn`](Self::learn) would change nothing.
    #[inline]
    pub(crate) fn is_known(&self, host: Host, port: PortNo) -> bool {
        let entry = self.entry(host);
        entry & RECENT != 0 && self.port(entry) == port
    }

    /// The port that a host is behind.
    #[inline]
    pub(crate) fn port_of(&self, host: Host) -> Option<PortNo> {
        let entry = self.entry(host);
        (entry != 0).then(|| self.port(entry))
    }

    /// A host's entry, 0 if there is none.
    #[inline]
    fn entry(&self, host: Host) -> u64 {
        let line = &self.lines[self.line_of(host)];
        // Nearly all are in their own.
        line.way_of(host).map_or_else(|| self.entry_near(host), |way| line.0[way])
    }

    #[inline(never)]
    fn entry_near(&self, host: Host) -> u64 {
        self.find(host).map_or(0, |(line, way)| self.lines[line].0[way])
    }

    /// In which line a host is, and where in it.
    fn find(&self, host: Host) -> Option<(usize, usize)> {
        let first = self.line_of(host);
        let in_line = |line: usize| self.lines[line].way_of(host).map(|way| (line, way));
        (first..first + NEAR).find_map(in_line)
    }

    /// Whether what is looked for must be waited for.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.lines.len() > LARGE + NEAR - 1
    }

    /// Looks at what [`learn`](Self::learn) and [`port_of`](Self::port_of) of this host will look
    /// at, so that it is in the cache by then. What it returns means nothing.
    #[inline]
    pub(crate) fn touch(&self, host: Host) -> u64 {
        self.lines[self.line_of(host)].0[0]
    }

    /// Forgets the hosts behind a port.
    pub(crate) fn forget(&mut self, port: PortNo) {
        let Some(place) = self.known_place(port) else { return };
        for line in &mut self.lines {
            for way in 1..=WAYS {
                if line.tag(way) != 0 && line.0[way] & PLACE == place {
                    line.put(way, 0, 0);
                }
            }
        }
    }

    #[inline(never)]
    fn insert(&mut self, host: Host, entry: u64) {
        loop {
            let first = self.line_of(host);
            for line in &mut self.lines[first..first + NEAR] {
                if let Some(empty) = line.empty() {
                    line.put(empty, host.tag(), entry);
                    return;
                }
            }
            if self.lines.len() >= MOST_LINES {
                let line = &mut self.lines[first];
                let silent = (1..=WAYS).find(|way| line.0[*way] & RECENT == 0);
                for entry in &mut line.0[1..] {
                    *entry &= !RECENT;
                }
                line.put(silent.unwrap_or(1), host.tag(), entry);
                return;
            }
            self.double();
        }
    }

    fn double(&mut self) {
        let lines = 2 * (self.lines.len() - (NEAR - 1)) + NEAR - 1;
        let before = std::mem::replace(&mut self.lines, vec![Line::default(); lines]);
        for line in before {
            for way in (1..=WAYS).filter(|way| line.tag(*way) != 0) {
                let entry = line.0[way];
                self.insert(self.secret.host_at(entry >> ADDRESS_SHIFT), entry);
            }
        }
    }

    fn line_of(&self, host: Host) -> usize {
        host.hash as usize & (self.lines.len() - NEAR)
    }

    /// The place of a port, which gets one; `None` if there are too many ports.
    fn place_of(&mut self, port: PortNo) -> Option<u64> {
        if let Some(place) = self.known_place(port) {
            return Some(place);
        }
        let place = Some(self.ports.len() as u64).filter(|place| *place <= PLACE)?;
        self.ports.push(port);
        Some(place)
    }

    #[inline]
    fn known_place(&self, port: PortNo) -> Option<u64> {
        if self.ports.get(port.0 as usize) == Some(&port) {
            return Some(port.0.into());
        }
        self.ports[1..].iter().position(|known| *known == port).map(|place| place as u64 + 1)
    }

    #[inline]
    fn port(&self, entry: u64) -> PortNo {
        self.ports[(entry & PLACE) as usize]
    }
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

    fn known(hosts: &Hosts, host: MacAddr) -> Host {
        let mut frame = [0; 12];
        frame[..6].copy_from_slice(&host.0);
        frame[6..].copy_from_slice(&host.0);
        let [dst, src] = hosts.secret.hosts(&frame);
        assert_eq!((dst, dst.address()), (src, host));
        dst
    }

    fn learn(hosts: &mut Hosts, host: MacAddr, port: PortNo) -> Option<PortNo> {
        hosts.learn(known(hosts, host), port)
    }

    fn port_of(hosts: &Hosts, host: MacAddr) -> Option<PortNo> {
        hosts.port_of(known(hosts, host))
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code, and takes many minutes there")]
    fn hundred_thousand_hosts_are_all_known_however_their_addresses_are_chosen() {
        // In steps; turned round, so that the highest bits differ; in pairs that are each other's inverse; with few
        // bits that are 1, far apart.
        let in_steps = |step: u64| move |number: u64| number.wrapping_mul(step);
        let shapes: [Box<dyn Fn(u64) -> u64>; 9] = [
            Box::new(in_steps(1)),
            Box::new(in_steps(2)),
            Box::new(in_steps(0x100)),
            Box::new(in_steps(0x1_0000)),
            Box::new(in_steps(0x100_0001)),
            Box::new(in_steps(0x9e37_79b9_7f4b)),
            Box::new(|number| number.reverse_bits() >> 16),
            Box::new(|number| if number & 1 == 0 { number } else { !number }),
            Box::new(|number| (0..17).map(|bit| (number >> bit & 1) << (bit * 14 % 47)).sum()),
        ];
        for (step, shape) in shapes.iter().enumerate() {
            let (mut hosts, mut model) = (Hosts::new(Secret::new()), HashMap::new());
            for number in 0..100_000_u64 {
                let host = host(shape(number) & 0xffff_ffff_ffff);
                let before = model.insert(host, port(number));
                let moved_from = before.filter(|before| *before != port(number));
                assert_eq!(learn(&mut hosts, host, port(number)), moved_from, "shape {step}");
            }
            let lost = model.iter().filter(|(host, port)| port_of(&hosts, **host) != Some(**port));
            assert_eq!(lost.count(), 0, "shape {step}");
        }
    }

    #[test]
    fn host_that_moves_and_port_that_goes() {
        let mut hosts = Hosts::new(Secret::new());
        assert_eq!(learn(&mut hosts, host(0), PortNo(7)), None, "the address of zeros is one too");
        assert_eq!(learn(&mut hosts, host(0), PortNo(7)), None);
        assert_eq!(learn(&mut hosts, host(0), PortNo(8)), Some(PortNo(7)));
        assert_eq!(port_of(&hosts, host(0)), Some(PortNo(8)));
        learn(&mut hosts, host(1), PortNo(7));
        hosts.forget(PortNo(8));
        hosts.forget(PortNo(9));
        assert_eq!((port_of(&hosts, host(0)), port_of(&hosts, host(1))), (None, Some(PortNo(7))));
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code, and takes many minutes there")]
    fn flood_of_invented_addresses_stays_within_the_bound_and_keeps_who_speaks() {
        let mut hosts = Hosts::new(Secret::new());
        let residents: Vec<MacAddr> = (0..1000).map(|number| host(1 << 40 | number)).collect();
        for number in 0..600_000_u64 {
            learn(&mut hosts, host(number), PortNo(1));
            // Each resident speaks once while a thousand strangers do.
            let resident = residents[usize::try_from(number % 1000).unwrap()];
            learn(&mut hosts, resident, PortNo(2));
        }
        assert_eq!(hosts.lines.len(), MOST_LINES + NEAR - 1);
        let kept = residents.iter().filter(|host| port_of(&hosts, **host) == Some(PortNo(2)));
        assert!(kept.count() > 990);
    }
}

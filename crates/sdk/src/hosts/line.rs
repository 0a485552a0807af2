//! A cache line of seven hosts and their tags.
//!
//! ```text
//! line:  | 0, 7 tags: a byte each | entry 1 | entry 2 | ... | entry 7 |   64 bytes
//!
//! tag:   0 for no entry, or 7 bits of the address's hash, and 1 if these are 0
//!
//! entry: 63          16   15     14   12 11           0
//!        +-------------+--------+-------+--------------+
//!        | address     | recent |  age  | value number |
//!        +-------------+--------+-------+--------------+
//! ```
//!
//! The tags of a line are compared all at once. An entry is looked at if its tag is the wanted one; one in twenty times
//! it is another host's.

use super::key::HostKey;

/// Entries of a line.
pub(super) const WAYS: usize = 7;

/// Numbers that a value can have.
pub(super) const MAX_VALUES: usize = 1 << 12;

const VALUE: u64 = MAX_VALUES as u64 - 1;
const AGE_SHIFT: u32 = 12;
const AGE: u64 = 7 << AGE_SHIFT;
const RECENT: u64 = 1 << 15;
const ADDRESS_SHIFT: u32 = 16;

/// A byte in each place of a word.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The entry of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostEntry(u64);

impl HostEntry {
    /// A host that is learned now.
    #[inline]
    pub(super) fn new(key: HostKey, age_bits: u64, value: u16) -> Self {
        Self(key.address << ADDRESS_SHIFT | RECENT | age_bits << AGE_SHIFT | u64::from(value))
    }

    #[inline]
    pub(super) fn address(self) -> u64 {
        self.0 >> ADDRESS_SHIFT
    }

    /// Whether it was learned since its line was last searched for a host to replace.
    #[inline]
    pub(super) fn is_recent(self) -> bool {
        self.0 & RECENT != 0
    }

    /// Whether it is recent and was learned in the tick with these age bits.
    #[inline]
    pub(super) fn is_recent_in(self, age_bits: u64) -> bool {
        self.0 & (RECENT | AGE) == RECENT | age_bits << AGE_SHIFT
    }

    #[inline]
    pub(super) fn age_bits(self) -> u64 {
        (self.0 & AGE) >> AGE_SHIFT
    }

    #[inline]
    pub(super) fn value(self) -> usize {
        (self.0 & VALUE) as usize
    }
}

/// See the module's description. The first word's byte `n` is the tag of entry `n`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Line([u64; 1 + WAYS]);

impl Line {
    /// Where in it a host is.
    #[inline]
    pub(super) fn find(&self, key: HostKey) -> Option<usize> {
        let differs = self.tags() ^ (EACH * tag(key));
        // The highest bit of each byte that is zero: none of `differs` has that bit, so none borrows of the next.
        let mut found = ((EACH << 7) - differs) & (EACH << 7);
        while found != 0 {
            let way = found.trailing_zeros() as usize / 8;
            if self.0[way] >> ADDRESS_SHIFT == key.address {
                return Some(way);
            }
            found &= found - 1;
        }
        None
    }

    /// Its tags; loading them loads the line.
    #[inline]
    pub(super) fn tags(&self) -> u64 {
        self.0[0]
    }

    #[inline]
    pub(super) fn entry(&self, way: usize) -> HostEntry {
        HostEntry(self.0[way])
    }

    /// The hosts in it, and where each is.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, HostEntry)> + use<> {
        let line = *self;
        (1..=WAYS).filter(move |way| line.tag(*way) != 0).map(move |way| (way, line.entry(way)))
    }

    /// Where in it is no entry.
    pub(super) fn empty(&self) -> Option<usize> {
        (1..=WAYS).find(|way| self.tag(*way) == 0)
    }

    pub(super) fn put(&mut self, way: usize, key: HostKey, entry: HostEntry) {
        self.set(way, tag(key), entry.0);
    }

    /// Replaces what it knows of the host in this way.
    #[inline]
    pub(super) fn replace(&mut self, way: usize, entry: HostEntry) {
        self.0[way] = entry.0;
    }

    pub(super) fn remove(&mut self, way: usize) {
        self.set(way, 0, 0);
    }

    /// Chooses the host to give up for a new one: the first that is not recent. All are no longer recent afterwards.
    pub(super) fn victim(&mut self) -> usize {
        let victim = (1..=WAYS).find(|way| !self.entry(*way).is_recent());
        for entry in &mut self.0[1..] {
            *entry &= !RECENT;
        }
        victim.unwrap_or(1)
    }

    fn tag(&self, way: usize) -> u64 {
        self.0[0] >> (8 * way) & 0xff
    }

    fn set(&mut self, way: usize, tag: u64, entry: u64) {
        let others = self.0[0] & !(0xff << (8 * way));
        (self.0[0], self.0[way]) = (others | tag << (8 * way), entry);
    }
}

#[inline]
fn tag(key: HostKey) -> u64 {
    u64::from(key.hash >> 25).max(1)
}

//! Places records in a table by the hash of their names, so that a reader finds one without reading all.
//!
//! ```text
//! slots     0        1..7      8..15      16..23    ...
//!           key      unused    bucket 1   bucket 2
//! slot 0    w0 = 0xff | w1, w2, w3 = the key of the hash | w4 = number of buckets without this one
//! hash      of the record's name, 64 bits: each half chooses a bucket
//! ```
//!
//! A record goes into the emptier of its two buckets and stays there until it is removed, so a reader finds each record that
//! was there before its look-up began and is there after it. Nothing is displaced: a record whose buckets are both full has
//! no room ([`Placement::insert`] returns `None` and counts it). The key is random, so nobody in the network can choose
//! addresses that meet in one bucket. The tables of the services `hosts` and `stats` have this layout.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use super::table::{Slot, Table};

/// The words by which a record is found.
pub type Name = [u64; 3];

/// Slots of a bucket.
const WAYS: u32 = 8;

const KEY: u64 = 0xff;

/// The random numbers of a table's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u64; 3]);

/// A record's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash(u64);

impl HashKey {
    /// Chooses a key.
    pub fn random() -> Self {
        let random = RandomState::new();
        let [before, first, second] = std::array::from_fn(|place| random.hash_one(place));
        // Multiplying by an even number would lose the highest bit.
        Self([before, first | 1, second | 1])
    }

    /// Decodes slot 0; `None` if the service has not written it yet.
    pub fn of_slot(slot: &Slot) -> Option<Self> {
        let [kind, before, first, second, ..] = *slot;
        (kind == KEY).then_some(Self([before, first, second]))
    }

    /// Returns the hash of a name.
    pub fn hash(self, name: Name) -> Hash {
        let (Self([before, first, second]), [a, b, c]) = (self, name);
        Hash(fold(fold(fold(a ^ before, first) ^ b, second) ^ c, first))
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey") // its numbers are for nobody's log
    }
}

/// Returns the exclusive-or of a product's halves: each bit depends on nearly all bits of both factors.
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// The number of buckets of a table, slot 0's not included; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets(u32);

impl Buckets {
    /// Returns the buckets of a table with this many slots; `None` if there is no room for one.
    pub fn of(capacity: u32) -> Option<Self> {
        let buckets = (capacity / WAYS).checked_sub(1)?;
        (buckets > 0).then_some(Self(buckets))
    }

    /// Returns the slots of the two buckets in which a record with this hash can be.
    pub fn choices(self, hash: Hash) -> [Range<u32>; 2] {
        let [first, second] = self.numbers(hash);
        [slots(first), slots(second)]
    }

    /// Returns the numbers of the two buckets, from 1 on.
    fn numbers(self, Hash(hash): Hash) -> [u32; 2] {
        let of_half = |half: u64| ((half * u64::from(self.0)) >> 32) as u32;
        let (first, second) = (of_half(hash & 0xffff_ffff), of_half(hash >> 32));
        let second = if first == second { (second + 1) % self.0 } else { second };
        [first + 1, second + 1]
    }
}

fn slots(bucket: u32) -> Range<u32> {
    bucket * WAYS..(bucket + 1) * WAYS
}

/// Finds the record of this name; `is_it` recognises it.
pub fn find(table: &impl Table, name: Name, is_it: impl Fn(&Slot) -> bool) -> Option<Slot> {
    let key = HashKey::of_slot(&table.read(0))?;
    let [first, second] = Buckets::of(table.slots())?.choices(key.hash(name));
    first.chain(second).map(|slot| table.read(slot)).find(is_it)
}

/// The writer's side of the layout: which slots are taken.
#[derive(Debug)]
pub struct Placement {
    key: HashKey,
    buckets: Buckets,
    /// A bit for each slot of a bucket; bucket 0 is that of the key.
    taken: Vec<u8>,
    len: u32,
    without_room: u64,
}

impl Placement {
    /// Starts an empty table of this many slots; `None` if there is no room for a bucket. The writer then writes
    /// [`first_slot`](Self::first_slot).
    pub fn new(capacity: u32) -> Option<Self> {
        let buckets = Buckets::of(capacity)?;
        let taken = vec![0; buckets.0 as usize + 1];
        Some(Self { key: HashKey::random(), buckets, taken, len: 0, without_room: 0 })
    }

    /// Returns the content of slot 0, without which readers find nothing.
    pub fn first_slot(&self) -> Slot {
        let HashKey([before, first, second]) = self.key;
        [KEY, before, first, second, self.buckets.0.into(), 0, 0]
    }

    /// Returns how many slots there are for records.
    pub fn capacity(&self) -> u32 {
        self.buckets.0 * WAYS
    }

    /// Returns how many slots are taken.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether no slot is taken.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many records found no room.
    pub fn without_room(&self) -> u64 {
        self.without_room
    }

    /// Takes a slot for a record of this name. Returns `None`, and counts the record, if both of its buckets are full.
    ///
    /// The caller makes sure that the record has no slot yet.
    pub fn insert(&mut self, name: Name) -> Option<u32> {
        let hash = self.key.hash(name);
        let [first, second] = self.buckets.numbers(hash);
        let load = |bucket: u32| self.taken.get(bucket as usize).map_or(WAYS, |it| it.count_ones());
        let bucket = if load(second) < load(first) { second } else { first };
        let taken = self.taken.get_mut(bucket as usize)?;
        let way = taken.trailing_ones();
        if way >= WAYS {
            self.without_room += 1;
            return None;
        }
        *taken |= 1 << way;
        self.len += 1;
        Some(bucket * WAYS + way)
    }

    /// Returns a slot; the writer makes it empty. Does nothing if it was not taken.
    pub fn remove(&mut self, slot: u32) {
        let Some(taken) = self.taken.get_mut((slot / WAYS) as usize) else { return };
        let bit = 1 << (slot % WAYS);
        if *taken & bit != 0 {
            *taken &= !bit;
            self.len -= 1;
        }
    }
}

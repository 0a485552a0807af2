//! Places records in a table so that a reader finds one by its name, and that a table with few records takes little memory.
//!
//! ```text
//! slots     0      1 ..= buckets           from there on
//!           head   index, a hash table     records, the free slot that was used last first
//! head      w0 = 0xff | w1, w2, w3 = the key of the hash | w4 = buckets | w5 = the slot behind the last record
//! bucket    w0 = 0xfe | w1 to w6 = 12 entries, a half of a word each, the low half first
//! entry     slot (24 bits) | tag << 24; 0 if it is empty
//! hash      of the record's name, 64 bits: bits 0 to 27 and 28 to 55 choose two buckets, the others are the tag
//! ```
//!
//! A look-up reads at most two buckets, and the records whose tag fits. An entry is in the emptier of its two buckets and stays
//! there. The writer writes a record before its entry and removes the entry first, so a reader finds each record that was
//! there before its look-up began and is there after it. Nothing is displaced: a record finds no room if there is no free slot
//! or both buckets are full ([`Placement::insert`] returns `None` and counts it). The key is random, so nobody in the
//! network can choose addresses that meet in one bucket. The tables of the services `hosts` and `stats` have this layout.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use super::table::{EMPTY, Slot, Table};

/// The words by which a record is found.
pub type Name = [u64; 3];

/// Slots that a writer changes, in this order, with their new content.
pub type Writes = Vec<(u32, Slot)>;

const HEAD: u64 = 0xff;
const BUCKET: u64 = 0xfe;

/// Entries of a bucket.
const ENTRIES: usize = 12;

/// Slots of the table for each bucket of its index.
const SLOTS_PER_BUCKET: u32 = 12;

/// Bits of an entry that are a slot.
const SLOT: u32 = 0x00ff_ffff;

/// Records by which the end of the table grows, so that not each record changes the head.
const STEP: u32 = 64;

type Bucket = [u32; ENTRIES];

/// The random numbers of a table's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HashKey([u64; 3]);

impl HashKey {
    fn random() -> Self {
        let random = RandomState::new();
        let [before, first, second] = std::array::from_fn(|place| random.hash_one(place));
        // Multiplying by an even number would lose the highest bit.
        Self([before, first | 1, second | 1])
    }

    fn hash(self, name: Name) -> u64 {
        let (Self([before, first, second]), [a, b, c]) = (self, name);
        fold(fold(fold(a ^ before, first) ^ b, second) ^ c, first)
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

/// The content of slot 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    key: HashKey,
    buckets: u32,
    end: u32,
}

impl Head {
    fn to_slot(self) -> Slot {
        let HashKey([before, first, second]) = self.key;
        [HEAD, before, first, second, self.buckets.into(), self.end.into(), 0]
    }

    /// Reads the head of a table; `None` if the service has not written it yet, or it does not fit the table.
    fn of(table: &impl Table) -> Option<Self> {
        let [kind, before, first, second, buckets, end, _] = table.read(0);
        let (buckets, end) = (u32::try_from(buckets).ok()?, u32::try_from(end).ok()?);
        let fits = kind == HEAD && buckets > 0 && buckets < end && end <= table.slots();
        fits.then_some(Self { key: HashKey([before, first, second]), buckets, end })
    }

    /// Returns the slots of the two buckets in which the entry of this name can be, and its tag.
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of buckets; a byte")]
    fn choices(&self, name: Name) -> ([u32; 2], u32) {
        const HALF: u64 = (1 << 28) - 1;
        let hash = self.key.hash(name);
        let bucket = |bits: u64| ((bits * u64::from(self.buckets)) >> 28) as u32;
        let (first, second) = (bucket(hash & HALF), bucket(hash >> 28 & HALF));
        let second = if first == second { (second + 1) % self.buckets } else { second };
        ([first + 1, second + 1], (hash >> 56) as u32)
    }
}

fn bucket_slot(bucket: &Bucket) -> Slot {
    let mut slot = [BUCKET, 0, 0, 0, 0, 0, 0];
    for (word, [low, high]) in slot.iter_mut().skip(1).zip(bucket.as_chunks().0) {
        *word = u64::from(*low) | u64::from(*high) << 32;
    }
    slot
}

#[expect(clippy::cast_possible_truncation, reason = "one half each")]
fn entries(slot: &Slot) -> impl Iterator<Item = u32> + use<'_> {
    slot.iter().skip(1).flat_map(|word| [*word as u32, (*word >> 32) as u32])
}

/// Finds the record of this name; `is_it` recognises it.
pub fn find(table: &impl Table, name: Name, is_it: impl Fn(&Slot) -> bool) -> Option<Slot> {
    let head = Head::of(table)?;
    let (buckets, tag) = head.choices(name);
    buckets.into_iter().find_map(|bucket| {
        let bucket = table.read(bucket);
        let mut fitting = entries(&bucket).filter(|entry| *entry != 0 && entry >> 24 == tag);
        fitting.find_map(|entry| Some(table.read(entry & SLOT)).filter(&is_it))
    })
}

/// Returns all records, in no particular order, and reads no more of the table than it has to. Records that change meanwhile
/// may or may not be among them.
pub fn records(table: &impl Table) -> impl Iterator<Item = Slot> {
    let slots = Head::of(table).map_or(0..0, |head| head.buckets + 1..head.end);
    slots.map(|slot| table.read(slot)).filter(|record| *record != EMPTY)
}

/// The writer's side of the layout: which slots are taken.
#[derive(Debug)]
pub struct Placement {
    head: Head,
    slots: u32,
    index: Vec<Bucket>,
    /// Slots that had a record.
    free: Vec<u32>,
    /// The first slot that had none yet.
    next: u32,
    without_room: u64,
}

impl Placement {
    /// Starts an empty table of this many slots; `None` if there is no room for a record, or more than a slot's number can
    /// say. `writes` receives the head.
    pub fn new(slots: u32, writes: &mut Writes) -> Option<Self> {
        let buckets = (slots / SLOTS_PER_BUCKET).max(1);
        let next = buckets + 1;
        if next >= slots || slots > SLOT {
            return None;
        }
        let head = Head { key: HashKey::random(), buckets, end: next };
        writes.push((0, head.to_slot()));
        let index = vec![[0; ENTRIES]; buckets as usize];
        Some(Self { head, slots, index, free: Vec::new(), next, without_room: 0 })
    }

    /// Returns how many slots there are for records.
    pub fn capacity(&self) -> u32 {
        self.slots - self.head.buckets - 1
    }

    /// Returns how many records there are.
    pub fn len(&self) -> usize {
        (self.next - self.head.buckets - 1) as usize - self.free.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many records found no room.
    pub fn without_room(&self) -> u64 {
        self.without_room
    }

    /// Adds a record of this name and returns its slot, in which the caller may replace it. Returns `None`, and counts the
    /// record, if there is no room.
    ///
    /// The caller makes sure that there is no record of this name yet.
    pub fn insert(&mut self, name: Name, record: Slot, writes: &mut Writes) -> Option<u32> {
        let ([first, second], tag) = self.head.choices(name);
        let load = |bucket: u32| {
            let bucket = self.index.get(bucket as usize - 1);
            bucket.map_or(ENTRIES, |it| it.iter().filter(|entry| **entry != 0).count())
        };
        let bucket = if load(second) < load(first) { second } else { first };
        let entries = self.index.get_mut(bucket as usize - 1)?;
        let free = entries.iter_mut().find(|entry| **entry == 0);
        let is_end = self.free.is_empty() && self.next >= self.slots;
        let Some(free) = free.filter(|_| !is_end) else {
            self.without_room += 1;
            return None;
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        *free = tag << 24 | slot;
        let index = bucket_slot(entries);
        if self.next > self.head.end {
            self.head.end = self.head.end.saturating_add(STEP).min(self.slots);
            writes.push((0, self.head.to_slot()));
        }
        writes.extend([(slot, record), (bucket, index)]);
        Some(slot)
    }

    /// Removes the record of this name, which is in this slot. Does nothing if it is not there.
    pub fn remove(&mut self, name: Name, slot: u32, writes: &mut Writes) {
        let (buckets, tag) = self.head.choices(name);
        for bucket in buckets {
            let Some(entries) = self.index.get_mut(bucket as usize - 1) else { continue };
            if let Some(entry) = entries.iter_mut().find(|entry| **entry == (tag << 24 | slot)) {
                *entry = 0;
                writes.extend([(bucket, bucket_slot(entries)), (slot, EMPTY)]);
                self.free.push(slot);
                return;
            }
        }
    }
}

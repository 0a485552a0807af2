//! Remembers the packets that a switch keeps in buffers, and which apps may use them.
//!
//! An app may use a buffer if it received the packet-in that named the buffer, on this connection. The first flow-mod or
//! packet-out that is sent with the buffer uses it up, for every app: it frees the buffer in the switch, which may then
//! keep another packet there (OpenFlow 1.3.5 §7.4.1). A delete does not: its buffer has no meaning for the switch
//! (OpenFlow 1.3.5 §7.3.4.1).
//!
//! ```text
//! home:    id mod slots
//! window:  the WINDOW slots from mix(id) mod slots on
//! ```
//!
//! Switches choose the ids, and may use more of them than their `n_buffers`. So the
//! table of a connection grows with the ids that are in use. Most switches count, and consecutive ids have adjacent homes
//! of their own. An id whose home is occupied goes into its window. Where the window is full too and the table may
//! not grow, the id at home is forgotten. So an id costs at most `1 + WINDOW` comparisons, whatever a switch chooses, and
//! a switch with colliding ids harms only itself.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use crate::ids::AppSlot;
use crate::plan::Set;

/// Slots of an id's window, where it may be outside its home: three cache lines.
const WINDOW: usize = 16;

/// Slots of the smallest table.
const LEAST: usize = 256;

/// Slots that every connection may have, however many others use.
const ALWAYS: usize = 4096;

/// Most ids of a connection. Its table has up to twice as many slots, if the ids leave gaps.
const MOST_IDS: usize = 1 << 17;
const MOST_SLOTS: usize = 2 * MOST_IDS;

/// Ticks between two searches for unneeded memory: a minute.
const LOOK: u16 = 600;

/// Slots beyond [`ALWAYS`] that all connections of this process may use together: 96 MiB, for the ids of 64
/// switches.
static ALL: Budget = Budget(AtomicUsize::new(64 * MOST_IDS));

/// Number of the next table, wrapping.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Slots that may still be taken.
#[derive(Debug)]
struct Budget(AtomicUsize);

impl Budget {
    fn take(&self, slots: usize) -> bool {
        let less = |left: usize| left.checked_sub(slots);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, slots: usize) {
        self.0.fetch_add(slots, Ordering::Relaxed);
    }
}

/// An id and the apps that received its packet: 0 or one more than the id, and both halves of the set, the lower first.
/// All zeros if free, so that the system provides the memory when it is first written.
type Slot = [u32; 3];

#[expect(clippy::cast_possible_truncation, reason = "each half is kept")]
fn occupied(key: u32, apps: Set) -> Slot {
    [key, apps.0 as u32, (apps.0 >> 32) as u32]
}

fn apps(slot: Slot) -> Set {
    let [_, low, high] = slot;
    Set(u64::from(high) << 32 | u64::from(low))
}

/// The key by which a slot names an id. Never 0, as no buffer has the number `OFP_NO_BUFFER`.
fn key_of(buffer: u32) -> u32 {
    buffer.wrapping_add(1)
}

/// The buffers of one connection that apps may use.
#[derive(Debug)]
pub(crate) struct BufferTable {
    /// None, or a power of two.
    slots: Vec<Slot>,
    /// Number of occupied slots.
    ids: usize,
    /// Number of ids outside their home.
    displaced: usize,
    /// Packet-ins since the last search for unneeded memory, wrapping.
    noted: u32,
    ticks: u16,
    budget: &'static Budget,
}

impl Default for BufferTable {
    fn default() -> Self {
        Self::numbered(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for BufferTable {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl BufferTable {
    /// A table that searches for unneeded memory in another tick than the tables with the next numbers: many switches may
    /// connect together, and a large table takes milliseconds.
    fn numbered(number: u16) -> Self {
        let mut table = Self::within(&ALL);
        table.ticks = number % LOOK;
        table
    }

    fn within(budget: &'static Budget) -> Self {
        Self { slots: Vec::new(), ids: 0, displaced: 0, noted: 0, ticks: 0, budget }
    }

    /// Notes that the switch keeps a packet under this id, which these apps receive so far.
    #[inline]
    pub(crate) fn kept(&mut self, buffer: u32, apps: Set) {
        let (home, key) = (self.home(buffer), key_of(buffer));
        self.noted = self.noted.wrapping_add(1);
        if let Some(slot) = self.slots.get_mut(home)
            && (slot[0] == key || (slot[0] == 0 && self.displaced == 0))
        {
            self.ids += usize::from(slot[0] == 0);
            *slot = occupied(key, apps);
            return;
        }
        self.keep_elsewhere(buffer, apps);
    }

    /// Notes that another app receives the packet, unless the buffer was used meanwhile.
    pub(crate) fn note(&mut self, buffer: u32, app: AppSlot) {
        if let Some(at) = self.find(buffer) {
            let slot = &mut self.slots[at];
            *slot = occupied(slot[0], apps(*slot).with(Set::of(app)));
        }
    }

    /// Looks for a buffer; `None` if the app may not use it.
    #[inline]
    pub(crate) fn usable(&self, buffer: u32, app: AppSlot) -> Option<Usable> {
        let at = self.find(buffer).filter(|at| apps(self.slots[*at]).has(app))?;
        Some(Usable { at, is_displaced: at != self.home(buffer) })
    }

    /// Uses up a buffer that was found just before.
    #[inline]
    pub(crate) fn use_up(&mut self, Usable { at, is_displaced }: Usable) {
        self.slots[at] = Slot::default();
        self.ids -= 1;
        self.displaced -= usize::from(is_displaced);
    }

    /// Called once per tick. Once a minute it frees memory that is no longer needed, and all ids if none came in that
    /// minute.
    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks < LOOK {
            return;
        }
        self.ticks = 0;
        let idle = std::mem::take(&mut self.noted) == 0;
        if self.slots.len() <= ALWAYS {
            return;
        }
        if idle {
            self.resize(0);
        } else if self.ids < self.slots.len() / 8 {
            self.resize((2 * self.ids).next_power_of_two().max(ALWAYS));
        }
    }

    /// The first slot of an id.
    #[inline]
    fn home(&self, buffer: u32) -> usize {
        buffer as usize & self.slots.len().wrapping_sub(1)
    }

    /// The slot of an id, if it is known.
    #[inline]
    fn find(&self, buffer: u32) -> Option<usize> {
        let (home, key) = (self.home(buffer), key_of(buffer));
        match self.slots.get(home) {
            Some(slot) if slot[0] == key => Some(home),
            Some(_) if self.displaced > 0 => self.in_window(buffer, key),
            _ => None,
        }
    }

    /// The first slot of an id's window that holds a key, which may be that of a free one.
    #[cold]
    fn in_window(&self, buffer: u32, key: u32) -> Option<usize> {
        let (first, mask) = (mix(buffer) as usize, self.slots.len() - 1);
        (0..WINDOW).map(|step| (first + step) & mask).find(|at| self.slots[*at][0] == key)
    }

    /// The same as [`kept`](Self::kept), where the home is not simply free.
    #[cold]
    fn keep_elsewhere(&mut self, buffer: u32, apps: Set) {
        while self.is_crowded_at(buffer) && self.grow() {}
        if !self.put(buffer, apps) {
            let home = self.home(buffer);
            let there = self.slots[home][0].wrapping_sub(1);
            self.displaced -= usize::from(self.home(there) != home);
            self.slots[home] = occupied(key_of(buffer), apps);
        }
    }

    /// Whether an id has no slot yet and the table is too small for one more that has to go elsewhere.
    fn is_crowded_at(&self, buffer: u32) -> bool {
        let home = self.home(buffer);
        self.slots.is_empty()
            || self.find(buffer).is_none()
                && self.slots[home][0] != 0
                && (self.ids >= self.slots.len() / 2 || self.in_window(buffer, 0).is_none())
    }

    /// Writes an id where it is, or into a free slot; `false` if it has none.
    fn put(&mut self, buffer: u32, apps: Set) -> bool {
        let (home, key) = (self.home(buffer), key_of(buffer));
        let slot = self.find(buffer).or_else(|| {
            if self.slots[home][0] == 0 { Some(home) } else { self.in_window(buffer, 0) }
        });
        let Some(at) = slot else { return false };
        if self.slots[at][0] == 0 {
            self.ids += 1;
            self.displaced += usize::from(at != home);
        }
        self.slots[at] = occupied(key, apps);
        true
    }

    /// Doubles the table; `false` if it may not grow.
    fn grow(&mut self) -> bool {
        let slots = (2 * self.slots.len()).max(LEAST);
        self.ids < MOST_IDS && slots <= MOST_SLOTS && self.resize(slots)
    }

    /// Moves all ids into a table of another size, or into a larger one if that has no slots for them. With no slots, all
    /// ids are forgotten. Returns `false` and changes nothing if the budget does not allow the size.
    fn resize(&mut self, slots: usize) -> bool {
        let (before, after) = (beyond_always(self.slots.len()), beyond_always(slots));
        if !self.budget.take(after.saturating_sub(before)) {
            return false;
        }
        let ids = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        (self.ids, self.displaced) = (0, 0);
        for slot in ids.iter().filter(|slot| slots > 0 && slot[0] != 0) {
            self.keep_elsewhere(slot[0] - 1, apps(*slot));
        }
        self.budget.give_back(before.saturating_sub(after));
        true
    }
}

/// Spreads ids: every bit of the result depends on every bit of the id (the finalizer of `MurmurHash3`).
fn mix(buffer: u32) -> u32 {
    let mixed = (buffer ^ buffer >> 16).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

fn beyond_always(slots: usize) -> usize {
    slots.saturating_sub(ALWAYS)
}

/// Where a buffer is that an app may use, until the table changes.
#[derive(Debug)]
pub(crate) struct Usable {
    at: usize,
    is_displaced: bool,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    impl BufferTable {
        pub(crate) fn has(&self, buffer: u32, app: AppSlot) -> bool {
            self.usable(buffer, app).is_some()
        }

        /// Uses a buffer up; `false` if the app may not use it.
        fn take(&mut self, buffer: u32, app: AppSlot) -> bool {
            self.usable(buffer, app).map(|usable| self.use_up(usable)).is_some()
        }
    }

    fn app(index: usize) -> AppSlot {
        AppSlot::new(index)
    }

    /// A budget of this number of slots, for one test.
    fn budget(slots: usize) -> &'static Budget {
        Box::leak(Box::new(Budget(AtomicUsize::new(slots))))
    }

    fn left(budget: &Budget) -> usize {
        budget.0.load(Ordering::Relaxed)
    }

    /// The ids that app 0 may use, counted slot by slot.
    fn known(table: &BufferTable, ids: impl IntoIterator<Item = u32>) -> usize {
        let known = ids.into_iter().filter(|id| table.has(*id, app(0))).count();
        assert_eq!(table.ids, table.slots.iter().filter(|slot| slot[0] != 0).count());
        known
    }

    #[test]
    fn tables_free_memory_in_different_ticks() {
        let mut tables: Vec<BufferTable> =
            (u16::MAX - 100..u16::MAX).map(BufferTable::numbered).collect();
        for tick in 0..LOOK {
            let before: Vec<u16> = tables.iter().map(|table| table.ticks).collect();
            tables.iter_mut().for_each(BufferTable::tick);
            let looked = tables.iter().zip(before).filter(|(table, before)| table.ticks < *before);
            assert!(looked.count() <= 1, "{tick}");
        }
    }

    #[test]
    fn buffer_is_usable_once_by_its_receivers() {
        let mut table = BufferTable::default();
        assert!(!table.has(5, app(1)));
        table.note(5, app(1)); // no such packet has come
        assert!(!table.has(5, app(1)));
        table.kept(5, Set::EMPTY);
        table.note(5, app(1));
        table.note(5, app(63));
        assert!(table.has(5, app(1)) && table.has(5, app(63)));
        assert!(!table.has(5, app(2)) && !table.has(5 + 256, app(1)));
        table.kept(5, Set::of(app(2)));
        assert!(table.has(5, app(2)) && !table.has(5, app(1)), "another packet");
        assert!(!table.take(5, app(1)) && table.has(5, app(2)));
        table.note(5, app(1));
        assert!(table.take(5, app(2)), "the first use frees it");
        assert!(!table.has(5, app(1)) && !table.take(5, app(2)));
        table.note(5, app(1));
        assert!(!table.has(5, app(1)), "the next app is too late");
    }

    #[test]
    fn hundred_thousand_ids_of_any_pattern_are_known() {
        let ids = || 0..100_000_u32;
        let strided = |by: u32| ids().map(|id| id.wrapping_mul(by)).collect::<Vec<_>>();
        let mut choices = vec![ids().collect::<Vec<_>>(), ids().rev().collect()];
        choices.extend([2, 64, 1 << 12, 0x0101_0101, 0x9e37_79b1].map(strided));
        choices.push(ids().map(u32::swap_bytes).collect());
        choices.push(ids().map(u32::reverse_bits).collect());
        choices.push(ids().map(|id| u32::MAX - 1 - id).collect());
        choices.push(ids().map(|id| id << 8 | id & 0xff).collect());
        for (choice, ids) in choices.iter().enumerate() {
            let ids: BTreeSet<u32> = ids.iter().copied().filter(|id| *id != u32::MAX).collect();
            let mut table = BufferTable::within(budget(MOST_SLOTS));
            for id in &ids {
                table.kept(*id, Set::of(app(0)));
            }
            let known = known(&table, ids.iter().copied());
            assert!(known * 10_000 >= ids.len() * 9_999, "{choice}: {known} of {}", ids.len());
            println!("{choice}: {known} of {} in {} slots", ids.len(), table.slots.len());
            if choice < 2 {
                assert_eq!((known, table.slots.len(), table.displaced), (100_000, 1 << 17, 0));
            }
            for id in &ids {
                assert_eq!(table.has(*id, app(0)), table.take(*id, app(0)));
                assert!(!table.has(*id, app(0)));
            }
            assert_eq!((table.ids, table.displaced), (0, 0), "{choice}");
        }
    }

    #[test]
    fn random_ids_agree_with_a_model() {
        let mut table = BufferTable::within(budget(MOST_SLOTS));
        let (mut model, mut state) = (BTreeSet::new(), 1_u64);
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = u32::try_from(state >> 33).unwrap();
            let id = [id % 3000, (id % 3000) << 18, id % 3000 * 4095][(state >> 20) as usize % 3];
            if state >> 60 < 9 {
                table.kept(id, Set::of(app(0)));
                model.insert(id);
            } else {
                assert_eq!(table.take(id, app(0)), model.remove(&id), "{id}");
            }
        }
        assert_eq!(known(&table, model.iter().copied()), model.len());
        assert_eq!(table.ids, model.len());
    }

    #[test]
    fn ids_that_never_repeat_stay_within_the_bound() {
        let budget = budget(MOST_SLOTS);
        let mut table = BufferTable::within(budget);
        for id in 0..400_000 {
            table.kept(id, Set::of(app(0)));
        }
        assert!(table.slots.len() <= MOST_SLOTS && table.ids <= MOST_SLOTS);
        assert_eq!(known(&table, 399_000..400_000), 1000, "the latest are known");
        for id in 0..300_000_u32 {
            table.kept(id.rotate_right(14), Set::of(app(0)));
        }
        assert!(table.slots.len() <= MOST_SLOTS);
        assert_eq!(left(budget), MOST_SLOTS - beyond_always(table.slots.len()));
        drop(table);
        assert_eq!(left(budget), MOST_SLOTS);
    }

    #[test]
    fn total_bound_leaves_late_switches_a_share() {
        let all = 64 * beyond_always(MOST_IDS);
        let budget = budget(all);
        let fill = |_| {
            let mut table = BufferTable::within(budget);
            (0..100_000).for_each(|id| table.kept(id, Set::of(app(0))));
            table
        };
        let switches: Vec<BufferTable> = (0..64).map(fill).collect();
        for table in &switches {
            assert_eq!(known(table, [0, 50_000, 99_999]), 3);
            assert_eq!(table.ids, 100_000);
        }
        let more: Vec<BufferTable> = (0..4).map(fill).collect();
        let late = more.last().unwrap();
        assert_eq!(known(late, 100_000 - 2048..100_000), 2048);
        assert!(late.slots.len() == ALWAYS && late.ids <= ALWAYS);
        drop((switches, more));
        assert_eq!(left(budget), all);
    }

    #[test]
    fn unused_memory_is_freed() {
        let budget = budget(MOST_SLOTS);
        let mut table = BufferTable::within(budget);
        let look = |table: &mut BufferTable| (0..LOOK).for_each(|_| table.tick());
        (0..100_000).for_each(|id| table.kept(id, Set::of(app(0))));
        look(&mut table);
        assert_eq!((table.slots.len(), table.ids), (1 << 17, 100_000));
        (0..99_000).for_each(|id| assert!(table.take(id, app(0))));
        table.kept(7, Set::of(app(0)));
        look(&mut table);
        assert_eq!(table.slots.len(), ALWAYS);
        assert_eq!(known(&table, (99_000..100_000).chain([7])), 1001);
        (0..100_000).for_each(|id| table.kept(id, Set::of(app(0))));
        look(&mut table);
        look(&mut table);
        assert_eq!((table.slots.len(), table.ids, left(budget)), (0, 0, MOST_SLOTS));
    }
}

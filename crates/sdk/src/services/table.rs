//! Reads the tables that services publish: records in shared memory, which a look-up reads without a system call.
//!
//! A table is an array of slots, each with one record or empty. The first word of a record is its kind and never 0; the
//! service's module gives the rest. A read never returns half of a record. An application that names the service
//! receives [`Event::Table`] when the table is attached, and then for every change.
//!
//! The body of a record of the ABI about changes, all numbers little endian:
//!
//! ```text
//! 0     4        8         64       120
//! +-----+--------+---------+--------+----- ... more changes
//! | slot| 0      | before  | after  |
//! +-----+--------+---------+--------+-----
//! ```
//!
//! [`TableWatch`] is the client's part that all services share.

use crate::Network;
use crate::event::Event;
use crate::services::Service;

/// Words of a record.
pub const WORDS: usize = 7;

/// A record; all words are zero in an empty slot.
pub type Slot = [u64; WORDS];

/// The record of an empty slot.
pub const EMPTY: Slot = [0; WORDS];

/// Bytes of a change in a record of the ABI.
pub const CHANGE_SIZE: usize = 8 + 2 * WORDS * size_of::<u64>();

/// Most changes in a record of the ABI.
pub const MOST_CHANGES: usize = 256;

/// Slots with records.
pub trait Table {
    /// Returns the number of slots.
    fn slots(&self) -> u32;
    /// Returns a number that increases with every change.
    fn version(&self) -> u64;
    /// Returns the record in a slot; [`EMPTY`] if there is no such slot.
    fn read(&self, slot: u32) -> Slot;

    /// Returns all records with their slots.
    fn records(&self) -> impl Iterator<Item = (u32, Slot)>
    where
        Self: Sized,
    {
        (0..self.slots()).map(|slot| (slot, self.read(slot))).filter(|(_, record)| record[0] != 0)
    }
}

/// A table in memory of this process, for tests.
impl Table for Vec<Slot> {
    fn slots(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    fn version(&self) -> u64 {
        0
    }

    fn read(&self, slot: u32) -> Slot {
        self.get(slot as usize).copied().unwrap_or(EMPTY)
    }
}

/// The change of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The slot.
    pub slot: u32,
    /// Its former record.
    pub before: Slot,
    /// Its record now.
    pub after: Slot,
}

impl Change {
    /// Encodes the change for a record of the ABI.
    pub fn to_bytes(&self) -> [u8; CHANGE_SIZE] {
        let mut bytes = [0; CHANGE_SIZE];
        let (head, words) = bytes.split_at_mut(8);
        head[..4].copy_from_slice(&self.slot.to_le_bytes());
        let values = self.before.iter().chain(&self.after);
        for (place, word) in words.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a change.
    pub fn from_bytes(bytes: &[u8; CHANGE_SIZE]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let slot = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let record = |from: usize| std::array::from_fn(|index| word(from + 8 * index));
        Self { slot, before: record(8), after: record(8 + 8 * WORDS) }
    }
}

/// News of a service's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableNews<'a> {
    /// The service.
    pub service: Service,
    /// What happened.
    pub kind: NewsKind,
    changes: &'a [u8],
}

/// The kind of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NewsKind {
    /// The table can be read. Its records are unrelated to those of an earlier table of the service.
    Attached = 0,
    /// Records changed, as [`TableNews::changes`] lists.
    Changed = 1,
    /// Records changed, and the list of changes was too long: the client reads the table again.
    Rescan = 2,
    /// The service has ended. Its table cannot be read until the next one is attached.
    Gone = 3,
}

impl NewsKind {
    /// Returns the kind with this number in a record.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Attached, Self::Changed, Self::Rescan, Self::Gone]
            .into_iter()
            .find(|it| *it as u8 == number)
    }
}

impl<'a> TableNews<'a> {
    /// Makes news with the encoded changes.
    pub(crate) fn new(service: Service, kind: NewsKind, changes: &'a [u8]) -> Self {
        Self { service, kind, changes }
    }

    /// Returns the changes, the oldest first. A slot may occur more than once.
    pub fn changes(&self) -> impl Iterator<Item = Change> + use<'a> {
        let (changes, _) = self.changes.as_chunks::<CHANGE_SIZE>();
        changes.iter().map(Change::from_bytes)
    }
}

/// The effect of an event on a client that keeps a copy of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableEvent {
    /// The client forgets its copy and reads the whole table.
    Reread,
    /// These records changed.
    Changed(Vec<Change>),
    /// The client keeps its copy, and knows that it may be old.
    Gone,
}

/// Follows the table of one service.
#[derive(Debug)]
pub struct TableWatch {
    service: Service,
    is_attached: bool,
}

impl TableWatch {
    /// Follows the table of this service, which the application names in its configuration.
    pub fn new(service: Service) -> Self {
        Self { service, is_attached: false }
    }

    /// Returns whether the table can be read.
    pub fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Handles an event; returns `None` if it is about something else.
    pub fn on_event(&mut self, event: &Event<'_>) -> Option<TableEvent> {
        let Event::Table(news) = event else { return None };
        if news.service != self.service {
            return None;
        }
        self.is_attached = news.kind != NewsKind::Gone;
        Some(match news.kind {
            NewsKind::Attached | NewsKind::Rescan => TableEvent::Reread,
            NewsKind::Changed => TableEvent::Changed(news.changes().collect()),
            NewsKind::Gone => TableEvent::Gone,
        })
    }

    /// Returns the table; `None` while the service is not available.
    pub fn table<'n>(&self, network: &'n Network<'_>) -> Option<TableView<'n>> {
        network.table(self.service)
    }
}

/// The table of a service, as the application's host sees it.
#[derive(Debug, Clone, Copy)]
pub struct TableView<'n> {
    pub(crate) host: &'n crate::abi::guest::Host,
    pub(crate) service: Service,
}

impl Table for TableView<'_> {
    fn slots(&self) -> u32 {
        self.service.table_slots().unwrap_or(0)
    }

    fn version(&self) -> u64 {
        self.host.read_table(self.service, 0, &mut []).unwrap_or(0)
    }

    fn read(&self, slot: u32) -> Slot {
        let mut record = [EMPTY];
        match self.host.read_table(self.service, slot, &mut record) {
            Some(_) => record[0],
            None => EMPTY,
        }
    }

    fn records(&self) -> impl Iterator<Item = (u32, Slot)> {
        const AT_ONCE: usize = 256;
        let steps = (0..self.slots()).step_by(AT_ONCE);
        steps.flat_map(move |first| {
            let mut records = [EMPTY; AT_ONCE];
            let is_read = self.host.read_table(self.service, first, &mut records).is_some();
            let count = if is_read { AT_ONCE } else { 0 };
            let slots = first..first.saturating_add(u32::try_from(count).unwrap_or(0));
            slots.zip(records).filter(|(_, record)| record[0] != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_survive_as_bytes() {
        let one = Change { slot: 7, before: EMPTY, after: [1, 2, 3, 4, 5, 6, u64::MAX] };
        let other = Change { slot: u32::MAX, before: one.after, after: EMPTY };
        let bytes = [one.to_bytes(), other.to_bytes()].concat();
        let news = TableNews::new(Service::Topology, NewsKind::Changed, &bytes);
        assert!(news.changes().eq([one, other]));
        let cut = TableNews::new(Service::Topology, NewsKind::Changed, &bytes[..CHANGE_SIZE + 5]);
        assert!(cut.changes().eq([one]));
    }

    #[test]
    fn records_are_listed_with_their_slots() {
        let mut table = vec![EMPTY; 4];
        (table[1], table[3]) = ([5; WORDS], [6; WORDS]);
        assert!(table.records().eq([(1, [5; WORDS]), (3, [6; WORDS])]));
        assert_eq!(table.read(4), EMPTY);
    }
}

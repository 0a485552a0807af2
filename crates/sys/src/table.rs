//! Shares a table of records with other processes: one writer, many readers, without a system call per access.
//!
//! The memory, in 64-bit words:
//!
//! ```text
//! 0         1                16           16 + 16*s  +1                +8    +9                +16
//! +---------+---+--- ... ---+--- ... ---+----------+-----------------+-----+-----------------+
//! | version | 0             | slot 0    | sequence | record: 7 words | 0   | record again    |  slot s
//! +---------+---+--- ... ---+--- ... ---+----------+-----------------+-----+-----------------+
//! ```
//!
//! The writer makes the sequence odd, changes the first copy, makes the sequence even, and changes the second copy. A reader
//! takes the copy that is not being changed: the first one while the sequence is even. If it finds the same sequence
//! before and after, it has a whole record. So a reader waits for nobody, even if the writer is preempted or dies in between.
//! The version increases with each change of the table, after the change.
//!
//! The memfd is sealed against writing by anybody but the first mapping. A reader does not trust the writer: whatever
//! the words are, a read ends and stays inside the memory.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::shm::{Shared, SharedView, fence, sealable_memory};

pub use crate::shm::is_sealed;

/// Words of a record.
pub const WORDS: usize = 7;

/// A record; all words are zero in an empty slot.
pub type Slot = [u64; WORDS];

/// The record of an empty slot.
pub const EMPTY: Slot = [0; WORDS];

/// Words from one slot to the next, and before the first.
const STRIDE: usize = 2 * COPY;

/// Words from the sequence to the middle between the two copies. A copy begins behind each of them.
const COPY: usize = WORDS + 1;

/// The word with the version.
const VERSION: usize = 0;

/// How often a reader tries to copy a record that the writer changes meanwhile. A writer would have to change the record as
/// often during one read.
const ATTEMPTS: u32 = 1_000;

/// Bytes of a table with this number of slots.
pub fn size_of_table(slots: u32) -> usize {
    (slots as usize + 1) * STRIDE * size_of::<u64>()
}

/// Makes the memory of a table with this number of slots. Memory is used only where records are written.
///
/// # Errors
/// The system is out of memory or descriptors.
pub fn memory(slots: u32) -> io::Result<OwnedFd> {
    sealable_memory("rosemary-table", size_of_table(slots))
}

/// Writes a table. There is one writer for each table.
#[derive(Debug)]
pub struct TableWriter {
    memory: Shared,
    slots: u32,
    version: u64,
}

impl TableWriter {
    /// Takes the memory of [`memory`] for an empty table with this number of slots. No other process can write it afterwards.
    ///
    /// # Errors
    /// The descriptor is no such memory, or has a writer; or the system refuses.
    pub fn map(fd: &OwnedFd, slots: u32) -> io::Result<Self> {
        let memory = Shared::map_and_seal(fd, size_of_table(slots))?;
        Ok(Self { memory, slots, version: 0 })
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The record in a slot; `None` if there is no such slot.
    pub fn get(&self, slot: u32) -> Option<Slot> {
        let at = self.place(slot)?;
        let words = self.memory.words().get(at + 1..at + COPY)?;
        Some(std::array::from_fn(|word| {
            words.get(word).map_or(0, |word| word.load(Ordering::Relaxed))
        }))
    }

    /// Replaces the record in a slot, and returns the former one; `None` if there is no such slot.
    pub fn write(&mut self, slot: u32, record: &Slot) -> Option<Slot> {
        let former = self.get(slot)?;
        let at = self.place(slot)?;
        let slot = self.memory.words().get(at..at + STRIDE)?;
        let (first, second) = slot.split_at_checked(COPY)?;
        let sequence = first.first()?;
        let before = sequence.load(Ordering::Relaxed);
        for (step, copy) in [(1, first), (2, second)] {
            // Readers leave this copy before it changes: a reader that sees a new word sees the new sequence, too.
            sequence.store(before.wrapping_add(step), Ordering::Release);
            fence(Ordering::Release);
            for (word, value) in copy.iter().skip(1).zip(record) {
                word.store(*value, Ordering::Relaxed);
            }
        }
        self.version += 1;
        self.memory.words().get(VERSION)?.store(self.version, Ordering::Release);
        Some(former)
    }

    fn place(&self, slot: u32) -> Option<usize> {
        (slot < self.slots).then(|| (slot as usize + 1) * STRIDE)
    }
}

/// Reads a table that another process writes.
#[derive(Debug)]
pub struct TableReader {
    memory: SharedView,
    slots: u32,
}

impl TableReader {
    /// Maps the table behind a descriptor of [`memory`] that has this number of slots.
    ///
    /// # Errors
    /// The descriptor is no such table, or the system refuses.
    pub fn map(fd: &OwnedFd, slots: u32) -> io::Result<Self> {
        Ok(Self { memory: SharedView::map(fd, size_of_table(slots))?, slots })
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The number of changes so far. All of them are visible to later reads.
    pub fn version(&self) -> u64 {
        self.memory.load_acquire(VERSION)
    }

    /// Copies the record in a slot. The slot is empty if there is no such slot, and if a hostile writer changes it without
    /// end.
    pub fn read(&self, slot: u32) -> Slot {
        if slot >= self.slots {
            return EMPTY;
        }
        let at = (slot as usize + 1) * STRIDE;
        for _ in 0..ATTEMPTS {
            let before = self.memory.load_acquire(at);
            let copy = if before.is_multiple_of(2) { at } else { at + COPY };
            let record = std::array::from_fn(|word| self.memory.load(copy + 1 + word));
            fence(Ordering::Acquire);
            if self.memory.load(at) == before {
                return record;
            }
        }
        EMPTY
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn table(slots: u32) -> (TableWriter, TableReader) {
        let fd = memory(slots).unwrap();
        (TableWriter::map(&fd, slots).unwrap(), TableReader::map(&fd, slots).unwrap())
    }

    #[test]
    fn written_record_is_read() {
        let (mut writer, reader) = table(4);
        assert_eq!((reader.version(), reader.read(3)), (0, EMPTY));
        assert_eq!(writer.write(3, &[1; WORDS]), Some(EMPTY));
        assert_eq!(writer.write(3, &[2; WORDS]), Some([1; WORDS]));
        assert_eq!((reader.version(), reader.read(3)), (2, [2; WORDS]));
        assert_eq!(reader.read(2), EMPTY);
    }

    #[test]
    fn slots_outside_the_table_are_refused() {
        let (mut writer, reader) = table(4);
        assert_eq!(writer.write(4, &[1; WORDS]), None);
        assert_eq!(writer.get(u32::MAX), None);
        assert_eq!(reader.read(4), EMPTY);
    }

    #[test]
    fn descriptor_of_another_size_is_refused() {
        let fd = memory(4).unwrap();
        assert!(TableReader::map(&fd, 5).is_err() && TableWriter::map(&fd, 5).is_err());
    }

    #[test]
    fn writer_that_died_in_between_leaves_a_whole_record() {
        let (mut writer, reader) = table(1);
        writer.write(0, &[5; WORDS]);
        let slot = &writer.memory.words()[STRIDE..];
        slot[0].store(slot[0].load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        slot[3].store(6, Ordering::Relaxed); // it died while it changed the first copy
        assert_eq!(reader.read(0), [5; WORDS]);
    }

    #[test]
    fn readers_never_see_half_a_record() {
        let (mut writer, reader) = table(2);
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let mut last = 0;
                while last < 100_000 {
                    let record = reader.read(1);
                    let [first, rest @ ..] = record;
                    assert!(rest.iter().all(|word| *word == first), "{record:?}");
                    assert!(first == 0 || first >= last, "{first} after {last}");
                    last = last.max(first);
                }
            });
            let mut value = 0;
            while !reading.is_finished() {
                value += 1;
                writer.write(1, &[value; WORDS]);
            }
            reading.join().unwrap();
        });
    }
}

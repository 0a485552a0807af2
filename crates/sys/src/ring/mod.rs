//! Passes records between the kernel and a zone through rings in shared memory, with a commit protocol.
//!
//! `docs/decisions/0001-ring-commit-protocol.md` has the reasons. A pair of rings consists of two memfds, each with
//! exactly one writer:
//!
//! ```text
//! up memory: written by the kernel       down memory: written by the zone
//!
//! byte 0            64              128            4096                   4096 + capacity
//! +-----------------+---------------+--------------+----------------------+
//! | produced        | consumed      | asleep       | records ...          |
//! +-----------------+---------------+--------------+----------------------+
//! ```
//!
//! Positions count bytes and only grow; a record lies at `position % capacity`, 8-byte aligned,
//! and never wraps: a [`PAD`] record fills the ring's end instead. A record begins with
//!
//! ```text
//! 0        4       6       8
//! +--------+-------+-------+---------------------------
//! | size   | kind  | other | body ...                    little endian
//! +--------+-------+-------+---------------------------
//! ```
//!
//! where `size` counts all its bytes and the next one begins at the next multiple of 8.
//!
//! The invariant: **the zone stores `produced` once per batch, after `Done`**, so a record has all of its effects or
//! none. The kernel checks every value that it reads from the zone.
//!
//! [`KernelEnd`] and [`ZoneEnd`] are the two sides. Neither makes system calls. Both also work on heap memory (`over`),
//! for loom (`model.rs`), Miri and the fuzzer.

mod kernel_end;
mod zone_end;

use std::os::fd::OwnedFd;

use thiserror::Error;

pub use kernel_end::{Down, KernelEnd, Room, Span};
pub use zone_end::{Batch, DownWriter, UpReader, ZoneEnd};

/// The default capacity of a ring in bytes. With less, a kernel and a zone on one core switch more often. With more, the
/// start of the ring has left the core's cache when it is used again.
pub const DEFAULT_CAPACITY: u32 = 512 * 1024;

/// Most records in a batch, so that the verdicts on a batch always find room.
pub const MAX_BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// Most messages in a `Send` record.
pub const MAX_MESSAGES: usize = 64;

/// Bytes before the message in a `Send` record: the first word, epoch, the message's number, dpid.
pub const SEND_HEAD: usize = 24;

/// The kind of a record that only fills the ring's end.
pub const PAD: u16 = 0;

// Kinds of down records; the kinds of up records are the app ABI's.
const SEND: u16 = 1;
const STOP: u16 = 2;
const DONE: u16 = 3;

/// Size of `Stop` and `Done` records: the first word, the number, four spare bytes.
const VERDICT: usize = 16;

const WORD: usize = 8;

// A page with a cache line for each index. A model has only the three words, because every word costs it time.
#[cfg(not(loom))]
const HEADER: usize = 4096;
#[cfg(loom)]
const HEADER: usize = crate::shm::ATOMICS * WORD;
const LINE: usize = if cfg!(loom) { WORD } else { 64 };

const PRODUCED: usize = 0;
const CONSUMED: usize = LINE / WORD;
const ASLEEP: usize = 2 * LINE / WORD;

const LEAST_CAPACITY: u32 = if cfg!(loom) { 64 } else { 4096 };

// Values of `ASLEEP`.
const AWAKE: u64 = 0;
const FOR_RECORDS: u64 = 1;
const FOR_ROOM: u64 = 2;

/// The peer broke the ring's contract. The rings are unusable, and the zone must be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PeerFault {
    /// The peer's index is impossible.
    #[error("ring index {index} is not within {from} and {from} + {capacity} and a multiple of 8")]
    Index {
        /// The end of the records that it claims to have produced.
        index: u64,
        /// The position up to which this end has read.
        from: u64,
        /// Bytes in the ring.
        capacity: u32,
    },
    /// A record's size is impossible.
    #[error("record at {at} has {size} bytes, expected {least} to {most}")]
    Size {
        /// Position of the record.
        at: u64,
        /// Claimed size in bytes.
        size: u32,
        /// The smallest size of its kind.
        least: u32,
        /// The largest possible size at this position.
        most: u32,
    },
    /// This direction has no such kind of record.
    #[error("record at {at} has the unknown kind {kind}")]
    Kind {
        /// Position of the record.
        at: u64,
        /// Claimed kind.
        kind: u16,
    },
    /// A verdict about records that do not exist.
    #[error("verdict on {claimed} records, {outstanding} are outstanding")]
    Verdict {
        /// The claimed count for `Done`, or the record's number for `Stop`.
        claimed: u32,
        /// The number of published records that are not done.
        outstanding: u32,
    },
}

/// The descriptors of a ring pair for the zone.
#[derive(Debug)]
pub struct RingFds {
    /// The up memory, which can only be mapped for reading.
    pub up: OwnedFd,
    /// The down memory.
    pub down: OwnedFd,
}

/// The size in bytes of a memory whose ring holds `capacity` bytes of records.
///
/// # Panics
/// If `capacity` is not a power of two of at least a page. It comes from the configuration, which is checked.
pub fn memory_size(capacity: u32) -> usize {
    assert!(capacity.is_power_of_two() && capacity >= LEAST_CAPACITY, "capacity {capacity}");
    HEADER + capacity as usize
}

/// The first word of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct First {
    size: u32,
    kind: u16,
}

impl First {
    const fn word(self) -> u64 {
        self.size as u64 | (self.kind as u64) << 32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the word is cut into its fields")]
    const fn of(word: u64) -> Self {
        Self { size: word as u32, kind: (word >> 32) as u16 }
    }
}

/// The room that a record takes: padding before it, and its size rounded up to words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    pad: usize,
    size: usize,
}

impl Slot {
    /// The slot for a record of `size` bytes at `position`, if `keep` bytes of the ring are reserved for others.
    ///
    /// `None` if the record is longer than half of the remaining capacity. A shorter one fits into an empty ring at any
    /// position, because its padding is shorter than itself.
    fn find(capacity: u32, keep: usize, position: u64, size: usize) -> Option<Self> {
        let capacity = capacity as usize;
        let rounded = size.checked_next_multiple_of(WORD)?;
        if rounded > capacity.checked_sub(keep)? / 2 {
            return None;
        }
        let offset = offset(position, capacity);
        let to_end = capacity - offset;
        let pad = if rounded > to_end { to_end } else { 0 };
        Some(Self { pad, size: rounded })
    }

    fn total(self) -> usize {
        self.pad + self.size
    }
}

/// Where in the ring a position lies, in bytes.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below a u32 capacity")]
fn offset(position: u64, capacity: usize) -> usize {
    (position & (capacity as u64 - 1)) as usize
}

/// The last bytes of a body as a word, filled up with zeros; `None` if the body is a whole number of words.
///
/// Shifts of a whole word replace writing bytes and reading a word, for which a core waits some 30 cycles.
#[inline]
pub fn last_word(body: &[u8]) -> Option<u64> {
    let (_, tail) = body.as_chunks::<WORD>();
    if tail.is_empty() {
        return None;
    }
    let word = match body.last_chunk::<WORD>() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (WORD - tail.len())),
        None => tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    Some(word.to_le())
}

#[cfg(test)]
#[cfg(loom)]
mod model;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

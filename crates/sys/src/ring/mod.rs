//! The rings between the kernel and a zone, and their commit protocol.
//!
//! Why they are as they are stands in `docs/decisions/0001-ring-commit-protocol.md`; this is the
//! short of it. Two memfds, each with exactly one writer:
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
//! The rule that keeps it right: **the zone stores `produced` once per batch, behind `Done`**, so a
//! record has had all its effects or none; and the kernel believes nothing it has not checked.
//!
//! [`KernelEnd`] and [`ZoneEnd`] are the two sides. Neither makes system calls. Both run on heap
//! memory as well (`over`), which is how loom (`model.rs`), Miri and the fuzzer get to see them.

mod kernel_end;
mod zone_end;

use std::os::fd::OwnedFd;

use thiserror::Error;

pub use kernel_end::{Down, KernelEnd, Room, Span};
pub use zone_end::{Batch, DownWriter, UpReader, ZoneEnd};

/// Bytes of records in a ring unless configured otherwise. With less, a kernel and a zone on one core change
/// places more often; with more, a ring is not in the core's cache when it is come back to.
pub const DEFAULT_CAPACITY: u32 = 512 * 1024;

/// Most records in a batch, so that the verdicts on a batch always find room.
pub const MAX_BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// Bytes before the message in a `Send` record: the first word, epoch, the number that goes with the
/// message, dpid.
pub const SEND_HEAD: usize = 24;

/// Kind of a record that only fills the ring's end.
pub const PAD: u16 = 0;

// Kinds of down records; the kinds of up records are the app ABI's.
const SEND: u16 = 1;
const STOP: u16 = 2;
const DONE: u16 = 3;

/// Size of `Stop` and `Done` records: the first word, the number, four spare bytes.
const VERDICT: usize = 16;

const WORD: usize = 8;

// A page, and a cache line for each index; in a model, which pays for every word, no more than the
// three words.
#[cfg(not(loom))]
const HEADER: usize = 4096;
#[cfg(loom)]
const HEADER: usize = crate::shm::ATOMICS * WORD;
const LINE: usize = if cfg!(loom) { WORD } else { 64 };

const PRODUCED: usize = 0;
const CONSUMED: usize = LINE / WORD;
const ASLEEP: usize = 2 * LINE / WORD;

const LEAST_CAPACITY: u32 = if cfg!(loom) { 64 } else { 4096 };

// What `ASLEEP` says.
const AWAKE: u64 = 0;
const FOR_RECORDS: u64 = 1;
const FOR_ROOM: u64 = 2;

/// The peer broke the ring's contract. The rings are finished: the zone is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PeerFault {
    /// The peer's index cannot be true.
    #[error("ring index {index} is not within {from} and {from} + {capacity} and a multiple of 8")]
    Index {
        /// What it claims to have produced.
        index: u64,
        /// How far we have read.
        from: u64,
        /// Bytes in the ring.
        capacity: u32,
    },
    /// A record's size cannot be true.
    #[error("record at {at} has {size} bytes, expected {least} to {most}")]
    Size {
        /// Position of the record.
        at: u64,
        /// Claimed size in bytes.
        size: u32,
        /// Least size of its kind.
        least: u32,
        /// Most that can be there.
        most: u32,
    },
    /// There is no such kind of record in this direction.
    #[error("record at {at} has the unknown kind {kind}")]
    Kind {
        /// Position of the record.
        at: u64,
        /// Claimed kind.
        kind: u16,
    },
    /// A verdict on records that are not there.
    #[error("verdict on {claimed} records, {outstanding} are outstanding")]
    Verdict {
        /// How many, or the number of which record.
        claimed: u32,
        /// Published and not yet done.
        outstanding: u32,
    },
}

/// What a zone is given of a ring pair.
#[derive(Debug)]
pub struct RingFds {
    /// The up memory; can only be mapped for reading.
    pub up: OwnedFd,
    /// The down memory.
    pub down: OwnedFd,
}

/// Bytes of a memory whose ring holds `capacity` bytes of records.
///
/// # Panics
/// If `capacity` is not a power of two of at least a page: it comes from our configuration.
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

/// Where a record goes: how many bytes of padding first, then its bytes rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    pad: usize,
    size: usize,
}

impl Place {
    /// For a record of `size` bytes at `position`, if `keep` bytes of the ring are not for it.
    ///
    /// `None` if it is longer than half of what is for it. One that is not fits into an empty
    /// ring wherever it begins, since it is padded only where that takes less than itself.
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

/// The word that a body ends with which is no whole number of words, zeros behind it; `None` for one
/// that is: writers of records rely on that.
///
/// It is made without writing bytes and reading a word: a core waits some 30 cycles for that.
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

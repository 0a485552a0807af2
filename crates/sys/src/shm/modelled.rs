//! Replaces `memory.rs` in models under loom.
//!
//! The first words are loom's atomics, whose loads return any value that the memory model allows. A race on any other
//! word is a bug, so each has a cell of loom that fails the model if two threads access the word without an order
//! between them. The real code does not rely on a hostile peer for that. It relies on itself, because it hands out
//! records as plain bytes.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use loom::sync::atomic::fence;
use rustix::mm::ProtFlags;

use super::WORD;

/// The number of atomic words: a ring's header.
pub(crate) const ATOMICS: usize = 3;

/// A word of shared memory.
#[derive(Debug)]
pub struct Word(Kind);

#[derive(Debug)]
enum Kind {
    Atomic(loom::sync::atomic::AtomicU64),
    Plain { touched: loom::cell::UnsafeCell<()>, at: *mut u64 },
}

// SAFETY: loom runs one thread at a time, and its cells fail the model on a race.
unsafe impl Sync for Word {}

impl Word {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        match &self.0 {
            Kind::Atomic(word) => word.load(order),
            Kind::Plain { touched, at } => {
                touched.with(|_| ());
                // SAFETY: it points into the block that holds this word too.
                unsafe { at.read() }
            }
        }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        match &self.0 {
            Kind::Atomic(word) => word.store(value, order),
            Kind::Plain { touched, at } => {
                touched.with_mut(|_| ());
                // SAFETY: it points into the block that holds this word too.
                unsafe { at.write(value) }
            }
        }
    }

    fn touch(&self, to_write: bool) {
        match &self.0 {
            Kind::Plain { touched, .. } if to_write => touched.with_mut(|_| ()),
            Kind::Plain { touched, .. } => touched.with(|_| ()),
            Kind::Atomic(_) => panic!("the header is not seen as bytes"),
        }
    }
}

#[derive(Debug)]
struct Block {
    words: Vec<Word>,
    plain: Box<[UnsafeCell<u64>]>,
}

#[derive(Debug, Clone)]
pub(crate) struct Memory(Arc<Block>);

// SAFETY: loom runs one thread at a time, and its cells fail the model on a race.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn mapped(_: &OwnedFd, _: usize, _: ProtFlags) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn on_heap(size: usize) -> (Self, Self) {
        let plain: Box<[_]> = (0..size / WORD).map(|_| UnsafeCell::new(0)).collect();
        let word = |(index, plain): (usize, &UnsafeCell<u64>)| {
            Word(if index < ATOMICS {
                Kind::Atomic(loom::sync::atomic::AtomicU64::new(0))
            } else {
                Kind::Plain { touched: loom::cell::UnsafeCell::new(()), at: plain.get() }
            })
        };
        let words = plain.iter().enumerate().map(word).collect();
        let memory = Self(Arc::new(Block { words, plain }));
        (memory.clone(), memory)
    }

    pub(crate) fn words(&self) -> &[Word] {
        &self.0.words
    }

    /// The same as in `memory.rs`. This counts as the read of the bytes.
    pub(crate) fn address(&self, index: usize, size: usize) -> *const u64 {
        self.touch(index * WORD, size, false).cast()
    }

    /// # Safety
    /// As in `memory.rs`; here it is checked.
    pub(crate) unsafe fn bytes(&self, address: *const u64, size: usize) -> &[u8] {
        let start = self.touch(address.addr() - self.0.plain.as_ptr().addr(), size, false);
        // SAFETY: `touch` found them inside the block and without a race.
        unsafe { std::slice::from_raw_parts(start, size) }
    }

    /// # Safety
    /// As in `memory.rs`; here it is checked.
    #[expect(clippy::mut_from_ref, reason = "as in memory.rs")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, size: usize) -> &mut [u8] {
        let start = self.touch(offset, size, true);
        // SAFETY: `touch` found them inside the block and without a race.
        unsafe { std::slice::from_raw_parts_mut(start, size) }
    }

    fn touch(&self, offset: usize, size: usize, to_write: bool) -> *mut u8 {
        let words = &self.0.words[offset / WORD..(offset + size).div_ceil(WORD)];
        words.iter().for_each(|word| word.touch(to_write));
        self.0.plain.as_ptr().cast_mut().cast::<u8>().wrapping_add(offset)
    }
}

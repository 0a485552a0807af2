//! Provides the memory of [`Shared`](super::Shared) and [`SharedView`](super::SharedView): pages that another process
//! maps too, or a part of this process's heap that two ends share.
//!
//! Every access uses the same pointer; only `drop` distinguishes the two. Under loom, `modelled.rs` replaces this file.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::atomic::fence;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::WORD;

/// A word of shared memory.
pub type Word = AtomicU64;

/// A fixed number of words that live as long as this value. A mapping's memfd is sealed against resizing.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<Word>,
    words: usize,
    /// `None` for a mapping.
    heap: Option<Arc<[Word]>>,
}

// SAFETY: all access is through atomics or under a ring's protocol, and both allow any thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps a memfd of `size` bytes.
    pub(crate) fn mapped(fd: &OwnedFd, size: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the system's choice overlaps no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), size, prot, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words: size / WORD, heap: None })
    }

    /// Two values that share the same zeroed `size` bytes.
    pub(crate) fn on_heap(size: usize) -> (Self, Self) {
        let heap: Arc<[Word]> = (0..size / WORD).map(|_| Word::new(0)).collect();
        let words = heap.len();
        let share = |heap: Arc<[Word]>| {
            // From the Arc and not from a slice of words: a ring also accesses its records as bytes, which a pointer
            // from a slice of atomics would not allow.
            let start = NonNull::new(Arc::as_ptr(&heap).cast::<Word>().cast_mut());
            Self { start: start.expect("an Arc is somewhere"), words, heap: Some(heap) }
        };
        (share(Arc::clone(&heap)), share(heap))
    }

    pub(crate) fn words(&self) -> &[Word] {
        // SAFETY: there are exactly `words` words, aligned, which live as long as `self` and are only accessed as
        // atomics or under a ring's protocol.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The address of word `index`, for reading `size` bytes from there on. A model checks that the read is allowed.
    #[inline]
    pub(crate) fn address(&self, index: usize, size: usize) -> *const u64 {
        debug_assert!(index * WORD + size <= self.words * WORD, "they lie inside");
        self.start.as_ptr().wrapping_add(index).cast()
    }

    /// The `size` bytes from an address of [`address`](Self::address) on.
    ///
    /// # Safety
    /// No process changes them while they are borrowed.
    pub(crate) unsafe fn bytes(&self, address: *const u64, size: usize) -> &[u8] {
        let start = self.byte_at(address.addr().wrapping_sub(self.start.addr().get()), size);
        // SAFETY: `byte_at` found them inside the memory; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(start, size) }
    }

    /// The `size` bytes from `offset` on, for writing.
    ///
    /// # Safety
    /// The memory is writable, and no other code or process touches these bytes while they are borrowed.
    #[expect(
        clippy::mut_from_ref,
        reason = "shared memory: the protocol of a ring says which side may write"
    )]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, size: usize) -> &mut [u8] {
        let start = self.byte_at(offset, size);
        // SAFETY: `byte_at` found them inside the memory; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(start, size) }
    }

    /// # Panics
    /// If the bytes do not lie inside.
    fn byte_at(&self, offset: usize, size: usize) -> *mut u8 {
        let bytes = self.words * WORD;
        assert!(offset <= bytes && size <= bytes - offset, "they lie inside");
        self.start.as_ptr().cast::<u8>().wrapping_add(offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.heap.is_none() {
            // SAFETY: the range is exactly the one of `mapped`, and every reference into it borrows from `self` or its
            // owner.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * WORD) };
        }
    }
}

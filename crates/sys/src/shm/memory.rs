//! What [`Shared`](super::Shared) and [`SharedView`](super::SharedView) lie on: pages that
//! another process maps too, or a piece of this process's heap that two ends in it share.
//!
//! Which one is asked only when it is given back: every access goes through the same pointer.
//! A model under loom has another [`Memory`], in `modelled.rs`.

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

/// Words that live as long as this does, and whose number never changes: a mapping is of a memfd
/// that is sealed against resizing.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<Word>,
    words: usize,
    /// None for a mapping.
    heap: Option<Arc<[Word]>>,
}

// SAFETY: it is plain memory that is only touched through atomics or under a ring's protocol;
// which thread does so makes no difference.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `size` bytes of a memfd that has so many.
    pub(crate) fn mapped(fd: &OwnedFd, size: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the system's choice overlaps nothing of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), size, prot, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words: size / WORD, heap: None })
    }

    /// Two of the same zeroed `size` bytes.
    pub(crate) fn on_heap(size: usize) -> (Self, Self) {
        let heap: Arc<[Word]> = (0..size / WORD).map(|_| Word::new(0)).collect();
        let words = heap.len();
        let share = |heap: Arc<[Word]>| {
            // From the Arc and not from a slice, which would lend what lies behind it only as
            // atomics; a ring's records are seen as bytes too.
            let start = NonNull::new(Arc::as_ptr(&heap).cast::<Word>().cast_mut());
            Self { start: start.expect("an Arc is somewhere"), words, heap: Some(heap) }
        };
        (share(Arc::clone(&heap)), share(heap))
    }

    pub(crate) fn words(&self) -> &[Word] {
        // SAFETY: there are exactly that many words, they are aligned, live as long as `self`, and
        // are only ever seen as atomics or under a ring's protocol.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Where word `index` lies, for who reads `size` bytes from there on. A model looks whether they may.
    #[inline]
    pub(crate) fn place(&self, index: usize, size: usize) -> *const u64 {
        debug_assert!(index * WORD + size <= self.words * WORD, "they lie inside");
        self.start.as_ptr().wrapping_add(index).cast()
    }

    /// The `size` bytes from such a place on.
    ///
    /// # Safety
    /// Nobody changes them as long as they are borrowed.
    pub(crate) unsafe fn bytes(&self, place: *const u64, size: usize) -> &[u8] {
        let start = self.byte_at(place.addr().wrapping_sub(self.start.addr().get()), size);
        // SAFETY: `byte_at` found them inside the memory; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(start, size) }
    }

    /// The `size` bytes from `offset` on, to be changed.
    ///
    /// # Safety
    /// The memory is writable, and nobody else touches these bytes as long as they are borrowed.
    #[expect(clippy::mut_from_ref, reason = "shared memory: who may write what is a ring's matter")]
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
            // SAFETY: the range is exactly the one that `mapped` mapped, and every reference into
            // it borrows from `self`, or from who keeps it.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * WORD) };
        }
    }
}

//! Memory shared with another process: a memfd that cannot be resized.
//!
//! Seen as `[AtomicU64]`, never as `&mut [u8]`: what the peer writes at the same time is then an
//! ordinary atomic race, which Rust defines. The places where a protocol allows more (a record
//! that the other side will not touch until we say so) are in [`ring`](crate::ring), each with
//! its reason.
//!
//! [`Shared`] can be written, [`SharedView`] only read. The view is of a memfd that was sealed
//! against future writing, so that not even the receiving process itself could map it otherwise.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const WORD: usize = size_of::<AtomicU64>();

/// A mapping, unmapped when dropped. Never resized: the seals forbid it.
#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is plain memory that is only touched through atomics or under a ring's
// protocol; which thread does so makes no difference.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, size: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the system's choice overlaps nothing of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), size, prot, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words: size / WORD })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the one that `new` mapped, and every reference into it
        // borrows from `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * WORD) };
    }
}

/// Shared memory that this process writes. The peer may read it, or write it too.
#[derive(Debug)]
pub struct Shared(Mapping);

impl Shared {
    /// Makes zeroed shared memory of `size` bytes that only this mapping can ever write.
    ///
    /// The returned descriptor, passed to a peer, can be mapped for reading and cannot be
    /// written, resized or unsealed.
    ///
    /// # Errors
    /// The system is out of memory or descriptors, or does not know `F_SEAL_FUTURE_WRITE`
    /// (Linux before 5.1).
    ///
    /// # Panics
    /// If `size` is not a multiple of 8.
    pub fn written_by_us(name: &str, size: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(size.is_multiple_of(WORD), "whole words");
        let fd = sealable(name, size)?;
        let mapping = Mapping::new(&fd, size, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&fd, NO_RESIZE | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok((Self(mapping), fd))
    }

    /// Maps, for writing, memory that a peer made and reads.
    ///
    /// # Errors
    /// The descriptor is not a memfd of `size` bytes that is sealed against resizing, or the
    /// system refuses.
    pub fn map(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        check_fixed_size(fd, size)?;
        Ok(Self(Mapping::new(fd, size, ProtFlags::READ | ProtFlags::WRITE)?))
    }

    /// The memory.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has exactly that many words, is page-aligned, lives as long as
        // `self`, and is only ever seen as atomics or under a ring's protocol.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.words) }
    }

    /// Where byte `offset` lies, for a record that a ring's protocol has given to us alone.
    pub(crate) fn byte_at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.0.words * WORD);
        self.0.start.as_ptr().cast::<u8>().wrapping_add(offset)
    }
}

/// Shared memory that this process only reads.
#[derive(Debug)]
pub struct SharedView(Mapping);

impl SharedView {
    /// Makes zeroed shared memory of `size` bytes for a peer to write and us to read.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    ///
    /// # Panics
    /// If `size` is not a multiple of 8.
    pub fn written_by_peer(name: &str, size: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(size.is_multiple_of(WORD), "whole words");
        let fd = sealable(name, size)?;
        fcntl_add_seals(&fd, NO_RESIZE | SealFlags::SEAL)?;
        Ok((Self(Mapping::new(&fd, size, ProtFlags::READ)?), fd))
    }

    /// Maps, for reading, memory that a peer made and writes.
    ///
    /// # Errors
    /// The descriptor is not a memfd of `size` bytes that is sealed against resizing, or the
    /// system refuses.
    pub fn map(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        check_fixed_size(fd, size)?;
        Ok(Self(Mapping::new(fd, size, ProtFlags::READ)?))
    }

    /// Reads one word; what the peer wrote before it stored this value is visible afterwards.
    ///
    /// # Panics
    /// If `index` is outside the memory: indices are ours, never the peer's.
    pub fn load_acquire(&self, index: usize) -> u64 {
        let value = self.load(index);
        // Not an acquire load: on memory mapped read-only Rust promises only that relaxed loads
        // of a word do not write.
        fence(Ordering::Acquire);
        value
    }

    /// Reads one word, ordering nothing.
    ///
    /// # Panics
    /// As [`load_acquire`](Self::load_acquire).
    pub fn load(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Relaxed)
    }

    /// The memory, to read with relaxed loads only: storing to it is a fault of the process.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: as `Shared::words`; private to this crate, whose users only load.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.words) }
    }

    /// Where byte `offset` lies, for a record that the peer will not change until we say so.
    pub(crate) fn byte_at(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.0.words * WORD);
        self.0.start.as_ptr().cast::<u8>().wrapping_add(offset)
    }
}

/// Copies `bytes` into a memfd that nobody can change any more, to pass to a peer.
///
/// # Errors
/// The system is out of memory or descriptors.
pub fn sealed_copy(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::Write as _;
    let mut file = std::fs::File::from(sealable(name, 0)?);
    file.write_all(bytes)?;
    let fd = OwnedFd::from(file);
    fcntl_add_seals(&fd, NO_RESIZE | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(fd)
}

const NO_RESIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

fn sealable(name: &str, size: usize) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, size as u64)?;
    Ok(fd)
}

/// A mapping past the end of a file that shrank kills the process, so this is asked first.
fn check_fixed_size(fd: &OwnedFd, size: usize) -> io::Result<()> {
    let is_size = rustix::fs::fstat(fd.as_fd())?.st_size;
    if u64::try_from(is_size) != Ok(size as u64) || !size.is_multiple_of(WORD) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("shared memory has {is_size} bytes, expected {size}"),
        ));
    }
    if !fcntl_get_seals(fd)?.contains(NO_RESIZE) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "shared memory is not sealed against resizing",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_writer_stores_the_reader_loads() {
        let (writer, fd) = Shared::written_by_us("test", 4096).unwrap();
        let reader = SharedView::map(&fd, 4096).unwrap();
        writer.words()[7].store(42, Ordering::Release);
        assert_eq!(reader.load_acquire(7), 42);
    }

    #[test]
    fn memory_written_by_us_cannot_be_mapped_for_writing_by_who_gets_it() {
        let (_writer, fd) = Shared::written_by_us("test", 4096).unwrap();
        let error = Shared::map(&fd, 4096).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let written = rustix::io::pwrite(&fd, b"x", 0).unwrap_err();
        assert_eq!(written, rustix::io::Errno::PERM);
    }

    #[test]
    fn memory_of_another_size_or_unsealed_is_refused() {
        let (_view, fd) = SharedView::written_by_peer("test", 4096).unwrap();
        assert_eq!(Shared::map(&fd, 8192).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let loose = sealable("test", 4096).unwrap();
        assert_eq!(Shared::map(&loose, 4096).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(ftruncate(&fd, 0).is_err());
    }

    #[test]
    fn sealed_copy_holds_the_bytes_and_refuses_others() {
        let fd = sealed_copy("object", b"bytes").unwrap();
        let mut back = [0; 5];
        rustix::io::pread(&fd, &mut back, 0).unwrap();
        assert_eq!(&back, b"bytes");
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
    }
}

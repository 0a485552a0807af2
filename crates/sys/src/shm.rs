//! Shares memory with another process: a memfd that cannot be resized.
//!
//! The memory consists of atomic words and is never a `&mut [u8]`, so a concurrent write of the peer is an atomic race,
//! which Rust defines. Where a protocol allows plain bytes, because the peer does not change a record before its
//! release, [`ring`](crate::ring) uses them and states the reason.
//!
//! This process can write [`Shared`] and only read [`SharedView`]. The memfd of a view is sealed against future
//! writing, so even the receiving process itself cannot map it for writing.
//!
//! `shm/memory.rs` has the memory behind both: a mapping, or this process's heap ([`on_heap`]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::mm::ProtFlags;

#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
#[path = "shm/modelled.rs"]
mod memory;

#[cfg(loom)]
pub(crate) use memory::ATOMICS;
use memory::Memory;
pub use memory::Word;
pub(crate) use memory::fence;

const WORD: usize = 8;

/// Shared memory that this process writes. The peer can read it, and may be able to write it.
#[derive(Debug)]
pub struct Shared(Memory);

impl Shared {
    /// Makes zeroed shared memory of `size` bytes that only this mapping can write.
    ///
    /// A peer can map the returned descriptor for reading, and cannot write, resize or unseal it.
    ///
    /// # Errors
    /// The system is out of memory or descriptors, or does not support `F_SEAL_FUTURE_WRITE` (Linux before 5.1).
    ///
    /// # Panics
    /// If `size` is not a multiple of 8.
    pub fn written_by_us(name: &str, size: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(size.is_multiple_of(WORD), "whole words");
        let fd = sealable(name, size)?;
        let memory = Memory::mapped(&fd, size, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&fd, NO_RESIZE | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok((Self(memory), fd))
    }

    /// Maps memory of [`sealable_memory`] for writing, and seals it so that no other mapping can write it.
    ///
    /// # Errors
    /// The descriptor is no such memory of `size` bytes, it is already sealed, or the system refuses.
    pub fn map_and_seal(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        let shared = Self::map(fd, size)?;
        fcntl_add_seals(fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(shared)
    }

    /// Maps memory for writing that a peer made and reads.
    ///
    /// # Errors
    /// The descriptor is not a memfd of `size` bytes that is sealed against resizing, or the
    /// system refuses.
    pub fn map(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        check_fixed_size(fd, size)?;
        Ok(Self(Memory::mapped(fd, size, ProtFlags::READ | ProtFlags::WRITE)?))
    }

    /// The memory.
    pub fn words(&self) -> &[Word] {
        self.0.words()
    }

    /// The `size` bytes from `offset` on.
    ///
    /// # Safety
    /// By a ring's protocol, only this process touches them while they are borrowed.
    #[expect(
        clippy::mut_from_ref,
        reason = "shared memory: the protocol of a ring says which side may write"
    )]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, size: usize) -> &mut [u8] {
        // SAFETY: as the caller promises; ours is writable.
        unsafe { self.0.bytes_mut(offset, size) }
    }
}

/// Shared memory that this process only reads.
#[derive(Debug)]
pub struct SharedView(Memory);

impl SharedView {
    /// Makes zeroed shared memory of `size` bytes that a peer writes and this process reads.
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
        Ok((Self(Memory::mapped(&fd, size, ProtFlags::READ)?), fd))
    }

    /// Maps memory for reading that a peer made and writes.
    ///
    /// # Errors
    /// The descriptor is not a memfd of `size` bytes that is sealed against resizing, or the
    /// system refuses.
    pub fn map(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        check_fixed_size(fd, size)?;
        Ok(Self(Memory::mapped(fd, size, ProtFlags::READ)?))
    }

    /// Reads one word. Words that the peer wrote before it stored this value are visible afterwards.
    ///
    /// # Panics
    /// If `index` is outside the memory. Indices come from this process, never from the peer.
    pub fn load_acquire(&self, index: usize) -> u64 {
        let value = self.load(index);
        // Not an acquire load: on memory mapped read-only Rust promises only that relaxed loads
        // of a word do not write.
        fence(Ordering::Acquire);
        value
    }

    /// Reads one word without ordering.
    ///
    /// # Panics
    /// As [`load_acquire`](Self::load_acquire).
    pub fn load(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Relaxed)
    }

    /// The memory, for relaxed loads only: a store faults, because the mapping is read-only.
    pub(crate) fn words(&self) -> &[Word] {
        self.0.words()
    }

    /// The address of word `index`, for reading `size` bytes from there on. The ring checks that they lie inside, and
    /// its protocol ensures that the peer does not change them meanwhile.
    #[inline]
    pub(crate) fn address(&self, index: usize, size: usize) -> *const u64 {
        self.0.address(index, size)
    }

    /// The `size` bytes from an address of [`address`](Self::address) on.
    ///
    /// # Safety
    /// By a ring's protocol, the peer does not change them while they are borrowed.
    ///
    /// # Panics
    /// If they do not lie inside.
    pub(crate) unsafe fn bytes(&self, address: *const u64, size: usize) -> &[u8] {
        // SAFETY: as the caller promises.
        unsafe { self.0.bytes(address, size) }
    }
}

/// Makes zeroed memory of `size` bytes inside this process and returns both sides of it, for models, Miri, fuzzing and
/// benchmarks.
///
/// # Panics
/// If `size` is not a multiple of 8.
pub fn on_heap(size: usize) -> (Shared, SharedView) {
    assert!(size.is_multiple_of(WORD), "whole words");
    let (written, read) = Memory::on_heap(size);
    (Shared(written), SharedView(read))
}

/// Copies `bytes` into a memfd that no process can change any more.
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

/// Reads a memfd of [`sealed_copy`] with at most `most` bytes.
///
/// # Errors
/// It is longer, or cannot be read.
pub fn read_sealed(fd: OwnedFd, most: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::from(fd);
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if size > most {
        return Err(io::Error::other(format!("it has {size} bytes, at most {most} are allowed")));
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, 0)?; // not `read`: other processes share the offset
    Ok(bytes)
}

/// Makes zeroed memory of `size` bytes, for one process that [maps and seals](Shared::map_and_seal) it and others that
/// read it.
///
/// # Errors
/// The system is out of memory or descriptors.
///
/// # Panics
/// If `size` is not a multiple of 8.
pub fn sealable_memory(name: &str, size: usize) -> io::Result<OwnedFd> {
    assert!(size.is_multiple_of(WORD), "whole words");
    let fd = sealable(name, size)?;
    fcntl_add_seals(&fd, NO_RESIZE)?;
    Ok(fd)
}

/// Returns whether no process can map this memory for writing any more.
pub fn is_sealed(fd: &OwnedFd) -> bool {
    let sealed = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(sealed))
}

/// Returns whether this memory is sealed against writing and resizing, as [`sealed_copy`] seals it.
pub fn is_immutable(fd: &OwnedFd) -> bool {
    let sealed = NO_RESIZE | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(sealed))
}

const NO_RESIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

fn sealable(name: &str, size: usize) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, size as u64)?;
    Ok(fd)
}

/// Checks the size and the seals. An access to a mapping behind the end of a shortened file would kill this process.
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
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn stored_word_is_loaded() {
        let (writer, fd) = Shared::written_by_us("test", 4096).unwrap();
        let reader = SharedView::map(&fd, 4096).unwrap();
        writer.words()[7].store(42, Ordering::Release);
        assert_eq!(reader.load_acquire(7), 42);
    }

    #[test]
    fn receiver_cannot_map_the_memory_for_writing() {
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
    fn memory_that_its_writer_sealed_is_read_only_for_others() {
        let fd = sealable_memory("test", 4096).unwrap();
        assert!(!is_sealed(&fd));
        let writer = Shared::map_and_seal(&fd, 4096).unwrap();
        assert!(is_sealed(&fd));
        assert!(Shared::map(&fd, 4096).is_err(), "a second writer");
        let reader = SharedView::map(&fd, 4096).unwrap();
        writer.words()[7].store(42, Ordering::Release);
        assert_eq!(reader.load_acquire(7), 42);
    }

    #[test]
    fn sealed_copy_cannot_be_written() {
        let fd = sealed_copy("object", b"bytes").unwrap();
        let mut back = [0; 5];
        rustix::io::pread(&fd, &mut back, 0).unwrap();
        assert_eq!(&back, b"bytes");
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        assert!(is_immutable(&fd));
        assert!(!is_immutable(&sealable_memory("object", 8).unwrap()));
    }
}

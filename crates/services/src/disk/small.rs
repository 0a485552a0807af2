//! A disk of limited capacity, for tests.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;

use super::{Disk, OwnFile};

/// A file on a disk with `capacity` bytes.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    file: File,
    capacity: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SmallFile(OwnFile, Arc<AtomicU64>);

impl SmallDisk {
    /// Creates an empty disk of a capacity in bytes, which the returned number changes.
    pub(crate) fn new(capacity: u64) -> (Self, Arc<AtomicU64>) {
        let capacity = Arc::new(AtomicU64::new(capacity));
        let disk = Self { file: tempfile::tempfile().unwrap(), capacity: Arc::clone(&capacity) };
        (disk, capacity)
    }
}

impl Disk for SmallDisk {
    fn backend(&self) -> io::Result<impl StorageBackend> {
        Ok(SmallFile(OwnFile(self.file.try_clone()?), Arc::clone(&self.capacity)))
    }
}

impl StorageBackend for SmallFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset + data.len() as u64 > self.1.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.write(offset, data)
    }
}

//! A service's database file: `redb`, a copy-on-write tree.
//!
//! A transaction writes new pages, syncs, makes them the current tree in the file's header, and
//! syncs again. If the process is killed in between, the previous tree remains. `quick_repair`
//! keeps opening fast for any file size. Its two syncs also prevent an app, which chooses the
//! written data, from forging the state that a half-written header is taken for.
//!
//! After a disk error the file is reopened before its next use, because memory and disk may differ.
//! `redb` panics on some pages that it did not write; such a panic counts as a disk error.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Database, ReadableDatabase as _, StorageBackend, StorageError, WriteTransaction};
use thiserror::Error;

use control::service::ServiceKind;

/// Size of a file's header, in bytes.
const HEADER_SIZE: u64 = 4096;

/// Maximum size of a new file, in bytes.
const MAX_NEW_SIZE: u64 = 16 << 20;

/// Why a transaction failed.
#[derive(Debug, Error)]
pub enum DiskError {
    /// The disk has no space left.
    #[error("the disk is full; free space in the file system of Rosemary's state directory")]
    Full,
    /// The file is damaged or has another format, and stays so until it is replaced.
    #[error("{0}")]
    Damaged(String),
    /// The disk or the system failed; a retry may succeed.
    #[error(
        "{0}; Rosemary retries; if the error persists, check the system's messages about the disk (dmesg)"
    )]
    Failed(String),
}

impl DiskError {
    /// Returns what the operator can do about the file of `service`, where the error does not say
    /// it.
    #[must_use]
    pub fn remedy(&self, service: ServiceKind) -> Option<String> {
        match self {
            Self::Full | Self::Failed(_) => None,
            Self::Damaged(_) => service.remedy_for_damage(),
        }
    }

    /// Returns the error for invalid data on the disk.
    fn damaged() -> Self {
        Self::Damaged("the file is damaged".into())
    }
}

impl<E: Into<redb::Error>> From<E> for DiskError {
    fn from(error: E) -> Self {
        let error: redb::Error = error.into();
        let text = error.to_string();
        match error {
            redb::Error::Io(error) => match error.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Self::Full,
                // An invalid magic number or offset; a file that ends too early.
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Damaged(text),
                _ => Self::Failed(text),
            },
            redb::Error::Corrupted(_)
            | redb::Error::UpgradeRequired(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_) => Self::Damaged(text),
            _ => Self::Failed(text),
        }
    }
}

/// Opens a service's file.
pub trait Disk: Debug {
    /// Returns the file from its beginning; may be called repeatedly.
    ///
    /// # Errors
    /// The system has no descriptors left.
    fn backend(&self) -> io::Result<impl StorageBackend>;
}

impl Disk for File {
    fn backend(&self) -> io::Result<impl StorageBackend> {
        self.try_clone().map(OwnFile)
    }
}

/// A file that is not locked here, because the monitor has locked it.
#[derive(Debug)]
struct OwnFile(File);

impl StorageBackend for OwnFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// Settings of a service's database.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Size of the page cache, in bytes.
    pub cache: usize,
    /// Creates the tables of a new database.
    pub tables: fn(&WriteTransaction) -> Result<(), DiskError>,
}

/// A database that is opened on first use; see the module's documentation.
#[derive(Debug)]
pub struct DiskStore<D> {
    disk: D,
    schema: Schema,
    /// `None` while it is closed: initially, and after an error.
    database: Option<Database>,
}

impl<D: Disk> DiskStore<D> {
    /// Uses `disk`, which is empty or has this schema. It is opened on first use.
    pub fn new(disk: D, schema: Schema) -> Self {
        Self { disk, schema, database: None }
    }

    /// Runs `what` with the open database.
    ///
    /// # Errors
    /// [`DiskError`]; uncommitted changes are lost.
    pub fn with<T>(
        &mut self,
        what: impl FnOnce(&Database) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        let open = self.database.take();
        // Unwind safety: after a panic the database is closed, as after an error, and not used
        // again.
        let done = catch_unwind(AssertUnwindSafe(|| {
            let database = open.map_or_else(|| self.open(), Ok)?;
            let done = what(&database)?;
            Ok((done, database))
        }));
        let (done, database) = done.unwrap_or_else(|_| Err(DiskError::damaged()))?;
        self.database = Some(database);
        Ok(done)
    }

    fn open(&self) -> Result<Database, DiskError> {
        let backend = self.disk.backend().map_err(StorageError::Io)?;
        truncate_unfinished(&backend).map_err(StorageError::Io)?;
        let cache = self.schema.cache;
        let database = Database::builder().set_cache_size(cache).create_with_backend(backend)?;
        let is_new = database.begin_read()?.list_tables()?.next().is_none();
        if is_new {
            let begun = database.begin_write()?;
            (self.schema.tables)(&begun)?;
            begun.commit()?;
        }
        Ok(database)
    }
}

/// Truncates a file whose creation was interrupted by a full disk or a kill. `redb` sets the length
/// of a new file, writes the header without its magic number, then with it; it takes a file without
/// the number for a foreign one. A file with a lost header and other contents is left unchanged.
fn truncate_unfinished(file: &impl StorageBackend) -> io::Result<()> {
    let mut mark = [0; 9];
    let len = file.len()?;
    if len < mark.len() as u64 {
        return file.set_len(0);
    }
    file.read(0, &mut mark)?;
    if mark != [0; 9] || len > MAX_NEW_SIZE {
        return Ok(());
    }
    let mut rest = vec![0; usize::try_from(len.saturating_sub(HEADER_SIZE)).unwrap_or_default()];
    file.read(HEADER_SIZE.min(len), &mut rest)?;
    if rest.iter().all(|byte| *byte == 0) { file.set_len(0) } else { Ok(()) }
}

/// Begins a write transaction that is durable once committed.
///
/// # Errors
/// [`DiskError`].
pub fn begin_write(database: &Database) -> Result<WriteTransaction, DiskError> {
    let mut begun = database.begin_write()?;
    begun.set_quick_repair(true);
    Ok(begun)
}

#[cfg(test)]
pub(crate) mod small;
#[cfg(test)]
mod tests;

//! A file that a service was given, as a database: `redb`, a tree that is copied where it changes.
//!
//! A transaction writes new pages, waits for the disk, then says in the file's head that they are the
//! tree, and waits again. A process that is killed in between leaves the tree of before. `quick_repair`
//! makes opening such a file quick, whatever its size, and its two waits keep an app that chooses what is
//! written from choosing what a half-written head is taken for.
//!
//! After an error of the disk the file is opened again before it is used, as what is in memory may not be
//! what is on the disk. `redb` panics at some pages that are not as it wrote them: that is such an error, too.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Database, ReadableDatabase as _, StorageBackend, StorageError, WriteTransaction};
use thiserror::Error;

use crate::kind::Kind;

/// Bytes of the head of a file.
const HEAD: u64 = 4096;

/// Bytes of a new file, at most.
const LONGEST_NEW: u64 = 16 << 20;

/// Why nothing was read or written.
#[derive(Debug, Error)]
pub enum DiskError {
    /// There is no room.
    #[error("the disk is full; make room where Rosemary's state is")]
    Full,
    /// What is in the file is damaged, or of something else: it stays so until there is another.
    #[error("{0}")]
    Damaged(String),
    /// The disk or the system could not, and may the next time.
    #[error("{0}; it is tried again; if it lasts, see what the system says of the disk (dmesg)")]
    Failed(String),
}

impl DiskError {
    /// What to do about the file of `service`, where the error does not say it itself.
    #[must_use]
    pub fn way_out(&self, service: Kind) -> Option<String> {
        let file = service.file()?;
        match self {
            Self::Full | Self::Failed(_) => None,
            Self::Damaged(_) => Some(format!(
                "if the disk is well: stop Rosemary, move {file} away from its state directory, or put a \
                 backup in its place, start it again"
            )),
        }
    }

    /// What is on the disk made no sense at all.
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
                // A mark or a place that makes no sense; a file that ends too early.
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

/// Where the file is.
pub trait Disk: Debug {
    /// The file, from its beginning, as often as it is opened.
    ///
    /// # Errors
    /// The system is out of descriptors.
    fn backend(&self) -> io::Result<impl StorageBackend>;
}

impl Disk for File {
    fn backend(&self) -> io::Result<impl StorageBackend> {
        self.try_clone().map(OwnFile)
    }
}

/// A file that nobody else has: who made it has locked it for us.
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

/// How the database of a service is set up.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Bytes of pages that are kept in memory.
    pub cache: usize,
    /// Makes the tables of a new one.
    pub tables: fn(&WriteTransaction) -> Result<(), DiskError>,
}

/// See the module.
#[derive(Debug)]
pub struct Store<D> {
    disk: D,
    form: Form,
    /// `None` while it is not open: at first, and after an error.
    database: Option<Database>,
}

impl<D: Disk> Store<D> {
    /// On `disk`, which is empty or one of this form. It is opened when it is first used.
    pub fn new(disk: D, form: Form) -> Self {
        Self { disk, form, database: None }
    }

    /// Does `what` with it.
    ///
    /// # Errors
    /// [`DiskError`]; what was not committed is not there.
    pub fn with<T>(
        &mut self,
        what: impl FnOnce(&Database) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        let open = self.database.take();
        // Nothing of it is looked at again after a panic: it is closed then, as after an error.
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
        forget_unfinished(&backend).map_err(StorageError::Io)?;
        let cache = self.form.cache;
        let database = Database::builder().set_cache_size(cache).create_with_backend(backend)?;
        let is_new = database.begin_read()?.list_tables()?.next().is_none();
        if is_new {
            let begun = database.begin_write()?;
            (self.form.tables)(&begun)?;
            begun.commit()?;
        }
        Ok(database)
    }
}

/// Empties a file that nobody has finished making, as the disk was full or the process was killed then.
/// `redb` makes it as long as a new one is, writes the head without its mark, then with it, and takes a file
/// without for another's. One that has lost its head and holds anything else is left as it is.
fn forget_unfinished(file: &impl StorageBackend) -> io::Result<()> {
    let mut mark = [0; 9];
    let len = file.len()?;
    if len < mark.len() as u64 {
        return file.set_len(0);
    }
    file.read(0, &mut mark)?;
    if mark != [0; 9] || len > LONGEST_NEW {
        return Ok(());
    }
    let mut rest = vec![0; usize::try_from(len.saturating_sub(HEAD)).unwrap_or_default()];
    file.read(HEAD.min(len), &mut rest)?;
    if rest.iter().all(|byte| *byte == 0) { file.set_len(0) } else { Ok(()) }
}

/// Begins to write what is to be on the disk when it is committed.
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

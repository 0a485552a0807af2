//! The engine with one file: `redb`, a tree that is copied where it changes.
//!
//! A transaction writes new pages, waits for the disk, then says in the file's head that they are the
//! tree, and waits again. A process that is killed in between leaves the tree of before. `quick_repair`
//! makes opening such a file quick, whatever its size, and its two waits keep an app that chooses what is
//! written from choosing what a half-written head is taken for.
//!
//! After an error of the disk the file is opened again before it is used, as what is in memory may not be
//! what is on the disk.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use redb::{
    Database, ReadableDatabase as _, ReadableTable, StorageBackend, StorageError, Table,
    TableDefinition,
};
use sdk::services::storage::{Expect, KeysWriter};

use super::engine::{Engine, EngineError, MOST_BYTES, MOST_KEYS, Op, Outcome};

/// An app's number, and a key.
type Place = (u16, &'static [u8]);

/// A version, and a value.
type Found = (u64, &'static [u8]);

const VALUES: TableDefinition<'_, Place, Found> = TableDefinition::new("values");

/// By app's number: bytes, keys, and the last version.
const SPACES: TableDefinition<'_, u16, (u64, u64, u64)> = TableDefinition::new("spaces");

/// Bytes of pages that are kept in memory.
const CACHE: usize = 16 * 1024 * 1024;

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

/// See the module.
#[derive(Debug)]
pub struct Redb<D> {
    disk: D,
    /// `None` after an error, until it is opened again.
    database: Option<Database>,
}

impl<D: Disk> Redb<D> {
    /// Opens the file, which is empty or one of ours.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn open(disk: D) -> Result<Self, EngineError> {
        let database = Some(open(&disk)?);
        Ok(Self { disk, database })
    }
}

impl<D: Disk> Engine for Redb<D> {
    fn run(&mut self, ops: &[Op<'_>]) -> Result<Vec<Outcome>, EngineError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open(&self.disk)?,
        };
        let outcomes = run(&database, ops)?; // if it fails the database is closed here
        self.database = Some(database);
        Ok(outcomes)
    }
}

fn open(disk: &impl Disk) -> Result<Database, EngineError> {
    let backend = disk.backend().map_err(|error| failed(StorageError::Io(error)))?;
    let database =
        Database::builder().set_cache_size(CACHE).create_with_backend(backend).map_err(failed)?;
    let begun = database.begin_read().map_err(failed)?;
    let is_new = begun.open_table(SPACES).is_err();
    drop(begun);
    if is_new {
        let begun = database.begin_write().map_err(failed)?;
        begun.open_table(VALUES).map_err(failed)?;
        begun.open_table(SPACES).map_err(failed)?;
        begun.commit().map_err(failed)?;
    }
    Ok(database)
}

fn run(database: &Database, ops: &[Op<'_>]) -> Result<Vec<Outcome>, EngineError> {
    if !ops.iter().any(Op::writes) {
        let begun = database.begin_read().map_err(failed)?;
        let values = begun.open_table(VALUES).map_err(failed)?;
        return ops.iter().map(|op| read(&values, op).map_err(failed)).collect();
    }
    let mut begun = database.begin_write().map_err(failed)?;
    begun.set_quick_repair(true);
    let mut changes = false;
    let mut outcomes = Vec::with_capacity(ops.len());
    {
        let mut values = begun.open_table(VALUES).map_err(failed)?;
        let mut spaces = begun.open_table(SPACES).map_err(failed)?;
        for op in ops {
            let outcome = match *op {
                Op::Put { space, key, expect, value } => {
                    write(&mut values, &mut spaces, (space, key), expect, Some(value))
                }
                Op::Delete { space, key, expect } => {
                    write(&mut values, &mut spaces, (space, key), expect, None)
                }
                Op::Get { .. } | Op::List { .. } => read(&values, op),
            };
            let outcome = outcome.map_err(failed)?;
            changes |= matches!(outcome, Outcome::Done { changed: true, .. });
            outcomes.push(outcome);
        }
    }
    if changes {
        begun.commit().map_err(failed)?;
    } else {
        begun.abort().map_err(failed)?; // nothing to wait for the disk for
    }
    Ok(outcomes)
}

fn read(values: &impl ReadableTable<Place, Found>, op: &Op<'_>) -> Result<Outcome, StorageError> {
    let Op::List { space, prefix, after } = *op else {
        let found = values.get(op.place())?;
        return Ok(found.map_or(Outcome::Nothing, |found| {
            let (version, value) = found.value();
            Outcome::Value { version, value: value.to_vec() }
        }));
    };
    // Behind `after` is what begins with it and has one more byte, at least.
    let behind = [after, &[0]].concat();
    let first = if after.is_empty() { prefix } else { prefix.max(&behind) };
    let (mut keys, mut more) = (KeysWriter::default(), false);
    // A space's number is below the highest there is.
    for entry in values.range((space, first)..(space.saturating_add(1), &[][..]))? {
        let (place, found) = entry?;
        let (_, key) = place.value();
        if !key.starts_with(prefix) {
            break;
        }
        if !keys.push(key, found.value().0) {
            more = true;
            break;
        }
    }
    Ok(Outcome::Keys(keys.finish(more)))
}

/// Writes `value` at `place`, or deletes what is there.
fn write(
    values: &mut Table<'_, Place, Found>,
    spaces: &mut Table<'_, u16, (u64, u64, u64)>,
    place: (u16, &[u8]),
    expect: Expect,
    value: Option<&[u8]>,
) -> Result<Outcome, StorageError> {
    let (space, key) = place;
    let before = values.get(place)?.map(|found| {
        let (version, value) = found.value();
        (version, value.len() as u64)
    });
    let version = before.map_or(0, |(version, _)| version);
    let expected = match expect {
        Expect::Anything => true,
        Expect::Nothing => before.is_none(),
        Expect::Version(expected) => before.is_some() && version == expected,
    };
    if !expected {
        return Ok(Outcome::Conflict { version });
    }
    if value.is_none() && before.is_none() {
        return Ok(Outcome::Done { version: 0, changed: false });
    }
    let (mut bytes, mut keys, last) = spaces.get(space)?.map_or((0, 0, 0), |it| it.value());
    if let Some((_, size)) = before {
        bytes -= size.min(bytes);
    } else {
        bytes += key.len() as u64;
        keys += 1;
    }
    let next = last + 1;
    let written = if let Some(value) = value {
        bytes += value.len() as u64;
        if bytes > MOST_BYTES || keys > MOST_KEYS {
            return Ok(Outcome::OverQuota);
        }
        values.insert(place, (next, value))?;
        next
    } else {
        bytes -= (key.len() as u64).min(bytes);
        keys -= 1.min(keys);
        values.remove(place)?;
        0
    };
    spaces.insert(space, (bytes, keys, next))?;
    Ok(Outcome::Done { version: written, changed: true })
}

/// What the operator is told of an error of `redb`.
fn failed(error: impl Into<redb::Error>) -> EngineError {
    let error: redb::Error = error.into();
    if let redb::Error::Io(error) = &error {
        let full =
            [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        if full.contains(&error.kind()) {
            return EngineError::DiskFull;
        }
    }
    EngineError::Failed(error.to_string())
}

#[cfg(test)]
mod tests;

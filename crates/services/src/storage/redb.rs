//! The storage engine on a single file, as managed by [`disk`](crate::disk).

use std::fs::File;

use redb::{Database, ReadableDatabase as _, ReadableTable, StorageError, Table, TableDefinition};
use sdk::services::storage::{Expect, KeysWriter};

use super::engine::{Engine, Op, Outcome};
use crate::disk::{Disk, DiskError, DiskStore, Schema, begin_write};
use control::service::ServiceQuotas;

/// App number and key.
type EntryKey = (u16, &'static [u8]);

/// Version and value.
type VersionedValue = (u64, &'static [u8]);

const VALUES: TableDefinition<'_, EntryKey, VersionedValue> = TableDefinition::new("values");

/// By app number: bytes, keys, and the last version.
const SPACES: TableDefinition<'_, u16, (u64, u64, u64)> = TableDefinition::new("spaces");

const SCHEMA: Schema = Schema {
    cache: 16 * 1024 * 1024,
    tables: |begun| {
        begun.open_table(VALUES)?;
        begun.open_table(SPACES)?;
        Ok(())
    },
};

/// A storage engine on one file; see the module's documentation.
#[derive(Debug)]
pub struct Redb<D = File> {
    store: DiskStore<D>,
    quotas: ServiceQuotas,
}

impl<D: Disk> Redb<D> {
    /// Opens the file, which is empty or was written by this engine. `quotas` limit each namespace.
    /// With a full disk, a new file is created on first use.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] or [`DiskError::Failed`].
    pub fn open(disk: D, quotas: ServiceQuotas) -> Result<Self, DiskError> {
        let mut store = DiskStore::new(disk, SCHEMA);
        match store.with(|_| Ok(())) {
            Ok(()) | Err(DiskError::Full) => {}
            Err(error) => return Err(error),
        }
        Ok(Self { store, quotas })
    }
}

impl<D: Disk> Engine for Redb<D> {
    fn run(&mut self, ops: &[Op<'_>]) -> Result<Vec<Outcome>, DiskError> {
        let quotas = self.quotas;
        self.store.with(|database| run(database, ops, quotas))
    }
}

fn run(
    database: &Database,
    ops: &[Op<'_>],
    quotas: ServiceQuotas,
) -> Result<Vec<Outcome>, DiskError> {
    if !ops.iter().any(Op::writes) {
        let values = database.begin_read()?.open_table(VALUES)?;
        return ops.iter().map(|op| Ok(read(&values, op)?)).collect();
    }
    let begun = begin_write(database)?;
    let mut changes = false;
    let mut outcomes = Vec::with_capacity(ops.len());
    {
        let mut tables =
            Tables { values: begun.open_table(VALUES)?, spaces: begun.open_table(SPACES)?, quotas };
        for op in ops {
            let outcome = match *op {
                Op::Put { space, key, expect, value } => {
                    tables.write((space, key), expect, Some(value))?
                }
                Op::Delete { space, key, expect } => tables.write((space, key), expect, None)?,
                Op::Get { .. } | Op::List { .. } => read(&tables.values, op)?,
            };
            changes |= matches!(outcome, Outcome::Done { changed: true, .. });
            outcomes.push(outcome);
        }
    }
    if changes {
        begun.commit()?;
    } else {
        begun.abort()?; // no changes, so no sync
    }
    Ok(outcomes)
}

fn read(
    values: &impl ReadableTable<EntryKey, VersionedValue>,
    op: &Op<'_>,
) -> Result<Outcome, StorageError> {
    let Op::List { space, prefix, after } = *op else {
        let found = values.get(op.namespace_and_key())?;
        return Ok(found.map_or(Outcome::Nothing, |found| {
            let (version, value) = found.value();
            Outcome::Value { version, value: value.to_vec() }
        }));
    };
    // The first key after `after` is `after` with a zero byte appended.
    let behind = [after, &[0]].concat();
    let first = if after.is_empty() { prefix } else { prefix.max(&behind) };
    let (mut keys, mut more) = (KeysWriter::default(), false);
    // App numbers are below the maximum, so the next number ends the range.
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

/// Tables of a write transaction.
struct Tables<'a> {
    values: Table<'a, EntryKey, VersionedValue>,
    spaces: Table<'a, u16, (u64, u64, u64)>,
    quotas: ServiceQuotas,
}

impl Tables<'_> {
    /// Writes `value` at `place`, or deletes the entry.
    fn write(
        &mut self,
        place: (u16, &[u8]),
        expect: Expect,
        value: Option<&[u8]>,
    ) -> Result<Outcome, StorageError> {
        let (space, key) = place;
        let before = self.values.get(place)?.map(|found| {
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
        let (held, mut keys, last) = self.spaces.get(space)?.map_or((0, 0, 0), |it| it.value());
        let mut bytes = held;
        if let Some((_, size)) = before {
            bytes -= size.min(bytes);
        } else {
            bytes += key.len() as u64;
            keys += 1;
        }
        let next = last + 1;
        let written = if let Some(value) = value {
            bytes += value.len() as u64;
            // After the operator lowered the quota, usage may exceed it; writes that shrink it stay
            // allowed.
            let over = bytes > self.quotas.storage_bytes && bytes > held;
            if over || (before.is_none() && keys > self.quotas.storage_keys) {
                return Ok(Outcome::OverQuota);
            }
            self.values.insert(place, (next, value))?;
            next
        } else {
            bytes -= (key.len() as u64).min(bytes);
            keys -= 1.min(keys);
            self.values.remove(place)?;
            0
        };
        self.spaces.insert(space, (bytes, keys, next))?;
        Ok(Outcome::Done { version: written, changed: true })
    }
}

#[cfg(test)]
mod tests;

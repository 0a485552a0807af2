//! Turns the rows that an owner wants into a transaction that creates, updates and removes only rows of this owner.
//!
//! A row of an owner has two entries in its column `external_ids`: [`OWNER`] names the owner, [`KEY`] the row among those of the
//! owner. Rows without these entries, and those of other owners, are never changed, except that a parent's column gains or loses
//! references to rows of the owner.
//!
//! [`reconcile`] is a pure function of the image and the wanted rows. Each change is guarded by a `wait`, so the server refuses the
//! transaction if a row has changed since the image was current; the caller reconciles again.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::image::Image;
use crate::row::Row;
use crate::schema::{ColumnType, Schema, UUID_COLUMN, is_name};
use crate::transaction::{Condition, Mutation, Mutator, Operation};
use crate::value::{Atom, Uuid, Value};

/// The key in `external_ids` whose value names the owner of a row.
pub const OWNER: &str = "rosemary-owner";

/// The key in `external_ids` whose value names a row among those of its owner.
pub const KEY: &str = "rosemary-key";

/// The column with [`OWNER`] and [`KEY`].
pub const IDS: &str = "external_ids";

/// A row that an owner wants.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedRow {
    /// The table.
    pub table: String,
    /// The row's name among all rows of the owner: a letter or underscore, then also digits. In values of other wanted rows
    /// [`Atom::NamedUuid`] with this name refers to the row.
    pub key: String,
    /// The columns. Columns that it does not have stay as they are.
    pub row: Row,
    /// The row that must refer to this one.
    pub parent: Option<Parent>,
}

/// A column of an existing row that refers to a wanted row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The table.
    pub table: String,
    /// The row.
    pub uuid: Uuid,
    /// The column, with a set of references.
    pub column: String,
}

/// The wanted rows cannot be brought about.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OwnershipError {
    /// A key is no name, or two wanted rows have the same.
    #[error("the key {0} is no name or occurs twice; choose another")]
    Key(String),
    /// The table has no column for the owner, or the image does not have it.
    #[error("the rows of {0} cannot have an owner: the column {IDS} is absent or not monitored")]
    NoIds(String),
    /// The parent does not exist, or has no such column.
    #[error("{table}.{column} of row {uuid} does not exist; name another parent of {key}")]
    NoParent {
        /// The key of the wanted row.
        key: String,
        /// The parent's table.
        table: String,
        /// The parent.
        uuid: Uuid,
        /// The parent's column.
        column: String,
    },
    /// The parent's column has room for one row and refers to another one.
    #[error(
        "{table}.{column} of row {uuid} refers to another row; remove that row before {key} takes its place"
    )]
    Taken {
        /// The key of the wanted row.
        key: String,
        /// The parent's table.
        table: String,
        /// The parent.
        uuid: Uuid,
        /// The parent's column.
        column: String,
    },
}

/// The rows of an owner, by table and key.
type Owned = BTreeMap<(String, String), Uuid>;

/// The work of [`reconcile`].
struct Reconciliation<'a> {
    image: &'a Image,
    schema: &'a Schema,
    owner: &'a str,
    wanted: &'a [WantedRow],
    rows: Owned,
    operations: Vec<Operation>,
}

/// Returns the operations after which exactly the wanted rows of `owner` exist; none if that is so already.
///
/// # Errors
/// [`OwnershipError`]: nothing of it can be done.
pub fn reconcile(
    image: &Image,
    schema: &Schema,
    owner: &str,
    wanted: &[WantedRow],
) -> Result<Vec<Operation>, OwnershipError> {
    let (rows, mut obsolete) = rows_of(image, schema, owner);
    let mut keys = BTreeSet::new();
    for row in wanted {
        if !is_name(&row.key) || !keys.insert(row.key.as_str()) {
            return Err(OwnershipError::Key(row.key.clone()));
        }
    }
    let is_wanted = |(table, key): &(String, String)| {
        wanted.iter().any(|row| row.table == *table && row.key == *key)
    };
    obsolete.extend(
        rows.iter()
            .filter(|(key, _)| !is_wanted(key))
            .map(|((table, _), uuid)| (*uuid, table.clone())),
    );
    let operations = Vec::new();
    let mut work = Reconciliation { image, schema, owner, wanted, rows, operations };
    for row in wanted {
        work.bring_about(row)?;
    }
    for row in wanted {
        work.refer_to(row, &obsolete)?;
    }
    work.remove(&obsolete);
    Ok(work.operations)
}

/// Returns the rows of an owner, and its rows that repeat the key of another.
fn rows_of(image: &Image, schema: &Schema, owner: &str) -> (Owned, BTreeMap<Uuid, String>) {
    let (mut rows, mut obsolete) = (Owned::new(), BTreeMap::new());
    for table in schema.tables.keys() {
        for (uuid, row) in image.rows(table) {
            if row.entry(IDS, OWNER) != Some(owner) {
                continue;
            }
            let key = (table.clone(), row.entry(IDS, KEY).unwrap_or_default().to_owned());
            // Of several rows with the same key, the first stays.
            if *rows.entry(key).or_insert(uuid) != uuid {
                obsolete.insert(uuid, table.clone());
            }
        }
    }
    (rows, obsolete)
}

impl Reconciliation<'_> {
    /// Inserts a wanted row, or updates it.
    fn bring_about(&mut self, wanted: &WantedRow) -> Result<(), OwnershipError> {
        let WantedRow { table, key, .. } = wanted;
        if self.schema.column(table, IDS).is_none() {
            return Err(OwnershipError::NoIds(table.clone()));
        }
        let row = self.complete(wanted);
        let Some(uuid) = self.uuid(wanted) else {
            let (table, name) = (table.clone(), Some(key.clone()));
            self.operations.push(Operation::Insert { table, row, name });
            return Ok(());
        };
        let Some(existing) = self.image.row(table, uuid) else { return Ok(()) };
        let (mut before, mut after) = (Row::new(), Row::new());
        for (column, value) in row.columns() {
            let old = existing.get(column);
            if old != Some(value) {
                after.set(column, value.clone());
                if let Some(old) = old {
                    before.set(column, old.clone());
                }
            }
        }
        if !after.is_empty() {
            self.guard(table, uuid, before);
            self.operations.push(Operation::update(table, uuid, after));
        }
        Ok(())
    }

    /// Makes the parent refer to a wanted row.
    fn refer_to(
        &mut self,
        wanted: &WantedRow,
        obsolete: &BTreeMap<Uuid, String>,
    ) -> Result<(), OwnershipError> {
        let Some(Parent { table, uuid, column }) = &wanted.parent else { return Ok(()) };
        let (key, uuid) = (wanted.key.clone(), *uuid);
        let names = || (key.clone(), table.clone(), column.clone());
        let kind = self.schema.column(table, column).map(|it| &it.kind);
        let value = self.image.row(table, uuid).and_then(|row| row.get(column));
        let (Some(kind), Some(Value::Set(references))) = (kind, value) else {
            let (key, table, column) = names();
            return Err(OwnershipError::NoParent { key, table, uuid, column });
        };
        let atom = self.uuid(wanted).map_or_else(|| Atom::NamedUuid(key.clone()), Atom::Uuid);
        if references.contains(&atom) {
            return Ok(());
        }
        let mut others = references.iter().filter(|it| !is_obsolete(it, obsolete));
        let is_full = kind.is_single() && others.next().is_some();
        if is_full {
            let (key, table, column) = names();
            return Err(OwnershipError::Taken { key, table, uuid, column });
        }
        let value = Value::Set(BTreeSet::from([atom]));
        if kind.is_single() {
            let before = Row::new().with(column, Value::Set(references.clone()));
            self.guard(table, uuid, before);
            self.operations.push(Operation::update(table, uuid, Row::new().with(column, value)));
        } else {
            self.guard(table, uuid, Row::new());
            let mutation = Mutation::new(column, Mutator::Insert, value);
            self.operations.push(Operation::mutate(table, uuid, mutation));
        }
        Ok(())
    }

    /// Removes rows, and all references to them.
    fn remove(&mut self, obsolete: &BTreeMap<Uuid, String>) {
        if obsolete.is_empty() {
            return;
        }
        for (table, columns) in &self.schema.tables {
            for (uuid, row) in
                self.image.rows(table).filter(|(uuid, _)| !obsolete.contains_key(uuid))
            {
                for (name, value) in row.columns() {
                    let kind = columns.columns.get(name).map(|it| &it.kind);
                    if let Some(value) =
                        references(value, obsolete).filter(|_| kind.is_some_and(refers))
                    {
                        let mutation = Mutation::new(name, Mutator::Delete, value);
                        self.operations.push(Operation::mutate(table, uuid, mutation));
                    }
                }
            }
        }
        for (uuid, table) in obsolete {
            // The owner may have changed since the image was current.
            let ids = self.image.row(table, *uuid).and_then(|row| row.get(IDS));
            let before = ids.map_or_else(Row::new, |ids| Row::new().with(IDS, ids.clone()));
            self.guard(table, *uuid, before);
            let (table, conditions) = (table.clone(), vec![Condition::is(*uuid)]);
            self.operations.push(Operation::Delete { table, conditions });
        }
    }

    /// Fails the transaction if the row is gone or has other values than `before`.
    fn guard(&mut self, table: &str, uuid: Uuid, before: Row) {
        let before = before.with(UUID_COLUMN, Value::one(uuid));
        self.operations.push(Operation::unless_changed(table, uuid, &before));
    }

    fn uuid(&self, wanted: &WantedRow) -> Option<Uuid> {
        self.rows.get(&(wanted.table.clone(), wanted.key.clone())).copied()
    }

    /// Returns the row with its owner, and with the identifiers of wanted rows that exist.
    fn complete(&self, wanted: &WantedRow) -> Row {
        let mut row = Row::new();
        for (name, value) in wanted.row.columns() {
            row.set(name, self.resolved(value));
        }
        let mut ids = match wanted.row.get(IDS) {
            Some(Value::Map(ids)) => ids.clone(),
            _ => BTreeMap::new(),
        };
        ids.insert(OWNER.into(), self.owner.into());
        ids.insert(KEY.into(), wanted.key.as_str().into());
        row.set(IDS, Value::Map(ids));
        row
    }

    fn resolved(&self, value: &Value) -> Value {
        let atom = |atom: &Atom| match atom {
            Atom::NamedUuid(name) => {
                let found = self.wanted.iter().find(|row| row.key == *name);
                let uuid = found.and_then(|row| self.uuid(row));
                uuid.map_or_else(|| atom.clone(), Atom::Uuid)
            }
            _ => atom.clone(),
        };
        match value {
            Value::Set(atoms) => Value::Set(atoms.iter().map(atom).collect()),
            Value::Map(pairs) => {
                Value::Map(pairs.iter().map(|(k, v)| (atom(k), atom(v))).collect())
            }
        }
    }
}

/// Whether a column refers to rows.
fn refers(kind: &ColumnType) -> bool {
    kind.key.ref_table.is_some() || kind.value.as_ref().is_some_and(|it| it.ref_table.is_some())
}

/// Returns the part of a value that refers to obsolete rows.
fn references(value: &Value, obsolete: &BTreeMap<Uuid, String>) -> Option<Value> {
    let is = |atom: &Atom| is_obsolete(atom, obsolete);
    let part = match value {
        Value::Set(atoms) => Value::Set(atoms.iter().filter(|it| is(it)).cloned().collect()),
        Value::Map(pairs) => {
            let pairs = pairs.iter().filter(|(k, v)| is(k) || is(v));
            Value::Map(pairs.map(|(k, v)| (k.clone(), v.clone())).collect())
        }
    };
    (!part.is_empty()).then_some(part)
}

fn is_obsolete(atom: &Atom, obsolete: &BTreeMap<Uuid, String>) -> bool {
    matches!(atom, Atom::Uuid(uuid) if obsolete.contains_key(uuid))
}

#[cfg(test)]
mod tests;

//! The image of a database, which monitors keep up to date.
//!
//! Its rows and bytes are bounded. A message of changes is applied wholly or not at all.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::row::Row;
use crate::schema::Schema;
use crate::update::{RowChange, RowUpdate};
use crate::value::Uuid;

/// The bounds of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Most rows of all tables.
    pub rows: usize,
    /// Most bytes of all rows, estimated from above.
    pub size: usize,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { rows: 100_000, size: 64 << 20 }
    }
}

/// A copy of the monitored tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    tables: BTreeMap<String, BTreeMap<Uuid, Row>>,
    rows: usize,
    size: usize,
}

/// A row that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: String,
    /// The row.
    pub uuid: Uuid,
    /// What happened to the row.
    pub kind: ChangeKind,
}

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The row is new.
    Inserted,
    /// Columns have other values.
    Modified,
    /// The row is gone.
    Deleted,
}

/// Changes do not fit the image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImageError {
    /// A row that must exist does not.
    #[error("a change of the row {uuid} of {table}, which does not exist")]
    UnknownRow {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
    },
    /// A new row exists already.
    #[error("a new row {uuid} of {table}, which exists already")]
    Collision {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
    },
    /// A difference leads to a value that the schema does not allow.
    #[error("a change of {table}.{column} with a result that the schema does not allow")]
    Value {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The rows exceed [`ImageLimits::rows`].
    #[error("the tables have more than {0} rows; monitor fewer tables")]
    TooManyRows(usize),
    /// The rows exceed [`ImageLimits::size`].
    #[error("the rows take more than {0} bytes; monitor fewer columns")]
    TooLarge(usize),
}

impl Image {
    /// Returns an image of these rows, for tests of functions of an image. Of two rows with one identifier the later stays.
    pub fn of_rows<'a>(rows: impl IntoIterator<Item = (&'a str, Uuid, Row)>) -> Self {
        let mut image = Self::default();
        for (table, uuid, row) in rows {
            image.size += row.size();
            let rows = image.tables.entry(table.to_owned()).or_default();
            match rows.insert(uuid, row) {
                Some(replaced) => image.size -= replaced.size(),
                None => image.rows += 1,
            }
        }
        image
    }

    /// Returns a row.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<&Row> {
        self.tables.get(table)?.get(&uuid)
    }

    /// Returns the names of the tables that have had rows.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Returns the rows of a table, by their identifiers.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = (Uuid, &Row)> {
        self.tables.get(table).into_iter().flatten().map(|(uuid, row)| (*uuid, row))
    }

    /// Returns the number of rows of all tables.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns an estimate of its memory in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Applies the changes of one message, and returns what has changed. After an error the image is as before.
    ///
    /// # Errors
    /// [`ImageError`].
    pub(crate) fn apply(
        &mut self,
        updates: Vec<RowUpdate>,
        schema: &Schema,
        limits: ImageLimits,
    ) -> Result<Vec<Change>, ImageError> {
        // First everything that can fail. Each row occurs once in a message, so the changes do not depend on each other.
        let (mut rows, mut size) = (self.rows, self.size);
        let mut changed = Vec::with_capacity(updates.len());
        for RowUpdate { table, uuid, change } in updates {
            let old = self.row(&table, uuid);
            let new = updated(old, change, (&table, uuid), schema)?;
            rows = rows + usize::from(new.is_some()) - usize::from(old.is_some());
            size = size + new.as_ref().map_or(0, Row::size) - old.map_or(0, Row::size);
            if rows > limits.rows {
                return Err(ImageError::TooManyRows(limits.rows));
            }
            if size > limits.size {
                return Err(ImageError::TooLarge(limits.size));
            }
            changed.push((table, uuid, new));
        }
        (self.rows, self.size) = (rows, size);
        Ok(changed.into_iter().map(|(table, uuid, new)| self.put(table, uuid, new)).collect())
    }

    fn put(&mut self, table: String, uuid: Uuid, new: Option<Row>) -> Change {
        let rows = self.tables.entry(table.clone()).or_default();
        let is_gone = new.is_none();
        let old = match new {
            Some(row) => rows.insert(uuid, row),
            None => rows.remove(&uuid),
        };
        let kind = match (old, is_gone) {
            (_, true) => ChangeKind::Deleted,
            (None, _) => ChangeKind::Inserted,
            (Some(_), _) => ChangeKind::Modified,
        };
        Change { table, uuid, kind }
    }

    /// Returns the changes that lead from `self` to `later`.
    pub(crate) fn changes_to(&self, later: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (table, rows) in &later.tables {
            for (uuid, row) in rows {
                let kind = match self.row(table, *uuid) {
                    None => ChangeKind::Inserted,
                    Some(old) if old != row => ChangeKind::Modified,
                    Some(_) => continue,
                };
                changes.push(Change { table: table.clone(), uuid: *uuid, kind });
            }
        }
        for (table, rows) in &self.tables {
            for uuid in rows.keys().filter(|uuid| later.row(table, **uuid).is_none()) {
                let kind = ChangeKind::Deleted;
                changes.push(Change { table: table.clone(), uuid: *uuid, kind });
            }
        }
        changes
    }
}

/// Returns the row after a change; `None` if it is gone.
fn updated(
    old: Option<&Row>,
    change: RowChange,
    (table, uuid): (&str, Uuid),
    schema: &Schema,
) -> Result<Option<Row>, ImageError> {
    let unknown = || ImageError::UnknownRow { table: table.to_owned(), uuid };
    match change {
        RowChange::Insert(_) if old.is_some() => {
            Err(ImageError::Collision { table: table.to_owned(), uuid })
        }
        RowChange::Insert(row) => Ok(Some(row)),
        RowChange::Replace(row) => old.ok_or_else(unknown).map(|_| Some(row)),
        RowChange::Delete => old.ok_or_else(unknown).map(|_| None),
        RowChange::Differ(difference) => {
            let mut row = old.ok_or_else(unknown)?.clone();
            for (name, change) in difference.columns() {
                let column = schema.column(table, name);
                let value = row
                    .get(name)
                    .zip(column)
                    .and_then(|(value, column)| value.apply(change.clone(), &column.kind).ok());
                let wrong =
                    || ImageError::Value { table: table.to_owned(), column: name.to_owned() };
                row.set(name, value.ok_or_else(wrong)?);
            }
            Ok(Some(row))
        }
    }
}

//! Turns the rows that an owner wants into a transaction that creates, updates and removes only rows of this owner.
//!
//! A row of an owner has two entries in its column `external_ids`: [`OWNER`] names the owner, [`KEY`] the row among those of the
//! owner. Rows without these entries, and those of other owners, are never changed, except that a parent's column gains or loses
//! references to rows of the owner. Other entries in `external_ids` of a row of the owner stay, except the entries that [`IDS_OF_OWNER`] lists.
//!
//! [`reconcile`] is a pure function of the image, the scope and the wanted rows. A row that cannot be brought about, and rows that refer to
//! it, are refused, and all others are brought about. Each change is guarded by a `wait`, so the server refuses the
//! transaction if a row has changed since the image was current; the caller reconciles again. If the server refuses the whole plan for
//! another reason, such as an index, the caller sends each part alone, so that only the part with the mistake fails.

use std::collections::BTreeSet;

use thiserror::Error;

pub use self::reconciliation::reconcile;
pub use self::scope::{Columns, Scope};
use crate::row::Row;
use crate::transaction::{Operation, TransactionError};
use crate::value::Uuid;

mod reconciliation;
mod scope;

/// The key in `external_ids` whose value names the owner of a row.
pub const OWNER: &str = "rosemary-owner";

/// The key in `external_ids` whose value names a row among those of its owner.
pub const KEY: &str = "rosemary-key";

/// The key in `external_ids` that lists, as JSON, the keys of the other entries that the owner has set.
pub const IDS_OF_OWNER: &str = "rosemary-ids";

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

/// A wanted row cannot be brought about.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OwnershipError {
    /// A key is no name, or two wanted rows have the same.
    #[error("the key {0} is no name or occurs twice; choose another")]
    Key(String),
    /// The table has no column for the owner, or the image does not have it.
    #[error("the rows of {0} cannot have an owner: the column {IDS} is absent or not monitored")]
    NoIds(String),
    /// The row writes beyond the scope.
    #[error("{key} writes {what}, which is not granted; grant it, or remove the row")]
    NotGranted {
        /// The key of the wanted row.
        key: String,
        /// The missing grant, a phrase.
        what: String,
    },
    /// The row does not fit the schema.
    #[error("{key} does not fit the schema of the server: {error}")]
    Schema {
        /// The key of the wanted row.
        key: String,
        /// The mistake.
        error: TransactionError,
    },
    /// The row refers to a row that is refused or not wanted.
    #[error("{key} refers to {to}, which is refused or not wanted; correct {to} first")]
    Depends {
        /// The key of the wanted row.
        key: String,
        /// The name that it refers to.
        to: String,
    },
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

/// A wanted row that is not brought about. If it exists, it stays as it is, unless the scope no longer grants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The key of the wanted row.
    pub key: String,
    /// The reason.
    pub error: OwnershipError,
}

/// Rows that refer to each other, and the operations that bring them about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The keys of the wanted rows.
    pub keys: BTreeSet<String>,
    /// The operations; none if the rows are there.
    pub operations: Vec<Operation>,
}

/// What [`reconcile`] found to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The wanted rows that are refused.
    pub refused: Vec<Refused>,
    /// The others, in groups that do not depend on each other.
    pub groups: Vec<Group>,
    /// The operations that remove rows.
    pub removal: Vec<Operation>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_done(&self) -> bool {
        self.removal.is_empty() && self.groups.iter().all(|group| group.operations.is_empty())
    }

    /// Returns all operations, for one transaction.
    pub fn operations(&self) -> Vec<Operation> {
        let brought = self.groups.iter().flat_map(|group| &group.operations);
        brought.chain(&self.removal).cloned().collect()
    }

    /// Returns the parts that can be transactions of their own: the removal, then each group with operations. A part may be guarded by
    /// values that an earlier part changes; so the caller reconciles after each part.
    pub fn parts(&self) -> impl Iterator<Item = &[Operation]> {
        let groups = self.groups.iter().map(|group| &group.operations[..]);
        std::iter::once(&self.removal[..]).chain(groups).filter(|it| !it.is_empty())
    }
}

#[cfg(test)]
mod tests;

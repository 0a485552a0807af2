//! Checks operations by the schema of the server.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Condition, Mutation, Mutator, Operation};
use crate::row::Row;
use crate::schema::{ColumnSchema, ColumnType, Schema, is_name};
use crate::value::{Atom, AtomKind, Value, ValueError};

/// The largest number of operations of a transaction.
pub const MAX_OPERATIONS: usize = 4096;

/// A transaction does not fit the schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// There are more than [`MAX_OPERATIONS`].
    #[error("{0} operations; split them into transactions of at most {MAX_OPERATIONS}")]
    TooMany(usize),
    /// The schema has no such table.
    #[error("operation {index}: the server has no table {table}; correct the name")]
    NoTable {
        /// The number of the operation, from 0.
        index: usize,
        /// The table.
        table: String,
    },
    /// The table has no such column.
    #[error("operation {index}: the server has no column {table}.{column}; correct the name")]
    NoColumn {
        /// The number of the operation, from 0.
        index: usize,
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The column cannot be changed.
    #[error(
        "operation {index}: {table}.{column} is set only when a row is inserted; insert another row"
    )]
    Immutable {
        /// The number of the operation, from 0.
        index: usize,
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A value does not fit its column.
    #[error("operation {index}: {table}.{column}: {error}; correct the value")]
    Value {
        /// The number of the operation, from 0.
        index: usize,
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The mistake, a phrase.
        error: ValueError,
    },
    /// A name of an inserted row is none, occurs twice, or no operation inserts it.
    #[error("operation {index}: the row name {name} {why}; correct the name")]
    RowName {
        /// The number of the operation, from 0.
        index: usize,
        /// The name.
        name: String,
        /// The mistake, a phrase.
        why: &'static str,
    },
}

/// Checks tables, columns, types and names of rows.
///
/// # Errors
/// [`TransactionError`] names the operation.
pub fn check(operations: &[Operation], schema: &Schema) -> Result<(), TransactionError> {
    if operations.len() > MAX_OPERATIONS {
        return Err(TransactionError::TooMany(operations.len()));
    }
    let mut names = BTreeSet::new();
    for (index, operation) in operations.iter().enumerate() {
        if let Operation::Insert { name: Some(name), .. } = operation {
            let wrong = |why| TransactionError::RowName { index, name: name.clone(), why };
            if !is_name(name) {
                return Err(wrong("has other characters than letters, digits and underscores"));
            }
            if !names.insert(name.as_str()) {
                return Err(wrong("occurs twice"));
            }
        }
    }
    for (index, operation) in operations.iter().enumerate() {
        Check { index, schema, table: operation.table().unwrap_or_default(), names: &names }
            .operation(operation)?;
    }
    Ok(())
}

/// The check of one operation.
struct Check<'a> {
    index: usize,
    schema: &'a Schema,
    table: &'a str,
    names: &'a BTreeSet<&'a str>,
}

impl Check<'_> {
    fn operation(&self, operation: &Operation) -> Result<(), TransactionError> {
        if let Some(table) = operation.table()
            && !self.schema.tables.contains_key(table)
        {
            return Err(TransactionError::NoTable { index: self.index, table: table.to_owned() });
        }
        match operation {
            Operation::Insert { row, .. } => self.row(row, false),
            Operation::Select { conditions, columns, .. } => {
                self.conditions(conditions)?;
                columns.iter().try_for_each(|it| self.column(it).map(drop))
            }
            Operation::Update { conditions, row, .. } => {
                self.conditions(conditions)?;
                self.row(row, true)
            }
            Operation::Mutate { conditions, mutations, .. } => {
                self.conditions(conditions)?;
                mutations.iter().try_for_each(|it| self.mutation(it))
            }
            Operation::Delete { conditions, .. } => self.conditions(conditions),
            Operation::Wait { conditions, columns, rows, .. } => {
                self.conditions(conditions)?;
                columns.iter().try_for_each(|it| self.column(it).map(drop))?;
                rows.iter().try_for_each(|row| self.row(row, false))
            }
            Operation::Comment(_) | Operation::Abort => Ok(()),
        }
    }

    fn column(&self, column: &str) -> Result<&ColumnSchema, TransactionError> {
        let (index, table) = (self.index, self.table);
        self.schema.column(table, column).ok_or_else(|| TransactionError::NoColumn {
            index,
            table: table.to_owned(),
            column: column.to_owned(),
        })
    }

    fn row(&self, row: &Row, must_be_mutable: bool) -> Result<(), TransactionError> {
        for (name, value) in row.columns() {
            let column = self.column(name)?;
            self.mutable(name, column, must_be_mutable)?;
            self.value(name, value, value.check(&column.kind))?;
        }
        Ok(())
    }

    fn mutable(
        &self,
        name: &str,
        column: &ColumnSchema,
        must_be_mutable: bool,
    ) -> Result<(), TransactionError> {
        if column.mutable || !must_be_mutable {
            return Ok(());
        }
        let (table, column) = (self.table.to_owned(), name.to_owned());
        Err(TransactionError::Immutable { index: self.index, table, column })
    }

    fn conditions(&self, conditions: &[Condition]) -> Result<(), TransactionError> {
        conditions.iter().try_for_each(|condition| {
            let column = self.column(&condition.column)?;
            let fits = condition.value.check_atoms(&column.kind);
            self.value(&condition.column, &condition.value, fits)
        })
    }

    fn mutation(&self, mutation: &Mutation) -> Result<(), TransactionError> {
        let column = self.column(&mutation.column)?;
        self.mutable(&mutation.column, column, true)?;
        let fits = operand(mutation, &column.kind);
        self.value(&mutation.column, &mutation.value, fits)
    }

    /// Adds the place to the result of a check, and checks the names of rows in the value.
    fn value(
        &self,
        column: &str,
        value: &Value,
        fits: Result<(), ValueError>,
    ) -> Result<(), TransactionError> {
        fits.map_err(|error| TransactionError::Value {
            index: self.index,
            table: self.table.to_owned(),
            column: column.to_owned(),
            error,
        })?;
        for atom in value.atoms() {
            if let Atom::NamedUuid(name) = atom
                && !self.names.contains(name.as_str())
            {
                let why = "is of no row that the transaction inserts";
                return Err(TransactionError::RowName {
                    index: self.index,
                    name: name.clone(),
                    why,
                });
            }
        }
        Ok(())
    }
}

/// Checks the operand of a mutation.
fn operand(mutation: &Mutation, kind: &ColumnType) -> Result<(), ValueError> {
    let Mutation { mutator, value, .. } = mutation;
    match mutator {
        Mutator::Insert => value.check_atoms(kind),
        Mutator::Delete => {
            // A map loses pairs, or the keys of a set.
            let keys = ColumnType { value: None, ..kind.clone() };
            value.check_atoms(kind).or_else(|error| value.check_atoms(&keys).map_err(|_| error))
        }
        _ => {
            let numbers = [AtomKind::Integer, AtomKind::Real];
            let is_whole = *mutator != Mutator::Modulo || kind.key.kind == AtomKind::Integer;
            let fits = kind.value.is_none() && numbers.contains(&kind.key.kind) && is_whole;
            if !fits || value.single().map(Atom::kind) != Some(kind.key.kind) {
                let found = "an operation that needs another kind";
                return Err(ValueError::Kind { expected: kind.key.kind.name(), found });
            }
            Ok(())
        }
    }
}

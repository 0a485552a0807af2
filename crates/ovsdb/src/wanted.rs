//! The tables and columns that a client needs, and the check whether the server has them.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::schema::{ColumnType, Schema};
use crate::value::AtomKind;

/// The most mismatches that an error lists.
const MOST_LISTED: usize = 4;

/// The tables and columns that a client reads or writes.
///
/// The types are those of atoms: whether a column has one of them or a set is no mismatch, because a
/// [`Value`](crate::Value) holds both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name of the database.
    pub database: &'static str,
    /// The tables.
    pub tables: &'static [WantedTable],
}

/// A table that a client reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedTable {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [WantedColumn],
}

/// A column that a client reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedColumn {
    /// Its name.
    pub name: &'static str,
    /// The kind of its elements, or of its keys.
    pub key: AtomKind,
    /// The kind of the values of a map.
    pub value: Option<AtomKind>,
    /// Whether the client works without it.
    pub optional: bool,
}

impl WantedColumn {
    /// A column with atoms of a kind.
    pub const fn set(name: &'static str, key: AtomKind) -> Self {
        Self { name, key, value: None, optional: false }
    }

    /// A column with a map.
    pub const fn map(name: &'static str, key: AtomKind, value: AtomKind) -> Self {
        Self { name, key, value: Some(value), optional: false }
    }

    /// The same column, which later or earlier versions of the schema may lack.
    #[must_use]
    pub const fn or_absent(self) -> Self {
        Self { optional: true, ..self }
    }
}

/// The wanted columns that the server has, by table.
pub(crate) type Selection = BTreeMap<String, Vec<String>>;

/// The server's schema lacks what the client needs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the schema {database} {version} of the server lacks {}; update the server (Open vSwitch 2.6 or later has all), or convert its \
     database: `ovsdb-tool convert`",
    Listed(missing)
)]
pub struct SchemaMismatch {
    /// The database.
    pub database: String,
    /// The version of its schema.
    pub version: String,
    /// The missing columns, a phrase each.
    pub missing: Vec<String>,
}

struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<&str> = self.0.iter().take(MOST_LISTED).map(String::as_str).collect();
        f.write_str(&listed.join(", "))?;
        match self.0.len().saturating_sub(MOST_LISTED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Wanted {
    /// Returns the columns that the server has.
    ///
    /// # Errors
    /// [`SchemaMismatch`]: the server lacks a column that is not optional, or has another type.
    pub(crate) fn check(&self, schema: &Schema) -> Result<Selection, SchemaMismatch> {
        let (mut selection, mut missing) = (Selection::new(), Vec::new());
        for table in self.tables {
            let mut columns = Vec::new();
            for column in table.columns {
                match schema.column(table.name, column.name) {
                    Some(its) if column.fits(&its.kind) => columns.push(column.name.to_owned()),
                    Some(its) => missing.push(column.mismatch(table.name, &its.kind)),
                    None if column.optional => {}
                    None => missing.push(format!("the column {}.{}", table.name, column.name)),
                }
            }
            if !columns.is_empty() {
                selection.insert(table.name.to_owned(), columns);
            }
        }
        if missing.is_empty() {
            return Ok(selection);
        }
        let (database, version) = (schema.name.clone(), schema.version.clone());
        Err(SchemaMismatch { database, version, missing })
    }
}

impl WantedColumn {
    fn fits(&self, kind: &ColumnType) -> bool {
        self.key == kind.key.kind && self.value == kind.value.as_ref().map(|it| it.kind)
    }

    fn mismatch(&self, table: &str, kind: &ColumnType) -> String {
        let shown = |key: AtomKind, value: Option<AtomKind>| match value {
            None => key.name().to_owned(),
            Some(value) => format!("a map from {} to {}", key.name(), value.name()),
        };
        format!(
            "the column {table}.{} of type {} (it is {})",
            self.name,
            shown(self.key, self.value),
            shown(kind.key.kind, kind.value.as_ref().map(|it| it.kind))
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WANTED: Wanted = Wanted {
        database: "D",
        tables: &[WantedTable {
            name: "T",
            columns: &[
                WantedColumn::set("name", AtomKind::String),
                WantedColumn::map("ids", AtomKind::String, AtomKind::String),
                WantedColumn::set("new", AtomKind::Integer).or_absent(),
            ],
        }],
    };

    fn check(columns: &serde_json::Value) -> Result<Selection, String> {
        let json = json!({"name": "D", "version": "1.2.3", "tables": {"T": {"columns": columns}}});
        WANTED.check(&Schema::read(&json).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn optional_column_may_be_absent() {
        let ids =
            json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
        let selection = check(&json!({"name": {"type": "string"}, "ids": ids})).unwrap();
        assert_eq!(selection["T"], ["name", "ids"]);
    }

    #[test]
    fn missing_column_is_named_with_a_remedy() {
        let error = check(&json!({"name": {"type": "integer"}})).unwrap_err();
        assert_eq!(
            error,
            "the schema D 1.2.3 of the server lacks the column T.name of type string (it is integer), the column T.ids; update the \
             server (Open vSwitch 2.6 or later has all), or convert its database: `ovsdb-tool convert`"
        );
    }

    #[test]
    fn optional_column_of_another_type_is_a_mismatch() {
        let ids =
            json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
        let columns = json!({"name": {"type": "string"}, "ids": ids, "new": {"type": "boolean"}});
        assert!(check(&columns).unwrap_err().contains("T.new of type integer (it is boolean)"));
    }
}

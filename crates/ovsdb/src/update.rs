//! Changes of rows, as monitors report them (RFC 7047 §4.1.6; ovsdb-server(7) §4.1.14).

use serde_json::{Map, Value as Json};
use thiserror::Error;

use crate::row::Row;
use crate::schema::{ColumnType, Schema};
use crate::value::{Uuid, Value, ValueError};
use crate::wanted::Selection;

/// The form of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `old` and `new` rows, of `monitor`.
    Rows,
    /// Differences, of `monitor_cond` and `monitor_cond_since`.
    Differences,
}

/// The change of one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowUpdate {
    pub(crate) table: String,
    pub(crate) uuid: Uuid,
    pub(crate) change: RowChange,
}

/// How a row changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RowChange {
    /// The row is new and has these values.
    Insert(Row),
    /// The row, which exists, has these values.
    Replace(Row),
    /// The row, which exists, differs by these values.
    Differ(Row),
    /// The row is gone.
    Delete,
}

/// A change cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UpdateError {
    /// A part has another form.
    #[error("{0}")]
    Shape(&'static str),
    /// The client has not asked for the table or column.
    #[error("an update of {0}, which was not asked for")]
    NotMonitored(String),
    /// A value does not fit its column.
    #[error("{table}.{column}: {error}")]
    Value {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The mistake.
        error: ValueError,
    },
}

/// The columns of a monitored table, for the readers below.
struct Reader<'a> {
    table: &'a str,
    columns: &'a [String],
    schema: &'a Schema,
}

/// Reads changes, by table and row.
///
/// # Errors
/// [`UpdateError`].
pub(crate) fn read(
    json: &Json,
    form: Form,
    selection: &Selection,
    schema: &Schema,
) -> Result<Vec<RowUpdate>, UpdateError> {
    let tables = json.as_object().ok_or(UpdateError::Shape("an update is no object"))?;
    let mut updates = Vec::new();
    for (table, rows) in tables {
        let columns = selection.get(table).ok_or_else(|| not_monitored(table))?;
        let rows = rows.as_object().ok_or(UpdateError::Shape("rows of an update are no object"))?;
        let reader = Reader { table, columns, schema };
        for (uuid, change) in rows {
            let shape = UpdateError::Shape("a row of an update has no uuid as its name");
            let uuid = uuid.parse().map_err(|_| shape)?;
            let change = change.as_object();
            let change = change.ok_or(UpdateError::Shape("an update of a row is no object"))?;
            let change = match form {
                Form::Rows => reader.rows(change)?,
                Form::Differences => reader.difference(change)?,
            };
            updates.push(RowUpdate { table: table.clone(), uuid, change });
        }
    }
    Ok(updates)
}

impl Reader<'_> {
    fn rows(&self, change: &Map<String, Json>) -> Result<RowChange, UpdateError> {
        let get = |key| change.get(key).filter(|it| !it.is_null());
        match (get("old"), get("new")) {
            (_, Some(new)) => {
                let row = self.row(new, Value::read)?;
                if row.columns().count() != self.columns.len() {
                    return Err(UpdateError::Shape("an update lacks a column that was asked for"));
                }
                let is_new = get("old").is_none();
                Ok(if is_new { RowChange::Insert(row) } else { RowChange::Replace(row) })
            }
            (Some(_), None) => Ok(RowChange::Delete),
            (None, None) => Err(UpdateError::Shape("an update of a row has neither old nor new")),
        }
    }

    fn difference(&self, change: &Map<String, Json>) -> Result<RowChange, UpdateError> {
        let mut members = change.iter();
        let (Some((kind, json)), None) = (members.next(), members.next()) else {
            return Err(UpdateError::Shape("an update of a row has not one kind"));
        };
        match kind.as_str() {
            "initial" | "insert" => {
                let mut row = self.row(json, Value::read)?;
                for name in self.columns {
                    if row.get(name).is_none() {
                        let column = self.column(name)?;
                        row.set(name, column.default_value());
                    }
                }
                Ok(RowChange::Insert(row))
            }
            "modify" => Ok(RowChange::Differ(self.row(json, Value::read_any_count)?)),
            "delete" => Ok(RowChange::Delete),
            _ => Err(UpdateError::Shape("an update of a row is of an unknown kind")),
        }
    }

    fn row(
        &self,
        json: &Json,
        read: fn(&Json, &ColumnType) -> Result<Value, ValueError>,
    ) -> Result<Row, UpdateError> {
        let columns = json.as_object().ok_or(UpdateError::Shape("a row is no object"))?;
        let mut row = Row::new();
        for (name, json) in columns {
            if !self.columns.contains(name) {
                return Err(not_monitored(&format!("{}.{name}", self.table)));
            }
            let value = read(json, self.column(name)?).map_err(|error| UpdateError::Value {
                table: self.table.to_owned(),
                column: name.clone(),
                error,
            })?;
            row.set(name, value);
        }
        Ok(row)
    }

    fn column(&self, name: &str) -> Result<&ColumnType, UpdateError> {
        let column = self.schema.column(self.table, name);
        column.map(|it| &it.kind).ok_or_else(|| not_monitored(name))
    }
}

/// The server chose the name, which may have any length.
fn not_monitored(name: &str) -> UpdateError {
    UpdateError::NotMonitored(name.chars().take(64).collect())
}

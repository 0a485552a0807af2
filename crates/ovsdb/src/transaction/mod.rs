//! Transactions: operations with types, checked by the schema before they are sent (RFC 7047 §5.2).
//!
//! The server carries out all operations of a transaction or none. [`Operation::Wait`] guards the others: if a row has changed since
//! the client read it, nothing is changed.

mod check;

use serde_json::{Value as Json, json};

pub use self::check::{MAX_OPERATIONS, TransactionError, check};

use crate::row::Row;
use crate::schema::UUID_COLUMN;
use crate::value::{Uuid, Value};

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Adds a row.
    Insert {
        /// The table.
        table: String,
        /// The columns that differ from their defaults.
        row: Row,
        /// The name by which other operations of the transaction refer to the row.
        name: Option<String>,
    },
    /// Reads rows.
    Select {
        /// The table.
        table: String,
        /// The rows.
        conditions: Vec<Condition>,
        /// The columns to read.
        columns: Vec<String>,
    },
    /// Sets columns of rows.
    Update {
        /// The table.
        table: String,
        /// The rows.
        conditions: Vec<Condition>,
        /// The new values.
        row: Row,
    },
    /// Changes columns of rows relative to their values.
    Mutate {
        /// The table.
        table: String,
        /// The rows.
        conditions: Vec<Condition>,
        /// The changes, one after the other.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// The table.
        table: String,
        /// The rows.
        conditions: Vec<Condition>,
    },
    /// Fails the transaction unless the rows have these values.
    Wait {
        /// The table.
        table: String,
        /// The rows.
        conditions: Vec<Condition>,
        /// The columns that are compared.
        columns: Vec<String>,
        /// Whether the rows must be equal or different.
        until: Until,
        /// The values to compare with.
        rows: Vec<Row>,
        /// How long the server waits for them, in milliseconds; 0 means that it checks once.
        timeout_ms: u32,
    },
    /// Adds a text to the server's log.
    Comment(String),
    /// Fails the transaction, for trials.
    Abort,
}

/// What [`Operation::Wait`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The rows have the values.
    Equal,
    /// The rows have other values.
    Different,
}

/// Selects rows by a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The column.
    pub column: String,
    /// The comparison.
    pub function: Function,
    /// The value to compare with.
    pub value: Value,
}

/// A comparison of a column with a value (RFC 7047 §5.1, `<function>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The column is less; for numbers.
    Less,
    /// The column is less or equal; for numbers.
    LessOrEqual,
    /// They are equal.
    Equal,
    /// They differ.
    NotEqual,
    /// The column is greater or equal; for numbers.
    GreaterOrEqual,
    /// The column is greater; for numbers.
    Greater,
    /// The column has all elements of the value.
    Includes,
    /// The column has no element of the value.
    Excludes,
}

/// A relative change of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// The column.
    pub column: String,
    /// The change.
    pub mutator: Mutator,
    /// Its operand.
    pub value: Value,
}

/// How a column changes (RFC 7047 §5.1, `<mutator>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutator {
    /// Adds a number.
    Add,
    /// Subtracts a number.
    Subtract,
    /// Multiplies by a number.
    Multiply,
    /// Divides by a number.
    Divide,
    /// Takes the rest of a division by an integer.
    Modulo,
    /// Adds elements that are absent; a map keeps the values of its keys.
    Insert,
    /// Removes elements; of a map, pairs or keys.
    Delete,
}

impl Condition {
    /// Selects the row with this identifier.
    pub fn is(uuid: Uuid) -> Self {
        Self::equal(UUID_COLUMN, Value::one(uuid))
    }

    /// Selects the rows in which a column has a value.
    pub fn equal(column: &str, value: Value) -> Self {
        Self { column: column.to_owned(), function: Function::Equal, value }
    }

    fn to_json(&self) -> Json {
        let function = match self.function {
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::GreaterOrEqual => ">=",
            Function::Greater => ">",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        };
        json!([self.column, function, self.value.to_json()])
    }
}

impl Mutation {
    /// Creates a mutation.
    pub fn new(column: &str, mutator: Mutator, value: Value) -> Self {
        Self { column: column.to_owned(), mutator, value }
    }

    fn to_json(&self) -> Json {
        let mutator = match self.mutator {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Modulo => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        };
        json!([self.column, mutator, self.value.to_json()])
    }
}

impl Operation {
    /// Fails the transaction unless row `uuid` has the values of `row`, without waiting.
    pub fn unless_changed(table: &str, uuid: Uuid, row: &Row) -> Self {
        Self::Wait {
            table: table.to_owned(),
            conditions: vec![Condition::is(uuid)],
            columns: row.columns().map(|(name, _)| name.to_owned()).collect(),
            until: Until::Equal,
            rows: vec![row.clone()],
            timeout_ms: 0,
        }
    }

    /// Sets the columns of `row` in row `uuid`.
    pub fn update(table: &str, uuid: Uuid, row: Row) -> Self {
        Self::Update { table: table.to_owned(), conditions: vec![Condition::is(uuid)], row }
    }

    /// Changes a column of row `uuid` relative to its value.
    pub fn mutate(table: &str, uuid: Uuid, mutation: Mutation) -> Self {
        let (table, conditions) = (table.to_owned(), vec![Condition::is(uuid)]);
        Self::Mutate { table, conditions, mutations: vec![mutation] }
    }

    /// Returns the table that the operation concerns.
    pub(crate) fn table(&self) -> Option<&str> {
        match self {
            Self::Insert { table, .. }
            | Self::Select { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Wait { table, .. } => Some(table),
            Self::Comment(_) | Self::Abort => None,
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        let list = |conditions: &[Condition]| -> Vec<Json> {
            conditions.iter().map(Condition::to_json).collect()
        };
        match self {
            Self::Insert { table, row, name } => {
                let mut json = json!({"op": "insert", "table": table, "row": row.to_json()});
                if let (Some(name), Some(members)) = (name, json.as_object_mut()) {
                    members.insert("uuid-name".to_owned(), json!(name));
                }
                json
            }
            Self::Select { table, conditions, columns } => {
                json!({"op": "select", "table": table, "where": list(conditions), "columns": columns})
            }
            Self::Update { table, conditions, row } => {
                json!({"op": "update", "table": table, "where": list(conditions), "row": row.to_json()})
            }
            Self::Mutate { table, conditions, mutations } => {
                let mutations: Vec<Json> = mutations.iter().map(Mutation::to_json).collect();
                json!({"op": "mutate", "table": table, "where": list(conditions), "mutations": mutations})
            }
            Self::Delete { table, conditions } => {
                json!({"op": "delete", "table": table, "where": list(conditions)})
            }
            Self::Wait { table, conditions, columns, until, rows, timeout_ms } => json!({
                "op": "wait", "table": table, "where": list(conditions), "columns": columns,
                "until": match until { Until::Equal => "==", Until::Different => "!=" },
                "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>(), "timeout": timeout_ms,
            }),
            Self::Comment(text) => json!({"op": "comment", "comment": text}),
            Self::Abort => json!({"op": "abort"}),
        }
    }
}

/// Returns the parameters of `transact`.
pub(crate) fn parameters(database: &str, operations: &[Operation]) -> Json {
    let operations = operations.iter().map(Operation::to_json);
    Json::Array(std::iter::once(json!(database)).chain(operations).collect())
}

/// The form of the answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// An object without meaning.
    Nothing,
    /// The identifier of a row.
    Inserted,
    /// Rows of a table.
    Rows(String),
    /// A number of rows.
    Count,
}

impl Expected {
    pub(crate) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Insert { .. } => Self::Inserted,
            Operation::Select { table, .. } => Self::Rows(table.clone()),
            Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
                Self::Count
            }
            Operation::Wait { .. } | Operation::Comment(_) | Operation::Abort => Self::Nothing,
        }
    }
}

/// Returns a member of an answer's object.
pub(crate) fn member<'a>(json: &'a Json, key: &str) -> Option<&'a Json> {
    json.as_object()?.get(key)
}

#[cfg(test)]
mod tests;

//! The results of a transaction (RFC 7047 §4.1.3).

use serde_json::Value as Json;
use thiserror::Error;

use crate::row::Row;
use crate::rpc::ServerError;
use crate::schema::Schema;
use crate::transaction::{Expected, member};
use crate::value::{Atom, AtomKind, Uuid, Value, describe};

/// The result of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// A `wait` was met, or a comment was added.
    Nothing,
    /// A row was inserted.
    Inserted(Uuid),
    /// Rows were read.
    Rows(Vec<Row>),
    /// This many rows were changed or removed.
    Count(u64),
}

/// A transaction changed nothing, or its result is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// The server refused an operation; it has changed nothing.
    #[error("the server refused operation {index}: {error}")]
    Operation {
        /// The number of the operation, from 0.
        index: usize,
        /// The server's reason.
        error: ServerError,
    },
    /// The server refused to commit the operations; it has changed nothing.
    #[error("the server refused the transaction: {0}")]
    Commit(ServerError),
    /// The connection ended before the answer. The server may have carried out the transaction.
    #[error(
        "the connection ended before the answer; read the rows to learn whether they have changed"
    )]
    Unknown,
    /// The answer cannot be read. The server may have carried out the transaction.
    #[error(
        "the server's answer is not one: {0}; read the rows to learn whether they have changed"
    )]
    Unreadable(String),
}

impl Failure {
    /// Returns the server's reason, if it stated one.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            Self::Operation { error, .. } | Self::Commit(error) => Some(error),
            Self::Unknown | Self::Unreadable(_) => None,
        }
    }
}

/// Reads the answer to a transaction.
///
/// # Errors
/// [`Failure`].
pub(crate) fn read(
    result: &Json,
    expected: &[Expected],
    schema: &Schema,
) -> Result<Vec<Done>, Failure> {
    let Some(results) = result.as_array() else {
        return Err(Failure::Unreadable(format!("it is {}", describe(result))));
    };
    for (index, result) in results.iter().enumerate() {
        if member(result, "error").is_some_and(|it| !it.is_null()) {
            let error = ServerError::read(result);
            // An error behind those of all operations concerns the commit.
            if index < expected.len() {
                return Err(Failure::Operation { index, error });
            }
            return Err(Failure::Commit(error));
        }
    }
    if results.len() != expected.len() {
        let (found, needed) = (results.len(), expected.len());
        return Err(Failure::Unreadable(format!("{found} results for {needed} operations")));
    }
    let unreadable = |index| {
        move |why: String| Failure::Unreadable(format!("the result of operation {index} {why}"))
    };
    let pairs = results.iter().zip(expected).enumerate();
    pairs.map(|(index, (json, it))| done(json, it, schema).map_err(unreadable(index))).collect()
}

fn done(json: &Json, expected: &Expected, schema: &Schema) -> Result<Done, String> {
    let get = |key: &str| member(json, key).ok_or_else(|| format!("has no {key}"));
    match expected {
        Expected::Nothing if json.is_object() => Ok(Done::Nothing),
        Expected::Nothing => Err(format!("is {}", describe(json))),
        Expected::Count => {
            let count = get("count")?.as_u64().ok_or("has a count that is no number")?;
            Ok(Done::Count(count))
        }
        Expected::Inserted => match Atom::read(get("uuid")?, AtomKind::Uuid) {
            Ok(Atom::Uuid(uuid)) => Ok(Done::Inserted(uuid)),
            _ => Err("has a uuid that is none".to_owned()),
        },
        Expected::Rows(table) => {
            let rows = get("rows")?.as_array().ok_or("has rows that are no array")?;
            rows.iter()
                .map(|row| read_row(row, table, schema))
                .collect::<Result<_, _>>()
                .map(Done::Rows)
        }
    }
}

fn read_row(json: &Json, table: &str, schema: &Schema) -> Result<Row, String> {
    let columns = json.as_object().ok_or("has a row that is no object")?;
    let mut row = Row::new();
    for (name, json) in columns {
        let column = schema.column(table, name);
        let column = column.ok_or_else(|| format!("has an unknown column of {table}"))?;
        let value = Value::read(json, &column.kind);
        row.set(name, value.map_err(|error| format!("has {table}.{name}: {error}"))?);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        let columns = json!({"n": {"type": "integer"}});
        let json = json!({"name": "D", "tables": {"T": {"columns": columns}}});
        Schema::read(&json).unwrap()
    }

    fn outcome(json: &Json) -> Result<Vec<Done>, Failure> {
        let expected = [Expected::Inserted, Expected::Count, Expected::Rows("T".to_owned())];
        read(json, &expected, &schema())
    }

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn each_operation_has_its_result() {
        let done = outcome(&json!([{"uuid": ["uuid", UUID]}, {"count": 2}, {"rows": [{"n": 5}]}]));
        let row = Row::new().with("n", Value::one(5));
        let expected =
            [Done::Inserted(UUID.parse().unwrap()), Done::Count(2), Done::Rows(vec![row])];
        assert_eq!(done.unwrap(), expected);
    }

    #[test]
    fn error_of_an_operation_or_of_the_commit_is_found() {
        let violation = json!({"error": "constraint violation", "details": "d"});
        let ServerError { name, details } = ServerError::read(&violation);
        let error = ServerError { name, details };
        let failed = outcome(&json!([{"uuid": ["uuid", UUID]}, violation, null]));
        assert_eq!(failed, Err(Failure::Operation { index: 1, error: error.clone() }));
        let failed = outcome(&json!([{}, {}, {}, violation]));
        assert_eq!(failed, Err(Failure::Commit(error)));
    }

    #[test]
    fn other_answers_are_unreadable() {
        let row = json!({"uuid": ["uuid", UUID]});
        for json in [
            json!(5),
            json!([]),
            json!([row, {"count": 1}]),
            json!([row, {"count": -1}, {"rows": []}]),
            json!([row, {"count": 1}, {"rows": [{"x": 5}]}]),
            json!([row, {"count": 1}, {"rows": [{"n": "5"}]}]),
            json!([{"uuid": UUID}, {"count": 1}, {"rows": []}]),
            json!([row, {"count": 1}, {"rows": []}, {}]),
        ] {
            assert!(matches!(outcome(&json), Err(Failure::Unreadable(_))), "{json}");
        }
    }
}

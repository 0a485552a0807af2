//! The messages of JSON-RPC 1.0 as OVSDB uses them (RFC 7047 §4).

use serde_json::{Value as Json, json};
use thiserror::Error;

use crate::value::describe;

/// Most characters of an error's name and of its details that are kept.
const MOST_TEXT: usize = 512;

/// A message of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// The server expects an answer with the same id.
    Request { id: Json, method: String, params: Json },
    /// The answer to a request of the client.
    Response { id: Json, result: Result<Json, ServerError> },
    /// A message without an answer.
    Notification { method: String, params: Json },
}

/// A message is no JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RpcError {
    /// A message is no JSON.
    #[error("a message is no JSON: {0}; report this to the vendor of the server")]
    Json(String),
    /// A message is neither a request nor an answer.
    #[error("a message is no request and no answer: {0}; report this to the vendor of the server")]
    Shape(&'static str),
}

/// An error that the server states.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", match details.as_str() { "" => name.clone(), details => format!("{name}: {details}") })]
pub struct ServerError {
    /// What kind of error it is (RFC 7047 §3.1, `<error>`), such as `constraint violation`.
    pub name: String,
    /// More about it; empty if the server says no more.
    pub details: String,
}

/// The errors of operations that a caller handles (RFC 7047 §4.1.3 and §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A row refers to no row, or a row that others need would be deleted.
    Referential,
    /// A value, a count or an index is violated.
    Constraint,
    /// A `wait` was not met in its time.
    TimedOut,
    /// The transaction had an `abort`.
    Aborted,
    /// The server's role for this client does not allow it.
    Permission,
    /// The server does not know the method.
    UnknownMethod,
    /// Every other error; its name and details say which.
    Other,
}

impl ServerError {
    /// Returns its kind.
    pub fn kind(&self) -> ErrorKind {
        match self.name.as_str() {
            "referential integrity violation" => ErrorKind::Referential,
            "constraint violation" => ErrorKind::Constraint,
            "timed out" => ErrorKind::TimedOut,
            "aborted" => ErrorKind::Aborted,
            "permission error" => ErrorKind::Permission,
            "unknown method" => ErrorKind::UnknownMethod,
            _ => ErrorKind::Other,
        }
    }

    /// Reads an error: an object with `error` and `details`, or a string, as servers send it for unknown methods.
    pub(crate) fn read(json: &Json) -> Self {
        let text = |json: Option<&Json>| -> String {
            json.and_then(Json::as_str).unwrap_or_default().chars().take(MOST_TEXT).collect()
        };
        let name = if json.is_string() { text(Some(json)) } else { text(json.get("error")) };
        let details = text(json.get("details"));
        if name.is_empty() {
            return Self { name: format!("an error that is {}", describe(json)), details };
        }
        Self { name, details }
    }
}

impl Message {
    /// Reads a message that the splitter has bounded.
    ///
    /// # Errors
    /// [`RpcError`].
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, RpcError> {
        let json: Json =
            serde_json::from_slice(bytes).map_err(|error| RpcError::Json(error.to_string()))?;
        let Json::Object(mut members) = json else { return Err(RpcError::Shape("no object")) };
        let id = members.remove("id").unwrap_or(Json::Null);
        if let Some(method) = members.remove("method").filter(|it| !it.is_null()) {
            let Json::String(method) = method else {
                return Err(RpcError::Shape("its method is no string"));
            };
            let params = members.remove("params").unwrap_or(Json::Null);
            if !params.is_array() {
                return Err(RpcError::Shape("its parameters are no array"));
            }
            return Ok(match id {
                Json::Null => Self::Notification { method, params },
                id => Self::Request { id, method, params },
            });
        }
        let error = members.remove("error").unwrap_or(Json::Null);
        let result = match (members.remove("result"), error) {
            (Some(result), Json::Null) => Ok(result),
            (None, Json::Null) => return Err(RpcError::Shape("it has no result")),
            (_, error) => Err(ServerError::read(&error)),
        };
        Ok(Self::Response { id, result })
    }
}

/// Returns the bytes of a request.
pub(crate) fn request(id: u64, method: &str, params: &Json) -> Vec<u8> {
    json!({"id": id, "method": method, "params": params}).to_string().into_bytes()
}

/// Returns the bytes of an answer to the server.
pub(crate) fn response(id: &Json, result: &Json, error: &Json) -> Vec<u8> {
    json!({"id": id, "result": result, "error": error}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_both_forms() {
        let read = |text: &str| match Message::read(text.as_bytes()).unwrap() {
            Message::Response { result, .. } => result.unwrap_err(),
            other => panic!("{other:?}"),
        };
        let error = read(r#"{"id":1,"result":null,"error":"unknown method"}"#);
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::UnknownMethod, "unknown method")
        );
        let error =
            read(r#"{"id":1,"result":null,"error":{"error":"unknown database","details":"no x"}}"#);
        assert_eq!(error.to_string(), "unknown database: no x");
        let error = read(r#"{"id":1,"result":null,"error":[1]}"#);
        assert_eq!(error.to_string(), "an error that is an array");
        let long = format!(r#"{{"id":1,"error":{{"error":"{}"}}}}"#, "x".repeat(10_000));
        assert_eq!(read(&long).to_string().len(), MOST_TEXT);
    }

    #[test]
    fn other_shapes_are_errors() {
        for text in
            [r#"{"id":1}"#, r#"{"method":1,"params":[]}"#, r#"{"method":"echo","params":{}}"#, "{]"]
        {
            Message::read(text.as_bytes()).unwrap_err();
        }
    }
}

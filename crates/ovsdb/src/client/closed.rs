//! Why a client closes its connection.

use std::time::Duration;

use thiserror::Error;

use crate::framing::FrameError;
use crate::image::ImageError;
use crate::rpc::{RpcError, ServerError};
use crate::schema::SchemaError;
use crate::update::UpdateError;
use crate::wanted::SchemaMismatch;

/// The client closes the connection for this reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Closed {
    /// The bytes are no messages.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message is no JSON-RPC.
    #[error(transparent)]
    Message(#[from] RpcError),
    /// An answer belongs to no request.
    #[error("an answer that belongs to no request; report this to the vendor of the server")]
    UnknownAnswer,
    /// The server refused a request.
    #[error("the server refused `{method}`: {error}; correct the server's settings")]
    Refused {
        /// The method.
        method: &'static str,
        /// The server's reason.
        error: ServerError,
    },
    /// An answer has another form.
    #[error("the answer to `{0}` is not one; report this to the vendor of the server")]
    Answer(&'static str),
    /// The server has other databases.
    #[error("the server has no database {wanted}, only: {}; name the server of a switch", found.join(", "))]
    NoDatabase {
        /// The database.
        wanted: &'static str,
        /// At most eight of the server's databases.
        found: Vec<String>,
    },
    /// The schema cannot be read.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The schema lacks what the client needs.
    #[error(transparent)]
    Mismatch(#[from] SchemaMismatch),
    /// An update cannot be read.
    #[error("the server sent {0}; report this to the vendor of the server")]
    Update(#[from] UpdateError),
    /// An update does not fit the image, which is empty now: the next connection reads all rows.
    #[error("the server sent {0}; if it happens again, report this to the vendor of the server")]
    Image(#[from] ImageError),
    /// The server has removed the database.
    #[error("the server has removed the database; restore it on the switch")]
    Canceled,
    /// The server does not answer in time.
    #[error("the server did not answer `{0}` in time; look for the load of the switch")]
    NoAnswer(&'static str),
    /// No byte has come for this time.
    #[error("the server has sent nothing for {} s; look whether the switch is still reachable", .0.as_secs())]
    Silent(Duration),
    /// The server sends requests and does not read the answers.
    #[error(
        "the server sends requests and reads no answers: {0} bytes wait for it; report this to its vendor"
    )]
    OutputFull(usize),
}

//! A client of OVSDB, the protocol by which switches are configured (RFC 7047; ovsdb-server(7) for its extensions).
//!
//! | module | content |
//! | --- | --- |
//! | [`framing`] | cuts the stream into messages, bounded before they are parsed |
//! | [`client`] | the state machine: databases, schema, monitors, transactions, echo, timeouts, reconnection |
//! | [`value`], [`row`] | atoms, sets, maps; rows |
//! | [`schema`], [`wanted`] | the server's schema, and what a client needs of it |
//! | [`transaction`], [`outcome`] | operations, checked by the schema; their results |
//! | [`image`] | the copy of the database |
//! | [`ownership`] | wanted rows of an owner become a transaction |
//! | [`open_vswitch`] | the tables and columns of Open vSwitch |
//! | [`driver`] | the only module with sockets: unix, TCP, TLS |
//!
//! Each byte of a server may be hostile. A message is at most 8 MiB, 64 brackets deep, and has at most 524,288 values; so parsing takes
//! at most some 64 MiB. The image is bounded by rows and bytes. All other errors close the connection, and say what to do.
//!
//! A client never writes on its own: [`Client::transact`] sends what its caller made.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod backoff;
pub mod client;
pub mod driver;
pub mod framing;
pub mod image;
pub mod open_vswitch;
pub mod outcome;
pub mod ownership;
pub mod row;
pub mod rpc;
pub mod schema;
pub mod transaction;
mod update;
pub mod value;
pub mod wanted;

pub use client::{Client, Closed, Event, NotSent, Settings, TransactionId};
pub use framing::{FrameError, FrameLimits, Splitter};
pub use image::{Change, ChangeKind, Image, ImageError, ImageLimits};
pub use outcome::{Done, Failure};
pub use row::Row;
pub use rpc::{ErrorKind, RpcError, ServerError};
pub use schema::{Schema, SchemaError};
pub use transaction::{Condition, Function, Mutation, Mutator, Operation, TransactionError, Until};
pub use update::UpdateError;
pub use value::{Atom, AtomKind, Uuid, Value, ValueError};
pub use wanted::{SchemaMismatch, Wanted, WantedColumn, WantedTable};

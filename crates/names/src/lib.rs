//! Holds the names and sizes that apps, the programs that host them and the programs around them share.
//!
//! An app uses them through the SDK, which exports them. `control` and `config` use them without the SDK.

#![forbid(unsafe_code)]

mod limit;
mod service;
mod southbound;

pub use limit::Limit;
pub use service::Service;
pub use southbound::{Southbound, VTEP_PREFIX};

/// Most records in a batch of an app.
pub const MAX_BATCH: usize = 64;

/// Most bytes of a request to a service or of its answer.
pub const MAX_MESSAGE: usize = 40 * 1024;

/// Bytes before a request to a service: its id.
pub const REQUEST_HEAD: usize = 8;

/// Bytes before the answer of a service: its request's id, and whether more follow.
pub const ANSWER_HEAD: usize = 9;

/// Most letters of the name of a host to which the broker connects (RFC 1035 §2.3.4).
pub const LONGEST_HOST: usize = 253;

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// Someone must act.
    Error = 1,
    /// The application coped.
    Warn = 2,
    /// The state of the network changed.
    Info = 3,
    /// Details, as of each message.
    Debug = 4,
    /// A change that an operator has requested of the service which the application provides: a line for the audit records.
    /// In other applications the same as `Info`.
    Audit = 5,
}

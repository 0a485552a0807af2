//! The storage engine interface: operations in, outcomes out, durable on return.
//!
//! Operations run in order and as a unit: if the engine fails, none has an effect. Preconditions
//! and quotas are evaluated inside, as part of an operation. A replicated engine that agrees on a
//! list of operations could therefore implement the same interface.

use sdk::services::storage::Expect;

use crate::disk::DiskError;

/// An operation in the namespace of app number `space`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `sdk::services::storage::Request`")]
pub enum Op<'a> {
    Get { space: u16, key: &'a [u8] },
    Put { space: u16, key: &'a [u8], expect: Expect, value: &'a [u8] },
    Delete { space: u16, key: &'a [u8], expect: Expect },
    List { space: u16, prefix: &'a [u8], after: &'a [u8] },
}

impl<'a> Op<'a> {
    /// Whether it may change data.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete { .. })
    }

    /// Returns its namespace and its key or prefix.
    pub fn namespace_and_key(&self) -> (u16, &'a [u8]) {
        match *self {
            Self::Get { space, key }
            | Self::Put { space, key, .. }
            | Self::Delete { space, key, .. } => (space, key),
            Self::List { space, prefix, .. } => (space, prefix),
        }
    }
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Success; the version written, or 0.
    Done {
        /// See above.
        version: u64,
        /// Whether data changed.
        changed: bool,
    },
    /// The stored value.
    Value {
        /// Version of the value.
        version: u64,
        /// The value.
        value: Vec<u8>,
    },
    /// The key does not exist.
    Nothing,
    /// The stored version differs from the expected one; 0 if the key does not exist.
    Conflict {
        /// See above.
        version: u64,
    },
    /// The namespace would exceed its quota.
    OverQuota,
    /// Keys, as [`KeysWriter`](sdk::services::storage::KeysWriter) makes them.
    Keys(Vec<u8>),
}

/// A store of versioned values.
pub trait Engine {
    /// Runs operations in order; their changes are on the disk when it returns. Returns one outcome
    /// per operation.
    ///
    /// # Errors
    /// [`DiskError`]: no operation has changed anything.
    fn run(&mut self, ops: &[Op<'_>]) -> Result<Vec<Outcome>, DiskError>;
}

//! What keeps the values: a function from operations to outcomes, durable when it returns.
//!
//! Operations are carried out in their order and all or, if the engine fails, none; what is expected and
//! what is allowed is decided in there, as a part of them. So an engine may as well be one that agrees
//! with others on a list of operations, and lets each apply it.

use sdk::services::storage::Expect;

use crate::disk::DiskError;

/// What is to be done, in the namespace of the app with the number `space`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `sdk::services::storage::Request`")]
pub enum Op<'a> {
    Get { space: u16, key: &'a [u8] },
    Put { space: u16, key: &'a [u8], expect: Expect, value: &'a [u8] },
    Delete { space: u16, key: &'a [u8], expect: Expect },
    List { space: u16, prefix: &'a [u8], after: &'a [u8] },
}

impl<'a> Op<'a> {
    /// Whether it may change something.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete { .. })
    }

    /// Its namespace, and its key or prefix.
    pub fn place(&self) -> (u16, &'a [u8]) {
        match *self {
            Self::Get { space, key }
            | Self::Put { space, key, .. }
            | Self::Delete { space, key, .. } => (space, key),
            Self::List { space, prefix, .. } => (space, prefix),
        }
    }
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; the version of what was written, or 0.
    Done {
        /// See above.
        version: u64,
        /// Whether anything is different now.
        changed: bool,
    },
    /// What is there.
    Value {
        /// Its version.
        version: u64,
        /// It itself.
        value: Vec<u8>,
    },
    /// There is no such key.
    Nothing,
    /// What is there has this version; 0 if nothing is.
    Conflict {
        /// See above.
        version: u64,
    },
    /// The namespace has as much as it may have.
    OverQuota,
    /// Keys, as [`KeysWriter`](sdk::services::storage::KeysWriter) makes them.
    Keys(Vec<u8>),
}

/// Keeps values.
pub trait Engine {
    /// Carries out operations in this order; what they changed is on the disk when it returns. One
    /// outcome for each.
    ///
    /// # Errors
    /// [`DiskError`]: none of them has changed anything.
    fn run(&mut self, ops: &[Op<'_>]) -> Result<Vec<Outcome>, DiskError>;
}

//! Indices as types, so that the compiler tells a connection from a worker.

use std::fmt;

/// A connection of a worker: its place in the worker's slab, and its number in epoll. The number of a closed
/// connection is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnId(pub(crate) usize);

/// A worker of the pool: 0 is the one that accepts connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub usize);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

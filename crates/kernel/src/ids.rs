//! Defines indices as types, so that the compiler distinguishes apps, connections and workers.

use std::fmt;

/// A connection of a worker: its key in the worker's slab, and its number in epoll. The number of a closed connection
/// is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnId(pub(crate) usize);

/// A worker of the pool: 0 is the one that accepts connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub usize);

/// An app's index among the app ports of a worker, the same on every worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AppSlot(pub(crate) u8);

impl AppSlot {
    /// # Panics
    /// If the index is above 255: a worker has at most 64 apps.
    pub(crate) fn new(index: usize) -> Self {
        Self(u8::try_from(index).expect("there are few apps"))
    }

    /// The first `count` slots.
    pub(crate) fn first(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self::new)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

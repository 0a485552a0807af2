//! Limits that the system keeps for a process, setrlimit(2).

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The numbers that differ by kind of process; what is the same for all is in [`set`](Self::set).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Descriptors open at once.
    pub descriptors: u64,
    /// Processes and threads of its user; with a user namespace, of its user in there.
    pub threads: u64,
    /// Bytes of the longest file it writes.
    pub file_size: u64,
    /// Where no group counts all its memory: bytes that bound it.
    pub memory: Option<Memory>,
}

/// What bounds the memory of a process that no group counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes of private memory that it can write.
    pub data: u64,
    /// Bytes of address space that it may map beyond what it has when it is confined, and beyond the objects that are
    /// to be loaded. This also counts what `data` does not: memory that was written and can no longer be, and memory
    /// that is only read, which costs page tables.
    pub address_space: u64,
}

impl Limits {
    /// Sets them, hard and soft, and those that no program of ours needs more of. `own_user`: no
    /// others have its user, so that its threads can be counted by it. `mapped`: bytes of address space that it has
    /// and that its objects will take.
    pub(super) fn set(self, own_user: bool, mapped: io::Result<u64>) -> io::Result<()> {
        if own_user {
            limit(Resource::Nproc, self.threads)?;
        }
        if let Some(memory) = self.memory {
            limit(Resource::Data, memory.data)?;
            limit(Resource::As, mapped?.saturating_add(memory.address_space))?;
        }
        let limits = [
            (Resource::Core, 0),
            (Resource::Nofile, self.descriptors),
            (Resource::Fsize, self.file_size),
            (Resource::Memlock, 0),
            (Resource::Msgqueue, 0),
            (Resource::Locks, 0),
            (Resource::Nice, 0),
            (Resource::Rtprio, 0),
            (Resource::Rttime, 0),
            (Resource::Sigpending, 64),
        ];
        limits.into_iter().try_for_each(|(resource, most)| limit(resource, most))
    }
}

/// Who may less stays with less.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let held = rustix::process::getrlimit(resource);
    let most = Some(held.maximum.map_or(most, |maximum| most.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current: most, maximum: most })?)
}

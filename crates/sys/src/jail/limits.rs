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
    /// Bytes of private memory that it can write, where no group counts all its memory.
    pub data: Option<u64>,
}

impl Limits {
    /// Sets them, hard and soft, and those that no program of ours needs more of. `own_user`: no
    /// others have its user, so that its threads can be counted by it.
    pub(super) fn set(self, own_user: bool) -> io::Result<()> {
        if own_user {
            limit(Resource::Nproc, self.threads)?;
        }
        if let Some(data) = self.data {
            limit(Resource::Data, data)?;
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

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
    /// and that its objects will take. Sets all that can be set, and returns the first error.
    pub(super) fn set(self, own_user: bool, mapped: io::Result<u64>) -> io::Result<()> {
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
        let threads = own_user.then_some((Resource::Nproc, self.threads));
        let data = self.memory.map(|memory| (Resource::Data, memory.data));
        // Each is set whatever became of the others.
        let mut result = Ok(());
        for (resource, most) in limits.into_iter().chain(threads).chain(data) {
            result = result.and(limit(resource, most));
        }
        // Last, as reading `mapped` may have failed.
        if let Some(memory) = self.memory {
            let address_space = mapped.map(|mapped| mapped.saturating_add(memory.address_space));
            result = result.and(address_space.and_then(|most| limit(Resource::As, most)));
        }
        result
    }
}

/// Who may less stays with less.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let held = rustix::process::getrlimit(resource);
    let most = Some(held.maximum.map_or(most, |maximum| most.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current: most, maximum: most })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set in a process that is started for the test, as they cannot be taken back.
    const CHILD: &str = "ROSEMARY_TEST_LIMITS_CHILD";

    #[test]
    fn unknown_address_space_leaves_the_other_limits() {
        const NAME: &str = "sandbox::limits::tests::unknown_address_space_leaves_the_other_limits";
        if std::env::var_os(CHILD).is_none() {
            let program = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(program);
            let output = child.args(["--exact", NAME]).env(CHILD, "1").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let memory = Memory { data: 1 << 30, address_space: 1 << 30 };
        let limits =
            Limits { descriptors: 100, threads: 0, file_size: 1 << 20, memory: Some(memory) };
        let error = limits.set(false, Err(io::Error::other("not readable"))).unwrap_err();
        assert_eq!(error.to_string(), "not readable");
        let set = |resource| rustix::process::getrlimit(resource).maximum;
        let expected = [
            (Resource::Core, 0),
            (Resource::Nofile, 100),
            (Resource::Fsize, 1 << 20),
            (Resource::Data, 1 << 30),
        ];
        for (resource, most) in expected {
            assert_eq!(set(resource), Some(most), "{resource:?}");
        }
    }
}

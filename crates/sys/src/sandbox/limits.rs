//! Sets the resource limits of a process, setrlimit(2).

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The limits that differ by kind of process. [`set`](Self::set) has those that are the same for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Open descriptors.
    pub descriptors: u64,
    /// Processes and threads of its user, counted in its user namespace if it has one.
    pub threads: u64,
    /// Bytes of the longest file that it can write.
    pub file_size: u64,
    /// Limits of memory for a process that is in no cgroup with a memory limit.
    pub memory: Option<Memory>,
}

/// Limits of memory for a process whose memory no cgroup counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes of private writable memory.
    pub data: u64,
    /// Bytes of address space that it may map in addition to its mappings at the time of confinement and to its
    /// objects. This also counts memory that `data` does not: memory that became read-only after it was written, and
    /// read-only memory, which costs page tables.
    pub address_space: u64,
}

impl Limits {
    /// Sets these limits, hard and soft, and further ones that are the same for every program.
    ///
    /// `own_user`: no other program has the user of this process, so the system can count its threads by user.
    /// `mapped`: bytes of address space that the process and its objects use. Sets every limit that can be set, and
    /// returns the first error.
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
        // A failure must not leave the limits after it unset.
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

/// Sets a limit, unless the process already has a lower one.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let held = rustix::process::getrlimit(resource);
    let most = Some(held.maximum.map_or(most, |maximum| most.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current: most, maximum: most })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test runs in a child process, because limits cannot be raised again.
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

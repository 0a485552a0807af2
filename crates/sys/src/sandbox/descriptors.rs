//! Closes the descriptors and replaces the environment that a process inherited, and makes its outlet.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Limits, Sandbox};
use crate::channel::Channel;

/// Replaces the environment by `variables`. The process has one thread.
///
/// No name is empty or contains `=`, and neither names nor values contain a zero byte.
#[expect(clippy::disallowed_methods, reason = "there is one thread")]
pub(super) fn replace_environment(variables: &BTreeMap<String, String>) {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        // SAFETY: `confine` requires that there is one thread, so no other reads the environment meanwhile.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in variables {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Closes every descriptor except standard output, standard error and those of the sandbox.
///
/// Standard input, which was the control socket, becomes an empty read-only file. If it were closed, the next
/// opened file would get its number.
pub(super) fn close_others(sandbox: &Sandbox<'_>) -> io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    let empty = memfd_create("standard input", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fcntl_add_seals(&empty, seals)?;
    rustix::stdio::dup2_stdin(empty.as_fd())?;
    drop(empty);

    let granted = [sandbox.control].into_iter().chain(sandbox.keep.iter().copied());
    let mut kept: Vec<u32> = granted
        .chain(sandbox.objects.iter().copied())
        .map(|fd| fd.as_raw_fd().unsigned_abs())
        .filter(|fd| *fd > 2)
        .collect();
    kept.sort_unstable();
    let mut next = 3;
    for fd in kept {
        if next < fd {
            close_range(next, fd - 1)?;
        }
        next = next.max(fd + 1);
    }
    close_range(next, libc::c_uint::MAX)
}

/// Duplicates the control socket for [`Confined::outlet`](super::Confined::outlet). Returns also the limits of the
/// process. Its limit of descriptors excludes the number of the duplicate: once closed, no other descriptor can get that number.
///
/// The system keeps 8 bytes for each number up to this one. A process that also passes descriptors later gets a low number.
pub(super) fn outlet(sandbox: &Sandbox<'_>) -> io::Result<(Channel, Limits)> {
    let mut limits = sandbox.limits;
    let mut number = 3;
    if !sandbox.profile.passes_descriptors() {
        let held = getrlimit(Resource::Nofile);
        let below = held.maximum.unwrap_or(u64::MAX).saturating_sub(1);
        limits.descriptors = limits.descriptors.min(below);
        setrlimit(Resource::Nofile, Rlimit { current: held.maximum, ..held })?;
        number = i32::try_from(limits.descriptors).map_err(io::Error::other)?;
    }
    let outlet = rustix::io::fcntl_dupfd_cloexec(sandbox.control, number)?;
    Ok((Channel::from_fd(outlet), limits))
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the caller of `confine` has listed every descriptor that its code still uses; the process inherited
    // the others, and no code in it owns them.
    match unsafe { libc::close_range(first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

//! Pins threads to cores and raises the limit of open files.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to the `which`-th core that the process may use, modulo their number.
///
/// # Errors
/// The system call failed.
pub fn pin(which: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let Some(core) = cores.get(which % cores.len().max(1)) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut only = CpuSet::new();
    only.set(*core);
    Ok(sched_setaffinity(None, &only)?)
}

/// Raises the soft limit of open files to the hard limit if `needed` exceeds it.
///
/// # Errors
/// The hard limit is below `needed`.
pub fn allow_files(needed: usize) -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    let needed = needed as u64;
    if limit.current.is_some_and(|now| now < needed) {
        limit.current = limit.maximum;
        if limit.maximum.is_some_and(|most| most < needed) {
            let most = limit.maximum.unwrap_or(0);
            return Err(io::Error::other(format!(
                "the run needs {needed} open files, but the limit is {most}; raise it (ulimit -Hn)"
            )));
        }
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}

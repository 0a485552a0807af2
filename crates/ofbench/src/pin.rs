//! Threads and descriptors: where a thread runs, how many files may be open.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to the `which`-th of the cores that the process may use, counted round.
///
/// # Errors
/// The system does not say which cores there are, or refuses.
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

/// Allows as many open files as the system lets us.
///
/// # Errors
/// There may not be `needed` of them.
pub fn allow_files(needed: usize) -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    let needed = needed as u64;
    if limit.current.is_some_and(|now| now < needed) {
        limit.current = limit.maximum;
        if limit.maximum.is_some_and(|most| most < needed) {
            let most = limit.maximum.unwrap_or(0);
            return Err(io::Error::other(format!(
                "{needed} open files are needed, {most} are allowed; raise the limit (ulimit -Hn)"
            )));
        }
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}

//! Reads the CPU time and the memory of processes.

use std::fs;
use std::io;
use std::time::Duration;

/// Returns the CPU time of a process so far, including that of its ended threads.
///
/// `/proc/PID/stat` holds it in fields 14 and 15, in ticks of user and kernel mode (proc(5)).
///
/// # Errors
/// No process has this id.
pub fn cpu_time_of(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks_in(&stat).ok_or(io::ErrorKind::InvalidData)?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second.max(1)))
}

/// Returns the sum of the CPU times of several processes.
///
/// # Errors
/// One of them does not exist; the error names it.
pub fn cpu_time_of_all(pids: &[u32]) -> io::Result<Duration> {
    pids.iter()
        .map(|pid| {
            cpu_time_of(*pid).map_err(|why| {
                io::Error::new(
                    why.kind(),
                    format!("cannot read the CPU time of process {pid}: {why}"),
                )
            })
        })
        .sum()
}

/// Returns the sum of the resident memory of several processes, in bytes. A shared page counts once
/// for each process.
///
/// The second field of `/proc/PID/statm` holds it in pages (proc(5)).
///
/// # Errors
/// One of them does not exist; the error names it.
pub fn resident_of_all(pids: &[u32]) -> io::Result<u64> {
    let of = |pid: u32| -> io::Result<u64> {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
        let pages = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        let pages: u64 = pages.ok_or(io::ErrorKind::InvalidData)?;
        Ok(pages.saturating_mul(rustix::param::page_size() as u64))
    };
    pids.iter()
        .map(|pid| {
            of(*pid).map_err(|why| {
                io::Error::new(
                    why.kind(),
                    format!("cannot read the memory of process {pid}: {why}"),
                )
            })
        })
        .sum()
}

/// Parses the ticks. The process name may contain any character, so fields are counted from its
/// last closing parenthesis.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    user.checked_add(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_after_any_process_name() {
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 100 23 5 6 20 0 1";
        assert_eq!(ticks_in(stat), Some(123));
        assert_eq!(ticks_in("7 (a) S 1 2"), None);
    }

    #[test]
    fn missing_process_is_named_in_the_error() {
        assert!(cpu_time_of(std::process::id()).is_ok());
        let error = cpu_time_of_all(&[u32::MAX]).unwrap_err().to_string();
        assert!(error.contains("4294967295"), "{error}");
        assert!(resident_of_all(&[std::process::id()]).is_ok_and(|bytes| bytes > 4096));
        let error = resident_of_all(&[u32::MAX]).unwrap_err().to_string();
        assert!(error.contains("4294967295"), "{error}");
    }
}

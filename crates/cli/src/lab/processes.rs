//! Lists processes, to detect leftover ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A process, identified by id and start time. Its name changes when it executes another program,
/// and its parent when that one ends.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    started: u64,
    ended: bool,
}

/// Returns the process with this id.
pub fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // "42 (a name (with parentheses)) S 1 ...": see proc_pid_stat(5); field 3 follows the last ')'.
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<_> = tail.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        name: head.split_once('(')?.1.to_owned(),
        started: fields.get(19)?.parse().ok()?,
        ended: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

/// Returns every visible process.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect()
}

/// Returns `pid` and its descendants.
pub fn tree(pid: u32) -> Vec<Process> {
    let all = all();
    let mut pids = BTreeSet::from([pid]);
    loop {
        let before = pids.len();
        pids.extend(
            all.iter().filter(|p| pids.contains(&p.parent)).map(|p| p.pid).collect::<Vec<_>>(),
        );
        if pids.len() == before {
            return all.into_iter().filter(|p| pids.contains(&p.pid)).collect();
        }
    }
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

impl Process {
    /// Whether it still runs; a zombie does not.
    pub fn runs(&self) -> bool {
        process(self.pid).is_some_and(|now| now == *self && !now.ended)
    }

    /// Returns its namespace of this kind (`net`, `mnt`, ...).
    pub fn namespace(&self, kind: &str) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/ns/{kind}", self.pid)).ok()
    }
}

/// Waits until none of `processes` runs; returns those that still run after `limit`.
pub fn wait_until_gone(processes: &[Process], limit: Duration) -> Vec<Process> {
    let start = Instant::now();
    loop {
        let left: Vec<_> = processes.iter().filter(|process| process.runs()).cloned().collect();
        if left.is_empty() || start.elapsed() >= limit {
            return left;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

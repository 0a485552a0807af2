//! Which processes there are: to find out whether one left something behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A process. Two are equal if they have the same id and started at the same time; the name
/// changes when it executes another program, the parent when that ends.
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

/// The process with that id, if there is one.
pub fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // "42 (a name (with parentheses)) S 1 ...": see proc_pid_stat(5); field 3 comes after the last ')'.
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

/// Every process that this one can see.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect()
}

/// `pid` and everything below it.
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
    /// Whether it still runs; one that has ended and that nobody has asked about does not.
    pub fn runs(&self) -> bool {
        process(self.pid).is_some_and(|now| now == *self && !now.ended)
    }

    /// The namespaces of that kind (`net`, `mnt`, ...) it is in.
    pub fn namespace(&self, kind: &str) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/ns/{kind}", self.pid)).ok()
    }
}

/// Waits until none of `processes` runs and returns those that still do after `limit`.
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

//! Gives reserved threads processors of their own: a root domain of cpusets, `cpuset(7)`.
//!
//! In version 1 a root domain is a cpuset whose parents do not balance load. So the root stops balancing, and two cpusets share the
//! processors:
//!
//! ```text
//! /sys/fs/cgroup/cpuset                                  cpuset.sched_load_balance: 1 -> 0
//! /sys/fs/cgroup/cpuset/rosemary-4711-partition.98765    all processors but the first, for reserved threads
//! /sys/fs/cgroup/cpuset/rosemary-4711-rest.98765         the first processor
//! ```
//!
//! Other threads stay in the root: they keep their processors, and the system no longer moves them between the two parts. On a processor
//! of the partition they get the time that reserved threads leave.
//!
//! Dropping the partition restores the root. After a killed monitor, the next one finds the cpusets by their names and restores it: they
//! exist only while the root was changed, and the root was 1 before. A name has the number of the monitor's process and the time of its
//! start, because another process can receive the number.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::controllers::{self, MOUNTS, OWN};
use super::{about, files, make, name, ours, own};

/// The processors of a cpuset.
const PROCESSORS: &str = "cpuset.cpus";

/// The memory nodes of a cpuset.
const NODES: &str = "cpuset.mems";

/// Whether the system balances the load of the processors of a cpuset.
const BALANCE: &str = "cpuset.sched_load_balance";

/// Whether no other cpuset at the same level may have these processors.
const EXCLUSIVE: &str = "cpuset.cpu_exclusive";

/// The ends of the names of the two cpusets.
const INSIDE: &str = "partition";
const REST: &str = "rest";

/// How often the processes of a killed monitor are looked for, and the time between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// Processors for reserved threads alone. Dropping it gives them back.
#[derive(Debug)]
pub struct Partition {
    root: PathBuf,
    processors: Vec<u32>,
}

impl Partition {
    /// Makes a root domain of all processors but the first.
    ///
    /// # Errors
    /// Why there is none, as a phrase with the remedy.
    pub fn new() -> Result<Self, String> {
        Self::below(&root()?)
    }

    fn below(root: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("no partition of processors can be made: {error}");
        let read = |file: &str| files::read(root, file).map(|text| text.trim().to_owned());
        let processors = list(&read(PROCESSORS).map_err(failed)?);
        let Some((first, others)) = processors.split_first().filter(|(_, it)| !it.is_empty())
        else {
            return Err("a partition of processors needs at least two processors".into());
        };
        if read(BALANCE).map_err(failed)? != "1" {
            return Err(format!(
                "{} is 0, as another program has divided the processors; remove its partition first",
                root.join(BALANCE).display()
            ));
        }
        let nodes = read(NODES).map_err(failed)?;
        let partition = Self { root: root.to_owned(), processors: others.to_vec() };
        // From here on, dropping it removes what was made.
        partition.fill(INSIDE, others, &nodes).map_err(failed)?;
        partition.fill(REST, &[*first], &nodes).map_err(failed)?;
        files::write(root, BALANCE, "0").map_err(failed)?;
        Ok(partition)
    }

    fn fill(&self, which: &str, processors: &[u32], nodes: &str) -> io::Result<()> {
        let dir = self.root.join(dir_name(which));
        make(&dir).map_err(|error| about(&dir, &error))?;
        let processors: Vec<String> = processors.iter().map(ToString::to_string).collect();
        files::write(&dir, PROCESSORS, &processors.join(","))?;
        files::write(&dir, NODES, nodes)?;
        files::write(&dir, EXCLUSIVE, "1")
    }

    /// The processors of reserved threads.
    pub fn processors(&self) -> &[u32] {
        &self.processors
    }

    /// Moves a thread into the partition, or back to all other processors.
    ///
    /// # Errors
    /// The thread has ended, or the system refuses.
    pub fn set_member(&self, tid: u32, is_member: bool) -> io::Result<()> {
        let inside = self.root.join(dir_name(INSIDE));
        let dir = if is_member { &inside } else { &self.root };
        files::write(dir, "tasks", &tid.to_string())
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        restore(&self.root, own());
    }
}

/// Restores the cpusets that a killed monitor changed, if there are some. Returns whether there were.
pub fn restore_stale() -> bool {
    root().is_ok_and(|root| restore_stale_below(&root))
}

fn restore_stale_below(root: &Path) -> bool {
    let stale = ours(root).into_iter().filter(|(pid, dir)| !is_alive(*pid, dir));
    let mut stale: Vec<u32> = stale.map(|(pid, _)| pid).collect();
    stale.sort_unstable();
    stale.dedup();
    for pid in &stale {
        restore(root, *pid);
    }
    !stale.is_empty()
}

/// Restores the root and removes the cpusets of the monitor `pid`. Their processes end with the monitor, which takes a moment.
fn restore(root: &Path, pid: u32) {
    let others = ours(root).into_iter().any(|(other, dir)| other != pid && is_alive(other, &dir));
    if !others {
        let _ = files::write(root, BALANCE, "1"); // fails where nothing was changed either
    }
    for _ in 0..TRIES {
        let left = ours(root).into_iter().filter(|(of, _)| *of == pid);
        // rmdir(2) fails while a thread is in it. Of a directory in a test, files are left.
        let left: Vec<PathBuf> =
            left.map(|(_, dir)| dir).filter(|dir| fs::remove_dir(dir).is_err()).collect();
        if left.is_empty() {
            return;
        }
        for dir in left {
            let threads = fs::read_to_string(dir.join("tasks")).unwrap_or_default();
            for thread in threads.split_whitespace() {
                let _ = files::write(root, "tasks", thread); // it may have ended
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// The name of this monitor's cpuset.
fn dir_name(which: &str) -> String {
    name(&format!("{which}.{}", started(own()).unwrap_or(0)))
}

/// Whether the monitor with this process number that made the cpuset `dir` still runs.
fn is_alive(pid: u32, dir: &Path) -> bool {
    let name = dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let start = name.rsplit_once('.').and_then(|(_, start)| start.parse().ok());
    start.is_some() && started(pid) == start
}

/// When the process with this number started, in ticks since the system did; `None` without such a process. `proc_pid_stat(5)`.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, can have spaces and parentheses. Field 3 follows it, and this one is the 22nd.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The root of the cpusets of version 1.
fn root() -> Result<PathBuf, String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let dir = controllers::first(&read(OWN), &read(MOUNTS), "cpuset");
    let dir = dir.ok_or(
        "partitions of processors need cpusets of cgroups version 1, which are not mounted; on version 2, give Rosemary \
         processors of its own with AllowedCPUs= of systemd instead",
    )?;
    // A cpuset below another one cannot stop the load balancing above it.
    if dir.join("cpuset.effective_cpus").exists() && dir.join("release_agent").exists() {
        return Ok(dir);
    }
    Err(format!(
        "{} is not the root of the cpusets; start Rosemary outside of a container",
        dir.display()
    ))
}

/// Parses a list of processors such as `0-3,8`.
fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        (first <= last && last < 1 << 16).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_parsed() {
        assert_eq!(list("0-1"), [0, 1]);
        assert_eq!(list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(list(""), [0; 0]);
        assert_eq!(list("5-2,x,1-99999999"), [0; 0]);
    }

    fn fake(balance: &str, processors: &str) -> PathBuf {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("rosemary-cpuset-{}-{number}", own()));
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in [(BALANCE, balance), (PROCESSORS, processors), (NODES, "0")] {
            fs::write(dir.join(file), text).unwrap();
        }
        dir
    }

    #[test]
    fn machine_that_cannot_be_divided_is_refused() {
        for (balance, processors, expected) in
            [("0", "0-1", "another program"), ("1", "0", "at least two processors")]
        {
            let dir = fake(balance, processors);
            let error = Partition::below(&dir).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert_eq!(fs::read_to_string(dir.join(BALANCE)).unwrap(), balance);
            fs::remove_dir_all(dir).unwrap();
        }
    }

    #[test]
    fn stale_cpusets_restore_the_root() {
        let dir = fake("0", "0-1");
        let gone = (2..1 << 22).find(|pid| fs::metadata(format!("/proc/{pid}")).is_err()).unwrap();
        for which in [INSIDE, REST] {
            fs::create_dir(dir.join(format!("rosemary-{gone}-{which}.7"))).unwrap();
        }
        // Another process has received the number of this monitor.
        let start = started(1).unwrap();
        fs::create_dir(dir.join(format!("rosemary-1-rest.{}", start + 1))).unwrap();
        assert!(restore_stale_below(&dir));
        assert_eq!(fs::read_to_string(dir.join(BALANCE)).unwrap(), "1");
        assert!(ours(&dir).is_empty());
        assert!(!restore_stale_below(&dir));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn cpusets_of_a_living_monitor_stay() {
        let dir = fake("0", "0-1");
        fs::create_dir(dir.join(format!("rosemary-1-partition.{}", started(1).unwrap()))).unwrap();
        assert!(!restore_stale_below(&dir));
        restore(&dir, own());
        assert_eq!(fs::read_to_string(dir.join(BALANCE)).unwrap(), "0");
        fs::remove_dir_all(dir).unwrap();
    }
}

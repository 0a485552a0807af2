//! Detects what a program leaves behind, by comparing the state before and after.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Everything in the calling thread's network and file system that a test could leave behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces(BTreeSet<String>);

impl Traces {
    /// Records the current state.
    pub fn look() -> Self {
        let mut found = BTreeSet::new();
        files_below(Path::new("/run"), &mut found);
        for dir in ["/tmp", "/dev/shm", "/var/lib", "/etc", "/var/tmp"] {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path().display().to_string());
            found.extend(paths.filter(|path| path.contains("rosemary")));
        }
        // "  eth0: 0 0 ...": the interfaces of this thread's network namespace
        let interfaces = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let named = interfaces.lines().filter_map(|line| line.split_once(':'));
        found.extend(named.map(|(name, _)| format!("interface {}", name.trim())));
        // "0: 0100007F:19FD 00000000:0000 0A ...": 0A is a listening socket
        let sockets = fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        let listening = sockets.lines().filter(|line| line.contains(" 0A "));
        found.extend(
            listening
                .filter_map(|line| Some(format!("listener {}", line.split_whitespace().nth(1)?))),
        );
        // "36 35 98:0 / /mnt rw ...": the fifth column is where it is mounted
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split_whitespace().nth(4));
        found.extend(places.map(|place| format!("mount {place}")));
        // the last column of a named socket is its path
        let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
        let paths = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
        found.extend(paths.filter(|path| *path != "Path").map(|path| format!("socket {path}")));
        Self(found)
    }

    /// Returns what has appeared since, except the lab's own files.
    pub fn new_since(&self) -> Vec<String> {
        let now = Self::look().0;
        now.difference(&self.0).filter(|trace| !trace.contains("/run/lab")).cloned().collect()
    }
}

/// Returns the cgroups that the monitor with this process id has made, in the trees of both versions.
pub fn cgroups_of(monitor: u32) -> Vec<String> {
    let mut found = BTreeSet::new();
    let prefix = format!("/rosemary-{monitor}-");
    directories_below(Path::new("/sys/fs/cgroup"), &mut found);
    found.into_iter().filter(|path| path.contains(&prefix)).collect()
}

/// Adds every directory below `dir` without following links.
fn directories_below(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.insert(entry.path().display().to_string());
            directories_below(&entry.path(), found);
        }
    }
}

/// Adds everything below `dir` without following links.
fn files_below(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        found.insert(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(&entry.path(), found);
        }
    }
}

//! Limits and counts the memory, processor time and tasks of programs with cgroups, `cgroups(7)`.
//!
//! Linux has two versions of cgroups, and a machine may have some controllers in one version and some in the other. So
//! this module looks for each [`Controller`] separately (`controllers.rs`). The versions differ in the names and formats
//! of files (`files.rs`). All groups of Rosemary lie below the group of the monitor and carry its process number:
//!
//! ```text
//! /sys/fs/cgroup/memory/<ours>/rosemary-4711-kernel          version 1: a tree for each controller
//! /sys/fs/cgroup/<ours>/rosemary-4711-zone-learning-switch   version 2: one tree for all
//! /sys/fs/cgroup/<ours>/rosemary-4711-monitor                version 2: the monitor moves here, because a group
//!                                                            with groups below it may have no processes
//! ```
//!
//! The monitor changes nothing outside of the group in which it was started: other groups belong to other managers, for
//! example systemd. A program joins its groups between fork and exec, so every process of it is inside. A group is
//! removed when its program has ended; the next monitor removes the groups of a killed one.

mod controllers;
mod files;
pub mod partition;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::controllers::{ControllerDir, MOUNTS, OWN};
use self::files::Version;

/// The beginning of the names of Rosemary's groups.
const PREFIX: &str = "rosemary-";

/// The period of a processor quota. With the usual 100 ms, a program that has used its quota would pause too long for a
/// network.
const PERIOD: Duration = Duration::from_millis(10);

/// The lowest quota that Linux accepts.
const LEAST_QUOTA: Duration = Duration::from_millis(1);

/// A resource that cgroups limit and count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Memory in bytes: allocated memory, files in memory, and the system's own memory for the program.
    Memory,
    /// Processor time.
    Cpu,
    /// Processes and threads.
    Pids,
}

impl Controller {
    /// All controllers.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    /// Its name in Linux.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }
}

/// The limits of a group; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu: Option<u64>,
    /// Processes and threads together.
    pub tasks: Option<u64>,
    /// Its share of contended processors relative to the default of 100; 0 for the default.
    pub weight: u32,
}

/// The usage of a group; `None` where the system does not state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Current memory in bytes.
    pub memory: Option<u64>,
    /// Processor time since the group was made.
    pub cpu: Option<Duration>,
    /// Processes that the system killed because the group was at its memory limit.
    pub memory_kills: u64,
    /// Processes and threads that the system refused because the group was at its limit of tasks.
    pub refused_tasks: u64,
}

/// The places where this process can make groups. Dropping it removes the remaining groups.
#[derive(Debug)]
pub struct Tree {
    dirs: Vec<ControllerDir>,
    /// In version 2, the group that this process was in before it moved into one below.
    moved_from: Option<PathBuf>,
    missing: Vec<(Controller, String)>,
    /// Whether limits of memory are also limits of swap.
    counts_swap: bool,
}

impl Tree {
    /// Finds the places, and tries each by making a group. [`missing`](Self::missing) lists the controllers without one.
    ///
    /// Removes the groups of killed monitors.
    pub fn find() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::try_all(controllers::find(&read(OWN), &read(MOUNTS)))
    }

    /// A tree without groups, for the reason `why`.
    pub fn none(why: &str) -> Self {
        let missing = Controller::ALL.map(|controller| (controller, why.to_owned())).to_vec();
        Self { dirs: Vec::new(), moved_from: None, missing, counts_swap: false }
    }

    fn try_all(found: Vec<(Controller, Result<ControllerDir, String>)>) -> Self {
        let mut tree =
            Self { dirs: Vec::new(), moved_from: None, missing: Vec::new(), counts_swap: false };
        let (mut second, mut candidates) = (Vec::new(), Vec::new());
        for (controller, dir) in found {
            match dir {
                Ok(dir) => {
                    remove_stale(&dir.dir);
                    dir.times.iter().for_each(|times| remove_stale(times));
                    if dir.version == Version::V2 {
                        second.push(dir.clone());
                    }
                    candidates.push(dir);
                }
                Err(why) => tree.missing.push((controller, why)),
            }
        }
        if let Some(ControllerDir { dir, .. }) = second.first()
            && let Err(why) = tree.delegate(&dir.clone(), &second)
        {
            candidates.retain(|dir| dir.version != Version::V2);
            tree.missing.extend(second.iter().map(|dir| (dir.controller, why.clone())));
        }
        for dir in candidates {
            match Self::try_out(&dir) {
                Ok(counts_swap) => {
                    tree.counts_swap |= counts_swap;
                    tree.dirs.push(dir);
                }
                Err(error) => {
                    let why = format!("no group can be made in {}: {error}", dir.dir.display());
                    tree.missing.push((dir.controller, why));
                }
            }
        }
        tree
    }

    /// Version 2: delegates controllers, which are all in `dir`, to groups below.
    fn delegate(&mut self, dir: &Path, controllers: &[ControllerDir]) -> Result<(), String> {
        let delegate = || files::delegate(dir, controllers.iter().map(|dir| dir.controller));
        let Err(error) = delegate() else { return Ok(()) };
        let failed = |error: io::Error| {
            format!("{} cannot be given groups of its own: {error}", dir.display())
        };
        if error.kind() != io::ErrorKind::ResourceBusy {
            return Err(failed(error));
        }
        // There are processes in the group. If this process is the only one, it moves into a group below.
        let inside = fs::read_to_string(dir.join(files::PROCESSES)).map_err(failed)?;
        let own = std::process::id().to_string();
        if inside.split_whitespace().any(|pid| pid != own) {
            let why = "other processes are in the cgroup that Rosemary was started in";
            return Err(format!("{why}, {}", dir.display()));
        }
        let below = dir.join(name("monitor"));
        make(&below).map_err(failed)?;
        files::write(&below, files::PROCESSES, &own).map_err(failed)?;
        self.moved_from = Some(dir.to_owned());
        delegate().map_err(failed)
    }

    /// Makes a group with limits, and removes it. Returns whether its memory limit also limits swap.
    fn try_out(place: &ControllerDir) -> io::Result<bool> {
        let mut group = Group::default();
        group.dirs.push(place.dir.join(name("try")));
        let dir = &group.dirs[0];
        make(dir)?;
        let some = Bounds { memory: Some(1 << 30), cpu: Some(500), tasks: Some(9), weight: 100 };
        files::limit(place.version, place.controller, dir, &some)?;
        files::usage(place.version, place.controller, dir, place.times.as_deref())?;
        Ok(place.controller == Controller::Memory && files::counts_swap(place.version, dir))
    }

    /// The controllers without a place, with the reasons.
    pub fn missing(&self) -> &[(Controller, String)] {
        &self.missing
    }

    /// The version of a controller, 1 or 2, and the directory in which its groups lie; `None` if it is missing.
    pub fn place(&self, controller: Controller) -> Option<(u8, &Path)> {
        let place = self.dirs.iter().find(|dir| dir.controller == controller)?;
        Some((place.version.number(), &place.dir))
    }

    /// Whether groups can have a controller.
    pub fn has(&self, controller: Controller) -> bool {
        self.place(controller).is_some()
    }

    /// Whether memory limits are also limits of swap. If not, a group of version 1 at its limit swaps nothing out, and
    /// pages that the system swaps out for lack of memory count nowhere.
    pub fn counts_swap(&self) -> bool {
        self.counts_swap
    }

    /// Makes an empty group with that name and these limits. Replaces an earlier one.
    ///
    /// # Errors
    /// The system's error, with the file.
    pub fn group(&self, of: &str, bounds: &Bounds) -> io::Result<Group> {
        let mut group = Group::default();
        for place in &self.dirs {
            let dir = place.dir.join(name(of));
            if !group.dirs.contains(&dir) {
                let _ = fs::remove_dir(&dir); // of an earlier run, so that usage starts at 0
                make(&dir).map_err(|error| about(&dir, &error))?;
                group.dirs.push(dir.clone());
            }
            // Version 1 counts processor time in a tree of its own.
            let times = place.times.as_ref().map(|times| times.join(name(of)));
            if let Some(times) = times.clone().filter(|times| !group.dirs.contains(times)) {
                let _ = fs::remove_dir(&times);
                make(&times).map_err(|error| about(&times, &error))?;
                group.dirs.push(times);
            }
            let lower = files::limit(place.version, place.controller, &dir, bounds)
                .map_err(|error| about(&dir, &error))?;
            group.lower.extend(lower.map(|why| (place.controller, why)));
            group.controllers.push(ControllerDir { dir, times, ..place.clone() });
        }
        Ok(group)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for dir in self.dirs.iter().flat_map(|place| [Some(&place.dir), place.times.as_ref()]) {
            remove_all(dir.into_iter().flat_map(|dir| ours(dir)).filter(|(pid, _)| *pid == own()));
        }
        if let Some(dir) = &self.moved_from {
            // A group that delegates controllers may have no processes, so this comes before the move back.
            files::delegate_nothing(dir, Controller::ALL.into_iter());
            let _ = files::write(dir, files::PROCESSES, &own().to_string());
            let _ = fs::remove_dir(dir.join(name("monitor")));
        }
    }
}

/// The groups of one program, one in each tree. Dropping it removes them if the program has ended.
#[derive(Debug, Default)]
pub struct Group {
    dirs: Vec<PathBuf>,
    controllers: Vec<ControllerDir>,
    lower: Vec<(Controller, String)>,
}

impl Group {
    /// The controllers whose limit is lower than requested, with the reasons.
    pub fn lower(&self) -> &[(Controller, String)] {
        &self.lower
    }

    /// Makes the child of `command` join the groups before it executes its program.
    ///
    /// # Errors
    /// The groups are gone.
    pub fn start_in(&self, command: &mut Command) -> io::Result<()> {
        let open = |dir: &PathBuf| -> io::Result<File> {
            let path = dir.join(files::PROCESSES);
            OpenOptions::new().write(true).open(&path).map_err(|error| about(&path, &error))
        };
        let lists: Vec<File> = self.dirs.iter().map(open).collect::<io::Result<_>>()?;
        // 0 stands for the writing process, in every PID namespace.
        let join = move || lists.iter().try_for_each(|mut list| list.write_all(b"0"));
        // SAFETY: between fork and exec the closure makes system calls and allocates nothing.
        unsafe { command.pre_exec(join) };
        Ok(())
    }

    /// Whether a process could not start because its group was removed before the process joined it.
    ///
    /// Monitors remove the empty groups of monitors that have ended. One that runs in another PID namespace, or sees another
    /// `/proc`, takes a living monitor for one that has ended.
    pub fn is_removed(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::ENODEV) || error.kind() == io::ErrorKind::NotFound
    }

    /// Sets its share of contended processors relative to the default of 100.
    ///
    /// # Errors
    /// There is no group for processor time, or the system refuses.
    pub fn set_weight(&self, weight: u32) -> io::Result<()> {
        let cpu = self.controllers.iter().find(|it| it.controller == Controller::Cpu);
        let cpu = cpu.ok_or_else(|| io::Error::other("no cgroup counts its processor time"))?;
        files::set_weight(cpu.version, &cpu.dir, weight)
    }

    /// Its usage.
    ///
    /// # Errors
    /// The group was removed, or a file has another format than the manual says.
    pub fn usage(&self) -> io::Result<GroupUsage> {
        let mut all = GroupUsage::default();
        for ControllerDir { controller, version, dir, times } in &self.controllers {
            let usage = files::usage(*version, *controller, dir, times.as_deref())?;
            all.memory = usage.memory.or(all.memory);
            all.cpu = usage.cpu.or(all.cpu);
            all.memory_kills += usage.memory_kills;
            all.refused_tasks += usage.refused_tasks;
        }
        Ok(all)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir); // fails while a process is in it; then the end of the tree removes it
        }
    }
}

fn own() -> u32 {
    std::process::id()
}

/// The name of Rosemary's group for `what`.
fn name(what: &str) -> String {
    format!("{PREFIX}{}-{what}", own())
}

/// Rosemary's groups in `dir`, with the process numbers of their monitors.
fn ours(dir: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let ours = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some((pid.parse().ok()?, entry.path()))
    });
    ours.collect()
}

/// Removes the empty groups of monitors that have ended.
fn remove_stale(dir: &Path) {
    let is_gone = |pid: u32| pid != own() && !Path::new(&format!("/proc/{pid}")).exists();
    remove_all(ours(dir).into_iter().filter(|(pid, _)| is_gone(*pid)));
}

fn remove_all(groups: impl Iterator<Item = (u32, PathBuf)>) {
    for (_, group) in groups {
        let _ = fs::remove_dir(group); // fails while a process is in it, which then stays limited
    }
}

fn make(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;

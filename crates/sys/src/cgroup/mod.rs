//! Groups of processes whose memory, processor time and number the system keeps below a limit,
//! `cgroups(7)`.
//!
//! Linux has them in two versions, and a machine may have some controllers in one and some in the other.
//! So each [`Controller`] is looked for by itself; what differs between the versions is the names and
//! formats of files, in `files.rs`. All of ours lie beside each other, below the group that we are in
//! ourselves, and carry our process's number:
//!
//! ```text
//! /sys/fs/cgroup/memory/<ours>/rosemary-4711-kernel          version 1: a tree for each controller
//! /sys/fs/cgroup/<ours>/rosemary-4711-zone-learning-switch   version 2: one tree for all
//! /sys/fs/cgroup/<ours>/rosemary-4711-monitor                version 2: where we move to, as a group with
//!                                                            groups below may have no processes
//! ```
//!
//! Nothing is done outside of the group that we were started in: another place may be somebody else's, as
//! systemd's. A program joins its groups between fork and exec, so that nothing of it is outside.
//! Groups without processes are removed: each with its program, those of a monitor that was
//! killed when the next one comes.

mod files;
mod place;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::files::Version;
use self::place::{MOUNTS, OWN, Place};

/// What the names of our groups begin with.
const PREFIX: &str = "rosemary-";

/// The period of a processor quota. With the 100 ms that are usual a program that has used up its
/// share stands still for so long that the network notices.
const PERIOD: Duration = Duration::from_millis(10);

/// The least processor time in a period that the system takes.
const LEAST_QUOTA: Duration = Duration::from_millis(1);

/// What can be limited, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Bytes of memory: what it allocated, its files in memory, and what the system has for it.
    Memory,
    /// Processor time.
    Cpu,
    /// Processes and threads.
    Pids,
}

impl Controller {
    /// All.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    /// Its name, as the system has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }
}

/// What a group is to be kept below; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu: Option<u64>,
    /// Processes and threads together.
    pub tasks: Option<u64>,
    /// Its part of processors that others want too, where 100 is what anybody has; 0 for that.
    pub weight: u32,
}

/// What a group has used; `None` where the system does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes, now.
    pub memory: Option<u64>,
    /// Processor time, since the group is there.
    pub cpu: Option<Duration>,
    /// Processes that the system ended because the group was at its limit of memory.
    pub memory_kills: u64,
    /// Processes and threads that could not be made because the group was at its limit.
    pub refused_tasks: u64,
}

/// Where groups can be made, found out by making one. Dropping it removes all that are left.
#[derive(Debug)]
pub struct Tree {
    places: Vec<Place>,
    /// Of version 2, the group that we were in, if we moved out of it into one below.
    moved: Option<PathBuf>,
    missing: Vec<(Controller, String)>,
    /// Whether limits of memory are also limits of swap.
    counts_swap: bool,
}

impl Tree {
    /// Finds out what can be had. What is not there is not an error, see [`missing`](Self::missing).
    ///
    /// Groups that a killed process of ours has left are removed.
    pub fn find() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::of(place::find(&read(OWN), &read(MOUNTS)))
    }

    /// None: nothing is limited by groups, for the reason `why`.
    pub fn none(why: &str) -> Self {
        let missing = Controller::ALL.map(|controller| (controller, why.to_owned())).to_vec();
        Self { places: Vec::new(), moved: None, missing, counts_swap: false }
    }

    fn of(found: Vec<(Controller, Result<Place, String>)>) -> Self {
        let mut tree =
            Self { places: Vec::new(), moved: None, missing: Vec::new(), counts_swap: false };
        let (mut second, mut left) = (Vec::new(), Vec::new());
        for (controller, place) in found {
            match place {
                Ok(place) => {
                    remove_stale(&place.dir);
                    place.times.iter().for_each(|times| remove_stale(times));
                    if place.version == Version::V2 {
                        second.push(place.clone());
                    }
                    left.push(place);
                }
                Err(why) => tree.missing.push((controller, why)),
            }
        }
        if let Some(Place { dir, .. }) = second.first()
            && let Err(why) = tree.open_up(&dir.clone(), &second)
        {
            left.retain(|place| place.version != Version::V2);
            tree.missing.extend(second.iter().map(|place| (place.controller, why.clone())));
        }
        for place in left {
            match Self::try_out(&place) {
                Ok(counts_swap) => {
                    tree.counts_swap |= counts_swap;
                    tree.places.push(place);
                }
                Err(error) => {
                    let why = format!("no group can be made in {}: {error}", place.dir.display());
                    tree.missing.push((place.controller, why));
                }
            }
        }
        tree
    }

    /// Version 2: hands the controllers of `places`, which are all in `dir`, on to groups below.
    fn open_up(&mut self, dir: &Path, places: &[Place]) -> Result<(), String> {
        let hand_on = || files::hand_on(dir, places.iter().map(|place| place.controller));
        let Err(error) = hand_on() else { return Ok(()) };
        let failed = |error: io::Error| {
            format!("{} cannot be given groups of its own: {error}", dir.display())
        };
        if error.kind() != io::ErrorKind::ResourceBusy {
            return Err(failed(error));
        }
        // There are processes in it. If that is we alone, we go below.
        let inside = fs::read_to_string(dir.join(files::PROCESSES)).map_err(failed)?;
        let own = std::process::id().to_string();
        if inside.split_whitespace().any(|pid| pid != own) {
            let why = "other processes are in the cgroup that Rosemary was started in";
            return Err(format!("{why}, {}", dir.display()));
        }
        let below = dir.join(name("monitor"));
        make(&below).map_err(failed)?;
        files::write(&below, files::PROCESSES, &own).map_err(failed)?;
        self.moved = Some(dir.to_owned());
        hand_on().map_err(failed)
    }

    /// Makes a group with limits, and removes it. Whether it limits swap, too.
    fn try_out(place: &Place) -> io::Result<bool> {
        let mut group = Group::default();
        group.dirs.push(place.dir.join(name("try")));
        let dir = &group.dirs[0];
        make(dir)?;
        let some = Bounds { memory: Some(1 << 30), cpu: Some(500), tasks: Some(9), weight: 100 };
        files::limit(place.version, place.controller, dir, &some)?;
        files::used(place.version, place.controller, dir, place.times.as_deref())?;
        Ok(place.controller == Controller::Memory && files::counts_swap(place.version, dir))
    }

    /// Which controllers cannot be had, and why.
    pub fn missing(&self) -> &[(Controller, String)] {
        &self.missing
    }

    /// In which version a controller can be had, 1 or 2, and where; `None` if it cannot.
    pub fn place(&self, controller: Controller) -> Option<(u8, &Path)> {
        let place = self.places.iter().find(|place| place.controller == controller)?;
        Some((place.version.number(), &place.dir))
    }

    /// Whether a controller can be had.
    pub fn has(&self, controller: Controller) -> bool {
        self.place(controller).is_some()
    }

    /// Whether limits of memory are also limits of swap. If not, a group of version 1 that is at its limit
    /// puts nothing there; what the system puts there when the machine is short of memory counts nowhere.
    pub fn counts_swap(&self) -> bool {
        self.counts_swap
    }

    /// Makes a group with that name, which has been empty since, and these limits.
    ///
    /// # Errors
    /// What the system said, and of what.
    pub fn group(&self, of: &str, bounds: &Bounds) -> io::Result<Group> {
        let mut group = Group::default();
        for place in &self.places {
            let dir = place.dir.join(name(of));
            if !group.dirs.contains(&dir) {
                let _ = fs::remove_dir(&dir); // of the same program before: it counts from 0 again
                make(&dir).map_err(|error| about(&dir, &error))?;
                group.dirs.push(dir.clone());
            }
            // Version 1 has the account of processor time in a tree of its own.
            let times = place.times.as_ref().map(|times| times.join(name(of)));
            if let Some(times) = times.clone().filter(|times| !group.dirs.contains(times)) {
                let _ = fs::remove_dir(&times);
                make(&times).map_err(|error| about(&times, &error))?;
                group.dirs.push(times);
            }
            let lower = files::limit(place.version, place.controller, &dir, bounds)
                .map_err(|error| about(&dir, &error))?;
            group.lower.extend(lower.map(|why| (place.controller, why)));
            group.places.push(Place { dir, times, ..place.clone() });
        }
        Ok(group)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for dir in self.places.iter().flat_map(|place| [Some(&place.dir), place.times.as_ref()]) {
            remove_all(dir.into_iter().flat_map(|dir| ours(dir)).filter(|(pid, _)| *pid == own()));
        }
        if let Some(dir) = &self.moved {
            // Back: nothing may be handed on then.
            files::hand_on_nothing(dir, Controller::ALL.into_iter());
            let _ = files::write(dir, files::PROCESSES, &own().to_string());
            let _ = fs::remove_dir(dir.join(name("monitor")));
        }
    }
}

/// The groups of one program, one for each tree. Dropping it removes them if the program has ended.
#[derive(Debug, Default)]
pub struct Group {
    dirs: Vec<PathBuf>,
    places: Vec<Place>,
    lower: Vec<(Controller, String)>,
}

impl Group {
    /// Of what it has less than was asked for, and what keeps it lower.
    pub fn lower(&self) -> &[(Controller, String)] {
        &self.lower
    }

    /// Has the child that `command` starts join before it executes anything.
    ///
    /// # Errors
    /// The groups are gone.
    pub fn start_in(&self, command: &mut Command) -> io::Result<()> {
        let open = |dir: &PathBuf| -> io::Result<File> {
            let path = dir.join(files::PROCESSES);
            OpenOptions::new().write(true).open(&path).map_err(|error| about(&path, &error))
        };
        let lists: Vec<File> = self.dirs.iter().map(open).collect::<io::Result<_>>()?;
        // 0 is who writes it, whatever number it has in which namespace.
        let join = move || lists.iter().try_for_each(|mut list| list.write_all(b"0"));
        // SAFETY: between fork and exec the closure makes system calls and allocates nothing.
        unsafe { command.pre_exec(join) };
        Ok(())
    }

    /// What it has used.
    ///
    /// # Errors
    /// The group is gone, or a file has another format than the manual says.
    pub fn used(&self) -> io::Result<Used> {
        let mut all = Used::default();
        for Place { controller, version, dir, times } in &self.places {
            let used = files::used(*version, *controller, dir, times.as_deref())?;
            all.memory = used.memory.or(all.memory);
            all.cpu = used.cpu.or(all.cpu);
            all.memory_kills += used.memory_kills;
            all.refused_tasks += used.refused_tasks;
        }
        Ok(all)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir); // if somebody is still in there: the tree's end removes it
        }
    }
}

fn own() -> u32 {
    std::process::id()
}

/// What our group for `what` is called.
fn name(what: &str) -> String {
    format!("{PREFIX}{}-{what}", own())
}

/// Groups with names of ours in `dir`, and whose they are.
fn ours(dir: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let ours = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some((pid.parse().ok()?, entry.path()))
    });
    ours.collect()
}

/// Removes what processes of ours that are gone have left, if nobody is in there any more.
fn remove_stale(dir: &Path) {
    let is_gone = |pid: u32| pid != own() && !Path::new(&format!("/proc/{pid}")).exists();
    remove_all(ours(dir).into_iter().filter(|(pid, _)| is_gone(*pid)));
}

fn remove_all(groups: impl Iterator<Item = (u32, PathBuf)>) {
    for (_, group) in groups {
        let _ = fs::remove_dir(group); // fails if somebody is in there, who then keeps it
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

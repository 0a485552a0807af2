//! One process of a supervised program: its start, its resource use, and its exit status.
//!
//! A process starts with the environment variables of [`ENVIRONMENT`] only, so an app learns nothing from the operator's
//! shell.

use std::io;
use std::time::{Duration, Instant};

use config::Limits;
use control::incident::Cause;
use control::sabotage::{self, Sabotage};
use rustix::process::Signal;
use sdk::Limit;
use sys::cgroup::Group;
use sys::channel::Channel;
use sys::process::{Child, Exit, Usage, processor_time};
use tracing::warn;

use super::output::Output;
use crate::provenance;
use crate::usage::Enforcement;
use supervisor::effects::Spawn;
use supervisor::program::ProgramKind;
use supervisor::usage::meter::Sample;

/// The signal by which the system ends a process at its memory limit.
const KILL: i32 = Signal::KILL.as_raw();

/// The monitor's own environment variables that a program inherits.
#[cfg(not(feature = "sabotage"))]
const ENVIRONMENT: [&str; 1] = ["RUST_BACKTRACE"];
#[cfg(feature = "sabotage")]
const ENVIRONMENT: [&str; 2] = ["RUST_BACKTRACE", control::sabotage::VARIABLE];

/// The process of a program. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    /// `None` after the process has closed its end, which counts as a sign that it ends.
    pub(super) control: Option<Channel>,
    pub(super) output: Output,
    /// Whether the monitor has killed it.
    pub(super) is_killed: bool,
    limits: Limits,
    /// Processor time that the group had counted before the process joined it, as of an earlier process whose group could not be removed.
    cpu_before: Duration,
    /// Declared after `child`: fields drop in order, and only an empty group can be removed.
    group: Group,
}

impl Process {
    /// Starts a process within its limits.
    ///
    /// # Errors
    /// The executable is missing, or the system is out of processes, descriptors or memory.
    pub(super) fn spawn(
        spawn: &Spawn,
        enforcement: &Enforcement,
        now: Instant,
    ) -> io::Result<Self> {
        again_if_group_is_removed(|| Self::spawn_in_group(spawn, enforcement, now))
    }

    fn spawn_in_group(spawn: &Spawn, enforcement: &Enforcement, now: Instant) -> io::Result<Self> {
        let Spawn { name, executable, kind, apart, limits, .. } = spawn;
        // A dot cannot be part of an app's name.
        let second = if spawn.is_in_second_group { ".2" } else { "" };
        let (ours, theirs) = Channel::passing_pair()?;
        let (mut command, _checked) = provenance::command(executable)?;
        command.env_clear().current_dir("/");
        command.envs(ENVIRONMENT.iter().filter_map(|key| Some((key, std::env::var_os(key)?))));
        command.env(sys::log::VARIABLE, sys::log::for_children());
        let tree = enforcement.tree();
        let bounds = || Enforcement::bounds(limits, *apart);
        let group = match kind {
            ProgramKind::Kernel => tree.group("kernel", &Enforcement::kernel_bounds(limits)),
            ProgramKind::Service(_) | ProgramKind::Northbound => {
                tree.group(&format!("service-{}", kind.service()), &bounds())
            }
            ProgramKind::Zone(app) => tree.group(&format!("zone-{app}{second}"), &bounds()),
        }?;
        for (controller, why) in group.lower() {
            let (limit, hint) =
                (controller.name(), "give the parent cgroup more, or its apps less");
            warn!(program = name, limit, why, hint, "started with less than its limit");
        }
        let cpu_before = group.usage().ok().and_then(|it| it.cpu).unwrap_or_default();
        // The child joins the group before it executes, so that nothing it does is outside of its limits.
        group.start_in(&mut command)?;
        let (child, outputs) = Child::spawn_with(*apart, &mut command, theirs)?;
        let mut output = Output::new(outputs, kind.clone(), limits.of(Limit::Log).hard, now);
        output.set_log_level(spawn.log_level);
        let is_killed = false;
        Ok(Self {
            child,
            control: Some(ours),
            output,
            is_killed,
            limits: *limits,
            cpu_before,
            group,
        })
    }

    /// Reads how much the process uses; `None` if it is just ending.
    pub(super) fn sample(&self, enforcement: &Enforcement) -> Option<Sample> {
        let own = Usage::of(self.child.pid()).ok()?;
        // A group that cannot be read is treated as no group.
        let all = self.group.usage().unwrap_or_default();
        let own_memory = own.memory.without_rings(enforcement.rings());
        Some(Sample {
            cpu: all.cpu.map_or(own.cpu, |cpu| cpu.saturating_sub(self.cpu_before)),
            memory: match all.memory {
                Some(memory) if enforcement.tree().counts_swap() => memory,
                Some(memory) => memory.saturating_add(own.memory.swap),
                None => own_memory,
            },
            own_memory,
            threads: own.threads,
            descriptors: own.descriptors,
            log: self.output.written(),
            log_left_out: self.output.lines_dropped(),
            refused_threads: all.refused_tasks,
        })
    }

    /// Processor time since its start, for a process that has ended and was not reaped; `None` if the system does not state it.
    pub(super) fn final_cpu(&self) -> Option<Duration> {
        let counted = self.group.usage().ok().and_then(|it| it.cpu);
        let counted = counted.map(|cpu| cpu.saturating_sub(self.cpu_before));
        counted.or_else(|| processor_time(self.child.pid()).ok())
    }

    /// Sets its weight among the programs that compete for a processor.
    ///
    /// # Errors
    /// Why it has none, as a phrase.
    pub(super) fn set_weight(&self, weight: u32) -> Result<(), String> {
        let set = self.group.set_weight(weight);
        set.map_err(|error| format!("its weight could not be set: {error}"))
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        self.is_killed = true;
        self.child.kill();
    }

    /// Reaps the process. Returns its exit status as a phrase and as a cause; `None` if it still runs.
    pub(super) fn try_reap(&mut self) -> Option<(String, Cause)> {
        let (exit, cause) = self.exit()?;
        Some((sabotaged(exit), cause))
    }

    fn exit(&mut self) -> Option<(String, Cause)> {
        let exit = match self.child.try_reap() {
            Ok(exit) => exit?,
            Err(error) => {
                let text = format!("ended, with an exit status that could not be read: {error}");
                return Some((text, Cause::Unknown));
            }
        };
        // The system uses SIGKILL for a process at its memory limit, as the monitor does for its own reasons.
        let by_system = !self.is_killed && exit == Exit::Signal(KILL);
        if by_system && self.group.usage().is_ok_and(|used| used.memory_kills > 0) {
            let most = Limit::Memory.shown(self.limits.of(Limit::Memory).hard);
            let cause = Cause::Limit { limit: Limit::Memory.name().into() };
            return Some((format!("{exit}: it was at its memory limit of {most}"), cause));
        }
        Some((exit.to_string(), Cause::of_exit(exit)))
    }
}

/// Breaks the report of an end, or keeps descriptors, if the monitor is to be broken.
fn sabotaged(exit: String) -> String {
    if sabotage::is(Sabotage::LeakFd) {
        for _ in 0..10 {
            std::mem::forget(std::fs::File::open("/dev/null"));
        }
    }
    if sabotage::is(Sabotage::WrongBlame) { "exited with status 0".to_owned() } else { exit }
}

/// Starts a process, and once more with another group if its group was removed meanwhile.
fn again_if_group_is_removed<T>(start: impl Fn() -> io::Result<T>) -> io::Result<T> {
    start().or_else(|error| if Group::is_removed(&error) { start() } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn start_is_repeated_once_without_its_group() {
        let gone = || io::Error::from_raw_os_error(rustix::io::Errno::NODEV.raw_os_error());
        let starts = Cell::new(0);
        let start = |fails: u32, error: fn() -> io::Error| {
            starts.set(0);
            let result = again_if_group_is_removed(|| {
                starts.set(starts.get() + 1);
                if starts.get() > fails { Ok(()) } else { Err(error()) }
            });
            (result.is_ok(), starts.get())
        };
        assert_eq!(start(0, gone), (true, 1));
        assert_eq!(start(1, gone), (true, 2));
        assert_eq!(start(2, gone), (false, 2));
        assert_eq!(start(1, || io::ErrorKind::OutOfMemory.into()), (false, 1));
    }
}

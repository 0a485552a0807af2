//! Keeps one supervised program's process, control socket and [`Lifecycle`] in step.
//!
//! The program's messages arrive on its control socket, its end on its pidfd, its lines on two pipes. The monitor never
//! waits for any of them.

mod control_socket;
mod ending;
mod kind;
mod process;
mod reaction;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use sys::cgroup::Controller;
use sys::process::{Memory, PidNamespace, Usage};
use sys::sandbox::Report;
use tracing::{error, info};

pub(crate) use self::ending::ProgramExit;
pub(crate) use self::kind::ProgramKind;
use self::process::Process;
pub(crate) use self::reaction::end_of_hold;
use self::reaction::{next, reaction};
use crate::incidents::{Incidents, ProgramIncidents};
use crate::output::Stream;
use crate::sandbox::RefusedCalls;
use crate::usage::Enforcement;
use config::{Limits, RestartPolicy};
use control::incident::Cause;
use control::log::LogLevel;
use control::operator::ProgramState;
use control::sabotage::{self, Sabotage};
use supervisor::lifecycle::{Due, Lifecycle, Next};
use supervisor::usage::meter::Sample;

/// A descriptor of a program that the event loop polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The pipe from its standard output or error.
    Output(Stream),
    /// Its control socket.
    Control,
    /// Its pidfd, which becomes readable when the process ends.
    Exit,
    /// The listener for system calls that its sandbox refused.
    RefusedCalls,
}

/// A program's file and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
}

impl From<PathBuf> for Executable {
    fn from(path: PathBuf) -> Self {
        Self { path, args: Vec::new() }
    }
}

/// A supervised program. Dropping it kills its process.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    executable: Executable,
    kind: ProgramKind,
    /// How processes that the program forks are made to end with it.
    apart: PidNamespace,
    enforcement: Arc<Enforcement>,
    limits: Limits,
    lifecycle: Lifecycle,
    refused_calls: RefusedCalls,
    incidents: ProgramIncidents,
    process: Option<Process>,
    /// The level of its log, if it is a zone.
    log_level: LogLevel,
    /// Whether its cgroup has another name than usual, as another process has the usual one.
    is_in_second_group: bool,
}

impl Program {
    /// Describes a program without starting it. `enforcement` keeps it below `limits`; `restart` says when it is started
    /// again.
    pub(crate) fn new(
        kind: ProgramKind,
        executable: impl Into<Executable>,
        apart: PidNamespace,
        (enforcement, limits): (Arc<Enforcement>, Limits),
        restart: RestartPolicy,
        incidents: Incidents,
    ) -> Self {
        let now = Instant::now();
        let refused_calls = match &kind {
            ProgramKind::Kernel => RefusedCalls::of_kernel(now),
            ProgramKind::Service(name) => RefusedCalls::of_service(name, now),
            ProgramKind::Zone(app) => RefusedCalls::of_zone(app.clone(), now),
        };
        Self {
            name: kind.name(),
            executable: executable.into(),
            apart,
            enforcement,
            limits,
            lifecycle: Lifecycle::new(supervisor::lifecycle::Limits {
                restart,
                ..supervisor::lifecycle::Limits::default()
            }),
            refused_calls,
            incidents: ProgramIncidents::new(incidents, kind.of_incidents()),
            kind,
            process: None,
            log_level: LogLevel::Debug,
            is_in_second_group: false,
        }
    }

    /// The incidents of this program.
    pub(crate) fn incidents_mut(&mut self) -> &mut ProgramIncidents {
        &mut self.incidents
    }

    /// The path of its executable.
    pub(crate) fn executable(&self) -> &Path {
        &self.executable.path
    }

    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Uses a cgroup of another name than usual, because another process of the program has the usual one.
    pub(crate) fn use_second_group(&mut self) {
        self.is_in_second_group = true;
    }

    /// Changes the level of a zone's log, for this process and for later ones.
    pub(crate) fn set_log_level(&mut self, level: LogLevel) {
        self.log_level = level;
        if let Some(process) = &mut self.process {
            process.output.set_log_level(level);
        }
    }

    /// Forgets its restarts: its files have changed, or the operator starts it.
    pub(crate) fn forgive(&mut self) {
        self.lifecycle.forgive();
    }

    /// Returns whether the program has reported that it is ready and still runs.
    pub(crate) fn is_running(&self) -> bool {
        self.lifecycle.state() == ProgramState::Running
    }

    /// Returns whether the program neither runs nor will be started.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lifecycle.state() == ProgramState::Stopped
    }

    /// Its process id, while it has a process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.pid())
    }

    /// The descriptors to poll, in the order in which they must be handled: log lines and messages precede the end.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (Port, BorrowedFd<'_>)> {
        let process = self.process.as_ref();
        let output = |stream| process.and_then(|it| it.output.pipe(stream));
        let [stdout, stderr] = Stream::BOTH;
        let control = process.and_then(|it| it.control.as_ref()).map(AsFd::as_fd);
        let exit = process.map(|it| it.child.as_fd());
        [
            (Port::Output(stdout), output(stdout)),
            (Port::Output(stderr), output(stderr)),
            (Port::Control, control),
            (Port::Exit, exit),
            (Port::RefusedCalls, self.refused_calls.fd()),
        ]
        .into_iter()
        .filter_map(|(port, fd)| Some((port, fd?)))
    }

    /// Reads what the program wrote and passes it to the log.
    pub(crate) fn read_output(&mut self, stream: Stream, now: Instant) {
        if let Some(process) = &mut self.process {
            process.output.read_some(stream, now);
        }
    }

    /// Answers and records system calls that the sandbox refused.
    pub(crate) fn answer_refused_calls(&mut self, now: Instant) {
        self.refused_calls.answer_waiting(self.log_level, now);
    }

    /// The program reports how it confined itself. It must do so at most once.
    pub(crate) fn confined(&mut self, report: &Report, fds: Vec<OwnedFd>) {
        if self.refused_calls.is_confined() {
            self.kill("it reported twice that it is confined");
        } else {
            self.refused_calls.confined(report, fds);
            // Only a kernel passes more: the rings of zones.
            let control = self.process.as_ref().and_then(|process| process.control.as_ref());
            if let Some(control) = control.filter(|_| self.kind != ProgramKind::Kernel) {
                control.refuse_descriptors();
            }
        }
    }

    /// When [`advance`](Self::advance) must be called if nothing else happens before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let output = self.process.as_ref().and_then(|process| process.output.next_due());
        let refused_calls = self.refused_calls.next_due();
        self.lifecycle.next_due().into_iter().chain(output).chain(refused_calls).min()
    }

    /// Schedules a start at `now`, unless the program is to run already.
    pub(crate) fn request_start(&mut self, now: Instant) {
        self.lifecycle.start(now);
    }

    /// Does what is due, except starting. Returns whether the caller must start the program now.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        if let Some(process) = &mut self.process {
            process.output.catch_up(now);
        }
        self.refused_calls.catch_up(now);
        let processor_time = || match self.kind {
            ProgramKind::Kernel | ProgramKind::Service(_) => None,
            // A zone may be throttled to a fraction of a processor: its time to start is counted in processor time.
            ProgramKind::Zone(_) => {
                let process = self.process.as_ref();
                let used = process.and_then(|process| Usage::of(process.child.pid()).ok());
                Some(used.map(|used| used.cpu).unwrap_or_default())
            }
        };
        match self.lifecycle.due(now, processor_time) {
            None => return false,
            Some(Due::Start) => {
                return self.lifecycle.starts() == 0 || !sabotage::is(Sabotage::NoRestart);
            }
            Some(Due::KillUnready) => self.kill_for_own_failure("it was not ready in time"),
            Some(Due::KillUnended) => self.kill_for_own_failure("it did not end in time"),
        }
        false
    }

    /// Starts the process. A failure is logged and counts as an end.
    pub(crate) fn start(&mut self, now: Instant) {
        self.refused_calls.over();
        match Process::spawn(self, now) {
            Ok(process) => {
                info!(program = self.name, pid = process.child.pid(), "started");
                self.process = Some(process);
                self.incidents.started();
                self.lifecycle.started(now);
            }
            Err(error) => {
                let why = format!("could not execute {}: {error}", self.executable.path.display());
                self.start_failed(now, &why);
            }
        }
    }

    /// Records that a start failed. It counts as an end, so the next start waits for the minimum run time.
    pub(crate) fn start_failed(&mut self, now: Instant, why: &str) {
        let ended = self.lifecycle.ended(now, why.to_owned());
        error!(program = self.name, why, next = next(ended.next), "could not start the program");
        let facts = vec![why.to_owned()];
        self.incidents.ended(Cause::NotStarted, facts, reaction(ended.next), now);
        self.record_hold(ended.next, now);
    }

    /// Opens an incident of its own if the program is held for its many restarts.
    fn record_hold(&mut self, next: Next, now: Instant) {
        if let Next::HeldForRestarts(why) = next {
            let reaction = format!("held; {}", end_of_hold(&self.kind, why));
            self.incidents.ended(Cause::TooManyRestarts, vec![why.to_string()], reaction, now);
        }
    }

    /// Postpones the start of a program that would end again for the reason `why`.
    pub(crate) fn hold(&mut self, now: Instant, why: &str) {
        self.lifecycle.hold(now, why.to_owned());
    }

    /// Adds the program's own reason to the text of its last end.
    pub(crate) fn explain_end(&mut self, why: &str) {
        self.lifecycle.explain_end(why);
    }

    /// Reads how much the program uses; `None` if it has no process, or the process is just ending.
    pub(crate) fn sample(&self) -> Option<Sample> {
        self.process.as_ref()?.sample(&self.enforcement)
    }

    /// Returns whether it has a process whose memory no group counts.
    pub(crate) fn is_memory_uncounted(&self) -> bool {
        self.process.is_some() && !self.enforcement.tree().has(Controller::Memory)
    }

    /// Bytes of its memory without rings, from `/proc`; `None` if it has no process or was killed.
    pub(crate) fn own_memory(&self) -> Option<io::Result<u64>> {
        let process = self.process.as_ref().filter(|process| process.killed.is_none())?;
        let memory = Memory::of(process.child.pid());
        Some(memory.map(|memory| memory.without_rings(self.enforcement.rings())))
    }

    /// The program reports that it is ready. Returns whether it was still starting.
    pub(crate) fn mark_ready(&mut self, now: Instant) -> bool {
        let is_first = self.lifecycle.ready();
        if is_first {
            self.incidents.runs(now);
        }
        is_first
    }

    /// The program reports that it cannot run with its current files and ends: it will be held.
    pub(crate) fn mark_unfit(&mut self, now: Instant) {
        self.lifecycle.unfit(now);
    }

    /// The program reports that it ends: it gets the usual time to do so.
    pub(crate) fn mark_ending(&mut self, now: Instant) {
        self.lifecycle.ending(now);
    }

    /// Wants the program to end and stay ended. Returns whether it runs, so that the caller must send it a request.
    pub(crate) fn request_stop(&mut self, now: Instant) -> bool {
        self.lifecycle.stop(now)
    }

    /// Wants the program to end and to start again at once, for reasons that are not the program's. Returns whether it
    /// runs, so that the caller must send it a request.
    pub(crate) fn request_restart(&mut self, now: Instant) -> bool {
        self.lifecycle.restart(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_started_again_later() {
        let now = Instant::now();
        let enforcement = Arc::new(Enforcement::without_groups("a test"));
        let limits = (enforcement, Limits::none());
        let mut program = Program::new(
            ProgramKind::Kernel,
            PathBuf::from("/nowhere"),
            PidNamespace::No,
            limits,
            RestartPolicy::default(),
            Incidents::in_memory(),
        );
        program.request_start(now);
        assert!(program.advance(now));
        program.start(now);
        assert!(!program.advance(now));
        assert!(program.lifecycle().last_exit().unwrap().contains("/nowhere"));
        assert!(program.advance(now + RestartPolicy::default().min_run));
        let (incidents, _) = program.incidents_mut().all().page(control::incident::IncidentId(0));
        assert_eq!(incidents[0].cause, Cause::NotStarted);
    }
}

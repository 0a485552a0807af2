//! Keeps one supervised program's process, control socket and [`Lifecycle`] in step.
//!
//! The program's messages arrive on its control socket, its end on its pidfd, its lines on two pipes. The monitor never
//! waits for any of them.

mod process;
mod reaction;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::cgroup::Controller;
use sys::channel::{Channel, ChannelError};
use sys::process::{Memory, PidNamespace, Usage};
use sys::sandbox::Report;
use tracing::{error, info, warn};

use self::process::{Killed, Process};
pub(crate) use self::reaction::end_of_hold;
use self::reaction::{next, reaction};
use crate::incidents::{Incidents, ProgramIncidents};
use crate::lifecycle::{Due, Ended, Lifecycle, Next};
use crate::output::Stream;
use crate::sandbox::RefusedCalls;
use crate::text::shortened;
use crate::usage::Enforcement;
use crate::usage::meter::Sample;
use config::{Limits, RestartPolicy};
use control::incident::{self, Cause};
use control::log::LogLevel;
use control::operator::ProgramState;
use control::sabotage::{self, Sabotage};
use sdk::Limit;

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// The kernel.
    Kernel,
    /// The service of this name.
    Service(&'static str),
    /// The zone of the app of this name.
    Zone(String),
}

impl ProgramKind {
    /// The program's name in the log.
    fn name(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(name) => format!("service {name}"),
            Self::Zone(app) => format!("zone {app}"),
        }
    }

    /// The program as incidents name it.
    fn of_incidents(&self) -> incident::Program {
        match self {
            Self::Kernel => incident::Program::kernel(),
            Self::Service(name) => incident::Program::service(name),
            Self::Zone(app) => incident::Program::app(app),
        }
    }

    /// The name under which the program's own lines stand in the log.
    pub(crate) fn author(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(name) => format!("service {name}"),
            Self::Zone(app) => format!("app {app}"),
        }
    }
}

/// A descriptor of a program that the supervisor polls.
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

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramExit {
    /// The exit status, or why the monitor killed it, as a phrase.
    pub(crate) how: String,
    /// Whether the program's own code is to blame: it ended without being asked to, or it exceeded a time or resource
    /// limit. False if it was asked to stop or was killed for a message that breaks the protocol.
    pub(crate) by_itself: bool,
    /// The cause that the exit status shows.
    pub(crate) cause: Cause,
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
            lifecycle: Lifecycle::new(crate::lifecycle::Limits {
                restart,
                ..crate::lifecycle::Limits::default()
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
        self.refused_calls.answer_waiting(now);
    }

    /// The program reports how it confined itself. It must do so at most once.
    pub(crate) fn confined(&mut self, report: &Report, fds: Vec<OwnedFd>) {
        if self.refused_calls.is_confined() {
            self.kill("it reported twice that it is confined");
        } else {
            self.refused_calls.confined(report, fds);
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

    /// Sends it `request`. A process whose control socket is full is killed, since it does not read it.
    pub(crate) fn send<T: Serialize>(&mut self, request: &T, fds: &[BorrowedFd<'_>]) {
        match self.try_send(request, fds) {
            // A closed socket means that the process ends; its pidfd reports that.
            Ok(()) | Err(ChannelError::Closed) => {}
            Err(ChannelError::WouldBlock) => self.kill("it did not read its control socket"),
            Err(error) => self.kill(&error.to_string()),
        }
    }

    /// Sends it `request`, and leaves it alone if it does not read.
    ///
    /// # Errors
    /// The request could not be sent.
    pub(crate) fn try_send<T: Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        control.ok_or(ChannelError::Closed)?.send(request, fds)
    }

    /// Sends it `request` on behalf of an operator.
    ///
    /// The request is refused unless most of the control socket is free, so operators cannot crowd out the monitor's own
    /// requests.
    ///
    /// # Errors
    /// The request could not be sent.
    pub(crate) fn send_for_operator<T: Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        if control.is_some_and(Channel::is_crowded) {
            return Err(ChannelError::WouldBlock);
        }
        self.try_send(request, fds)
    }

    /// Receives its next message; `None` if none is there. A malformed message gets the process killed.
    ///
    /// The message's descriptors are missing if the monitor can open no more.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        now: Instant,
    ) -> Option<(T, Vec<OwnedFd>)> {
        let process = self.process.as_mut()?;
        match process.control.as_ref()?.receive() {
            Ok(message) => return Some(message),
            Err(ChannelError::WouldBlock) => {}
            Err(ChannelError::OutOfDescriptors(message)) => match message.read() {
                Ok(message) => {
                    warn!(program = self.name, "received a message without its descriptors");
                    return Some((message, Vec::new()));
                }
                Err(error) => self.kill(&shortened(&error.to_string(), 200)),
            },
            Err(ChannelError::Closed) => {
                // A closed socket stays readable: polled further, it would keep the loop awake.
                process.control = None;
                self.lifecycle.ending(now);
            }
            Err(error) => self.kill(&shortened(&error.to_string(), 200)),
        }
        None
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

    /// Kills it for breaking the protocol, or because it has to stop. Its pidfd reports the end.
    pub(crate) fn kill(&mut self, why: &str) {
        self.kill_process(why, false, Cause::Protocol);
    }

    /// Kills it because it makes no progress. Its pidfd reports the end.
    pub(crate) fn kill_for_own_failure(&mut self, why: &str) {
        self.kill_process(why, true, Cause::Hang);
    }

    /// Kills it because it leaks memory. Its pidfd reports the end.
    pub(crate) fn kill_for_leak(&mut self, why: &str) {
        self.kill_process(why, true, Cause::Leak);
    }

    /// Kills it for exceeding `limit`, and does not start it again before `until`.
    pub(crate) fn kill_for_limit(&mut self, limit: Limit, why: &str, until: Instant) {
        self.lifecycle.pause(until);
        self.kill_process(why, true, Cause::Limit { limit: limit.name().into() });
    }

    /// Kills it for `cause`. Its own code is to blame if `is_own_failure`.
    fn kill_process(&mut self, why: &str, is_own_failure: bool, cause: Cause) {
        if let Some(process) = self.process.as_mut().filter(|process| process.killed.is_none()) {
            process.killed = Some(Killed { why: why.to_owned(), is_own_failure, cause });
            warn!(program = self.name, pid = process.child.pid(), why, "killed the program");
            process.child.kill();
            self.lifecycle.killed();
        }
    }

    /// Reaps the process after its pidfd became readable; `None` if it has not ended after all.
    pub(crate) fn reap(&mut self, now: Instant) -> Option<ProgramExit> {
        let process = self.process.as_mut()?;
        let (exit, cause) = process.try_reap(&self.limits)?;
        let pid = process.child.pid();
        // Before the line about the end, so that the log shows the program's last lines first.
        process.output.read_rest(now);
        let killed = process.killed.take();
        self.process = None;
        self.refused_calls.over();
        let exit = match &killed {
            Some(Killed { why, is_own_failure: true, .. }) => format!("{exit}: {why}"),
            _ => exit,
        };
        let is_excused = self.lifecycle.is_excused();
        let exit = sabotaged(exit);
        let Ended { ran, next: then } = self.lifecycle.ended(now, exit.clone());
        let (program, ran, next) = (&self.name, format!("{:.3} s", ran.as_secs_f64()), next(then));
        if then == Next::Stay || is_excused {
            info!(program, pid, exit, ran, "stopped");
        } else if let Next::HeldForRestarts(why) = then {
            let hint = end_of_hold(&self.kind, why);
            error!(program, pid, exit, ran, %why, hint, "died too often and was held");
        } else {
            warn!(program, pid, exit, ran, next, "died");
        }
        if then != Next::Stay && !is_excused {
            let mut facts = vec![exit.clone(), format!("process {pid} ran {ran}")];
            let cause = match &killed {
                // The monitor's own reason counts: the exit status of a killed process is always SIGKILL.
                Some(Killed { why, cause, .. }) => {
                    facts.push(why.clone());
                    cause.clone()
                }
                None => cause.clone(),
            };
            self.incidents.ended(cause, facts, reaction(then), now);
            self.record_hold(then, now);
        }
        let own_failure = killed.as_ref().is_none_or(|killed| killed.is_own_failure);
        let by_itself = then != Next::Stay && own_failure && !is_excused;
        Some(ProgramExit { how: killed.map_or(exit, |killed| killed.why), by_itself, cause })
    }

    /// Gives up a process that did not end even though it was killed.
    pub(crate) fn abandon(&mut self) {
        if let Some(process) = self.process.take() {
            error!(program = self.name, pid = process.child.pid(), "left a killed process behind");
            // Dropping the child would wait for it, and so keep the monitor from ending.
            std::mem::forget(process.child);
        }
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
        let (incidents, _) = program.incidents_mut().all().page(incident::IncidentId(0));
        assert_eq!(incidents[0].cause, Cause::NotStarted);
    }
}

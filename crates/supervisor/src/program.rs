//! Decides about one supervised program: keeps its [`Lifecycle`] in step with its process, which the executor of its
//! [effects](crate::effects) runs.

mod ending;
mod kind;
mod reaction;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use sys::process::PidNamespace;
use sys::sandbox::Report;
use tracing::{error, info};

use self::ending::Killed;
pub use self::ending::ProgramExit;
pub use self::kind::{NORTHBOUND, ProgramKind};
pub use self::reaction::end_of_hold;
use self::reaction::{next, reaction};
use crate::effects::{
    Attached, Effect, Effects, Fd, IfFull, Message, ProcessEvent, ProgramId, Record, Reply, Spawn,
};
use crate::incidents::{Incidents, ProgramIncidents};
use crate::lifecycle::{Due, Lifecycle, Next};
use crate::system::System;
use config::{Limits, RestartPolicy};
use control::incident::Cause;
use control::log::LogLevel;
use control::operator::ProgramState;
use control::sabotage::{self, Sabotage};
use std::os::fd::OwnedFd;

/// A program's file and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The path of its file.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl From<PathBuf> for Executable {
    fn from(path: PathBuf) -> Self {
        Self { path, args: Vec::new() }
    }
}

/// A supervised program. Dropping it kills its process.
#[derive(Debug)]
pub struct Program {
    id: ProgramId,
    effects: Effects,
    name: String,
    executable: Executable,
    kind: ProgramKind,
    /// How processes that the program forks are made to end with it.
    apart: PidNamespace,
    limits: Limits,
    lifecycle: Lifecycle,
    incidents: ProgramIncidents,
    process: Option<Process>,
    /// The level of a zone's log.
    log_level: LogLevel,
    /// Whether its cgroup has another name than usual, as another process has the usual one.
    is_in_second_group: bool,
}

/// The process of a program, from the decision to start it until its end.
#[derive(Debug, Default)]
struct Process {
    /// Its id, once it is started.
    pid: Option<u32>,
    /// Why the monitor killed it, if so.
    killed: Option<Killed>,
}

/// What the owner of a program must handle of an event.
#[derive(Debug)]
pub enum News {
    /// The process was started.
    Started,
    /// The process could not be started.
    NotStarted,
    /// The process has sent a message with descriptors.
    Received(Box<Reply>, Vec<OwnedFd>),
    /// The process has ended. A process that recorded its calls leaves the record.
    Ended(ProgramExit, Option<Box<Record>>),
}

impl Program {
    /// Describes a program without starting it. Its process stays below `limits`; `restart` says when it is started
    /// again.
    pub fn new(
        kind: ProgramKind,
        executable: impl Into<Executable>,
        apart: PidNamespace,
        limits: Limits,
        restart: RestartPolicy,
        (effects, incidents): (Effects, Incidents),
    ) -> Self {
        Self {
            id: effects.new_program(),
            effects,
            name: kind.name(),
            executable: executable.into(),
            apart,
            limits,
            lifecycle: Lifecycle::new(crate::lifecycle::Limits {
                restart,
                ..crate::lifecycle::Limits::default()
            }),
            incidents: ProgramIncidents::new(incidents, kind.of_incidents()),
            kind,
            process: None,
            log_level: LogLevel::Debug,
            is_in_second_group: false,
        }
    }

    /// Its name, for the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn id(&self) -> ProgramId {
        self.id
    }

    /// The incidents of this program.
    pub fn incidents_mut(&mut self) -> &mut ProgramIncidents {
        &mut self.incidents
    }

    /// When it is started, killed, restarted and held.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Uses a cgroup of another name than usual, because another process of the program has the usual one.
    pub fn use_second_group(&mut self) {
        self.is_in_second_group = true;
    }

    /// Changes the level of a zone's log, for this process and for later ones.
    pub fn set_log_level(&mut self, level: LogLevel) {
        self.log_level = level;
        if self.process.is_some() {
            self.effects.add(self.id, Effect::SetLogLevel(level));
        }
    }

    /// Forgets its restarts: its files have changed, or the operator starts it.
    pub fn forgive(&mut self) {
        self.lifecycle.forgive();
    }

    /// Returns whether the program has reported that it is ready and still runs.
    pub fn is_running(&self) -> bool {
        self.lifecycle.state() == ProgramState::Running
    }

    /// Returns whether the program neither runs nor will be started.
    pub fn is_stopped(&self) -> bool {
        self.lifecycle.state() == ProgramState::Stopped
    }

    /// Its process id, while it has a process.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref()?.pid
    }

    /// Whether its process was killed and has not ended yet.
    pub fn is_killed(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.killed.is_some())
    }

    /// Whether it has a process, or one is about to be started.
    pub fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// Sends it `message`. A process whose control socket is full is killed, since it does not read it.
    pub fn send(&self, message: impl Into<Message>, fds: Vec<Fd>) {
        self.send_with(message, fds.into_iter().map(Attached::Fd).collect());
    }

    /// The same with other attachments than descriptors.
    pub fn send_with(&self, message: impl Into<Message>, attached: Vec<Attached>) {
        self.effects.add(self.id, Effect::Send(Box::new(message.into()), attached, IfFull::Kill));
    }

    /// Adds a record of the app `app` to the audit log.
    pub fn audit(&self, app: &str, text: &str) {
        let (app, text) = (Some(app.to_owned()), text.to_owned());
        self.effects.add(self.id, Effect::Audit { app, text });
    }

    /// Sends it `message`, and leaves it alone if it does not read. `lost` is logged then.
    pub fn send_if_room(
        &self,
        message: impl Into<Message>,
        fds: Vec<Fd>,
        lost: Option<&'static str>,
    ) {
        let message = Box::new(message.into());
        let attached = fds.into_iter().map(Attached::Fd).collect();
        self.effects.add(self.id, Effect::Send(message, attached, IfFull::Drop(lost)));
    }

    /// The program reports how it confined itself. It must do so at most once.
    pub fn confined(&mut self, report: Report, fds: Vec<OwnedFd>) {
        self.effects.add(self.id, Effect::Confined(Box::new(report), fds));
    }

    /// When [`advance`](Self::advance) must be called if nothing else happens before.
    pub fn next_due(&self) -> Option<Instant> {
        self.lifecycle.next_due()
    }

    /// Schedules a start at `now`, unless the program is to run already.
    pub fn request_start(&mut self, now: Instant) {
        self.lifecycle.start(now);
    }

    /// Does what is due, except starting. Returns whether the caller must start the program now.
    pub fn advance(&mut self, system: &dyn System, now: Instant) -> bool {
        let id = self.id;
        let processor_time = || match self.kind {
            ProgramKind::Kernel | ProgramKind::Service(_) | ProgramKind::Northbound => None,
            // A zone may be throttled to a fraction of a processor: its time to start is counted in processor time.
            ProgramKind::Zone(_) => Some(system.processor_time(id).unwrap_or_default()),
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

    /// Changes its file and its arguments, from the next start on.
    pub fn set_executable(&mut self, executable: Executable) {
        self.executable = executable;
    }

    /// Starts the process.
    pub fn start(&mut self, now: Instant) {
        let spawn = Spawn {
            name: self.name.clone(),
            kind: self.kind.clone(),
            executable: self.executable.clone(),
            apart: self.apart,
            limits: self.limits,
            log_level: self.log_level,
            is_in_second_group: self.is_in_second_group,
        };
        self.effects.add(self.id, Effect::Spawn(Box::new(spawn)));
        self.process = Some(Process::default());
        self.incidents.started();
        self.lifecycle.started(now);
    }

    /// Takes an event of its process. Returns what its owner must handle.
    pub fn take(&mut self, event: ProcessEvent, now: Instant) -> Option<News> {
        match event {
            ProcessEvent::Started(pid) => {
                self.process.as_mut()?.pid = Some(pid);
                info!(program = self.name, pid, "started");
                Some(News::Started)
            }
            ProcessEvent::Found(pid) => {
                self.process.as_mut()?.pid = Some(pid);
                None
            }
            ProcessEvent::NotStarted(why) => {
                self.process = None;
                self.lifecycle.not_started();
                self.start_failed(now, &why);
                Some(News::NotStarted)
            }
            ProcessEvent::Received(reply, fds) => Some(News::Received(reply, fds)),
            ProcessEvent::Closed => {
                self.mark_ending(now);
                None
            }
            ProcessEvent::Broken(why) => {
                self.kill(&why);
                None
            }
            // Their owners handle these before.
            ProcessEvent::Counted(_)
            | ProcessEvent::NotCounted
            | ProcessEvent::Backtrace(..)
            | ProcessEvent::Scheduled(_)
            | ProcessEvent::Used { .. }
            | ProcessEvent::LogSilent(_) => None,
            ProcessEvent::Ended(exit, cause, record) => {
                Some(News::Ended(self.ended(exit, cause, now), record))
            }
        }
    }

    /// Records that a start failed. It counts as an end, so the next start waits for the minimum run time.
    fn start_failed(&mut self, now: Instant, why: &str) {
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
    pub fn hold(&mut self, now: Instant, why: &str) {
        self.lifecycle.hold(now, why.to_owned());
    }

    /// Adds the program's own reason to the text of its last end.
    pub fn explain_end(&mut self, why: &str) {
        self.lifecycle.explain_end(why);
    }

    /// The program reports that it is ready. Returns whether it was still starting.
    pub fn mark_ready(&mut self, now: Instant) -> bool {
        let is_first = self.lifecycle.ready();
        if is_first {
            self.incidents.runs(now);
        }
        is_first
    }

    /// The program reports that it cannot run with its current files and ends: it will be held.
    pub fn mark_unfit(&mut self, now: Instant) {
        self.lifecycle.unfit(now);
    }

    /// The program reports that it ends, or shows it: it gets the usual time to do so.
    pub fn mark_ending(&mut self, now: Instant) {
        self.lifecycle.ending(now);
    }

    /// Wants the program to end and stay ended. Returns whether it runs, so that the caller must send it a request.
    pub fn request_stop(&mut self, now: Instant) -> bool {
        self.lifecycle.stop(now)
    }

    /// Wants the program to end and to start again at once, for reasons that are not the program's. Returns whether it
    /// runs, so that the caller must send it a request.
    pub fn request_restart(&mut self, now: Instant) -> bool {
        self.lifecycle.restart(now)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.effects.add(self.id, Effect::Forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Nothing;

    #[test]
    fn program_that_cannot_be_started_is_started_again_later() {
        let now = Instant::now();
        let (effects, incidents) = (Effects::default(), Incidents::default());
        let mut program = Program::new(
            ProgramKind::Kernel,
            PathBuf::from("/nowhere"),
            PidNamespace::No,
            Limits::none(),
            RestartPolicy::default(),
            (effects.clone(), incidents.clone()),
        );
        program.request_start(now);
        assert!(program.advance(&Nothing, now));
        program.start(now);
        let effects = effects.take();
        assert!(matches!(&effects[..], [(id, Effect::Spawn(_))] if *id == program.id()));
        let event = ProcessEvent::NotStarted("there is no file /nowhere".into());
        assert!(matches!(program.take(event, now), Some(News::NotStarted)));
        assert!(!program.advance(&Nothing, now));
        assert!(program.lifecycle().last_exit().unwrap().contains("/nowhere"));
        assert_eq!(program.lifecycle().starts(), 0);
        assert!(program.advance(&Nothing, now + RestartPolicy::default().min_run));
        let (all, _) = incidents.page(control::incident::IncidentId(0));
        assert_eq!(all[0].cause, Cause::NotStarted);
    }

    #[test]
    fn dropped_program_is_forgotten_with_its_process() {
        let now = Instant::now();
        let effects = Effects::default();
        let mut program = Program::new(
            ProgramKind::Kernel,
            PathBuf::from("/nowhere"),
            PidNamespace::No,
            Limits::none(),
            RestartPolicy::default(),
            (effects.clone(), Incidents::default()),
        );
        program.start(now);
        drop(program);
        assert!(matches!(&effects.take()[..], [_, (_, Effect::Forget)]));
    }
}

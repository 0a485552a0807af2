//! Runs one service: starts its process, and opens its state file.
//!
//! The log service always runs. Another service runs if an app that runs names it. A service opens no files itself: the
//! monitor opens and locks its state file in the state directory and passes it on. The monitor also makes the sockets of
//! its clients, once the app is loaded and the service is ready.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use control::service::ServiceKind;
use control::service::{
    ServiceClient, ServiceQuotas, ServiceReply, ServiceRequest, ServiceSandbox,
};
use rustix::fs::{FlockOperation, OFlags, flock};
use supervisor::system::System;
use sys::channel::ChannelError;
use sys::process::PidNamespace;
use tracing::error;

use crate::error::StartError;
use crate::process_table::Environment;
use crate::processes::Processes;
use crate::service_table::ServiceSettings;
use config::Limits;
use config::Require;
use control::incident::Cause;
use control::operator::ProgramState;
use control::operator::ServiceStatus;
use supervisor::effects::Fd;
use supervisor::hang::answers::{AnswerProgress, Check};
use supervisor::program::{Program, ProgramKind};
use supervisor::text::{harmless, shortened};
use supervisor::usage::leak::LeakDetector;
use supervisor::usage::meter::Meter;

/// One service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) kind: ServiceKind,
    pub(crate) program: Program,
    pub(crate) meter: Meter,
    /// How complete its sandbox must be; `None` to run without a sandbox.
    require: Option<Require>,
    run_as: Option<u32>,
    /// The path of its state file, if it has state.
    state: Option<PathBuf>,
    quotas: ServiceQuotas,
    /// Why its state file could not be opened, if so.
    not_opened: Option<String>,
    /// Why it is held, if its state file is damaged. To replace the file, the operator stops Rosemary, so the file is
    /// not checked again.
    damaged: Option<String>,
    answers: AnswerProgress,
    leak: LeakDetector,
    /// Why its disk does not take what clients write, as it says, if so.
    disk_failure: Option<String>,
    /// Whether the process has reported that it failed. It must send nothing after that.
    failed: bool,
}

impl Service {
    /// Describes the service without starting it.
    ///
    /// # Errors
    /// The program is missing.
    pub(crate) fn new(
        kind: ServiceKind,
        settings: &ServiceSettings,
        around: &Environment,
    ) -> Result<Self, StartError> {
        let require = around.require;
        let apart = if require.is_some() { PidNamespace::find() } else { PidNamespace::No };
        let state = kind.file().map(|name| settings.state_dir.join(name));
        Ok(Self {
            kind,
            program: Program::new(
                ProgramKind::Service(kind.name()),
                around.installation.service(kind)?,
                apart,
                Limits::default(),
                settings.rules.of_service(kind),
                (around.effects.clone(), around.incidents.clone()),
            ),
            meter: Meter::new(Limits::none(), Vec::new()),
            require,
            run_as: around.users.for_service(kind).filter(|_| require.is_some()),
            state,
            quotas: settings.quotas,
            not_opened: None,
            disk_failure: None,
            damaged: None,
            answers: AnswerProgress::new(settings.rules.hang),
            leak: LeakDetector::new(settings.rules.leak_growth, settings.rules.leak_window),
            failed: false,
        })
    }

    /// Starts the process and passes it the state file.
    pub(crate) fn start(&mut self, now: Instant) {
        if let Some(why) = &self.damaged {
            return self.program.hold(now, why);
        }
        let state = self.state.as_deref().map(|path| {
            open(path, self.run_as)
                .map_err(|error| format!("could not open {}: {error}", path.display()))
        });
        let state = match state.transpose() {
            Ok(state) => state,
            Err(why) => return self.hold(why, now),
        };
        self.not_opened = None;
        self.failed = false;
        self.meter.restart();
        self.answers.restart();
        self.leak.restart();
        self.program.start(now);
        let sandbox = self
            .require
            .map(|require| ServiceSandbox { run_as: self.run_as, full: require == Require::Full });
        let fds = state.into_iter().map(|file| Fd::new(file.into())).collect();
        self.program.send(ServiceRequest::Start { sandbox, quotas: self.quotas }, fds);
    }

    /// Holds the service until its state file can be opened, and logs each reason once.
    ///
    /// A service of a killed instance may still have the file locked.
    fn hold(&mut self, why: String, now: Instant) {
        if self.not_opened.as_ref() != Some(&why) {
            let service = self.kind.name();
            error!(service, why, "service was held until its state can be opened");
        }
        self.program.hold(now, &why);
        self.not_opened = Some(why);
    }

    /// Handles a message of it. Returns whether it became ready for clients.
    pub(crate) fn received(
        &mut self,
        answer: ServiceReply,
        fds: Vec<OwnedFd>,
        now: Instant,
    ) -> bool {
        if self.failed {
            self.program.kill("it sent a message after it had failed");
            return false;
        }
        match answer {
            ServiceReply::Confined { report } => self.program.confined(report, fds),
            ServiceReply::Ready => return self.program.mark_ready(now),
            ServiceReply::Disk { failure } => {
                self.disk_failure = failure.map(|why| harmless(&why, 400));
            }
            ServiceReply::Pong { number } => {
                if !self.answers.answered(number) {
                    self.program.kill("it answered a question that it was not asked");
                }
            }
            ServiceReply::Unfit { why } => {
                let path = self.state.as_deref().unwrap_or(Path::new("none")).display();
                let (damage, remedy) = (shortened(&why, 400), self.kind.remedy_for_damage());
                let remedy = remedy.unwrap_or_default();
                let why = format!("{path} cannot be used: {damage}; {remedy}");
                error!(service = self.kind.name(), why, "service was held: its file is damaged");
                self.program.incidents_mut().reported(Cause::Unfit, &why);
                self.damaged = Some(why);
                self.failed = true;
                self.program.mark_unfit(now);
            }
            ServiceReply::Failed { why } => {
                let why = shortened(&why, 400);
                error!(service = self.kind.name(), why, "service failed");
                self.program.incidents_mut().reported(Cause::Panic, &why);
                self.failed = true;
                self.program.mark_ending(now);
            }
        }
        false
    }

    /// Measures the process, and kills it if it leaks or hangs.
    pub(crate) fn measure(&mut self, system: &dyn System, now: Instant) {
        let program = self.program.id();
        let sample = system.sample(program);
        // No event can follow: the limits of services are not the operator's.
        self.meter.measure(now, sample);
        if !self.is_ready() {
            return self.answers.restart();
        }
        if let Some(leak) = sample.and_then(|sample| self.leak.measure(now, sample.own_memory)) {
            return self.program.kill_for_leak(&leak.to_string());
        }
        match self.answers.check(|| system.main_thread(program)) {
            Check::Ask(number) => self.program.send(ServiceRequest::Ping { number }, Vec::new()),
            Check::Wait => {}
            Check::Hung(silent) => self.program.kill_for_own_failure(&silent.to_string()),
        }
    }

    /// Returns whether the process owes the monitor an answer, so that the time of that answer decides whether it hangs.
    pub(crate) fn owes_answer(&self) -> bool {
        self.answers.is_waiting()
    }

    /// The data that its disk does not take, with the reason and the remedy, as a phrase.
    pub(crate) fn not_stored(&self) -> Option<String> {
        let what = match self.kind {
            ServiceKind::Log => "lines of the log",
            ServiceKind::Storage | ServiceKind::Broker => "data of apps",
        };
        self.disk_failure.as_ref().map(|why| format!("{what} cannot be stored: {why}"))
    }

    /// The process has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.disk_failure = None;
        if let Some(why) = &self.damaged {
            self.program.hold(now, why);
        }
    }

    /// Returns whether it is ready for clients.
    pub(crate) fn is_ready(&self) -> bool {
        self.program.lifecycle().state() == ProgramState::Running
    }

    /// Checks that it is ready for clients. The error is the reason, as a phrase.
    pub(crate) fn must_be_ready(&self) -> Result<(), String> {
        let (name, lifecycle) = (self.kind.name(), self.program.lifecycle());
        match (lifecycle.state(), lifecycle.last_exit()) {
            (ProgramState::Running, _) => Ok(()),
            (state @ ProgramState::Held, Some(why)) => Err(format!("the {name} is {state}: {why}")),
            (state, _) => Err(format!("the {name} is {state}")),
        }
    }

    /// Passes it the socket of an app.
    pub(crate) fn admit(&mut self, client: ServiceClient, socket: Fd) {
        self.program.send(ServiceRequest::Client(client), vec![socket]);
    }

    /// Passes it the socket of an operator. Fails if it has not yet received earlier ones.
    pub(crate) fn admit_operator(
        &self,
        client: ServiceClient,
        socket: &OwnedFd,
        processes: &Processes,
    ) -> Result<(), ChannelError> {
        let client = ServiceRequest::Client(client);
        processes.send_for_operator(self.program.id(), client, &[socket.as_fd()])
    }

    /// The service's status for operators.
    pub(crate) fn status(&self) -> ServiceStatus {
        let lifecycle = self.program.lifecycle();
        ServiceStatus {
            name: self.kind.name().into(),
            pid: self.program.pid(),
            uid: self.run_as.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            state: lifecycle.state(),
            restarts: lifecycle.restarts(),
            last_exit: lifecycle.last_exit().map(Into::into),
        }
    }

    /// Asks the process to end, if it runs, and starts it again at once.
    pub(crate) fn restart(&mut self, now: Instant) {
        if self.program.request_restart(now) {
            self.program.send(ServiceRequest::Stop, Vec::new());
        }
    }

    /// Asks the process to end, if it runs.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(ServiceRequest::Stop, Vec::new());
        }
    }
}

/// Opens and locks the state file of a service, which is created if it is missing. Only `owner` may access it.
fn open(path: &Path, owner: Option<u32>) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // The service inherits the lock with the descriptor. The lock ends with the service.
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            io::Error::other("another process has locked it; end that process")
        }
        error => error.into(),
    })?;
    if let Some(owner) = owner {
        fchown(&file, Some(owner), Some(owner))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_file_is_locked_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let first = open(&path, None).unwrap();
        assert_eq!(first.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = open(&path, None).unwrap_err().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(first);
        open(&path, None).unwrap();
        assert!(open(dir.path(), None).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open(&link, None).is_err());
    }
}

//! A service: its process, and the file that it keeps its state in.
//!
//! The log always runs; one that apps use is started when an app that runs names it. It opens nothing itself:
//! what it keeps is in a file of the state directory that is opened and locked here and handed over, and its
//! clients are sockets that are made here, for an app that is loaded and a service that is ready.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use control::service::ServiceKind;
use control::service::{
    ServiceClient, ServiceQuotas, ServiceReply, ServiceRequest, ServiceSandbox,
};
use rustix::fs::{FlockOperation, OFlags, flock};
use sys::channel::ChannelError;
use sys::process::PidNamespace;
use tracing::error;

use crate::error::StartError;
use crate::process_table::Environment;
use crate::program::{Program, ProgramKind};
use crate::service_table::ServiceSettings;
use crate::text::shortened;
use crate::usage::meter::Meter;
use config::Limits;
use config::Require;
use control::operator::ProgramState;
use control::operator::ServiceStatus;

/// A service, and its process if it runs.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) kind: ServiceKind,
    pub(crate) program: Program,
    pub(crate) meter: Meter,
    /// Which mechanisms its sandbox must have; `None` for no sandbox.
    sandbox: Option<Require>,
    run_as: Option<u32>,
    /// The file that it keeps its state in, if it keeps any.
    state: Option<PathBuf>,
    quotas: ServiceQuotas,
    /// Why its state could not be opened, if so.
    not_opened: Option<String>,
    /// Why it is not started again, if what is in its file is damaged. A file that somebody is just putting in
    /// its place is not looked at: who does that stops us first.
    damaged: Option<String>,
    failed: bool,
}

/// The outcome of reading a service's control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// It said nothing that could be taken now.
    Nothing,
    /// It said something.
    Something,
    /// It serves from now on.
    Ready,
}

impl Service {
    /// The service, with its state where `settings` say.
    ///
    /// # Errors
    /// Its program is missing.
    pub(crate) fn new(
        kind: ServiceKind,
        settings: &ServiceSettings,
        around: &Environment,
    ) -> Result<Self, StartError> {
        let sandbox = around.require;
        let apart = if sandbox.is_some() { PidNamespace::find() } else { PidNamespace::No };
        let state = kind.file().map(|name| settings.state_dir.join(name));
        Ok(Self {
            kind,
            program: Program::new(
                ProgramKind::Service(kind.name()),
                around.installation.service(kind)?,
                apart,
                (around.enforcement.clone(), Limits::default()),
            ),
            meter: Meter::new(Limits::none(), Vec::new()),
            sandbox,
            run_as: around.users.for_service(kind).filter(|_| sandbox.is_some()),
            state,
            quotas: settings.quotas,
            not_opened: None,
            damaged: None,
            failed: false,
        })
    }

    /// Starts its process and gives it its state.
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
        self.program.start(now);
        let sandbox = self
            .sandbox
            .map(|require| ServiceSandbox { run_as: self.run_as, full: require == Require::Full });
        let fds: Vec<BorrowedFd<'_>> = state.iter().map(File::as_fd).collect();
        self.program.send(&ServiceRequest::Start { sandbox, quotas: self.quotas }, &fds);
    }

    /// It cannot have its state, as where one of an instance that was killed still has it: it waits for it,
    /// which is said once.
    fn hold(&mut self, why: String, now: Instant) {
        if self.not_opened.as_ref() != Some(&why) {
            let service = self.kind.name();
            error!(service, why, "service was held until its state can be opened");
        }
        self.program.hold(now, &why);
        self.not_opened = Some(why);
    }

    /// Takes what it said, if it said something.
    pub(crate) fn receive(&mut self, now: Instant) -> ReadOutcome {
        let Some((answer, fds)) = self.program.receive::<ServiceReply>(now) else {
            return ReadOutcome::Nothing;
        };
        if self.failed {
            self.program.kill("it sent a message after it had failed");
            return ReadOutcome::Something;
        }
        match answer {
            ServiceReply::Confined { report } => self.program.confined(&report, fds),
            ServiceReply::Ready => {
                if self.program.mark_ready() {
                    return ReadOutcome::Ready;
                }
            }
            ServiceReply::Unfit { why } => {
                let path = self.state.as_deref().unwrap_or(Path::new("none")).display();
                let (damage, remedy) = (shortened(&why, 400), self.kind.remedy_for_damage());
                let remedy = remedy.unwrap_or_default();
                let why = format!("{path} cannot be used: {damage}; {remedy}");
                error!(service = self.kind.name(), why, "service was held: its file is damaged");
                self.damaged = Some(why);
                self.failed = true;
                self.program.mark_unfit(now);
            }
            ServiceReply::Failed { why } => {
                let why = shortened(&why, 400);
                error!(service = self.kind.name(), why, "service failed");
                self.failed = true;
                self.program.mark_ending(now);
            }
        }
        ReadOutcome::Something
    }

    /// Its process has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        if let Some(why) = &self.damaged {
            self.program.hold(now, why);
        }
    }

    /// Whether it serves.
    pub(crate) fn is_ready(&self) -> bool {
        self.program.lifecycle().state() == ProgramState::Running
    }

    /// Why it does not serve, if it does not, as a phrase.
    pub(crate) fn must_be_ready(&self) -> Result<(), String> {
        let (name, lifecycle) = (self.kind.name(), self.program.lifecycle());
        match (lifecycle.state(), lifecycle.last_exit()) {
            (ProgramState::Running, _) => Ok(()),
            (state @ ProgramState::Held, Some(why)) => Err(format!("the {name} is {state}: {why}")),
            (state, _) => Err(format!("the {name} is {state}")),
        }
    }

    /// Gives it an app's socket.
    pub(crate) fn admit(&mut self, client: ServiceClient, socket: &OwnedFd) {
        self.program.send(&ServiceRequest::Client(client), &[socket.as_fd()]);
    }

    /// Gives it an operator's socket, if it keeps up with those that it was given before.
    pub(crate) fn admit_operator(
        &self,
        client: ServiceClient,
        socket: &OwnedFd,
    ) -> Result<(), ChannelError> {
        self.program.send_for_operator(&ServiceRequest::Client(client), &[socket.as_fd()])
    }

    /// For the operator.
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

    /// Asks it to end, if it runs.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(&ServiceRequest::Stop, &[]);
        }
    }
}

/// Opens the state file of a service; no other process has access to it.
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
    // With the file it goes to the service, and ends with that.
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            io::Error::other("another process has it locked; end that one")
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
    fn state_is_opened_once_at_a_time_and_for_its_owner_alone() {
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

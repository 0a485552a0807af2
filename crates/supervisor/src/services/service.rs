//! Decides about one service: its process and its state file.
//!
//! The log service always runs, and the history service if the operator configures it. Another service runs if an app that runs names it. A service opens no files itself: the
//! monitor opens and locks its state file in the state directory and passes it on. The monitor also makes the sockets of
//! its clients, once the app is loaded and the service is ready.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use config::{Limits, Supervision};
use control::incident::Cause;
use control::operator::{ProgramState, ServiceStatus};
use control::service::{
    OvsdbStart, ServiceClient, ServiceKind, ServiceQuotas, ServiceReply, ServiceRequest,
    ServiceSandbox,
};
use sys::process::PidNamespace;
use tracing::{error, warn};

use crate::effects::{Attached, Effects, Fd};
use crate::hang::answers::{AnswerProgress, Check};
use crate::incidents::Incidents;
use crate::program::{Executable, Program, ProgramKind};
use crate::system::System;
use crate::text::{harmless, shortened};
use crate::usage::leak::LeakDetector;
use crate::usage::meter::Meter;

/// The parts of a new service.
#[derive(Debug, Clone)]
pub struct ServiceParts {
    /// Which service it is.
    pub kind: ServiceKind,
    /// Its program.
    pub executable: Executable,
    /// How processes that it forks are made to end with it.
    pub apart: PidNamespace,
    /// Its sandbox; `None` to run it without one.
    pub sandbox: Option<ServiceSandbox>,
    /// The user of the monitor.
    pub own_uid: u32,
    /// The path of its state file; `None` for a service without state.
    pub state: Option<PathBuf>,
    /// How much state it keeps.
    pub quotas: ServiceQuotas,
    /// The databases of [`ServiceKind::Ovsdb`].
    pub ovsdb: Option<OvsdbStart>,
}

/// One service.
#[derive(Debug)]
pub struct Service {
    pub(crate) kind: ServiceKind,
    pub(crate) program: Program,
    pub(crate) meter: Meter,
    sandbox: Option<ServiceSandbox>,
    own_uid: u32,
    /// The path of its state file; `None` for a service without state.
    state: Option<PathBuf>,
    quotas: ServiceQuotas,
    /// The databases of [`ServiceKind::Ovsdb`].
    ovsdb: Option<OvsdbStart>,
    /// The names of apps that were last sent to [`ServiceKind::Ovsdb`]; `None` if this process has not received them.
    announced: Option<Vec<String>>,
    /// Why its state file could not be opened, if so.
    not_opened: Option<String>,
    /// Why it is held, if its state file is damaged. To replace the file, the operator stops Rosemary, so the file is
    /// not checked again.
    damaged: Option<String>,
    /// Whether its damaged state file is set aside before the next start.
    sets_aside: bool,
    answers: AnswerProgress,
    leak: LeakDetector,
    /// Why its disk does not take what clients write, as it says, if so.
    disk_failure: Option<String>,
    /// Whether the process has reported that it failed. It must send nothing after that.
    failed: bool,
}

impl Service {
    /// Describes the service without starting it.
    pub fn new(parts: ServiceParts, rules: &Supervision, outbox: (Effects, Incidents)) -> Self {
        let ServiceParts { kind, executable, apart, sandbox, own_uid, state, quotas, ovsdb } =
            parts;
        Self {
            kind,
            program: Program::new(
                ProgramKind::Service(kind.name()),
                executable,
                apart,
                Limits::default(),
                rules.of_service(kind),
                outbox,
            ),
            meter: Meter::new(Limits::none(), Vec::new()),
            sandbox,
            own_uid,
            state,
            quotas,
            ovsdb,
            announced: None,
            not_opened: None,
            disk_failure: None,
            damaged: None,
            sets_aside: false,
            answers: AnswerProgress::new(rules.hang),
            leak: LeakDetector::new(rules.leak_growth, rules.leak_window),
            failed: false,
        }
    }

    fn run_as(&self) -> Option<u32> {
        self.sandbox.as_ref().and_then(|sandbox| sandbox.run_as)
    }

    /// Starts the process and passes it the state file.
    pub fn start(&mut self, system: &dyn System, now: Instant) {
        if let Some(why) = &self.damaged {
            return self.program.hold(now, why);
        }
        if self.sets_aside {
            match system.set_aside(self.kind) {
                Ok(path) => {
                    let (service, path) = (self.kind.name(), path.display());
                    let hint = "remove the old file if it is not needed";
                    warn!(service, %path, hint, "set a damaged file aside and began a new one");
                    self.sets_aside = false;
                }
                Err(why) => return self.hold(why, now),
            }
        }
        let files = match system.files_of(self.kind, self.run_as()) {
            Ok(files) => files,
            Err(why) => return self.hold(why, now),
        };
        self.not_opened = None;
        self.failed = false;
        self.meter.restart();
        self.answers.restart();
        self.leak.restart();
        self.program.start(now);
        self.announced = None;
        let (sandbox, quotas, ovsdb) = (self.sandbox, self.quotas, self.ovsdb.clone());
        let ovsdb = ovsdb.map(|it| OvsdbStart { tls: !files.is_empty(), ..it });
        let requests = (self.kind == ServiceKind::History).then_some(Attached::Requests);
        let attached = files.into_iter().map(Attached::Fd).chain(requests).collect();
        self.program.send_with(ServiceRequest::Start { sandbox, quotas, ovsdb }, attached);
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
    pub fn received(&mut self, answer: ServiceReply, fds: Vec<OwnedFd>, now: Instant) -> bool {
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
            ServiceReply::Unfit { why } if self.kind.sets_damage_aside() => {
                let why = shortened(&why, 400);
                self.program.incidents_mut().reported(Cause::Unfit, &why);
                self.sets_aside = true;
                self.failed = true;
                self.program.mark_ending(now);
            }
            ServiceReply::Unfit { why } => {
                let path = self.state.as_deref().unwrap_or("none".as_ref()).display();
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
    pub fn measure(&mut self, system: &dyn System, now: Instant) {
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
    pub fn owes_answer(&self) -> bool {
        self.answers.is_waiting()
    }

    /// The data that its disk does not take, with the reason and the remedy, as a phrase.
    pub fn not_stored(&self) -> Option<String> {
        let what = match self.kind {
            ServiceKind::Log => "lines of the log",
            ServiceKind::History => "figures of the history",
            ServiceKind::Storage | ServiceKind::Broker | ServiceKind::Ovsdb => "data of apps",
        };
        self.disk_failure.as_ref().map(|why| format!("{what} cannot be stored: {why}"))
    }

    /// The process has ended.
    pub fn ended(&mut self, now: Instant) {
        self.disk_failure = None;
        if let Some(why) = &self.damaged {
            self.program.hold(now, why);
        }
    }

    /// Returns whether it is ready for clients.
    pub fn is_ready(&self) -> bool {
        self.program.lifecycle().state() == ProgramState::Running
    }

    /// Checks that it is ready for clients.
    ///
    /// # Errors
    /// Why it is not, as a phrase.
    pub fn must_be_ready(&self) -> Result<(), String> {
        let (name, lifecycle) = (self.kind.name(), self.program.lifecycle());
        match (lifecycle.state(), lifecycle.last_exit()) {
            (ProgramState::Running, _) => Ok(()),
            (state @ ProgramState::Held, Some(why)) => Err(format!("the {name} is {state}: {why}")),
            (state, _) => Err(format!("the {name} is {state}")),
        }
    }

    /// Sends it the names of the apps that use it, if this process does not have them yet.
    pub fn announce(&mut self, names: &[String]) {
        if self.is_ready() && self.announced.as_deref() != Some(names) {
            self.program.send(ServiceRequest::Apps { names: names.to_vec() }, Vec::new());
            self.announced = Some(names.to_vec());
        }
    }

    /// Passes it the socket of an app.
    pub fn admit(&mut self, client: ServiceClient, socket: Fd) {
        self.program.send(ServiceRequest::Client(client), vec![socket]);
    }

    /// The service's status for operators.
    pub fn status(&self) -> ServiceStatus {
        let lifecycle = self.program.lifecycle();
        ServiceStatus {
            name: self.kind.name().into(),
            pid: self.program.pid(),
            uid: self.run_as().unwrap_or(self.own_uid),
            state: lifecycle.state(),
            restarts: lifecycle.restarts(),
            last_exit: lifecycle.last_exit().map(Into::into),
        }
    }

    /// Asks the process to end, if it runs, and starts it again at once.
    pub fn restart(&mut self, now: Instant) {
        if self.program.request_restart(now) {
            self.program.send(ServiceRequest::Stop, Vec::new());
        }
    }

    /// Asks the process to end, if it runs.
    pub fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(ServiceRequest::Stop, Vec::new());
        }
    }
}

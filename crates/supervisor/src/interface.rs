//! Decides about the HTTP interface, `rosemary-northbound`.
//!
//! The monitor binds the addresses once and passes the descriptors to each process, so clients that connect while the process
//! restarts wait instead of being refused. The process is supervised like a service and never held: without it the network
//! works, and nothing waits for it. Its requests arrive on an admin channel of its own, and the monitor answers them like
//! those of an operator.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use config::{Limits, RestartPolicy, Supervision};
use control::incident::Cause;
use control::northbound::{NorthboundReply, NorthboundRequest, needs_tls};
use control::operator::{ProgramUsage, ServiceStatus};
use control::service::ServiceSandbox;
use sys::process::PidNamespace;
use tracing::{debug, error, info};

use crate::effects::{Attached, Effects, Fd, ProcessEvent, ProgramId, Reply};
use crate::hang::answers::{AnswerProgress, Check};
use crate::incidents::Incidents;
use crate::program::{Executable, NORTHBOUND, News, Program, ProgramKind};
use crate::system::System;
use crate::text::shortened;
use crate::usage::leak::LeakDetector;
use crate::usage::meter::Meter;
use crate::usage::report;

/// The sockets, keys and tokens for each process of the HTTP interface.
pub trait Interface: fmt::Debug {
    /// The request that starts a process in this sandbox, with its descriptors. The sockets are as at the beginning, whatever an
    /// earlier process did with them.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn start(
        &mut self,
        sandbox: Option<ServiceSandbox>,
    ) -> Result<(NorthboundRequest, Vec<Attached>), String>;

    /// By what users are recognised now.
    fn credentials(&self) -> NorthboundRequest;

    /// Forgets a one-time token that was used.
    fn used(&mut self, token: &str);

    /// Listens for requests to the routes of apps, unless it does already. Returns the request that passes the socket.
    fn listen_for_apps(&mut self) -> Option<(NorthboundRequest, Fd)>;

    /// The address at which the routes of apps are served, if they are.
    fn app_routes(&self) -> Option<SocketAddr>;

    /// The addresses of the API.
    fn api(&self) -> Vec<SocketAddr>;
}

/// The one of these addresses for a client on this machine: preferably with plain HTTP, otherwise with TLS.
pub fn local(addresses: impl IntoIterator<Item = SocketAddr>) -> Option<SocketAddr> {
    addresses.into_iter().min_by_key(|address| needs_tls(*address))
}

/// The parts of the HTTP interface.
#[derive(Debug)]
pub struct NorthboundParts {
    /// Its program.
    pub executable: Executable,
    /// How processes that it forks are made to end with it.
    pub apart: PidNamespace,
    /// Its sandbox; `None` to run it without one.
    pub sandbox: Option<ServiceSandbox>,
    /// The user of the monitor.
    pub own_uid: u32,
    /// Its sockets, keys and tokens.
    pub interface: Box<dyn Interface>,
}

/// The HTTP interface.
#[derive(Debug)]
pub struct Northbound {
    program: Program,
    meter: Meter,
    sandbox: Option<ServiceSandbox>,
    own_uid: u32,
    interface: Box<dyn Interface>,
    answers: AnswerProgress,
    leak: LeakDetector,
    /// Whether the process has reported that it failed. It must send nothing after that.
    failed: bool,
}

impl Northbound {
    /// Describes the process without starting it.
    pub fn new(parts: NorthboundParts, rules: &Supervision, outbox: (Effects, Incidents)) -> Self {
        Self {
            program: Program::new(
                ProgramKind::Northbound,
                parts.executable,
                parts.apart,
                Limits::default(),
                RestartPolicy::of_kernel(),
                outbox,
            ),
            meter: Meter::new(Limits::none(), Vec::new()),
            sandbox: parts.sandbox,
            own_uid: parts.own_uid,
            interface: parts.interface,
            answers: AnswerProgress::new(rules.hang),
            leak: LeakDetector::new(rules.leak_growth, rules.leak_window),
            failed: false,
        }
    }

    /// Schedules the first start.
    pub fn request_start(&mut self, now: Instant) {
        self.program.request_start(now);
    }

    /// When [`advance`](Self::advance) is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.program.next_due()
    }

    /// Starts the process if that is due.
    pub fn advance(&mut self, system: &dyn System, now: Instant) {
        if self.program.advance(system, now) {
            self.start(now);
        }
    }

    fn start(&mut self, now: Instant) {
        self.failed = false;
        self.meter.restart();
        self.answers.restart();
        self.leak.restart();
        self.program.start(now);
        match self.interface.start(self.sandbox) {
            Ok((request, attached)) => self.program.send_with(request, attached),
            Err(why) => self.program.kill(&format!("it got no sockets: {why}")),
        }
    }

    /// Its program's number.
    pub fn id(&self) -> ProgramId {
        self.program.id()
    }

    /// Handles what happened to its process. Returns whether it became ready.
    pub fn handle(&mut self, event: ProcessEvent, now: Instant) -> bool {
        match self.program.take(event, now) {
            None | Some(News::Started | News::NotStarted | News::Ended(..)) => {}
            Some(News::Received(reply, fds)) => {
                if let Reply::Northbound(reply) = *reply {
                    return self.received(reply, fds, now);
                }
            }
        }
        false
    }

    /// Handles a message of it. Returns whether it became ready.
    fn received(&mut self, reply: NorthboundReply, fds: Vec<OwnedFd>, now: Instant) -> bool {
        if self.failed {
            self.program.kill("it sent a message after it had failed");
            return false;
        }
        match reply {
            NorthboundReply::Confined { report } => self.program.confined(report, fds),
            NorthboundReply::Ready => {
                if self.program.mark_ready(now) {
                    self.send_credentials(); // they may have changed since its start
                    let api = self.interface.api();
                    let api = api.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                    let api = if api.is_empty() { "none" } else { &api };
                    info!(api, "the HTTP interface was ready");
                    return true;
                }
            }
            NorthboundReply::Pong { number } => {
                if !self.answers.answered(number) {
                    self.program.kill("it answered a question that it was not asked");
                }
            }
            NorthboundReply::Used { id } => {
                debug!(id, "a one-time token was used");
                self.interface.used(&id);
            }
            NorthboundReply::Failed { why } => {
                let why = shortened(&why, 400);
                error!(service = NORTHBOUND, why, "service failed");
                self.program.incidents_mut().reported(Cause::Panic, &why);
                self.failed = true;
                self.program.mark_ending(now);
            }
        }
        false
    }

    /// Whether its process serves, so that apps can be connected.
    pub fn is_ready(&self) -> bool {
        self.program.is_running()
    }

    /// Connects an app that publishes routes, and listens for requests to apps if this is the first one.
    pub fn connect_app(&mut self, name: &str, socket: Fd) {
        if let Some((request, listener)) = self.interface.listen_for_apps() {
            self.program.send(request, vec![listener]);
        }
        self.program.send(NorthboundRequest::App { name: name.to_owned() }, vec![socket]);
    }

    /// The address at which the routes of apps are served, if they are.
    pub fn app_routes(&self) -> Option<SocketAddr> {
        self.interface.app_routes()
    }

    /// The address for a client on this machine: preferably with plain HTTP, otherwise with TLS. `None` without an address.
    pub fn api(&self) -> Option<SocketAddr> {
        local(self.interface.api())
    }

    /// Tells its process by what users are recognised now.
    pub fn send_credentials(&mut self) {
        // A process that is starting receives them once it is ready.
        if self.program.is_running() {
            self.program.send(self.interface.credentials(), Vec::new());
        }
    }

    /// Measures the process, and kills it if it leaks or hangs.
    pub fn measure(&mut self, system: &dyn System, now: Instant) {
        let program = self.program.id();
        let sample = system.sample(program);
        self.meter.measure(now, sample);
        if !self.program.is_running() {
            return self.answers.restart();
        }
        if let Some(leak) = sample.and_then(|sample| self.leak.measure(now, sample.own_memory)) {
            return self.program.kill_for_leak(&leak.to_string());
        }
        match self.answers.check(|| system.main_thread(program)) {
            Check::Ask(number) => self.program.send(NorthboundRequest::Ping { number }, Vec::new()),
            Check::Wait => {}
            Check::Hung(silent) => self.program.kill_for_own_failure(&silent.to_string()),
        }
    }

    /// Its status for operators.
    pub fn status(&self) -> ServiceStatus {
        let lifecycle = self.program.lifecycle();
        ServiceStatus {
            name: NORTHBOUND.into(),
            pid: self.program.pid(),
            uid: self.sandbox.and_then(|it| it.run_as).unwrap_or(self.own_uid),
            state: lifecycle.state(),
            restarts: lifecycle.restarts(),
            last_exit: lifecycle.last_exit().map(Into::into),
        }
    }

    /// Its program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its measurements.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Its usage for operators.
    pub fn usage(&self) -> ProgramUsage {
        let lifecycle = self.program.lifecycle();
        let usage = report::program_usage(NORTHBOUND, "service", lifecycle.state(), &self.meter);
        ProgramUsage { pid: self.program.pid(), restarts: lifecycle.restarts(), ..usage }
    }

    /// Asks the process to end, if it runs, and starts it again at once.
    pub fn restart(&mut self, now: Instant) {
        if self.program.request_restart(now) {
            self.program.send(NorthboundRequest::Stop, Vec::new());
        }
    }

    /// Asks the process to end, if it runs.
    pub fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(NorthboundRequest::Stop, Vec::new());
        }
    }

    /// Its program, to kill it or to give it up.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Whether its process has ended and none is to be started.
    pub fn is_stopped(&self) -> bool {
        self.program.is_stopped()
    }
}

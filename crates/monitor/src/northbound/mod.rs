//! Runs the HTTP interface, `rosemary-northbound`: binds its sockets, starts its process, and receives its requests.
//!
//! The monitor binds the addresses once and passes the descriptors to each process, so clients that connect while the process
//! restarts wait instead of being refused. The process is supervised like a service and never held: without it the network
//! works, and nothing waits for it. Its requests arrive on an admin channel of its own, and the event loop answers them like
//! those of an operator.

pub(crate) mod listeners;
pub(crate) mod tokens;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use config::{Limits, Require, RestartPolicy, Supervision};
use control::northbound::{
    Credentials, ListenerRole, NorthboundReply, NorthboundRequest, NorthboundSettings, TokenRecord,
    needs_tls,
};
use control::operator::{OperatorReply, OperatorRequest, ProgramUsage, ServiceStatus};
use control::service::ServiceSandbox;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use supervisor::system::System;
use sys::channel::{Channel, ChannelError};
use sys::process::PidNamespace;
use tracing::{debug, error, info, warn};

use self::listeners::Listeners;
use self::tokens::Tokens;
use crate::error::StartError;
use crate::keys::{SealedKeys, UserKeys};
use crate::process_table::Environment;
use crate::processes::duplicates;
use control::incident::Cause;
use supervisor::effects::{Fd, ProcessEvent, ProgramId, Reply};
use supervisor::hang::answers::{AnswerProgress, Check};
use supervisor::program::{News, Program, ProgramKind};
use supervisor::text::shortened;
use supervisor::usage::leak::LeakDetector;
use supervisor::usage::meter::Meter;
use supervisor::usage::report;

pub(crate) use supervisor::program::NORTHBOUND as NAME;

/// The parameters of each start.
#[derive(Debug)]
pub(crate) struct NorthboundInput {
    /// Its listening sockets.
    pub(crate) listeners: Listeners,
    /// The operator's settings.
    pub(crate) settings: NorthboundSettings,
    /// By what users are recognised.
    pub(crate) tokens: Tokens,
    /// Where the routes of apps are served once an app has some, and whether the operator chose that.
    pub(crate) app_routes: (SocketAddr, bool),
    /// The keys for TLS, if it listens where other machines can reach it.
    pub(crate) keys: Option<UserKeys>,
}

/// A user in the list of revoked users.
#[derive(Debug, Default)]
pub(crate) struct Revocation {
    /// The directory of the list; `None` without keys.
    pub(crate) dir: Option<PathBuf>,
    /// Before the list was read again: the time before which refused certificates begin.
    pub(crate) earlier: Option<u64>,
    /// The same now.
    pub(crate) before: Option<u64>,
}

/// The HTTP interface.
#[derive(Debug)]
pub(crate) struct Northbound {
    program: Program,
    meter: Meter,
    /// How complete its sandbox must be; `None` to run without a sandbox.
    require: Option<Require>,
    run_as: Option<u32>,
    input: NorthboundInput,
    /// The monitor's end of the admin channel of the process that runs.
    requests: Option<Channel>,
    answers: AnswerProgress,
    leak: LeakDetector,
    /// Whether the process has reported that it failed. It must send nothing after that.
    failed: bool,
}

impl Northbound {
    /// Describes the process without starting it.
    ///
    /// # Errors
    /// The program is missing.
    pub(crate) fn new(
        input: NorthboundInput,
        rules: &Supervision,
        around: &Environment,
    ) -> Result<Self, StartError> {
        let require = around.require;
        let apart = if require.is_some() { PidNamespace::find() } else { PidNamespace::No };
        Ok(Self {
            program: Program::new(
                ProgramKind::Northbound,
                around.installation.northbound()?,
                apart,
                Limits::default(),
                RestartPolicy::of_kernel(),
                (around.effects.clone(), around.incidents.clone()),
            ),
            meter: Meter::new(Limits::none(), Vec::new()),
            require,
            run_as: around.users.for_northbound().filter(|_| require.is_some()),
            input,
            requests: None,
            answers: AnswerProgress::new(rules.hang),
            leak: LeakDetector::new(rules.leak_growth, rules.leak_window),
            failed: false,
        })
    }

    /// Schedules the first start.
    pub(crate) fn request_start(&mut self, now: Instant) {
        self.program.request_start(now);
    }

    /// Its admin channel, while its process runs.
    pub(crate) fn requests(&self) -> Option<BorrowedFd<'_>> {
        self.requests.as_ref().map(AsFd::as_fd)
    }

    /// When [`advance`](Self::advance) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.program.next_due()
    }

    /// Starts the process if that is due.
    pub(crate) fn advance(&mut self, system: &dyn System, now: Instant) {
        if self.program.advance(system, now) {
            self.start(now);
        }
    }

    fn start(&mut self, now: Instant) {
        self.failed = false;
        self.requests = None;
        self.meter.restart();
        self.answers.restart();
        self.leak.restart();
        self.program.start(now);
        let (ours, theirs) = match Channel::passing_pair() {
            Ok(pair) => pair,
            Err(error) => return self.program.kill(&format!("it got no admin channel: {error}")),
        };
        let sandbox = self
            .require
            .map(|require| ServiceSandbox { run_as: self.run_as, full: require == Require::Full });
        self.input.listeners.renew();
        let NorthboundInput { listeners, settings, keys, .. } = &self.input;
        let diag = diag_socket();
        let sealed = keys.iter().map(|it| &it.keys).flat_map(SealedKeys::fds);
        let passed = duplicates(listeners.fds()).and_then(|it| Ok((it, duplicates(sealed)?)));
        let (mut fds, sealed) = match passed {
            Ok(passed) => passed,
            Err(error) => return self.program.kill(&format!("it got no sockets: {error}")),
        };
        let request = NorthboundRequest::Start {
            sandbox,
            listeners: listeners.described(),
            settings: settings.clone(),
            credentials: self.credentials(),
            peers: diag.is_some(),
            keys: keys.is_some(),
        };
        fds.push(Fd::new(theirs.into_fd()));
        fds.extend(diag.map(Fd::new));
        fds.extend(sealed);
        self.program.send(request, fds);
        self.requests = Some(ours);
    }

    /// Its program's number.
    pub(crate) fn id(&self) -> ProgramId {
        self.program.id()
    }

    /// Handles what happened to its process. Returns whether it became ready.
    pub(crate) fn handle(&mut self, event: ProcessEvent, now: Instant) -> bool {
        match self.program.take(event, now) {
            None | Some(News::Started) => {}
            Some(News::NotStarted | News::Ended(..)) => self.requests = None,
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
                    let api = self.input.listeners.api().map(|it| it.to_string());
                    let api = api.collect::<Vec<_>>().join(" ");
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
                self.input.tokens.used(&id);
            }
            NorthboundReply::Failed { why } => {
                let why = shortened(&why, 400);
                error!(service = NAME, why, "service failed");
                self.program.incidents_mut().reported(Cause::Panic, &why);
                self.failed = true;
                self.program.mark_ending(now);
            }
        }
        false
    }

    /// Whether its process serves, so that apps can be connected.
    pub(crate) fn is_ready(&self) -> bool {
        self.program.is_running()
    }

    /// Connects an app that publishes routes, and listens for requests to apps if this is the first one.
    pub(crate) fn connect_app(&mut self, name: &str, socket: Fd) {
        self.listen_for_apps();
        self.program.send(NorthboundRequest::App { name: name.to_owned() }, vec![socket]);
    }

    /// Listens for requests to the routes of apps, unless it does already.
    fn listen_for_apps(&mut self) {
        let (address, _) = self.input.app_routes;
        if self.app_routes().is_some() {
            return;
        }
        // While Rosemary runs, a taken address is no reason to end it, even if the operator chose it.
        let added = self.input.listeners.add(ListenerRole::Apps, (address, false), false);
        if added.is_ok()
            && let Some((listener, fd)) = self.input.listeners.find(ListenerRole::Apps)
        {
            match duplicates([fd].into_iter()) {
                Ok(fds) => self.program.send(NorthboundRequest::Listen(listener), fds),
                Err(error) => {
                    self.input.listeners.remove(ListenerRole::Apps);
                    let hint = "restart the app once fewer descriptors are open";
                    warn!(%error, hint, "could not listen for requests to apps");
                }
            }
        }
    }

    /// The address at which the routes of apps are served, if they are.
    pub(crate) fn app_routes(&self) -> Option<SocketAddr> {
        self.input.listeners.address(ListenerRole::Apps)
    }

    /// The address for a client on this machine, if it has one: one with plain HTTP, otherwise one with TLS.
    pub(crate) fn api(&self) -> Option<SocketAddr> {
        self.input.listeners.api().min_by_key(|address| needs_tls(*address))
    }

    /// The tokens that the operator made.
    pub(crate) fn tokens(&self) -> Vec<TokenRecord> {
        self.input.tokens.list()
    }

    /// Adds a token, which is valid at once.
    ///
    /// # Errors
    /// Why it is not added, as a phrase.
    pub(crate) fn add_token(&mut self, token: TokenRecord) -> Result<(), String> {
        self.input.tokens.add(token)?;
        self.send_credentials();
        Ok(())
    }

    /// Revokes tokens, which are invalid at once. Returns them.
    ///
    /// # Errors
    /// Why none is revoked, as a phrase.
    pub(crate) fn revoke_token(&mut self, which: &str) -> Result<Vec<TokenRecord>, String> {
        let revoked = self.input.tokens.revoke(which)?;
        self.send_credentials();
        Ok(revoked)
    }

    /// Reads the list of revoked users again, which takes effect at once. Returns its entry of the user `name`.
    ///
    /// # Errors
    /// The list cannot be read, or is damaged. The earlier one stays in effect.
    pub(crate) fn revoke_user(&mut self, name: &str) -> Result<Revocation, StartError> {
        let Some(keys) = &mut self.input.keys else { return Ok(Revocation::default()) };
        let known =
            |keys: &UserKeys| keys.revoked.iter().find(|it| it.name == name).map(|it| it.before);
        let earlier = known(keys);
        keys.read_revoked()?;
        let (dir, before) = (keys.dir.clone(), known(keys));
        self.send_credentials();
        Ok(Revocation { dir: Some(dir), earlier, before })
    }

    /// By what users are recognised now.
    fn credentials(&self) -> Credentials {
        let NorthboundInput { tokens, keys, .. } = &self.input;
        let revoked = keys.as_ref().map(|it| it.revoked.clone()).unwrap_or_default();
        Credentials { revoked, ..tokens.credentials().clone() }
    }

    fn send_credentials(&mut self) {
        // A process that is starting receives them once it is ready.
        if self.program.is_running() {
            let credentials = self.credentials();
            self.program.send(NorthboundRequest::Credentials(credentials), Vec::new());
        }
    }

    /// Receives a request on the admin channel, with its descriptors.
    pub(crate) fn receive_request(&mut self) -> Option<(OperatorRequest, Vec<OwnedFd>)> {
        match self.requests.as_ref()?.receive_immediate::<OperatorRequest>() {
            Ok(received) => Some(received),
            Err(ChannelError::WouldBlock) => None,
            Err(ChannelError::Closed) => {
                self.requests = None; // it ends
                None
            }
            Err(error) => {
                self.requests = None;
                self.program.kill(&format!("it broke the protocol of its admin channel: {error}"));
                None
            }
        }
    }

    /// Answers a request of the admin channel.
    pub(crate) fn reply(&mut self, reply: &OperatorReply, fds: &[BorrowedFd<'_>]) {
        let Some(requests) = &self.requests else { return };
        if let Err(error) = requests.send(reply, fds) {
            self.requests = None;
            self.program.kill(&format!("it does not read its admin channel: {error}"));
        }
    }

    /// Measures the process, and kills it if it leaks or hangs.
    pub(crate) fn measure(&mut self, system: &dyn System, now: Instant) {
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
    pub(crate) fn status(&self) -> ServiceStatus {
        let lifecycle = self.program.lifecycle();
        ServiceStatus {
            name: NAME.into(),
            pid: self.program.pid(),
            uid: self.run_as.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            state: lifecycle.state(),
            restarts: lifecycle.restarts(),
            last_exit: lifecycle.last_exit().map(Into::into),
        }
    }

    /// Its usage for operators.
    pub(crate) fn usage(&self) -> ProgramUsage {
        let lifecycle = self.program.lifecycle();
        let usage = report::program_usage(NAME, "service", lifecycle.state(), &self.meter);
        ProgramUsage { pid: self.program.pid(), restarts: lifecycle.restarts(), ..usage }
    }

    /// Asks the process to end, if it runs, and starts it again at once.
    pub(crate) fn restart(&mut self, now: Instant) {
        if self.program.request_restart(now) {
            self.program.send(NorthboundRequest::Stop, Vec::new());
        }
    }

    /// Asks the process to end, if it runs.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(NorthboundRequest::Stop, Vec::new());
        }
    }

    /// Its program, to kill it or to give it up.
    pub(crate) fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Whether its process has ended and none is to be started.
    pub(crate) fn is_stopped(&self) -> bool {
        self.program.is_stopped()
    }
}

/// Makes a socket that reports the users of local TCP connections (`sock_diag(7)`). It belongs to the monitor's network, which the
/// process itself leaves.
fn diag_socket() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG));
    let hint = "clients on this machine without a token can only read";
    socket
        .inspect_err(|error| {
            warn!(%error, hint, "could not ask the system for the users of local connections");
        })
        .ok()
}

//! Runs a service: confine the process, open the state, then serve in turns.
//!
//! A turn receives a few requests of each ready client, executes them together, and replies. The
//! process has one thread and one poll(2) call, and waits for nothing else except the disk.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::channel::{Channel, ChannelError};
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Limits, Sandbox};
use thiserror::Error;
use tracing::{info, warn};

use crate::disk::DiskError;
use control::clients::{ClientId, ClientRequest, Clients};
use control::service::{OvsdbStart, ServiceQuotas, ServiceReply, ServiceRequest, ServiceSandbox};

/// Maximum number of messages from the monitor per turn.
const MESSAGES_PER_TURN: usize = 64;

/// Why a service could not open its state.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Its file cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It stores its state in a file but received none.
    #[error("the monitor passed no file")]
    NoFile,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A service program.
pub trait Service: Sized {
    /// Name of the service.
    const NAME: &'static str;

    /// Maximum number of requests per turn; further ones wait until these are done.
    const PER_TURN: usize = 128;

    /// Returns its privileges beyond its clients' sockets.
    fn needs(startup: &Startup) -> Needs;

    /// Opens its state with what the monitor has passed. The process is already confined.
    ///
    /// # Errors
    /// Why it cannot serve.
    fn open(startup: Startup) -> Result<Self, OpenError>;

    /// Executes these requests in order and replies; replies may also follow later. `asked` is
    /// empty if [`wake_fd`](Self::wake_fd) or [`wake_at`](Self::wake_at) caused the turn.
    fn serve(&mut self, asked: Vec<ClientRequest>, clients: &mut Clients);

    /// The monitor has sent the names of the apps that use the service.
    fn set_apps(&mut self, names: Vec<String>) {
        let _ = names;
    }

    /// Returns the descriptor that becomes readable when the service has work of its own.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the time of its next work, if nothing happens before.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// Returns why the disk does not take what clients write, as a phrase with a remedy; `None` if it does.
    fn disk_failure(&self) -> Option<String> {
        None
    }

    /// Returns why the process must end, if it must.
    fn must_end(&mut self) -> Option<ServiceError> {
        None
    }

    /// A client has disconnected.
    fn disconnected(&mut self, client: ClientId) {
        let _ = client;
    }
}

/// The descriptors and settings that the monitor passes to a service at its start.
#[derive(Debug, Default)]
pub struct Startup {
    /// The descriptors: the state file, or the keys for TLS.
    pub fds: Vec<OwnedFd>,
    /// The bounds of its state.
    pub quotas: ServiceQuotas,
    /// The databases of switches, for the service that uses them.
    pub ovsdb: Option<OvsdbStart>,
}

impl Startup {
    /// Takes the state file.
    ///
    /// # Errors
    /// [`OpenError::NoFile`].
    pub fn take_file(&mut self) -> Result<OwnedFd, OpenError> {
        self.fds.pop().ok_or(OpenError::NoFile)
    }
}

/// Privileges of a service.
#[derive(Debug)]
pub struct Needs {
    /// Its list of system calls.
    pub profile: Profile,
    /// Whether it may use the machine's network.
    pub network: bool,
    /// Files that it may read, where they exist.
    pub read: Vec<PathBuf>,
    /// Limits for setrlimit(2).
    pub limits: Limits,
}

/// Why a service ends on its own.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The connection to the monitor failed.
    #[error("the monitor: {0}; services are started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// The monitor sent an unexpected message.
    #[error("unexpected message from the monitor: {0}")]
    OutOfOrder(&'static str),
    /// Dropping privileges failed.
    #[error("could not drop privileges: {0}")]
    Confine(io::Error),
    /// Parts of the sandbox are missing, and the operator requires all of them.
    #[error("the sandbox has gaps, and zones.require is \"full\": {0}")]
    Gaps(String),
    /// Its state could not be opened, or turned out to be damaged.
    #[error("could not open the state: {0}")]
    Open(OpenError),
    /// It cannot serve any more, for this reason.
    #[error("{0}")]
    Stuck(&'static str),
}

/// The `main` function of the service `S`.
pub fn main<S: Service>() -> ExitCode {
    let what_it_is = "is a service of Rosemary; `rosemary up` starts it, do not start it yourself";
    sys::program::run(S::NAME, what_it_is, sys::log::to_stderr, |monitor| run::<S>(&monitor))
}

/// Runs the service until the monitor stops it; reports any other reason for ending to the monitor.
///
/// # Errors
/// [`ServiceError`]: the process must end.
pub fn run<S: Service>(monitor: &Channel) -> Result<(), ServiceError> {
    let result =
        start::<S>(monitor).and_then(|mut service| serve_until_stopped(&mut service, monitor));
    if let Err(error) = &result {
        let answer = match error {
            ServiceError::Open(OpenError::Disk(error @ DiskError::Damaged(_))) => {
                ServiceReply::Unfit { why: error.to_string() }
            }
            error => ServiceReply::Failed { why: error.to_string() },
        };
        // If the monitor has ended, this fails; otherwise the monitor also sees the exit.
        let _ = monitor.send(&answer, &[]);
    }
    result
}

fn start<S: Service>(monitor: &Channel) -> Result<S, ServiceError> {
    let (request, fds) = monitor.wait()?;
    let ServiceRequest::Start { sandbox, quotas, ovsdb } = request else {
        return Err(ServiceError::OutOfOrder("another message before Start"));
    };
    let startup = Startup { fds, quotas, ovsdb };
    if let Some(sandbox) = sandbox {
        confine(monitor, &startup.fds, sandbox, S::needs(&startup))?;
    }
    let service = S::open(startup).map_err(ServiceError::Open)?;
    monitor.send(&ServiceReply::Ready, &[])?;
    info!(service = S::NAME, "service was ready");
    Ok(service)
}

fn confine(
    monitor: &Channel,
    fds: &[OwnedFd],
    required: ServiceSandbox,
    needs: Needs,
) -> Result<(), ServiceError> {
    let keep: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let read: Vec<PathBuf> = needs.read.into_iter().filter(|path| path.exists()).collect();
    let sandbox = Sandbox {
        run_as: required.run_as,
        keep: &keep,
        read: &read,
        network: needs.network,
        ..Sandbox::new(needs.profile, monitor.as_fd(), needs.limits)
    };
    let confined = sandbox.confine().map_err(ServiceError::Confine)?;
    // The report goes to the monitor in any case, so that it can log what is missing.
    let gaps = confined.report.gaps_text().filter(|_| required.full);
    let listener = confined.listener.as_ref().map(OwnedFd::as_fd);
    let reply = ServiceReply::Confined { report: confined.report };
    confined.outlet.send(&reply, listener.as_slice())?;
    gaps.map_or(Ok(()), |gaps| Err(ServiceError::Gaps(gaps)))
}

fn serve_until_stopped<S: Service>(service: &mut S, monitor: &Channel) -> Result<(), ServiceError> {
    let mut clients = Clients::default();
    let mut reported = None;
    loop {
        let ready = wait(service, monitor, &clients);
        if !handle_monitor(monitor, service, &mut clients)? {
            return Ok(());
        }
        serve_ready(service, &mut clients, ready);
        if let Some(why) = service.must_end() {
            return Err(why);
        }
        report_disk(service, monitor, &mut reported)?;
    }
}

/// Reports to the monitor that the disk fails, or works again, if that has changed since it was `reported`.
fn report_disk<S: Service>(
    service: &S,
    monitor: &Channel,
    reported: &mut Option<String>,
) -> Result<(), ServiceError> {
    let failure = service.disk_failure();
    if failure == *reported {
        return Ok(());
    }
    match monitor.send(&ServiceReply::Disk { failure: failure.clone() }, &[]) {
        Ok(()) => *reported = failure,
        Err(ChannelError::WouldBlock) => {} // the next turn reports it
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Serves the clients that are `ready`.
fn serve_ready<S: Service>(service: &mut S, clients: &mut Clients, ready: Vec<ClientId>) {
    let mut asked = Vec::new();
    clients.receive_requests(ready, S::PER_TURN, &mut asked);
    service.serve(asked, clients);
    clients.log_suppressed(Instant::now());
    for client in clients.take_disconnected() {
        service.disconnected(client);
    }
}

/// Polls until there is work; returns the ready clients.
fn wait<S: Service>(service: &S, monitor: &Channel, clients: &Clients) -> Vec<ClientId> {
    let mut fds = vec![PollFd::new(monitor, PollFlags::IN)];
    fds.extend(service.wake_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let others = fds.len();
    let mut ids = Vec::new();
    for (id, fd) in clients.fds() {
        ids.push(id);
        fds.push(fd);
    }
    let wake_at = service.wake_at().into_iter().chain(clients.wake_at()).min();
    let timeout = wake_at.map(|at| {
        // Rounded up: otherwise the loop would spin through the last millisecond.
        let time = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        time.try_into().unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 })
    });
    let _ = poll(&mut fds, timeout.as_ref()); // if interrupted, the next turn polls again
    let ready = ids.into_iter().zip(fds.iter().skip(others));
    ready.filter(|(_, fd)| !fd.revents().is_empty()).map(|(id, _)| id).collect()
}

/// Handles messages from the monitor, a bounded number per turn; returns `false` for stop.
fn handle_monitor<S: Service>(
    monitor: &Channel,
    service: &mut S,
    clients: &mut Clients,
) -> Result<bool, ServiceError> {
    for _ in 0..MESSAGES_PER_TURN {
        match monitor.receive() {
            Ok((ServiceRequest::Stop, _)) => return Ok(false),
            Ok((ServiceRequest::Apps { names }, _)) => service.set_apps(names),
            Ok((ServiceRequest::Client(client), fds)) => {
                let socket = fds.into_iter().next();
                let socket = socket.ok_or(ServiceError::OutOfOrder("Client without a socket"))?;
                clients.add(client, socket);
            }
            // A monitor whose socket is full has answers enough.
            Ok((ServiceRequest::Ping { number }, _)) => {
                match monitor.send(&ServiceReply::Pong { number }, &[]) {
                    Ok(()) | Err(ChannelError::WouldBlock) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok((ServiceRequest::Start { .. }, _)) => {
                return Err(ServiceError::OutOfOrder("Start twice"));
            }
            Err(ChannelError::WouldBlock) => return Ok(true),
            // The number of clients is bounded, so other descriptors used up the limit. Reject only
            // this client.
            Err(ChannelError::OutOfDescriptors(_)) => {
                warn!("rejected a client: the process has no descriptors left");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;

//! A service's life: confine, open, then turn after turn.
//!
//! A turn takes requests of all who have asked, a few of each, does them together, and answers. One
//! thread, one poll(2); nothing here waits for anybody but that and the disk.

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

use crate::clients::{Asked, ClientId, Clients};
use crate::control::{Answer, Quotas, Request, Wall};
use crate::disk::DiskError;

/// Messages of the monitor in one turn.
const MESSAGES_PER_TURN: usize = 64;

/// Why a service could not open its state.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Its file cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It keeps its state in a file and was given none.
    #[error("it was given no file")]
    NoFile,
    /// The system refused something.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// What a program is that serves.
pub trait Service: Sized {
    /// Its name.
    const NAME: &'static str;

    /// Requests that it serves in one turn: it looks at the next ones when these are done.
    const PER_TURN: usize = 128;

    /// What it may do beyond its clients' sockets.
    fn needs() -> Needs;

    /// Opens its state, which is in `file` if it was given one, of which it keeps as much as `quotas` say.
    /// It is confined already.
    ///
    /// # Errors
    /// Why it cannot serve.
    fn open(file: Option<OwnedFd>, quotas: Quotas) -> Result<Self, OpenError>;

    /// Does what was asked, in this order, and answers; not all answers need be given now. `asked`
    /// is empty when its [`bell`](Self::bell) has called, or its time has come.
    fn serve(&mut self, asked: Vec<Asked>, clients: &mut Clients);

    /// What becomes readable when it has something to do by itself.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When it has something to do at the latest, if nothing happens before.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// A client is gone.
    fn gone(&mut self, client: ClientId) {
        let _ = client;
    }
}

/// What a service needs of the system.
#[derive(Debug)]
pub struct Needs {
    /// Its list of system calls.
    pub profile: Profile,
    /// The machine's network.
    pub network: bool,
    /// Files that it reads, those of them that are there.
    pub read: Vec<PathBuf>,
    /// What setrlimit(2) is told.
    pub limits: Limits,
}

/// Why a service ends by itself.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The monitor is gone, or does not say what it should.
    #[error("the monitor: {0}; services are started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// The monitor said something out of order.
    #[error("the monitor said {0}")]
    OutOfOrder(&'static str),
    /// Privileges could not be given up.
    #[error("could not give up its privileges: {0}")]
    Confine(io::Error),
    /// Parts of the wall are missing, and the operator wants them all.
    #[error("the wall has gaps, and zones.require is \"full\": {0}")]
    Gaps(String),
    /// Its state could not be opened.
    #[error("could not open its state: {0}")]
    Open(OpenError),
}

/// The whole program of the service `S`.
pub fn main<S: Service>() -> ExitCode {
    let what_it_is = "is a service of Rosemary; `rosemary up` starts it, not you";
    sys::program::run(S::NAME, what_it_is, sys::log::to_stderr, |monitor| run::<S>(&monitor))
}

/// Runs the service until the monitor says stop; the monitor is told why it ends otherwise.
///
/// # Errors
/// [`ServiceError`]: the process is to end.
pub fn run<S: Service>(monitor: &Channel) -> Result<(), ServiceError> {
    let result = start::<S>(monitor).and_then(|mut service| live(&mut service, monitor));
    if let Err(error) = &result {
        let answer = match error {
            ServiceError::Open(OpenError::Disk(error @ DiskError::Damaged(_))) => {
                Answer::Unfit { why: error.to_string() }
            }
            error => Answer::Failed { why: error.to_string() },
        };
        // The monitor may be what is gone; it sees our exit in any case.
        let _ = monitor.send(&answer, &[]);
    }
    result
}

fn start<S: Service>(monitor: &Channel) -> Result<S, ServiceError> {
    let (request, fds) = monitor.wait()?;
    let Request::Start { wall, quotas } = request else {
        return Err(ServiceError::OutOfOrder("something else than Start first"));
    };
    if let Some(wall) = wall {
        confine(monitor, &fds, wall, S::needs())?;
    }
    let service = S::open(fds.into_iter().next(), quotas).map_err(ServiceError::Open)?;
    monitor.send(&Answer::Ready, &[])?;
    info!(service = S::NAME, "service was ready");
    Ok(service)
}

fn confine(
    monitor: &Channel,
    fds: &[OwnedFd],
    wall: Wall,
    needs: Needs,
) -> Result<(), ServiceError> {
    let keep: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let read: Vec<PathBuf> = needs.read.into_iter().filter(|path| path.exists()).collect();
    let sandbox = Sandbox {
        run_as: wall.run_as,
        keep: &keep,
        read: &read,
        network: needs.network,
        ..Sandbox::new(needs.profile, monitor.as_fd(), needs.limits)
    };
    let confined = sandbox.confine().map_err(ServiceError::Confine)?;
    let gaps = confined.report.gaps_text().filter(|_| wall.full);
    let listener = confined.listener.as_ref().map(OwnedFd::as_fd);
    monitor.send(&Answer::Confined { report: confined.report }, listener.as_slice())?;
    gaps.map_or(Ok(()), |gaps| Err(ServiceError::Gaps(gaps)))
}

fn live<S: Service>(service: &mut S, monitor: &Channel) -> Result<(), ServiceError> {
    let mut clients = Clients::default();
    loop {
        let ready = wait(service, monitor, &clients);
        if !obey(monitor, &mut clients)? {
            return Ok(());
        }
        turn(service, &mut clients, ready);
    }
}

/// Serves the clients that are `ready`.
fn turn<S: Service>(service: &mut S, clients: &mut Clients, ready: Vec<ClientId>) {
    let mut asked = Vec::new();
    clients.receive_requests(ready, S::PER_TURN, &mut asked);
    service.serve(asked, clients);
    clients.tell_left_out(Instant::now());
    for client in clients.take_gone() {
        service.gone(client);
    }
}

/// Sleeps until there is something to do; the clients that have something.
fn wait<S: Service>(service: &S, monitor: &Channel, clients: &Clients) -> Vec<ClientId> {
    let mut fds = vec![PollFd::new(monitor, PollFlags::IN)];
    fds.extend(service.bell().map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN)));
    let others = fds.len();
    let mut ids = Vec::new();
    for (id, fd) in clients.fds() {
        ids.push(id);
        fds.push(fd);
    }
    let wake_at = service.wake_at().into_iter().chain(clients.wake_at()).min();
    let timeout = wake_at.map(|at| {
        // Rounded up, or the loop would spin through the last millisecond.
        let time = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        time.try_into().unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 })
    });
    let _ = poll(&mut fds, timeout.as_ref()); // interrupted: look again
    let ready = ids.into_iter().zip(fds.iter().skip(others));
    ready.filter(|(_, fd)| !fd.revents().is_empty()).map(|(id, _)| id).collect()
}

/// Does what the monitor asks, some of it in each turn. `false` when that is to stop.
fn obey(monitor: &Channel, clients: &mut Clients) -> Result<bool, ServiceError> {
    for _ in 0..MESSAGES_PER_TURN {
        match monitor.receive() {
            Ok((Request::Stop, _)) => return Ok(false),
            Ok((Request::Client(client), fds)) => {
                let socket = fds.into_iter().next();
                let socket = socket.ok_or(ServiceError::OutOfOrder("Client without a socket"))?;
                clients.add(client, socket);
            }
            Ok((Request::Start { .. }, _)) => return Err(ServiceError::OutOfOrder("Start twice")),
            Err(ChannelError::WouldBlock) => return Ok(true),
            // The number of clients is bounded, so these descriptors are somebody else's doing.
            Err(ChannelError::OutOfDescriptors(_)) => {
                warn!("a client was refused: this process may open no more descriptors");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;

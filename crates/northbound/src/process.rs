//! The process: its start, its control socket, its end.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram as StdUnixDatagram, UnixListener as StdUnixListener};
use std::sync::Arc;
use std::time::Duration;

use control::northbound::{
    ListenerRole, NorthboundListener, NorthboundReply, NorthboundRequest, needs_tls,
};
use keys::{Keys, KeysError};
use sys::channel::{Channel, ChannelError};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::{TcpListener, UnixDatagram, UnixListener};
use tokio::sync::mpsc;
use tracing::info;
use view::client::Monitor;

use crate::accept::{Connections, serve_tcp, serve_unix};
use crate::auth::peer::Peers;
use crate::state::{Api, ControlOrder, Parts};
use crate::tls::{Tls, serve_tls};
use crate::{api, events, sandbox};

/// The threads that wait for other programs.
const BLOCKING_THREADS: usize = 20;

/// How long the threads have to finish when the process ends.
const END_TIME: Duration = Duration::from_millis(300);

/// Orders for the control task that may wait.
const ORDERS: usize = 64;

/// Why the process ends on its own.
#[derive(Debug, Error)]
pub enum NorthboundError {
    /// The connection to the monitor failed.
    #[error("the monitor: {0}; `rosemary up` starts this program")]
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
    /// The keys for TLS cannot be used.
    #[error("the keys for TLS: {0}")]
    Keys(#[from] KeysError),
    /// A system call failed.
    #[error("could not {0}: {1}")]
    System(&'static str, io::Error),
    /// The monitor did not answer, and a late answer would be taken for another one.
    #[error("the monitor did not answer a request in time")]
    OutOfStep,
}

/// Runs the process until the monitor stops it.
///
/// # Errors
/// [`NorthboundError`]: the process must end. The monitor received the reason.
pub fn run(monitor: Channel) -> Result<(), NorthboundError> {
    let monitor = Arc::new(monitor);
    let started = start(&monitor);
    let result = started.and_then(|(parts, sockets, orders)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .map_err(|error| NorthboundError::System("start the runtime", error))?;
        let result = runtime.block_on(serve(monitor.clone(), parts, sockets, orders));
        runtime.shutdown_timeout(END_TIME);
        result
    });
    if let Err(error) = &result {
        // If the monitor has ended, this fails; otherwise the monitor also sees the exit.
        let _ = monitor.send(&NorthboundReply::Failed { why: error.to_string() }, &[]);
    }
    result
}

/// The listening sockets, and what those with TLS need.
struct Sockets {
    listeners: Vec<(NorthboundListener, OwnedFd)>,
    tls: Option<Tls>,
}

fn start(
    monitor: &Channel,
) -> Result<(Parts, Sockets, mpsc::Receiver<ControlOrder>), NorthboundError> {
    let (request, fds) = monitor.wait()?;
    let NorthboundRequest::Start { sandbox, listeners, settings, credentials, peers, keys } =
        request
    else {
        return Err(NorthboundError::OutOfOrder("another message before Start"));
    };
    if let Some(required) = sandbox {
        sandbox::confine(monitor, &fds, required)?;
    }
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or(NorthboundError::OutOfOrder("Start without a descriptor"));
    let listeners = listeners.into_iter().map(|it| Ok((it, next()?)));
    let listeners = listeners.collect::<Result<Vec<_>, NorthboundError>>()?;
    let admin = Monitor::over(Channel::from_fd(next()?));
    let peers = if peers { Some(Peers::new(next()?)) } else { None };
    let tls = if keys {
        let keys = Keys::from_fds([next()?, next()?, next()?]);
        Some(Tls::new(&keys.map_err(|error| NorthboundError::System("read the keys", error))?)?)
    } else {
        None
    };
    let (orders, waiting) = mpsc::channel(ORDERS);
    let parts = Parts { monitor: admin, settings, credentials, peers, orders };
    Ok((parts, Sockets { listeners, tls }, waiting))
}

async fn serve(
    control: Arc<Channel>,
    parts: Parts,
    sockets: Sockets,
    mut orders: mpsc::Receiver<ControlOrder>,
) -> Result<(), NorthboundError> {
    let system = |what| move |error| NorthboundError::System(what, error);
    let api = Arc::new(Api::new(parts, api::routes()));
    let connections = Arc::new(Connections::default());
    for (listener, fd) in sockets.listeners {
        listen(&api, &connections, sockets.tls.as_ref(), (listener, fd))?;
    }
    tokio::spawn(events::poll(api.clone()));
    // The runtime only waits on this duplicate; the channel itself receives.
    let waiting = control.as_fd().try_clone_to_owned().map(StdUnixDatagram::from);
    let waiting = waiting.and_then(UnixDatagram::from_std);
    let waiting = waiting.map_err(system("use the control socket"))?;
    control.send(&NorthboundReply::Ready, &[])?;
    info!("service was ready");
    loop {
        tokio::select! {
            () = api.broken.notified() => return Err(NorthboundError::OutOfStep),
            Some(order) = orders.recv() => match order {
                ControlOrder::Send(reply) => control.send(&reply, &[])?,
                ControlOrder::CatchUp(done) => {
                    if !handle_monitor(&control, &api, &connections)? {
                        return Ok(());
                    }
                    let _ = done.send(()); // the client may have gone
                }
            },
            readable = waiting.readable() => {
                readable.map_err(system("wait for the monitor"))?;
                if !handle_monitor(&control, &api, &connections)? {
                    return Ok(());
                }
                // All messages are received: the runtime must wait for the next.
                let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                let _ = waiting.try_io(Interest::READABLE, empty);
            }
        }
    }
}

/// Begins to serve a listening socket.
fn listen(
    api: &Arc<Api>,
    connections: &Arc<Connections>,
    tls: Option<&Tls>,
    (listener, fd): (NorthboundListener, OwnedFd),
) -> Result<(), NorthboundError> {
    let system = |error| NorthboundError::System("use a listening socket", error);
    let (api, connections) = (api.clone(), connections.clone());
    match listener.role {
        ListenerRole::Api if listener.address.is_none_or(needs_tls) => {
            let missing = NorthboundError::OutOfOrder("an address for TLS without keys");
            let tls = tls.cloned().ok_or(missing)?;
            let listener = TcpListener::from_std(StdTcpListener::from(fd)).map_err(system)?;
            tokio::spawn(serve_tls(api, listener, connections, tls));
        }
        role @ (ListenerRole::Api
        | ListenerRole::Metrics
        | ListenerRole::Ofctl
        | ListenerRole::Apps) => {
            let listener = TcpListener::from_std(StdTcpListener::from(fd)).map_err(system)?;
            tokio::spawn(serve_tcp(api, role, listener, connections));
        }
        ListenerRole::Unix => {
            let listener = UnixListener::from_std(StdUnixListener::from(fd)).map_err(system)?;
            tokio::spawn(serve_unix(api, listener, connections));
        }
    }
    Ok(())
}

/// Handles the monitor's messages. Returns `false` for stop.
fn handle_monitor(
    monitor: &Channel,
    api: &Arc<Api>,
    connections: &Arc<Connections>,
) -> Result<bool, NorthboundError> {
    let one = |fds: Vec<OwnedFd>| {
        fds.into_iter().next().ok_or(NorthboundError::OutOfOrder("a message without a descriptor"))
    };
    loop {
        match monitor.receive() {
            Ok((NorthboundRequest::Stop, _)) => return Ok(false),
            Ok((NorthboundRequest::Credentials(new), _)) => api.set_credentials(new),
            Ok((NorthboundRequest::Listen(listener), fds)) => {
                // Only sockets for the routes of apps come later.
                listen(api, connections, None, (listener, one(fds)?))?;
            }
            Ok((NorthboundRequest::App { name }, fds)) => {
                api.app_routes.connect(name, one(fds)?);
            }
            // A monitor whose socket is full has answers enough.
            Ok((NorthboundRequest::Ping { number }, _)) => {
                match monitor.send(&NorthboundReply::Pong { number }, &[]) {
                    Ok(()) | Err(ChannelError::WouldBlock) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok((NorthboundRequest::Start { .. }, _)) => {
                return Err(NorthboundError::OutOfOrder("Start twice"));
            }
            Err(ChannelError::WouldBlock) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

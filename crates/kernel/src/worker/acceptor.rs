//! Accepts connections and chooses the worker that serves each. Only worker 0 has listeners.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use dal::{Driver, Timing};
use rustix::event::epoll::{self, EventData, EventFlags};
use tracing::{debug, warn};

use super::LISTENER;
use super::log_limits::LogLimits;
use crate::connection::Connection;
use crate::ids::WorkerId;
use crate::pool::WorkerPool;
use crate::tls::TransportPolicy;

/// Connections accepted per turn and listener, so that many new connections delay no switch.
const ACCEPTS: usize = 64;

/// Most connections of all workers, including those in handshakes.
const MAX_CONNECTIONS: usize = 16 * 1024;

/// Descriptors that are reserved for the rest of the kernel: listeners, operators, and the doorbells of each worker.
const OTHER_DESCRIPTORS: u64 = 256;
const DOORBELLS: u64 = 256;

/// The listeners and the rules for new connections.
#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<Listening>,
    transport: TransportPolicy,
    /// Whether the listeners are ignored until the next tick, because accepting failed.
    is_paused: bool,
    /// Most connections of all workers.
    most: usize,
}

/// A listening socket, and the protocol of those who connect there.
pub type Listening = (TcpListener, Box<dyn Driver>);

/// A new connection and the worker that is to serve it.
pub(super) type Accepted = (WorkerId, Connection);

impl Acceptor {
    /// Adds `listeners` to `epoll` and accepts on them.
    ///
    /// # Errors
    /// A listener could not be configured or added.
    pub(super) fn new(
        listeners: Vec<Listening>,
        transport: TransportPolicy,
        workers: usize,
        epoll: &OwnedFd,
    ) -> io::Result<Self> {
        for (number, (listener, _)) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            let data = EventData::new_u64(LISTENER | number as u64);
            epoll::add(epoll, listener, data, EventFlags::IN)?;
        }
        let most = most_connections(workers);
        Ok(Self { listeners, transport, is_paused: false, most })
    }

    /// Accepts the connections that wait at listener `number`. Adds refused connections to `not_admitted`.
    pub(super) fn accept(
        &mut self,
        number: usize,
        (pool, epoll): (&WorkerPool, &OwnedFd),
        (log_limits, not_admitted): (&mut LogLimits, &mut Vec<(SocketAddr, &'static str)>),
        now: Instant,
    ) -> Vec<Accepted> {
        let mut accepted = Vec::new();
        for _ in 0..ACCEPTS {
            let (socket, address) = match self.listeners[number].0.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Most likely out of descriptors: epoll would report the listener again and again.
                    if let Some(suppressed) = log_limits.not_accepted.admit(now) {
                        warn!(%error, suppressed, "could not accept a connection; trying again shortly");
                    }
                    self.pause(true, epoll);
                    break;
                }
            };
            match self.admit(number, (socket, address), pool, now) {
                Ok(new) => accepted.push(new),
                Err(why) => {
                    refused(address, why, log_limits, now);
                    not_admitted.push((address, why));
                }
            }
        }
        accepted
    }

    /// Ends the pause after a failure.
    pub(super) fn tick(&mut self, epoll: &OwnedFd) {
        if self.is_paused {
            self.pause(false, epoll);
        }
    }

    fn pause(&mut self, pause: bool, epoll: &OwnedFd) {
        self.is_paused = pause;
        let flags = if pause { EventFlags::empty() } else { EventFlags::IN };
        for (number, (listener, _)) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENER | number as u64);
            let _ = epoll::modify(epoll, listener, data, flags);
        }
    }

    fn admit(
        &self,
        listener: usize,
        (socket, address): (TcpStream, SocketAddr),
        pool: &WorkerPool,
        now: Instant,
    ) -> Result<Accepted, &'static str> {
        let (to, connections) = pool.least_busy();
        if !self.transport.plain.allows(address.ip()) && self.transport.tls.is_none() {
            return Err(
                "plain TCP is not allowed from there, and for TLS there are no keys: run `rosemary pki init`",
            );
        }
        if connections >= self.most {
            return Err("there are too many connections");
        }
        let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
        prepared.map_err(|_| "the system refused to configure its socket")?;
        debug!(%address, worker = %to, "connection accepted");
        let guard = pool.load_guard(to);
        let (_, driver) = &self.listeners[listener];
        let session = driver.open(now, Timing::default());
        Ok((to, Connection::new((socket, address), session, &self.transport, pool, guard)))
    }
}

/// Logs that a connection was refused.
pub(super) fn refused(address: SocketAddr, why: &str, log_limits: &mut LogLimits, now: Instant) {
    if let Some(suppressed) = log_limits.accepted.admit(now) {
        warn!(%address, why, suppressed, "connection refused");
    }
}

/// Returns the most connections of all workers that the limit of descriptors allows, at least half of that limit. The
/// bound is for all workers together, because all connections may claim datapaths of one worker and move there.
fn most_connections(workers: usize) -> usize {
    let limit = sys::process::descriptor_limit().unwrap_or(u64::MAX);
    let others = OTHER_DESCRIPTORS + DOORBELLS * workers as u64;
    let for_connections = limit.saturating_sub(others).max(limit / 2);
    usize::try_from(for_connections).unwrap_or(usize::MAX).min(MAX_CONNECTIONS)
}

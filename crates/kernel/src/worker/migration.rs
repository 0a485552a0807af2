//! Between workers: connections that move, and messages for switches of another.
//!
//! ```text
//!  accept ----------------> the worker with the fewest connections
//!  handshake complete ----> the worker where the datapath lives, with what it has said so far
//!  message of an app -----> the worker whose number the epoch says
//! ```
//!
//! Only worker 0 accepts. A connection moves at most twice, and never once it is a switch.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustix::event::epoll::{self, EventData};
use sdk::Refusal;
use tracing::{debug, warn};

use super::channels::MovedConnection;
use super::reading::INTEREST;
use super::{CONNECTION, Command, Worker};
use crate::app_port::Sent;
use crate::connection::Connection;
use crate::ids::ConnId;
use crate::pool::{ForwardQueue, Head};

/// Most connections of all workers, handshaking ones included.
const MAX_CONNECTIONS: usize = 16 * 1024;

/// Descriptors that connections leave to the rest of the kernel: listeners, operators, and the
/// doorbells of each worker.
const OTHER_DESCRIPTORS: u64 = 256;
const DOORBELLS: u64 = 256;

/// As many connections for so many workers together as descriptors allow, half of these if they are
/// few. Together, because those that claim datapaths of one worker all come to that.
pub(super) fn most_connections(workers: usize) -> usize {
    let limit = sys::process::descriptor_limit().unwrap_or(u64::MAX);
    let others = OTHER_DESCRIPTORS + DOORBELLS * workers as u64;
    let for_connections = limit.saturating_sub(others).max(limit / 2);
    usize::try_from(for_connections).unwrap_or(usize::MAX).min(MAX_CONNECTIONS)
}

impl Worker {
    /// Gives a connection that came in to the worker `to`.
    pub(super) fn admit(
        &mut self,
        to: usize,
        socket: TcpStream,
        address: SocketAddr,
        now: Instant,
    ) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        debug!(%address, worker = to, "connection accepted");
        let pool = &self.channels.pool;
        let guard = pool.load_guard(to);
        let connection = Connection::new((socket, address), &self.transport, pool, guard, now);
        if to == self.channels.me {
            self.take_in(connection, now)?;
        } else {
            self.channels.pool.command(to, Command::Adopt(MovedConnection(Box::new(connection))));
        }
        Ok(())
    }

    /// Serves a connection from now on; returns where it is.
    fn take_in(&mut self, connection: Connection, now: Instant) -> io::Result<ConnId> {
        let source = connection.address.ip();
        if let Some(other) = self.admission.who_gives_way(source) {
            self.close(other, "too many connections that were no switches yet; it gave way", now);
        }
        let entry = self.connections.vacant_entry();
        let key = ConnId(entry.key());
        let data = EventData::new_u64(CONNECTION | key.0 as u64);
        epoll::add(&self.epoll, &connection.socket, data, INTEREST)?;
        self.admission.enter(source, key, connection.phase.progress());
        entry.insert(connection);
        Ok(key)
    }

    /// Where a connection is to go on, if not here.
    pub(super) fn leads_away(&self, key: ConnId) -> Option<usize> {
        let home = self.connections.get(key.0)?.phase.claim()?.home.worker();
        (home != self.channels.me).then_some(home)
    }

    /// Hands a connection over to the worker with which its datapath lives.
    pub(super) fn hand_over(&mut self, key: ConnId, to: usize) {
        let mut connection = self.connections.remove(key.0);
        // Fails only for a socket that is not in the set; this one is.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        self.admission.leave(key);
        connection.load_guard = self.channels.pool.load_guard(to);
        self.channels.pool.command(to, Command::Adopt(MovedConnection(Box::new(connection))));
    }

    /// Serves a connection that another worker has had: goes on where that one stopped.
    pub(super) fn adopt(&mut self, MovedConnection(mut connection): MovedConnection, now: Instant) {
        let mut unhandled = connection.arrive();
        let address = connection.address;
        let key = match self.take_in(*connection, now) {
            Ok(key) => key,
            Err(error) => {
                if let Some(suppressed) = self.log_limits.accepted.admit(now) {
                    warn!(%address, %error, suppressed, "connection lost: the system refused to watch it");
                }
                return;
            }
        };
        self.settle_claim(key, now);
        match self.messages(key, &mut unhandled, now) {
            Ok(()) => self.note_dirty(key),
            Err(why) => self.close(key, &why.to_string(), now),
        }
    }

    /// Takes a message for a datapath that is not here to the worker that has given its epoch.
    pub(super) fn forward(
        &mut self,
        index: usize,
        dpid: u64,
        epoch: u32,
        message: &[u8],
    ) -> Result<(), Refusal> {
        let pool = &self.channels.pool;
        let (me, owner) = (self.channels.me, pool.owner(epoch));
        if owner == me {
            return Err(Refusal::NoSwitch);
        }
        let head = Head { app: self.dispatch.app_ports[index].app, dpid, epoch };
        if !pool.post(me, owner, head, message) {
            return Err(Refusal::Full);
        }
        self.posted |= 1 << owner;
        Ok(())
    }

    /// Wakes the workers for whom something was posted.
    pub(super) fn ring_posted(&mut self) {
        while self.posted != 0 {
            self.channels.pool.wake(self.posted.trailing_zeros() as usize);
            self.posted &= self.posted - 1;
        }
    }

    /// Checks and sends what others have posted for switches of ours.
    pub(super) fn take_mail(&mut self, now: Instant) {
        let mut forward_queue: ForwardQueue = std::mem::take(&mut self.forward_queue);
        let me = self.channels.me;
        for from in (0..self.channels.pool.workers()).filter(|from| *from != me) {
            self.channels.pool.collect(from, me, &mut forward_queue);
            for number in 0..forward_queue.len() {
                let Some((Head { app, dpid, epoch }, message)) = forward_queue.get(number) else {
                    break;
                };
                // Every worker knows the same apps, by the time that one of them can speak.
                let app_ports = &self.dispatch.app_ports;
                let Some(index) = app_ports.iter().position(|app_port| app_port.app == app) else {
                    continue;
                };
                let sent = Sent { dpid, epoch, start: 0, end: message.len(), series: 0 };
                self.send_run(index, &[sent], message, now);
            }
            forward_queue.clear();
        }
        self.forward_queue = forward_queue;
    }
}

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

use super::reading::INTEREST;
use super::wires::Moved;
use super::{CONNECTION, Command, Worker};
use crate::connection::Connection;
use crate::crew::{Head, Mail};
use crate::link::Sent;

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
        let mut connection = {
            let memory = self.wires.crew.memory();
            Connection::new(socket, address, &self.entrance, memory, now)
        };
        connection.seat = Some(self.wires.crew.seat(to));
        if to == self.wires.me {
            self.take_in(connection, now)?;
        } else {
            self.wires.crew.command(to, Command::Adopt(Moved(Box::new(connection))));
        }
        Ok(())
    }

    /// Serves a connection from now on; returns where it is.
    fn take_in(&mut self, mut connection: Connection, now: Instant) -> io::Result<usize> {
        let source = connection.address.ip();
        if let Some(other) = self.door.who_gives_way(source) {
            self.close(other, "too many connections that were no switches yet; it gave way", now);
        }
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        let data = EventData::new_u64(CONNECTION | key as u64);
        epoll::add(&self.epoll, &connection.socket, data, INTEREST)?;
        let mut ticket = self.door.enter(source, key);
        self.door.advance(&mut ticket, connection.progress());
        connection.ticket = Some(ticket);
        entry.insert(connection);
        Ok(key)
    }

    /// Where a connection is to go on, if not here.
    pub(super) fn leads_away(&self, key: usize) -> Option<usize> {
        let home = self.connections.get(key)?.home.as_ref()?.worker();
        (home != self.wires.me).then_some(home)
    }

    /// Hands a connection over to the worker with which its datapath lives.
    pub(super) fn hand_over(&mut self, key: usize, to: usize) {
        let mut connection = self.connections.remove(key);
        // Fails only for a socket that is not in the set; this one is.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        if let Some(ticket) = connection.ticket.take() {
            self.door.leave(&ticket);
        }
        connection.seat = Some(self.wires.crew.seat(to));
        self.wires.crew.command(to, Command::Adopt(Moved(Box::new(connection))));
    }

    /// Serves a connection that another worker has had: goes on where that one stopped.
    pub(super) fn adopt(&mut self, Moved(mut connection): Moved, now: Instant) {
        let (claim, mut unhandled) = connection.arrive();
        let address = connection.address;
        let key = match self.take_in(*connection, now) {
            Ok(key) => key,
            Err(error) => {
                if let Some(suppressed) = self.rates.accepted.admit(now) {
                    warn!(%address, %error, suppressed, "connection lost: the system refused to watch it");
                }
                return;
            }
        };
        let up = claim.map_or(Ok(()), |(info, _)| self.switch_up(key, info, now));
        match up.and_then(|()| self.messages(key, &mut unhandled, now)) {
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
        let crew = &self.wires.crew;
        let (me, owner) = (self.wires.me, crew.owner(epoch));
        if owner == me {
            return Err(Refusal::NoSwitch);
        }
        let head = Head { app: self.dispatch.links[index].app, dpid, epoch };
        if !crew.post(me, owner, head, message) {
            return Err(Refusal::Full);
        }
        self.posted |= 1 << owner;
        Ok(())
    }

    /// Wakes the workers for whom something was posted.
    pub(super) fn ring_posted(&mut self) {
        while self.posted != 0 {
            self.wires.crew.wake(self.posted.trailing_zeros() as usize);
            self.posted &= self.posted - 1;
        }
    }

    /// Checks and sends what others have posted for switches of ours.
    pub(super) fn take_mail(&mut self, now: Instant) {
        let mut mail: Mail = std::mem::take(&mut self.mail);
        let me = self.wires.me;
        for from in (0..self.wires.crew.workers()).filter(|from| *from != me) {
            self.wires.crew.collect(from, me, &mut mail);
            for number in 0..mail.len() {
                let Some((Head { app, dpid, epoch }, message)) = mail.get(number) else { break };
                // Every worker knows the same apps, by the time that one of them can speak.
                let links = &self.dispatch.links;
                let Some(index) = links.iter().position(|link| link.app == app) else { continue };
                let sent = Sent { dpid, epoch, start: 0, end: message.len(), series: 0 };
                self.send_run(index, &[sent], message, now);
            }
            mail.clear();
        }
        self.mail = mail;
    }
}

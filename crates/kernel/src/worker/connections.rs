//! Adds, reads, writes, hands over and closes the connections of a worker.
//!
//! ```text
//!  accept ----------------> the worker with the fewest connections
//!  handshake complete ----> the worker that owns the datapath, with the bytes that are not handled yet
//! ```
//!
//! A connection moves at most twice, and never after its switch is up.

use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use tracing::{debug, info, warn};

use super::channels::MovedConnection;
use super::output::{Written, is_much};
use super::reading::{INTEREST, Served};
use super::{CONNECTION, Command, Worker};
use super::{acceptor, own_messages};
use crate::connection::{Connection, Input, Peer, ReadError, Reading, Up};
use crate::ids::{AppSlot, ConnId, WorkerId};

/// Why a connection was closed to admit another one.
const TOO_MANY: &str =
    "too many connections are in their handshakes; it was closed to admit another one";

/// Why a connection was closed to make room for the buffers of another one.
const WAITED_LONGEST: &str = "too many connections wait with unfinished messages or unsent output, and this one has waited longest";

impl Worker {
    /// Accepts new connections at a listener and hands each to the worker with the fewest.
    pub(super) fn accept(&mut self, listener: usize, now: Instant) {
        let system = (&*self.channels.pool, &self.epoll);
        let mut refused = Vec::new();
        let limits = &mut self.log_limits;
        let accepted = self.acceptor.accept(listener, system, (limits, &mut refused), now);
        for (address, why) in refused {
            self.report_unfinished(address, why, false, now);
        }
        for (to, connection) in accepted {
            if to != self.channels.me {
                self.move_to(to, connection);
                continue;
            }
            let address = connection.address;
            if self.add(connection, now).is_err() {
                let why = "epoll could not watch it";
                acceptor::refused(address, why, &mut self.log_limits, now);
            }
        }
    }

    fn move_to(&self, to: WorkerId, connection: Connection) {
        let moved = MovedConnection(Box::new(connection));
        self.channels.commander.send(to, Command::Adopt(moved));
    }

    /// Adds a connection to those of this worker.
    fn add(&mut self, connection: Connection, now: Instant) -> io::Result<ConnId> {
        if let Some(other) = self.switches.admission.connection_to_displace(connection.address.ip())
        {
            self.close(other, TOO_MANY, now);
        }
        let data = EventData::new_u64(CONNECTION | self.switches.next_id().0 as u64);
        epoll::add(&self.epoll, &connection.socket, data, INTEREST)?;
        Ok(self.switches.insert(connection))
    }

    /// Adds a connection that another worker handed over, and handles the bytes that this worker has read.
    pub(super) fn adopt(&mut self, MovedConnection(mut connection): MovedConnection, now: Instant) {
        let mut unhandled = connection.arrive();
        let address = connection.address;
        let id = match self.add(*connection, now) {
            Ok(id) => id,
            Err(error) => {
                if let Some(suppressed) = self.log_limits.accepted.admit(now) {
                    warn!(%address, %error, suppressed, "connection lost: epoll could not watch it");
                }
                return;
            }
        };
        self.settle_claim(id, now);
        match self.messages(id, &mut unhandled, now) {
            Ok(()) => self.output.note(id, &mut self.switches[id]),
            Err(why) => self.close(id, &why.to_string(), now),
        }
    }

    /// Returns the worker that owns the datapath of a connection, if it is another one.
    pub(super) fn other_owner(&self, id: ConnId) -> Option<WorkerId> {
        let owner = self.switches.get(id)?.phase.claim()?.datapath.worker();
        (owner != self.channels.me).then_some(owner)
    }

    /// Hands a connection over to the worker that owns its datapath.
    pub(super) fn hand_over(&mut self, id: ConnId, to: WorkerId) {
        let mut connection = self.switches.remove(id);
        // Fails only for a socket that is not in the set; this one is.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        connection.load_guard = self.channels.pool.load_guard(to);
        self.move_to(to, connection);
    }

    /// Applies what epoll reported about a connection.
    pub(super) fn note_event(&mut self, id: ConnId, flags: EventFlags) {
        let Some(connection) = self.switches.get_mut(id) else { return };
        if flags.contains(EventFlags::OUT) && connection.is_blocked() {
            self.output.note(id, connection);
        }
        self.reader.note_event(id, connection, flags);
    }

    /// Reads each ready connection once. `true` if the turn ended before all were read.
    pub(super) fn read_ready(&mut self, buffer: &mut [u8], now: Instant) -> bool {
        self.reader.begin_round();
        while let Some(id) = self.reader.next() {
            // It is in no list now, so closing it needs no search.
            if let Some(connection) = self.switches.get_mut(id) {
                connection.reading = Reading::Drained;
            }
            self.reader.begin_read(&self.dispatch);
            let served = self.serve(id, buffer, now);
            if let Some(connection) = self.switches.get(id) {
                self.reader.charge(connection.payer, served.size, &self.dispatch);
            }
            self.reader.put_back(id, self.switches.get_mut(id), served);
        }
        self.reader.is_cut_short()
    }

    /// Reads a connection once and handles the messages.
    pub(super) fn serve(&mut self, id: ConnId, buffer: &mut [u8], now: Instant) -> Served {
        let Some(connection) = self.switches.get_mut(id) else { return Served::default() };
        if connection.phase.is_laborious() && !self.reader.take_handshake() {
            return Served { size: 0, more: true };
        }
        let Some(share) = self.reader.may_read(id, connection, &mut self.dispatch, now) else {
            return Served::default();
        };
        let input = connection.read(buffer, share.most);
        self.output.note_if_any(id, connection);
        let progress = connection.phase.up().is_none().then(|| connection.phase.progress());
        if let Some(progress) = progress {
            self.switches.admission.advance(id, progress);
        }
        let connection = &mut self.switches[id];
        match input {
            Ok(Input::Bytes { size, all }) => {
                self.timers.pace.read(size);
                let mut more = !all || connection.peer != Peer::Talks;
                if let Err(why) = self.messages(id, &mut buffer[..size], now) {
                    self.close(id, &why.to_string(), now);
                    more = false;
                } else if let Some(owner) = self.other_owner(id) {
                    self.hand_over(id, owner);
                    more = false;
                } else {
                    self.write_much(id, now);
                    self.hold_buffers(id, now);
                    if let Some(connection) = self.switches.get_mut(id) {
                        share.note(connection, &mut self.dispatch, size, more);
                    }
                }
                return Served { size, more };
            }
            Ok(Input::Nothing) => share.note(connection, &mut self.dispatch, 0, false),
            Ok(Input::End) | Err(ReadError::System(_)) if self.switches[id].is_silent() => {
                self.close_unused(id);
            }
            Ok(Input::End) => self.end(id, now),
            Err(ReadError::System(error)) => {
                self.remove(id, &error.to_string(), now);
            }
            Err(error) => self.close(id, &error.to_string(), now),
        }
        Served::default()
    }

    /// Writes to a switch before the next one is read, if much output has gathered.
    fn write_much(&mut self, id: ConnId, now: Instant) {
        if self.switches.get(id).is_some_and(is_much) {
            self.call_apps(now); // their answers to the rest of what was read
            self.write(id, now);
        }
    }

    /// Writes the gathered output, once per switch.
    pub(super) fn flush(&mut self, now: Instant) {
        for id in self.output.take_paced(now) {
            if let Some(connection) = self.switches.get_mut(id) {
                self.output.note(id, connection);
            }
        }
        let mut listed = self.output.take_listed();
        listed.drain(..).for_each(|id| self.write(id, now));
        self.output.give_back(listed);
    }

    fn write(&mut self, id: ConnId, now: Instant) {
        let Some(connection) = self.switches.get_mut(id) else { return };
        match self.output.write(connection, now) {
            Written::Fine => {
                if connection.queues().is_some() {
                    self.wait_for_pace(id, now);
                }
                self.hold_buffers(id, now);
            }
            Written::Hopeless => {
                let why = self.does_not_read(id);
                self.close(id, &why, now);
            }
            // The peer reset the connection before it read the hello of this controller.
            Written::Broken(_) if connection.is_silent() => self.close_unused(id),
            Written::Broken(error) => {
                self.remove(id, &error.to_string(), now);
            }
        }
    }

    /// Notes when the worker must write to a connection again because of its paced apps, and counts their messages.
    #[cold]
    fn wait_for_pace(&mut self, id: ConnId, now: Instant) {
        let Some(connection) = self.switches.get_mut(id) else { return };
        let is_blocked = connection.is_blocked();
        let Some(queues) = connection.queues_mut() else { return };
        if is_blocked {
            return; // they wait for the switch; epoll reports when it accepts output again
        }
        for (slot, flow_mods) in queues.take_delayed() {
            self.dispatch.app_ports[slot].counts.delayed += flow_mods;
        }
        if let Some(due) = queues.due(now) {
            self.output.wait_for_pace(id, due);
        }
    }

    /// Applies the pace of an app to messages that wait already.
    pub(super) fn set_pace(&mut self, slot: AppSlot, pace: Option<u32>, now: Instant) {
        for (id, connection) in self.switches.iter_mut() {
            if connection.queues().is_some() {
                connection.set_pace(slot, pace, now);
                self.output.note(id, connection);
            }
        }
    }

    /// Counts the buffers of a connection ([`memory`](crate::memory)). If there is no room for them, closes the
    /// connections whose buffers have waited longest, which may include this one.
    #[inline]
    fn hold_buffers(&mut self, id: ConnId, now: Instant) {
        if let Some(connection) = self.switches.get_mut(id)
            && !connection.hold_buffers()
        {
            self.make_room(id, now);
        }
    }

    #[cold]
    fn make_room(&mut self, id: ConnId, now: Instant) {
        while let Some(connection) = self.switches.get_mut(id)
            && !connection.hold_buffers()
        {
            // If none waits here, the connections of other workers have taken the whole pool.
            let longest = self.switches.longest_waiting().unwrap_or(id);
            self.close(longest, WAITED_LONGEST, now);
        }
    }

    /// Closes a connection that its peer closed without sending a byte. Mininet and other programs connect only to find
    /// out whether a controller listens.
    fn close_unused(&mut self, id: ConnId) {
        let connection = self.switches.remove(id);
        self.reader.forget(id, &connection);
        let address = connection.address;
        debug!(%address, "connection closed by its peer without a byte, as by a program that looks for a controller");
    }

    /// Closes a connection; apps are informed if it was a switch. The monitor is informed if it was to become one.
    pub(super) fn close(&mut self, id: ConnId, why: &str, now: Instant) {
        let address = self.switches[id].address;
        if !self.remove(id, why, now) {
            self.report_unfinished(address, why, false, now);
        }
    }

    /// Removes a connection that the switch has closed.
    fn end(&mut self, id: ConnId, now: Instant) {
        const WHY: &str = "the switch closed the connection";
        let address = self.switches[id].address;
        if !self.remove(id, WHY, now) {
            self.report_unfinished(address, WHY, true, now);
        }
    }

    /// Removes a connection; apps are informed if it was a switch. Returns whether it was one.
    ///
    /// Used directly, it is for connections that the system reports as broken: the kernel has refused nothing.
    fn remove(&mut self, id: ConnId, why: &str, now: Instant) -> bool {
        let connection = self.switches.remove(id);
        self.reader.forget(id, &connection);
        let address = connection.address;
        let Some(Up { mut switch, transactions, .. }) = connection.close() else {
            if let Some(suppressed) = self.log_limits.closed.admit(now) {
                warn!(%address, why, suppressed, "connection closed before its handshake was complete");
            }
            return false;
        };
        for question in transactions.questions() {
            let why = format!("the switch was disconnected: {why}");
            self.channels.flows_failed(question, why);
        }
        let dpid = switch.dpid;
        if let Some(has_answered) = switch.watch.has_answered() {
            self.channels.pool.note_monitor(dpid.0, has_answered);
        }
        self.switches.roster.remove(dpid.0, now);
        own_messages::end_reports(&mut switch, &self.dispatch.app_ports, &self.channels);
        self.dispatch.switch_down(&mut switch);
        if let Some(suppressed) = self.log_limits.disconnected.admit(now) {
            info!(%dpid, %address, why, suppressed, "switch disconnected");
        }
        true
    }
}

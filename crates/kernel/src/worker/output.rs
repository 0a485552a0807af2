//! Writes the output that was gathered for switches: once per switch and turn, or at once if it is much.

use std::collections::HashSet;
use std::io;
use std::time::Instant;

use crate::connection::Connection;
use crate::ids::ConnId;

/// Output above which a switch is written to before the next one is read, in bytes.
const MUCH: usize = 32 * 1024;

/// Capacity of the output buffer that a connection keeps for itself, in bytes.
const OWN: usize = 4096;

/// Bytes of all spare buffers.
const SPARE: usize = 16 << 20;

/// Spare output buffers. The last returned one is lent first, as it is in the core's cache.
#[derive(Debug, Default)]
pub(super) struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// The least number of spare buffers since the last tick: these were not needed.
    idle: usize,
}

impl Spare {
    /// Gives a buffer to output that has none.
    #[inline]
    pub(super) fn lend(&mut self, out: &mut Vec<u8>) {
        if out.capacity() == 0
            && let Some(buffer) = self.buffers.pop()
        {
            self.bytes -= buffer.capacity();
            self.idle = self.idle.min(self.buffers.len());
            *out = buffer;
        }
    }

    /// Frees an eighth of the buffers that were not needed since the last call; returns the number of bytes. After some
    /// seconds without output all are free.
    pub(super) fn tick(&mut self) -> usize {
        let freed =
            self.buffers.drain(..self.idle.div_ceil(8)).map(|buffer| buffer.capacity()).sum();
        self.bytes -= freed;
        self.idle = self.buffers.len();
        freed
    }

    /// Takes the buffer of output that is written, if it is large: otherwise thousands of idle switches would keep
    /// theirs.
    pub(super) fn take_back(&mut self, out: &mut Vec<u8>) {
        if out.is_empty() && out.capacity() > OWN {
            let buffer = std::mem::take(out);
            if self.bytes + buffer.capacity() <= SPARE {
                self.bytes += buffer.capacity();
                self.buffers.push(buffer);
            }
        }
    }
}

/// The connections that have output, and spare buffers for it.
#[derive(Debug, Default)]
pub(super) struct Output {
    listed: Vec<ConnId>,
    pub(super) spare: Spare,
    /// The connections whose paced apps have messages that wait.
    paced: HashSet<ConnId>,
    /// When the first of these messages may leave.
    paced_due: Option<Instant>,
}

/// The result of writing to a switch.
#[derive(Debug)]
pub(super) enum Written {
    /// The output is written, or waits until epoll reports room in the socket.
    Fine,
    /// Too much waits: the switch does not read.
    Hopeless,
    /// The connection is broken.
    Broken(io::Error),
}

impl Output {
    /// Notes that a connection may have output.
    #[inline]
    pub(super) fn note(&mut self, id: ConnId, connection: &mut Connection) {
        if !connection.output.is_listed {
            connection.output.is_listed = true;
            self.listed.push(id);
        }
    }

    /// The same, if it has some.
    #[inline]
    pub(super) fn note_if_any(&mut self, id: ConnId, connection: &mut Connection) {
        if connection.has_output() {
            self.note(id, connection);
        }
    }

    /// Notes that messages of paced apps wait at a connection, the first of them until `due`.
    pub(super) fn wait_for_pace(&mut self, id: ConnId, due: Instant) {
        self.paced.insert(id);
        self.paced_due = Some(self.paced_due.map_or(due, |other| other.min(due)));
    }

    /// When messages of paced apps may leave next.
    pub(super) fn paced_due(&self) -> Option<Instant> {
        self.paced_due
    }

    /// Returns the connections at which messages of paced apps wait, once some may leave. The caller notes them.
    pub(super) fn take_paced(&mut self, now: Instant) -> HashSet<ConnId> {
        if self.paced_due.is_none_or(|due| due > now) {
            return HashSet::new();
        }
        self.paced_due = None;
        std::mem::take(&mut self.paced)
    }

    /// Removes the list of connections. The caller returns it empty.
    pub(super) fn take_listed(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.listed)
    }

    /// Returns the empty list. Connections that were listed meanwhile are written to in the next turn.
    pub(super) fn give_back(&mut self, mut empty: Vec<ConnId>) {
        empty.append(&mut self.listed);
        self.listed = empty;
    }

    /// Writes what was gathered for a switch.
    pub(super) fn write(&mut self, connection: &mut Connection, now: Instant) -> Written {
        connection.output.is_listed = false;
        match connection.flush(now) {
            Ok(_) if connection.is_hopeless() => Written::Hopeless,
            Ok(all) => {
                connection.note_blocked(!all, now);
                self.spare.take_back(&mut connection.out);
                Written::Fine
            }
            Err(error) => Written::Broken(error),
        }
    }
}

/// Whether a connection should be written to before the next one is read: the answers of apps in this process are then
/// still in the core's cache.
pub(super) fn is_much(connection: &Connection) -> bool {
    connection.out.len() >= MUCH && !connection.is_blocked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_buffers_are_lent_and_bounded() {
        let (mut spare, mut small, mut large) = (Spare::default(), vec![0; 8], vec![0; 2 * OWN]);
        spare.take_back(&mut large);
        assert!(large.capacity() > 0, "it is not written");
        small.clear();
        large.clear();
        spare.take_back(&mut small);
        spare.take_back(&mut large);
        assert_eq!((small.capacity() > 0, large.capacity()), (true, 0));
        let mut other = Vec::new();
        spare.lend(&mut other);
        assert!(other.capacity() >= 2 * OWN);
        spare.lend(&mut small);
        spare.lend(&mut large);
        assert_eq!((spare.bytes, large.capacity()), (0, 0));
        for _ in 0..20 {
            spare.take_back(&mut Vec::with_capacity(1 << 20));
        }
        assert_eq!((spare.buffers.len(), spare.bytes), (16, SPARE));
        // Buffers that were needed between two ticks stay; the others are freed step by step.
        spare.tick();
        for _ in 0..100 {
            let mut outs = vec![Vec::new(); 4];
            for out in &mut outs {
                spare.lend(out);
            }
            for out in &mut outs {
                spare.take_back(out);
            }
            spare.tick();
        }
        assert_eq!((spare.buffers.len(), spare.bytes), (4, 4 << 20));
        let freed: usize = (0..10).map(|_| spare.tick()).sum();
        assert_eq!((spare.buffers.len(), spare.bytes, freed), (0, 0, 4 << 20));
    }
}

//! To switches: what was gathered for them is written.

use std::time::Instant;

use super::Worker;
use crate::ids::ConnId;

/// What is written to a switch before the next is read, in bytes.
const MUCH: usize = 32 * 1024;

/// What a connection keeps of the room for its output, in bytes.
const OWN: usize = 4096;

/// Bytes of all rooms that wait for connections that need one.
const SPARE: usize = 16 << 20;

/// Room for output that connections have no more need of. The last that was given back is the first that is
/// taken: it is in the core's cache.
#[derive(Debug, Default)]
pub(super) struct Spare {
    rooms: Vec<Vec<u8>>,
    bytes: usize,
    /// The fewest rooms since the last tick: this number of rooms is not needed.
    idle: usize,
}

impl Spare {
    /// Gives room to output that has none.
    #[inline]
    pub(super) fn lend(&mut self, out: &mut Vec<u8>) {
        if out.capacity() == 0
            && let Some(room) = self.rooms.pop()
        {
            self.bytes -= room.capacity();
            self.idle = self.idle.min(self.rooms.len());
            *out = room;
        }
    }

    /// Frees some of the rooms that were not needed since the last call; returns how many bytes that is. All
    /// are free after some seconds in which none is needed.
    pub(super) fn tick(&mut self) -> usize {
        let freed = self.rooms.drain(..self.idle.div_ceil(8)).map(|room| room.capacity()).sum();
        self.bytes -= freed;
        self.idle = self.rooms.len();
        freed
    }

    /// Takes the room of output that is written, if that is much: thousands of idle switches need not keep
    /// theirs.
    pub(super) fn take_back(&mut self, out: &mut Vec<u8>) {
        if out.is_empty() && out.capacity() > OWN {
            let room = std::mem::take(out);
            if self.bytes + room.capacity() <= SPARE {
                self.bytes += room.capacity();
                self.rooms.push(room);
            }
        }
    }
}

impl Worker {
    /// Notes that there may be something to write to a connection.
    pub(super) fn note_dirty(&mut self, key: ConnId) {
        if let Some(connection) = self.connections.get_mut(key.0)
            && !connection.output.is_listed
        {
            connection.output.is_listed = true;
            self.dirty.push(key);
        }
    }

    /// Writes to a switch before the next is read, if that is much: what apps here say to what it sent is still
    /// in the core's cache.
    pub(super) fn write_much(&mut self, key: ConnId, now: Instant) {
        let connection = self.connections.get(key.0);
        if connection.is_some_and(|it| it.out.len() >= MUCH && !it.is_blocked()) {
            self.call_apps(now); // with the rest of what it sent
            self.write(key, now);
        }
    }

    /// Writes what was gathered, once per switch.
    pub(super) fn flush(&mut self, now: Instant) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.drain(..).for_each(|key| self.write(key, now));
        // Closing may have made others dirty; they are written in the next turn.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    /// Writes what was gathered for a switch.
    fn write(&mut self, key: ConnId, now: Instant) {
        let Some(connection) = self.connections.get_mut(key.0) else { return };
        connection.output.is_listed = false;
        match connection.flush() {
            Ok(_) if connection.is_hopeless() => {
                let why = self.does_not_read(key);
                self.close(key, &why, now);
            }
            Ok(all) => {
                connection.note_blocked(!all, now);
                self.spare.take_back(&mut connection.out);
                self.hold_buffers(key, now);
            }
            Err(error) => self.close(key, &error.to_string(), now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_goes_from_one_to_the_next_and_never_more_than_a_bound() {
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
        assert_eq!((spare.rooms.len(), spare.bytes), (16, SPARE));
        // Those that are needed between two ticks stay; the others go by and by.
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
        assert_eq!((spare.rooms.len(), spare.bytes), (4, 4 << 20));
        let freed: usize = (0..10).map(|_| spare.tick()).sum();
        assert_eq!((spare.rooms.len(), spare.bytes, freed), (0, 0, 4 << 20));
    }
}

//! Queues packet-ins for an app that does not run, in rings that only the kernel uses.
//!
//! The up ring of a dead zone, which only the kernel could write, becomes the front of the queue. Packet-ins that
//! arrive while the app does not run are written behind its records. When it is full, they are written into one more
//! ring, which is [`LARGER`] times as large, as a restart takes about a second. So a full backlog has the policy of a
//! full ring.

use std::collections::VecDeque;

use sdk::abi::Words;
use sys::ring::Room;

use super::tracked::Tracked;
use crate::hold_queue::Ticket;

/// Size of the last ring, in multiples of the app's rings.
pub(crate) const LARGER: u32 = 8;

/// The backlog of one app.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    rings: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ring: Tracked,
    /// Number of records, from the front, that a dead zone may have seen.
    maybe_seen: u32,
    /// Whether no other ring may follow.
    last: bool,
}

impl Backlog {
    /// Appends a record; the app's rings have `capacity` bytes. `false` if there is no room for its class.
    pub(super) fn push(
        &mut self,
        head: &Words,
        body: &[u8],
        room: Room,
        ticket: Ticket,
        capacity: u32,
    ) -> bool {
        if let Some(back) = self.rings.back_mut() {
            let pushed = back.ring.push(head, body, room, ticket);
            if pushed || back.last {
                return pushed;
            }
        }
        let Ok((mut ring, _)) = Tracked::create(capacity * LARGER) else { return false };
        let pushed = ring.push(head, body, room, ticket);
        self.rings.push_back(Waiting { ring, maybe_seen: 0, last: true });
        pushed
    }

    /// Bytes left for records of a class.
    pub(super) fn room(&self, room: Room, capacity: u32) -> usize {
        let another = room.of(capacity * LARGER);
        match self.rings.back() {
            Some(back) if back.last => back.ring.room(room),
            Some(back) => back.ring.room(room) + another,
            None => another,
        }
    }

    /// Puts the records that a dead zone has not handled before all others.
    pub(super) fn put_first(&mut self, ring: Tracked) {
        let maybe_seen = ring.outstanding();
        if maybe_seen > 0 {
            self.rings.push_front(Waiting { ring, maybe_seen, last: false });
        }
    }

    /// Whether there are records that a dead zone may have seen.
    pub(super) fn has_seen(&self) -> bool {
        self.rings.iter().any(|waiting| waiting.maybe_seen > 0)
    }

    /// Copies the oldest record into `out`; returns its ticket, and whether a dead zone may have seen it.
    pub(super) fn oldest(&mut self, out: &mut Vec<u8>) -> Option<(Ticket, bool)> {
        while let Some(first) = self.rings.front() {
            if let Some(ticket) = first.ring.oldest(out) {
                return Some((ticket, first.maybe_seen > 0));
            }
            self.rings.pop_front();
        }
        None
    }

    /// Drops the oldest record.
    pub(super) fn drop_oldest(&mut self) {
        if let Some(first) = self.rings.front_mut() {
            first.ring.drop_oldest();
            first.maybe_seen = first.maybe_seen.saturating_sub(1);
        }
    }
}

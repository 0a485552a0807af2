//! Packet-ins that wait until their app can take them: rings that nobody reads but we.
//!
//! A dead zone's up ring, which only we could write, becomes the front of the queue as it is; what
//! comes while the app is away is written behind, and what finds no room there into one more ring, which
//! is [`LARGER`]: an app that is started again takes a second. So the policy of a full ring is that
//! of a live one.

use std::collections::VecDeque;

use sdk::abi::Words;
use sys::ring::Room;

use super::tracked::Tracked;
use crate::hold_queue::Ticket;

/// How many times a ring of the app's the last ring is.
pub(crate) const LARGER: u32 = 8;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    rings: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ring: Tracked,
    /// How many, from the front, a dead zone may have seen.
    maybe_seen: u32,
    /// Whether it is the last that there may be.
    last: bool,
}

impl Backlog {
    /// Appends a record; the app's rings are of `capacity`. `false` if there is no room for its
    /// class.
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

    /// Bytes that records of a class may still use.
    pub(super) fn room(&self, room: Room, capacity: u32) -> usize {
        let another = room.of(capacity * LARGER);
        match self.rings.back() {
            Some(back) if back.last => back.ring.room(room),
            Some(back) => back.ring.room(room) + another,
            None => another,
        }
    }

    /// Puts what a dead zone has left undone before everything else.
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

    /// The oldest record, whole, into `out`: its ticket, and whether a dead zone may have seen
    /// it.
    pub(super) fn oldest(&mut self, out: &mut Vec<u8>) -> Option<(Ticket, bool)> {
        while let Some(first) = self.rings.front() {
            if let Some(ticket) = first.ring.oldest(out) {
                return Some((ticket, first.maybe_seen > 0));
            }
            self.rings.pop_front();
        }
        None
    }

    /// Leaves the oldest record behind.
    pub(super) fn drop_oldest(&mut self) {
        if let Some(first) = self.rings.front_mut() {
            first.ring.drop_oldest();
            first.maybe_seen = first.maybe_seen.saturating_sub(1);
        }
    }
}

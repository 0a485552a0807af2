//! Packet-ins that wait until their app can take them: rings that nobody reads but we.
//!
//! A dead zone's up ring, which only we could write, becomes the front of the queue as it is; what
//! comes while the app is away is written into a ring at the back. So the bound and the policy of a
//! full ring are those of a live one.

use std::collections::VecDeque;

use sys::ring::Room;

use super::tracked::Tracked;
use crate::held::Ticket;

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
}

impl Backlog {
    /// Appends a record; its rings are of `capacity`. `false` if there is no room for its class.
    pub(super) fn push(
        &mut self,
        head: &[u64],
        body: &[u8],
        room: Room,
        ticket: Ticket,
        capacity: u32,
    ) -> bool {
        if self.rings.is_empty() {
            let Ok((ring, _)) = Tracked::create(capacity) else { return false };
            self.rings.push_back(Waiting { ring, maybe_seen: 0 });
        }
        let last = self.rings.back_mut();
        last.is_some_and(|last| last.ring.push(head, body, room, ticket))
    }

    /// Bytes that records of a class may still use.
    pub(super) fn room(&self, room: Room, capacity: u32) -> usize {
        self.rings.back().map_or(room.of(capacity), |last| last.ring.room(room))
    }

    /// Puts what a dead zone has left undone before everything else.
    pub(super) fn put_first(&mut self, ring: Tracked) {
        let maybe_seen = ring.outstanding();
        if maybe_seen > 0 {
            self.rings.push_front(Waiting { ring, maybe_seen });
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

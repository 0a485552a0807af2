//! The kernel's end of the rings that an app's zone shares with one worker, and their doorbells.

use sys::doorbell::{Doorbell, DoorbellSender};
use sys::ring::{PeerFault, Room};

use super::part::{Part, Role};
use super::tracked::Tracked;

/// The rings of one worker with one zone.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) ring: Tracked,
    /// The worker rings it after writing to the up ring.
    up_bell: DoorbellSender,
    /// The zone rings it after writing to the down ring.
    down_bell: Doorbell,
    /// Whether the ring's only record is also the backlog's oldest: it is delivered alone and not handled yet.
    pub(super) in_flight: bool,
    pub(super) role: Role,
}

impl Rings {
    pub(super) fn new(part: Part) -> Self {
        let Part { ring, up_bell, down_bell, role } = part;
        Self { ring: Tracked::of(ring), up_bell, down_bell, in_flight: false, role }
    }

    /// The doorbell by which the zone wakes the worker.
    pub(super) fn down_bell(&self) -> &Doorbell {
        &self.down_bell
    }

    /// Bytes of ordinary packet-ins that wait in an up ring of `capacity` bytes.
    pub(super) fn queued(&self, capacity: u32) -> usize {
        Room::Ordinary.of(capacity).saturating_sub(self.ring.room(Room::Ordinary))
    }

    /// Publishes the written records, and wakes the zone if it sleeps.
    pub(super) fn publish(&mut self) {
        if self.ring.ring().publish() {
            self.up_bell.ring();
        }
    }

    /// Returns the space of the consumed records to the zone, and wakes it if it waits for space.
    pub(super) fn release(&mut self) {
        if self.ring.ring().release() {
            self.up_bell.ring();
        }
    }

    /// Announces that the worker is about to sleep. `true` if there are records after all.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone published an impossible index.
    pub(super) fn prepare_to_sleep(&mut self) -> Result<bool, PeerFault> {
        self.ring.ring().prepare_to_sleep()
    }

    /// Announces that the worker is awake.
    pub(super) fn awake(&mut self) {
        self.ring.ring().awake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app_port::part;
    use crate::hold_queue::Ticket;
    use crate::pool::idle;

    #[test]
    fn queued_is_the_used_part_of_ordinary_room() {
        const CAPACITY: u32 = 4096;
        let (mut parts, _fds) = part::make(&idle(1), CAPACITY).unwrap();
        let mut rings = Rings::new(parts.pop().unwrap());
        assert_eq!(rings.queued(CAPACITY), 0);
        assert!(rings.ring.push(&[0; 6], &[1; 16], Room::Ordinary, Ticket::NONE));
        assert_eq!(rings.queued(CAPACITY), 64);
        while rings.ring.push(&[0; 6], &[1; 16], Room::All, Ticket::NONE) {}
        assert_eq!(rings.queued(CAPACITY), Room::Ordinary.of(CAPACITY));
    }
}

//! Tracks how much of an app's ring is used, and how many records fit into it now.

use std::time::Instant;

use super::fullness::{Fill, Fullness};
use super::throughput::Throughput;

/// How full an app is, and how fast it handles its records.
#[derive(Debug, Default)]
pub(super) struct Load {
    fullness: Fullness,
    throughput: Throughput,
}

impl Load {
    /// The app was stopped: its throughput is unknown again.
    pub(super) fn reset(&mut self) {
        self.throughput = Throughput::default();
    }

    /// Notes the state of a zone's ring of `capacity` bytes with `room` bytes left, of whose records the zone has
    /// handled `handled` bytes in all.
    pub(super) fn note_zone(
        &mut self,
        (room, capacity): (usize, u32),
        (handled, has_records): (u64, bool),
        now: Instant,
    ) -> Fill {
        self.throughput.note(handled, has_records, now);
        self.fullness.note(room, capacity, Some(&self.throughput), now)
    }

    /// Notes that an app in the kernel's process can be called. It is never full, as it is called with the first batch.
    pub(super) fn note_kernel(&mut self, capacity: u32, now: Instant) -> Fill {
        self.throughput.note_kernel(now);
        self.fullness.note(usize::MAX, capacity, None, now)
    }

    /// Notes the room that a backlog has left for ordinary packet-ins.
    pub(super) fn note_backlog(&mut self, room: usize, capacity: u32, now: Instant) -> Fill {
        self.fullness.note(room, capacity, None, now)
    }

    /// Whether the app was full when that was last noted.
    pub(super) fn is_full(&self) -> bool {
        self.fullness.is_full()
    }

    /// Whether the app was full or behind when that was last noted.
    pub(super) fn is_waited_for(&self) -> bool {
        self.fullness.is_waited_for()
    }

    /// How fast the app handles its records.
    pub(super) fn throughput(&self) -> &Throughput {
        &self.throughput
    }

    pub(super) fn throughput_mut(&mut self) -> &mut Throughput {
        &mut self.throughput
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sys::ring::Room;

    use super::*;

    #[test]
    fn full_app_stays_full_until_it_is_noted() {
        let (mut load, now, capacity) = (Load::default(), Instant::now(), 16 * 1024);
        let all = Room::Ordinary.of(capacity);
        assert_eq!(load.note_zone((all, capacity), (0, false), now), Fill::Room(all));
        assert!(!load.is_full() && !load.is_waited_for());
        let later = now + Duration::from_millis(1);
        assert_eq!(load.note_zone((0, capacity), (0, true), later), Fill::Full(later));
        assert!(load.is_full() && load.is_waited_for());
        load.reset();
        assert!(load.is_full(), "its records wait in the backlog");
        assert_eq!(load.note_kernel(capacity, later), Fill::Room(usize::MAX));
        assert!(!load.is_full());
    }
}

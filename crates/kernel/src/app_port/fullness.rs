//! Decides whether an app is full. An app becomes full when its up ring has hardly any room for packet-ins, and remains
//! full until half of the ring is free.
//!
//! Meanwhile the kernel writes no ordinary packet-in into the little room that the app frees. Otherwise it would wait
//! again and again for a guard or control app that is far behind, for one packet each time, and would resume a paused
//! switch for a single record.

use std::time::Instant;

use sys::ring::Room;

use super::throughput::Throughput;

/// How full an app is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// It has room for packet-ins, in bytes of records.
    Room(usize),
    /// It has room, too, but already as many records wait as it handles in a while. Further packets should wait in the
    /// switches.
    Behind(usize),
    /// It has been full since then.
    Full(Instant),
}

/// Remembers whether the app is full or behind.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    since: Option<Instant>,
    is_behind: bool,
}

impl Fullness {
    /// Decides by the `room` for ordinary packet-ins in a ring of `capacity` bytes, and by the throughput of an app in
    /// a zone.
    pub(super) fn note(
        &mut self,
        room: usize,
        capacity: u32,
        throughput: Option<&Throughput>,
        now: Instant,
    ) -> Fill {
        let all = Room::Ordinary.of(capacity);
        let waiting = all.saturating_sub(room);
        let allowed = throughput.map_or(usize::MAX, Throughput::allowed);
        self.is_behind = waiting > if self.is_behind { allowed / 2 } else { allowed / 10 * 9 };
        let is_stuck =
            self.is_behind && throughput.is_some_and(|throughput| throughput.is_stuck(now));
        match self.since {
            None if is_stuck || room < all / 10 => self.since = Some(now),
            Some(_) if !is_stuck && room >= all / 2 => self.since = None,
            _ => {}
        }
        match self.since {
            Some(since) => Fill::Full(since),
            None if self.is_behind => Fill::Behind(room),
            None => Fill::Room(room),
        }
    }

    /// Whether it was full when that was last noted.
    pub(super) fn is_full(&self) -> bool {
        self.since.is_some()
    }

    /// Whether it was full or behind then.
    pub(super) fn is_waited_for(&self) -> bool {
        self.is_full() || self.is_behind
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn full_app_stays_full_until_half_is_free() {
        let (start, capacity) = (Instant::now(), 16 * 1024); // 10 KiB are for ordinary packet-ins
        let mut fullness = Fullness::default();
        let mut note =
            |ms, room| fullness.note(room, capacity, None, start + Duration::from_millis(ms));
        assert_eq!(note(0, 1024), Fill::Room(1024));
        assert_eq!(note(1, 1023), Fill::Full(start + Duration::from_millis(1)));
        assert_eq!(note(2, 5119), Fill::Full(start + Duration::from_millis(1)));
        assert_eq!(note(3, 5120), Fill::Room(5120));
        assert_eq!(note(4, 1024), Fill::Room(1024));
    }

    #[test]
    fn app_behind_its_records_becomes_full_if_stuck() {
        let (start, capacity) = (Instant::now(), 16 * 1024);
        let (mut fullness, mut throughput) = (Fullness::default(), Throughput::default());
        let allowed = throughput.allowed();
        let at = |ms| start + Duration::from_millis(ms);
        let mut note = |waiting: usize, throughput: &Throughput, ms| {
            let room = Room::Ordinary.of(capacity) - waiting;
            match fullness.note(room, capacity, Some(throughput), at(ms)) {
                Fill::Room(bytes) => ("room", bytes == room),
                Fill::Behind(bytes) => ("behind", bytes == room),
                Fill::Full(since) => ("full", since == at(700)),
            }
        };
        throughput.note(0, true, at(0));
        assert_eq!(note(allowed / 10 * 9, &throughput, 1), ("room", true));
        assert_eq!(note(allowed / 10 * 9 + 1, &throughput, 2), ("behind", true));
        assert_eq!(note(allowed / 2 + 1, &throughput, 499), ("behind", true));
        assert_eq!(note(allowed / 2 + 1, &throughput, 700), ("full", true));
        assert_eq!(note(allowed / 2 + 1, &throughput, 900), ("full", true));
        assert_eq!(note(allowed / 2, &throughput, 901), ("room", true), "others may have gone");
        throughput.note(1, true, at(1000));
        assert_eq!(note(allowed, &throughput, 1001), ("behind", true));
    }
}

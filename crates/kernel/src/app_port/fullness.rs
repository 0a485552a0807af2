//! Whether an app is full: from when its up ring has hardly any room for packet-ins until half of it
//! is free again.
//!
//! While it is, no ordinary packet-in is put into the few places that it frees: a guard or a control app
//! that is far behind would be waited for again and again, for a packet each. And a switch that was
//! paused for its sake is not read for a single place.

use std::time::Instant;

use sys::ring::Room;

use super::drain::Drain;

/// How full an app is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// It takes packet-ins, records of so many bytes.
    Room(usize),
    /// The same, but as much waits already as it handles in a while: more is to wait for it elsewhere.
    Behind(usize),
    /// It does not, since then.
    Full(Instant),
}

/// Remembers whether the app is full or behind.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    since: Option<Instant>,
    is_behind: bool,
}

impl Fullness {
    /// What `room` bytes for ordinary packet-ins, of a ring of `capacity`, make of it. `drain` is known of an app in a
    /// zone.
    pub(super) fn note(
        &mut self,
        room: usize,
        capacity: u32,
        drain: Option<&Drain>,
        now: Instant,
    ) -> Fill {
        let all = Room::Ordinary.of(capacity);
        let waiting = all.saturating_sub(room);
        let allowed = drain.map_or(usize::MAX, Drain::allowed);
        self.is_behind = waiting > if self.is_behind { allowed / 2 } else { allowed / 10 * 9 };
        let is_stuck = self.is_behind && drain.is_some_and(|drain| drain.is_stuck(now));
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
    fn app_is_full_from_when_hardly_any_room_is_left_until_half_is_free() {
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
    fn app_is_behind_from_nearly_what_may_wait_until_half_of_that_and_full_if_it_is_stuck() {
        let (start, capacity) = (Instant::now(), 16 * 1024);
        let (mut fullness, mut drain) = (Fullness::default(), Drain::new());
        let allowed = drain.allowed();
        let at = |ms| start + Duration::from_millis(ms);
        let mut note = |waiting: usize, drain: &Drain, ms| {
            let room = Room::Ordinary.of(capacity) - waiting;
            match fullness.note(room, capacity, Some(drain), at(ms)) {
                Fill::Room(bytes) => ("room", bytes == room),
                Fill::Behind(bytes) => ("behind", bytes == room),
                Fill::Full(since) => ("full", since == at(700)),
            }
        };
        drain.note(0, true, at(0));
        assert_eq!(note(allowed / 10 * 9, &drain, 1), ("room", true));
        assert_eq!(note(allowed / 10 * 9 + 1, &drain, 2), ("behind", true));
        assert_eq!(note(allowed / 2 + 1, &drain, 499), ("behind", true));
        assert_eq!(note(allowed / 2 + 1, &drain, 700), ("full", true));
        assert_eq!(note(allowed / 2 + 1, &drain, 900), ("full", true));
        assert_eq!(note(allowed / 2, &drain, 901), ("room", true), "others may have gone");
        drain.note(1, true, at(1000));
        assert_eq!(note(allowed, &drain, 1001), ("behind", true));
    }
}

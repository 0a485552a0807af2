//! Whether an app is full: from when its up ring has hardly any room for packet-ins until half of it
//! is free again.
//!
//! While it is, no ordinary packet-in is put into the few places that it frees: a guard or a control app
//! that is far behind would be waited for again and again, for a packet each. And a switch that was
//! paused for its sake is not read for a single place.

use std::time::Instant;

use sys::ring::Room;

/// How full an app is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// It takes packet-ins, records of so many bytes.
    Room(usize),
    /// It does not, since then.
    Full(Instant),
}

/// Remembers whether the app is full.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    since: Option<Instant>,
}

impl Fullness {
    /// What `room` bytes for ordinary packet-ins, of a ring of `capacity`, make of it.
    pub(super) fn note(&mut self, room: usize, capacity: u32, now: Instant) -> Fill {
        let all = Room::Ordinary.of(capacity);
        match self.since {
            None if room < all / 10 => self.since = Some(now),
            Some(_) if room >= all / 2 => self.since = None,
            _ => {}
        }
        self.since.map_or(Fill::Room(room), Fill::Full)
    }

    /// Whether it was full when that was last noted.
    pub(super) fn is_full(&self) -> bool {
        self.since.is_some()
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
        let mut note = |ms, room| fullness.note(room, capacity, start + Duration::from_millis(ms));
        assert_eq!(note(0, 1024), Fill::Room(1024));
        assert_eq!(note(1, 1023), Fill::Full(start + Duration::from_millis(1)));
        assert_eq!(note(2, 5119), Fill::Full(start + Duration::from_millis(1)));
        assert_eq!(note(3, 5120), Fill::Room(5120));
        assert_eq!(note(4, 1024), Fill::Room(1024));
    }
}

//! Decides how long a switch is left unread because its apps are full.
//!
//! ```text
//! every app that it feeds is full:   |<-- at most 50 ms unread -->| one buffer |<-- at most 50 ms ...
//! the same, and one goes on working: |<-- at most 500 ms ...
//! some of them are:                  |<- at most 5 ms ->| read on for the rest of 50 ms |<- ...
//! ```
//!
//! The messages of an unread switch wait in its socket, and soon in the switch itself: nothing
//! is lost. The buffer that is read in between lets echo requests and port events through. The worker passes in the time
//! and the fill level of the apps (`worker/reading.rs`).

use std::time::{Duration, Instant};

/// The longest time for which a switch is left unread, and the period in which it waits once for only some of its apps.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// The longest that a switch is left unread at a stretch while an app for which it waits handles its records. After that
/// time, the worker reads one buffer and drops the packet-ins that the app has no room for.
const LONGEST: Duration = Duration::from_millis(500);

/// The longest that a switch waits for some of its apps, in any [`PATIENCE`].
const SHORT: Duration = Duration::from_millis(5);

/// A wait ends this much early, so that the waits of many switches end together.
const GRAIN: Duration = Duration::from_millis(1);

/// Which of the apps that a switch feeds are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// None that is worth waiting for.
    None,
    /// Some.
    Some,
    /// Every one.
    All,
    /// Every one, and some for which packets wait handle what they have.
    Busy,
}

/// A switch's waiting.
#[derive(Debug, Default)]
pub(crate) struct BackPressure {
    /// Since when it could have been read and was not.
    since: Option<Instant>,
    /// When it was last made to wait for some apps only: the beginning of a period in which it may
    /// not be much longer.
    period: Option<Instant>,
}

impl BackPressure {
    /// Until when the switch, which has sent something, is to be left unread, unless apps get room
    /// before; `None` if it is to be read now.
    pub(crate) fn wait(&mut self, full: Full, now: Instant) -> Option<Instant> {
        if full == Full::None {
            return None;
        }
        let longest = if full == Full::Busy { LONGEST } else { PATIENCE };
        let mut until = self.since.unwrap_or(now) + longest;
        if full == Full::Some {
            let period =
                self.period.filter(|began| now.saturating_duration_since(*began) < PATIENCE);
            until = until.min(*self.period.insert(period.unwrap_or(now)) + SHORT);
        }
        if until <= now + GRAIN {
            return None;
        }
        self.since.get_or_insert(now);
        Some(until)
    }

    /// The switch is being read.
    pub(crate) fn read(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets 500 ms pass, in which the switch always has something to be read; returns in which of
    /// them it was read, once each. `full` says what is full in a millisecond.
    fn read_at(mut full: impl FnMut(u64) -> Full) -> Vec<u64> {
        let (mut pause, start) = (BackPressure::default(), Instant::now());
        let mut read = Vec::new();
        for ms in 0..500 {
            if pause.wait(full(ms), start + Duration::from_millis(ms)).is_none() {
                pause.read();
                read.push(ms);
            }
        }
        read
    }

    #[test]
    fn switch_is_read_all_the_time_while_no_app_is_full() {
        assert_eq!(read_at(|_| Full::None).len(), 500);
    }

    #[test]
    fn one_buffer_is_read_in_50_ms_while_all_apps_are_full() {
        let read = read_at(|_| Full::All);
        assert_eq!(read.len(), 10, "{read:?}");
        assert!(read.windows(2).all(|pair| pair[1] - pair[0] <= 50), "{read:?}");
    }

    #[test]
    fn switch_waits_at_most_5_ms_in_any_50_for_some_apps() {
        let read = read_at(|_| Full::Some);
        for start in 0..450 {
            let unread = (start..start + 50).filter(|ms| !read.contains(ms)).count();
            assert!((1..=5).contains(&unread), "{unread} of those from {start}");
        }
    }

    #[test]
    fn no_stretch_is_longer_than_50_ms_however_apps_fill_and_empty() {
        let read = read_at(|ms| if ms * 7 % 40 < 30 { Full::All } else { Full::Some });
        assert!(read.windows(2).all(|pair| pair[1] - pair[0] <= 50), "{read:?}");
    }

    #[test]
    fn one_buffer_is_read_in_500_ms_while_an_app_is_busy_and_in_50_when_it_is_stuck() {
        assert_eq!(read_at(|_| Full::Busy), [499]);
        let read = read_at(|ms| if ms < 200 { Full::Busy } else { Full::All });
        assert_eq!((read[0], read[1]), (200, 250));
    }

    #[test]
    fn app_that_gets_room_ends_the_wait_and_the_next_is_a_whole_one() {
        let (mut pause, start) = (BackPressure::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pause.wait(Full::All, at(0)), Some(at(50)));
        assert_eq!(pause.wait(Full::None, at(20)), None);
        pause.read();
        assert_eq!(pause.wait(Full::All, at(21)), Some(at(71)));
        // A wait that ends without a read, as others have filled the room, goes on from its beginning.
        assert_eq!(pause.wait(Full::None, at(40)), None);
        assert_eq!(pause.wait(Full::All, at(41)), Some(at(71)));
        assert_eq!(pause.wait(Full::All, at(70)), None);
    }

    #[test]
    fn wait_for_some_apps_that_follows_one_for_all_is_short() {
        let (mut pause, start) = (BackPressure::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pause.wait(Full::All, at(0)), Some(at(50)));
        assert_eq!(pause.wait(Full::Some, at(20)), Some(at(25)));
        assert_eq!(pause.wait(Full::Some, at(24)), None);
        pause.read();
        assert_eq!(pause.wait(Full::Some, at(60)), None);
        assert_eq!(pause.wait(Full::Some, at(70)), Some(at(75)));
    }
}

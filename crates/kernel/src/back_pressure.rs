//! Decides how long a switch is left unread because its apps are full.
//!
//! ```text
//! every app that it feeds is full:   |<-- at most 50 ms unread -->| one buffer |<-- at most 50 ms ...
//! the same, and one is working:      |<-- at most 500 ms ...
//! some of them are full:             |<- at most 5 ms ->| read for the rest of 50 ms |<- ...
//! ```
//!
//! The messages of an unread switch wait in its socket, and soon in the switch itself: none is lost. The buffer that is
//! read in between brings echo requests and port events. The worker passes in the time and the fill level of the apps
//! (`worker/reading.rs`).

use std::time::{Duration, Instant};

/// The longest time for which a switch is left unread, and the period in which it waits once for only some of its apps.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// The longest time for which a switch is left unread while an app for which it waits handles its records. After that
/// time, the worker reads one buffer and drops the packet-ins that the app has no room for.
const LONGEST: Duration = Duration::from_millis(500);

/// The longest time in any [`PATIENCE`] for which a switch waits for some of its apps.
const SHORT: Duration = Duration::from_millis(5);

/// A wait ends this much early, so that the waits of many switches end together.
const GRAIN: Duration = Duration::from_millis(1);

/// Which of the apps that a switch feeds are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// None for which the switch should wait.
    None,
    /// Some.
    Some,
    /// Every one.
    All,
    /// Every one, and a guard or control app among them is handling its records.
    Busy,
}

/// The time for which one switch has waited.
#[derive(Debug, Default)]
pub(crate) struct BackPressure {
    /// When it was first left unread since the last read.
    since: Option<Instant>,
    /// When a period began in which the switch waits at most [`SHORT`] for some of its apps.
    period: Option<Instant>,
}

impl BackPressure {
    /// Returns until when the switch must be left unread unless apps get room before; `None` if it must be read now.
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

    /// Notes that the switch is read.
    pub(crate) fn read(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates 500 ms in which the switch always has unread bytes. Returns the milliseconds in which it was read.
    /// `full` is the fill level in each millisecond.
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
    fn switch_is_always_read_while_no_app_is_full() {
        assert_eq!(read_at(|_| Full::None).len(), 500);
    }

    #[test]
    fn one_buffer_is_read_in_50_ms_while_all_apps_are_full() {
        let read = read_at(|_| Full::All);
        assert_eq!(read.len(), 10, "{read:?}");
        assert!(read.windows(2).all(|pair| pair[1] - pair[0] <= 50), "{read:?}");
    }

    #[test]
    fn switch_waits_5_in_50_ms_for_some_apps() {
        let read = read_at(|_| Full::Some);
        for start in 0..450 {
            let unread = (start..start + 50).filter(|ms| !read.contains(ms)).count();
            assert!((1..=5).contains(&unread), "{unread} of those from {start}");
        }
    }

    #[test]
    fn no_pause_is_longer_than_50_ms() {
        let read = read_at(|ms| if ms * 7 % 40 < 30 { Full::All } else { Full::Some });
        assert!(read.windows(2).all(|pair| pair[1] - pair[0] <= 50), "{read:?}");
    }

    #[test]
    fn busy_app_extends_the_pause_to_500_ms() {
        assert_eq!(read_at(|_| Full::Busy), [499]);
        let read = read_at(|ms| if ms < 200 { Full::Busy } else { Full::All });
        assert_eq!((read[0], read[1]), (200, 250));
    }

    #[test]
    fn wait_after_a_read_has_its_full_length() {
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
    fn wait_for_some_apps_after_all_is_short() {
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

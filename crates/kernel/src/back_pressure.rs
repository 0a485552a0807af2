//! Decides for how long a switch is paused, which means left unread, because the up rings of its apps are full.
//!
//! ```text
//! apps whose rings are full         paused for at most          then
//! all                               50 ms                       one buffer is read, and the next pause begins
//! all, and one of them is busy      500 ms                      the same
//! some                              5 ms                        the switch is read for the rest of the 50 ms
//! ```
//!
//! The messages of a paused switch wait in its socket, and soon in the switch itself: a pause loses none. A switch that is
//! read although rings are full loses packet-ins: the kernel drops them for the apps that have no room. The buffer that is
//! read between two pauses brings echo requests and port events. The worker passes in the time and the state of the apps
//! (`worker/reading.rs`).

use std::time::{Duration, Instant};

/// The longest pause while the rings of all apps are full.
const PAUSE_ALL_FULL: Duration = Duration::from_millis(50);

/// The longest pause while they are full and one of the apps is [busy](FullApps::AllAndBusy).
const PAUSE_BUSY: Duration = Duration::from_millis(500);

/// The longest pause per [`PERIOD`] while the rings of only some apps are full.
const PAUSE_SOME_FULL: Duration = Duration::from_millis(5);

/// The period of [`PAUSE_SOME_FULL`].
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// How long a ring may be full before switches that feed other apps, too, no longer pause for it: the app does not
/// use the pauses to catch up.
pub(crate) const WORTH_WAITING: Duration = Duration::from_millis(50);

/// Pauses end this much early. So those of many switches that end within this time end together, with one wake-up of the
/// worker.
const GRAIN: Duration = Duration::from_millis(1);

/// Which of the apps that receive a switch's packet-ins have full up rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FullApps {
    /// None, or only such that have been full for [`WORTH_WAITING`].
    NotWorthWaiting,
    /// Only some: others have room.
    OnlySome,
    /// All.
    All,
    /// All, and a guard or control app among them is busy: it is handling its records.
    AllAndBusy,
}

/// The pauses of one switch.
#[derive(Debug, Default)]
pub(crate) struct BackPressure {
    /// When the present pause began; `None` if the switch was read since.
    ///
    /// A pause can end without a read: other switches, which are read first, fill the room again. The next one then counts
    /// as its continuation, so that both together are no longer than one.
    since: Option<Instant>,
    /// When the last [`PERIOD`] began, with a pause for some of the apps.
    period: Option<Instant>,
}

impl BackPressure {
    /// Decides about a switch with unread bytes: returns until when it is paused unless apps get room before; `None` if it
    /// must be read now.
    pub(crate) fn pause_until(&mut self, full: FullApps, now: Instant) -> Option<Instant> {
        let longest = match full {
            FullApps::NotWorthWaiting => return None,
            FullApps::OnlySome | FullApps::All => PAUSE_ALL_FULL,
            FullApps::AllAndBusy => PAUSE_BUSY,
        };
        let mut until = self.since.unwrap_or(now) + longest;
        if full == FullApps::OnlySome {
            let period = self.period.filter(|began| now.saturating_duration_since(*began) < PERIOD);
            until = until.min(*self.period.insert(period.unwrap_or(now)) + PAUSE_SOME_FULL);
        }
        if until <= now + GRAIN {
            return None;
        }
        self.since.get_or_insert(now);
        Some(until)
    }

    /// Notes that the switch is read.
    pub(crate) fn end_pause(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates 500 ms in which the switch always has unread bytes. Returns the milliseconds in which it was read.
    /// `full` returns the state of the apps in a millisecond.
    fn read_at(mut full: impl FnMut(u64) -> FullApps) -> Vec<u64> {
        let (mut pauses, start) = (BackPressure::default(), Instant::now());
        let mut read = Vec::new();
        for ms in 0..500 {
            if pauses.pause_until(full(ms), start + Duration::from_millis(ms)).is_none() {
                pauses.end_pause();
                read.push(ms);
            }
        }
        read
    }

    #[test]
    fn switch_is_always_read_while_no_app_is_full() {
        assert_eq!(read_at(|_| FullApps::NotWorthWaiting).len(), 500);
    }

    #[test]
    fn one_buffer_is_read_in_50_ms_while_all_apps_are_full() {
        let read = read_at(|_| FullApps::All);
        assert_eq!(read.len(), 10, "{read:?}");
        assert!(read.windows(2).all(|pair| pair[1] - pair[0] <= 50), "{read:?}");
    }

    #[test]
    fn switch_pauses_5_in_50_ms_for_some_apps() {
        let read = read_at(|_| FullApps::OnlySome);
        for start in 0..450 {
            let unread = (start..start + 50).filter(|ms| !read.contains(ms)).count();
            assert!((1..=5).contains(&unread), "{unread} of those from {start}");
        }
    }

    #[test]
    fn no_pause_is_longer_than_50_ms() {
        let read = read_at(|ms| if ms * 7 % 40 < 30 { FullApps::All } else { FullApps::OnlySome });
        assert!(read.windows(2).all(|pair| pair[1] - pair[0] <= 50), "{read:?}");
    }

    #[test]
    fn busy_app_extends_the_pause_to_500_ms() {
        // A millisecond early, see `GRAIN`.
        assert_eq!(read_at(|_| FullApps::AllAndBusy), [499]);
        // The app is busy no longer: the pause has lasted more than 50 ms, and the next is one of 50 ms.
        let read = read_at(|ms| if ms < 200 { FullApps::AllAndBusy } else { FullApps::All });
        assert_eq!((read[0], read[1]), (200, 250));
    }

    #[test]
    fn pause_after_a_read_has_its_full_length() {
        let (mut pauses, start) = (BackPressure::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pauses.pause_until(FullApps::All, at(0)), Some(at(50)));
        assert_eq!(pauses.pause_until(FullApps::NotWorthWaiting, at(20)), None);
        pauses.end_pause();
        assert_eq!(pauses.pause_until(FullApps::All, at(21)), Some(at(71)));
        // Others have filled the room before the switch was read: the pause goes on from its beginning.
        assert_eq!(pauses.pause_until(FullApps::NotWorthWaiting, at(40)), None);
        assert_eq!(pauses.pause_until(FullApps::All, at(41)), Some(at(71)));
        assert_eq!(pauses.pause_until(FullApps::All, at(70)), None);
    }

    #[test]
    fn pause_for_some_apps_after_all_is_short() {
        let (mut pauses, start) = (BackPressure::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pauses.pause_until(FullApps::All, at(0)), Some(at(50)));
        assert_eq!(pauses.pause_until(FullApps::OnlySome, at(20)), Some(at(25)));
        assert_eq!(pauses.pause_until(FullApps::OnlySome, at(24)), None);
        pauses.end_pause();
        assert_eq!(pauses.pause_until(FullApps::OnlySome, at(60)), None);
        assert_eq!(pauses.pause_until(FullApps::OnlySome, at(70)), Some(at(75)));
    }
}

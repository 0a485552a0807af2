//! Timers with names, which last until they expire or are cancelled: [`Timers`].
//!
//! [`Network::set_timer`](crate::Network::set_timer) and [`repeat_timer`](crate::Network::repeat_timer) set them, and
//! [`App::on_timer`](crate::App::on_timer) is called when one expires. Other events do not change them. They end with the
//! application's process: a restarted application sets them again.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

/// The most timers of an application.
pub const MOST_TIMERS: usize = 64;

/// The shortest period of a repeated timer.
pub const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

/// Why a timer was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TimerError {
    /// The application has [`MOST_TIMERS`] others.
    #[error(
        "this app has {MOST_TIMERS} timers already; cancel one, or use one timer for several purposes"
    )]
    TooMany,
    /// The period is shorter than [`SHORTEST_PERIOD`].
    #[error("a timer repeats after 1 ms at the earliest; use a longer period")]
    TooShort,
}

/// The timers of an application, by name. Takes the time as an argument.
#[derive(Debug)]
pub struct Timers {
    timers: BTreeMap<Box<str>, Timer>,
    /// When the first one expires, in nanoseconds; `u64::MAX` without timers.
    next_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    /// When it expires.
    at_ns: u64,
    /// Its period, if it repeats.
    every_ns: Option<u64>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { timers: BTreeMap::new(), next_ns: u64::MAX }
    }
}

impl Timers {
    /// Sets the timer `name` to expire once at this time of [`Network::now`](crate::Network::now). Replaces a timer of this name.
    ///
    /// # Errors
    /// [`TimerError::TooMany`]; nothing has changed.
    pub fn set(&mut self, name: &str, at: Duration) -> Result<(), TimerError> {
        self.insert(name, Timer { at_ns: nanos(at), every_ns: None })
    }

    /// Sets the timer `name` to expire after each period `every`, for the first time a period after `now`. Replaces a timer of
    /// this name.
    ///
    /// # Errors
    /// [`TimerError`]; nothing has changed.
    pub fn repeat(&mut self, name: &str, every: Duration, now: Duration) -> Result<(), TimerError> {
        if every < SHORTEST_PERIOD {
            return Err(TimerError::TooShort);
        }
        let at_ns = nanos(now).saturating_add(nanos(every));
        self.insert(name, Timer { at_ns, every_ns: Some(nanos(every)) })
    }

    fn insert(&mut self, name: &str, timer: Timer) -> Result<(), TimerError> {
        if self.timers.len() >= MOST_TIMERS && !self.timers.contains_key(name) {
            return Err(TimerError::TooMany);
        }
        self.timers.insert(name.into(), timer);
        self.find_next();
        Ok(())
    }

    /// Cancels the timer `name`. Returns whether it was set.
    pub fn cancel(&mut self, name: &str) -> bool {
        let was_set = self.timers.remove(name).is_some();
        self.find_next();
        was_set
    }

    /// When the first timer expires, in nanoseconds; `u64::MAX` without timers.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the names of the timers that have expired, the earliest first, and sets those again that repeat. A period that
    /// was missed is left out.
    pub fn expired(&mut self, now_ns: u64) -> Vec<Box<str>> {
        if now_ns < self.next_ns {
            return Vec::new();
        }
        let mut expired: Vec<(u64, Box<str>)> = Vec::new();
        self.timers.retain(|name, timer| {
            if timer.at_ns > now_ns {
                return true;
            }
            expired.push((timer.at_ns, name.clone()));
            let Some(every_ns) = timer.every_ns else { return false };
            let next = timer.at_ns.saturating_add(every_ns);
            timer.at_ns = if next > now_ns { next } else { now_ns.saturating_add(every_ns) };
            true
        });
        self.find_next();
        expired.sort_unstable();
        expired.into_iter().map(|(_, name)| name).collect()
    }

    fn find_next(&mut self) {
        self.next_ns = self.timers.values().map(|timer| timer.at_ns).min().unwrap_or(u64::MAX);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn expired(timers: &mut Timers, now: Duration) -> Vec<String> {
        timers.expired(nanos(now)).into_iter().map(Into::into).collect()
    }

    #[test]
    fn timer_expires_once_and_earliest_is_first() {
        let mut timers = Timers::default();
        assert_eq!(timers.next_ns(), u64::MAX);
        timers.set("b", ms(20)).unwrap();
        timers.set("a", ms(30)).unwrap();
        assert_eq!(timers.next_ns(), nanos(ms(20)));
        assert_eq!(expired(&mut timers, ms(19)), [""; 0]);
        assert_eq!(expired(&mut timers, ms(40)), ["b", "a"]);
        assert_eq!((expired(&mut timers, ms(99)), timers.next_ns()), (vec![], u64::MAX));
    }

    #[test]
    fn repeated_timer_leaves_missed_periods_out() {
        let mut timers = Timers::default();
        timers.repeat("poll", ms(10), ms(5)).unwrap();
        assert_eq!(expired(&mut timers, ms(14)), [""; 0]);
        assert_eq!(expired(&mut timers, ms(16)), ["poll"]);
        assert_eq!(timers.next_ns(), nanos(ms(25)), "it does not drift");
        assert_eq!(expired(&mut timers, ms(100)), ["poll"]);
        assert_eq!(timers.next_ns(), nanos(ms(110)));
        assert!(timers.cancel("poll") && !timers.cancel("poll"));
        assert_eq!(timers.next_ns(), u64::MAX);
    }

    #[test]
    fn number_and_period_of_timers_are_bounded() {
        let mut timers = Timers::default();
        for number in 0..MOST_TIMERS {
            timers.set(&number.to_string(), ms(1)).unwrap();
        }
        assert_eq!(timers.set("one more", ms(1)), Err(TimerError::TooMany));
        timers.set("7", ms(2)).unwrap();
        let short = timers.repeat("7", Duration::from_micros(999), ms(0));
        assert_eq!(short, Err(TimerError::TooShort));
        assert_eq!(expired(&mut timers, ms(1)).len(), MOST_TIMERS - 1);
    }
}

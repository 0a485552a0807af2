//! How fast an app handles its records, and how many of them may wait for it.
//!
//! A ring is a queue for all switches together: what one switch put there delays all others. So no more waits in it
//! than the app handles in a few milliseconds; the rest waits in the switches' sockets, which are read in turns. A fast
//! app handles more than a ring holds in that time, and is not affected.
//!
//! The pace is measured while there is more to be read than is read at once. Where the app runs out of records
//! meanwhile, more is allowed to wait for it until the next measurement: it handles whole batches.

use std::time::{Duration, Instant};

/// How long the pace is measured, at least.
const WINDOW: Duration = Duration::from_millis(25);

/// As much waits for an app as it handles in this part of [`WINDOW`]: 4 ms.
const AHEAD: usize = 6;

/// An app that has handled nothing for this long is stuck: no switch waits for it.
const STUCK: Duration = Duration::from_millis(500);

/// The least and the greatest pace, and the least that is allowed to wait. A new app has the least.
const LEAST: usize = 4 * 1024;
const MOST: usize = 64 << 20;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Drain {
    /// Bytes of records that the app handles in [`WINDOW`].
    pace: usize,
    /// Bytes of records that may wait for it.
    allowed: usize,
    /// Where the measurement began: when, and the bytes that it had handled by then.
    window: Option<(Instant, u64)>,
    /// When it last had nothing to do or handled something, if it has something to do; and the bytes by then.
    busy: Option<(Instant, u64)>,
    /// Whether something was held back for its sake since the measurement began.
    held_back: bool,
    /// The same, since it last had nothing to do.
    needs_more: bool,
    /// Bytes that an app in this process has handled.
    handled_here: u64,
}

impl Drain {
    pub(super) const fn new() -> Self {
        Self {
            pace: LEAST,
            allowed: LEAST,
            window: None,
            busy: None,
            held_back: false,
            needs_more: false,
            handled_here: 0,
        }
    }

    /// Bytes of records that the app handles in 25 ms.
    pub(super) fn pace(&self) -> usize {
        self.pace
    }

    /// Bytes of records that may wait for it.
    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Whether the app has something to do, and is not stuck.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.busy.is_some() && !self.is_stuck(now)
    }

    /// Whether the app has handled nothing for long, though there was something.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.busy.is_some_and(|(since, _)| now.saturating_duration_since(since) >= STUCK)
    }

    /// Notes that something was left unread for the app's sake.
    pub(super) fn hold_back(&mut self) {
        (self.held_back, self.needs_more) = (true, true);
    }

    /// Notes how many bytes an app in a zone has handled in all, and whether records wait for it.
    pub(super) fn note(&mut self, handled: u64, has_records: bool, now: Instant) {
        self.measure(handled, now);
        if has_records {
            let unchanged = self.busy.filter(|(_, before)| *before == handled);
            self.busy = unchanged.or(Some((now, handled)));
        } else {
            self.busy = None;
            if std::mem::take(&mut self.needs_more) {
                self.allowed = (2 * self.allowed).min(MOST);
            }
        }
    }

    /// Notes that an app in this process has handled `size` bytes more.
    pub(super) fn handled_here(&mut self, size: usize) {
        self.handled_here += size as u64;
    }

    /// The same as [`note`](Self::note) of an app in this process, for which nothing waits.
    pub(super) fn note_here(&mut self, now: Instant) {
        self.measure(self.handled_here, now);
    }

    fn measure(&mut self, handled: u64, now: Instant) {
        let Some((since, before)) = self.window else {
            if std::mem::take(&mut self.held_back) {
                self.window = Some((now, handled));
            }
            return;
        };
        let (time, size) = (now.saturating_duration_since(since), handled.saturating_sub(before));
        if time < WINDOW || size == 0 {
            return;
        }
        self.window = None;
        if std::mem::take(&mut self.held_back) {
            self.window = Some((now, handled));
            let pace = u128::from(size) * WINDOW.as_nanos() / time.as_nanos().max(1);
            let pace = usize::try_from(pace).unwrap_or(MOST).clamp(LEAST, MOST);
            // Machines are busy with other things at times: that is no reason for turns to change from one switch to
            // the next.
            self.pace = if pace < self.pace / 4 { pace } else { usize::midpoint(pace, self.pace) };
            self.allowed = (self.pace / AHEAD).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_what_the_app_handles_while_more_is_held_back() {
        let (mut drain, start) = (Drain::new(), Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        for at in [0, 25, 50] {
            drain.note(at * 8000, true, ms(at));
        }
        assert_eq!(drain.pace(), LEAST, "nothing is held back");
        for at in 50..=200 {
            drain.hold_back();
            drain.note(at * 8000, true, ms(at));
        }
        assert!((190_000..=200_000).contains(&drain.pace()), "{}", drain.pace());
        assert_eq!(drain.allowed(), drain.pace() / AHEAD);
        drain.note(1_700_000, true, ms(225));
        assert!(drain.pace() > 190_000, "nothing was held back since");
        drain.hold_back();
        drain.note(1_700_000, true, ms(226));
        drain.hold_back();
        drain.note(1_700_000, true, ms(300));
        assert!(drain.pace() > 190_000, "it is in a call");
        drain.note(1_701_000, true, ms(400));
        assert_eq!((drain.pace(), drain.allowed()), (LEAST, LEAST), "it has become slow");
    }

    #[test]
    fn more_is_allowed_where_the_app_runs_out_of_what_was_held_back() {
        let (mut drain, now) = (Drain::new(), Instant::now());
        for _ in 0..9 {
            drain.note(0, true, now);
            drain.note(9, false, now);
        }
        assert_eq!(drain.allowed(), LEAST, "there was no more");
        for doubled in 1..9 {
            drain.hold_back();
            drain.note(0, true, now);
            drain.note(9, false, now);
            assert_eq!((drain.allowed(), drain.pace()), (LEAST << doubled, LEAST));
        }
        for _ in 0..99 {
            drain.hold_back();
            drain.note(9, false, now);
        }
        assert_eq!(drain.allowed(), MOST);
    }

    #[test]
    fn app_is_stuck_if_it_handles_nothing_for_long() {
        let (mut drain, start) = (Drain::new(), Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        drain.note(0, false, ms(0));
        assert!(!drain.is_busy(ms(900)) && !drain.is_stuck(ms(900)));
        drain.note(0, true, ms(1000));
        drain.note(0, true, ms(1400));
        assert!(drain.is_busy(ms(1499)) && drain.is_stuck(ms(1500)));
        drain.note(1, true, ms(1600));
        assert!(drain.is_busy(ms(2000)) && drain.is_stuck(ms(2100)));
        drain.note(2, false, ms(2200));
        assert!(!drain.is_busy(ms(9000)) && !drain.is_stuck(ms(9000)));
    }

    #[test]
    fn app_in_this_process_is_measured_alike() {
        let (mut drain, start) = (Drain::new(), Instant::now());
        for at in 0..300 {
            drain.note_here(start + Duration::from_millis(at));
            drain.hold_back();
            drain.handled_here(10_000);
        }
        assert!((240_000..=250_000).contains(&drain.pace()), "{}", drain.pace());
    }
}

//! Measures how fast an app handles its records, and derives how many of them may wait for it.
//!
//! A ring is one queue for all switches: the records of one switch delay those of all others. So only the records that
//! the app handles in a few milliseconds wait in it. Further packets wait in the switches' sockets, which are read in
//! turns. A fast app handles more than a whole ring in that time, and is not affected.
//!
//! The pace is measured while switches have more unread bytes than one turn reads. If the app runs out of records
//! meanwhile, more records may wait for it until the next measurement, as it handles whole batches.

use std::time::{Duration, Instant};

/// Shortest measurement of the pace.
const WINDOW: Duration = Duration::from_millis(25);

/// The records that an app handles in this fraction of [`WINDOW`] may wait for it: 4 ms.
const AHEAD: usize = 6;

/// An app that has handled nothing for this long is stuck: no switch waits for it.
const STUCK: Duration = Duration::from_millis(500);

/// The least and the greatest pace, and the least number of bytes that may wait. A new app has the least.
const LEAST_BYTES: usize = 4 * 1024;
const MOST_BYTES: usize = 64 << 20;

/// The pace of one app.
#[derive(Debug)]
pub(super) struct Throughput {
    /// Bytes of records that the app handles in [`WINDOW`].
    pace: usize,
    /// Bytes of records that may wait for it.
    allowed: usize,
    /// When the measurement began, and the bytes that the app had handled by then.
    window: Option<(Instant, u64)>,
    /// While the app has records: when it last had none or handled one, and the bytes that it had handled by then.
    busy: Option<(Instant, u64)>,
    /// Whether a switch was left unread because of the app since the measurement began.
    held_back: bool,
    /// The same, since the app last had no records.
    needs_more: bool,
    /// Bytes that an app in the kernel's process has handled.
    handled_in_kernel: u64,
}

impl Default for Throughput {
    fn default() -> Self {
        Self {
            pace: LEAST_BYTES,
            allowed: LEAST_BYTES,
            window: None,
            busy: None,
            held_back: false,
            needs_more: false,
            handled_in_kernel: 0,
        }
    }
}

impl Throughput {
    /// Bytes of records that the app handles in 25 ms.
    pub(super) fn pace(&self) -> usize {
        self.pace
    }

    /// Bytes of records that may wait for it.
    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Whether the app has records and is not stuck.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.busy.is_some() && !self.is_stuck(now)
    }

    /// Whether the app has handled none of its records for [`STUCK`].
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.busy.is_some_and(|(since, _)| now.saturating_duration_since(since) >= STUCK)
    }

    /// Notes that a switch was left unread because of the app.
    pub(super) fn hold_back(&mut self) {
        (self.held_back, self.needs_more) = (true, true);
    }

    /// Notes how many bytes of records a zone has handled in all, and whether more wait for it.
    pub(super) fn note(&mut self, handled: u64, has_records: bool, now: Instant) {
        self.measure(handled, now);
        if has_records {
            let unchanged = self.busy.filter(|(_, before)| *before == handled);
            self.busy = unchanged.or(Some((now, handled)));
        } else {
            self.busy = None;
            if std::mem::take(&mut self.needs_more) {
                self.allowed = (2 * self.allowed).min(MOST_BYTES);
            }
        }
    }

    /// Notes that an app in the kernel's process has handled `size` more bytes of records.
    pub(super) fn handled_in_kernel(&mut self, size: usize) {
        self.handled_in_kernel += size as u64;
    }

    /// Measures an app in the kernel's process, for which no records wait.
    pub(super) fn note_kernel(&mut self, now: Instant) {
        self.measure(self.handled_in_kernel, now);
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
            let pace = usize::try_from(pace).unwrap_or(MOST_BYTES).clamp(LEAST_BYTES, MOST_BYTES);
            // The machine may have been busy with other work: a single slow measurement must not change the length of
            // turns from one switch to the next.
            self.pace = if pace < self.pace / 4 { pace } else { usize::midpoint(pace, self.pace) };
            self.allowed = (self.pace / AHEAD).max(LEAST_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_measured_while_switches_are_held_back() {
        let (mut throughput, start) = (Throughput::default(), Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        for at in [0, 25, 50] {
            throughput.note(at * 8000, true, ms(at));
        }
        assert_eq!(throughput.pace(), LEAST_BYTES, "nothing is held back");
        for at in 50..=200 {
            throughput.hold_back();
            throughput.note(at * 8000, true, ms(at));
        }
        assert!((190_000..=200_000).contains(&throughput.pace()), "{}", throughput.pace());
        assert_eq!(throughput.allowed(), throughput.pace() / AHEAD);
        throughput.note(1_700_000, true, ms(225));
        assert!(throughput.pace() > 190_000, "nothing was held back since");
        throughput.hold_back();
        throughput.note(1_700_000, true, ms(226));
        throughput.hold_back();
        throughput.note(1_700_000, true, ms(300));
        assert!(throughput.pace() > 190_000, "it is in a call");
        throughput.note(1_701_000, true, ms(400));
        assert_eq!(
            (throughput.pace(), throughput.allowed()),
            (LEAST_BYTES, LEAST_BYTES),
            "it has become slow"
        );
    }

    #[test]
    fn app_that_runs_out_of_records_is_allowed_more() {
        let (mut throughput, now) = (Throughput::default(), Instant::now());
        for _ in 0..9 {
            throughput.note(0, true, now);
            throughput.note(9, false, now);
        }
        assert_eq!(throughput.allowed(), LEAST_BYTES, "there was no more");
        for doubled in 1..9 {
            throughput.hold_back();
            throughput.note(0, true, now);
            throughput.note(9, false, now);
            assert_eq!(
                (throughput.allowed(), throughput.pace()),
                (LEAST_BYTES << doubled, LEAST_BYTES)
            );
        }
        for _ in 0..99 {
            throughput.hold_back();
            throughput.note(9, false, now);
        }
        assert_eq!(throughput.allowed(), MOST_BYTES);
    }

    #[test]
    fn app_that_handles_nothing_becomes_stuck() {
        let (mut throughput, start) = (Throughput::default(), Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        throughput.note(0, false, ms(0));
        assert!(!throughput.is_busy(ms(900)) && !throughput.is_stuck(ms(900)));
        throughput.note(0, true, ms(1000));
        throughput.note(0, true, ms(1400));
        assert!(throughput.is_busy(ms(1499)) && throughput.is_stuck(ms(1500)));
        throughput.note(1, true, ms(1600));
        assert!(throughput.is_busy(ms(2000)) && throughput.is_stuck(ms(2100)));
        throughput.note(2, false, ms(2200));
        assert!(!throughput.is_busy(ms(9000)) && !throughput.is_stuck(ms(9000)));
    }

    #[test]
    fn app_in_the_kernel_is_measured_alike() {
        let (mut throughput, start) = (Throughput::default(), Instant::now());
        for at in 0..300 {
            throughput.note_kernel(start + Duration::from_millis(at));
            throughput.hold_back();
            throughput.handled_in_kernel(10_000);
        }
        assert!((240_000..=250_000).contains(&throughput.pace()), "{}", throughput.pace());
    }
}

//! Measures how long packet-ins take until an app has handled them, one sample at a time.
//!
//! For an app in a zone a sample begins at the end of a turn of the worker that has written packet-ins, if none is open: with the time
//! at which the turn began, just before the worker read its sockets. It ends in the first turn that finds the last of the written
//! records handled. For an app in the kernel's process one call in each tick of the worker is timed, from the beginning of the turn.
//!
//! Turns know their times anyway, so a packet-in costs nothing, and a turn a comparison for each app. A clock is read for an app in the
//! kernel's process alone, once per tick.

use std::time::{Duration, Instant};

use control::query::{LATENCY_BOUNDS_US, Latencies};

/// The samples of one app, including the app's restarts.
#[derive(Debug, Default)]
pub(super) struct Latency {
    open: Option<Sample>,
    /// The number of packet-ins at the end of the last turn, or at the last call.
    seen: u64,
    /// Whether the next call of an app in the kernel's process is timed.
    is_armed: bool,
    samples: Latencies,
}

/// A sample that has begun.
#[derive(Debug)]
struct Sample {
    since: Instant,
    /// It ends when this many records are handled.
    until: u64,
}

impl Latency {
    /// Notes the end of a turn that began at `turn`. The app was given `delivered` packet-ins since the start of the kernel. Of its
    /// records it has handled `handled`, and `left` are in its ring.
    pub(super) fn note(&mut self, delivered: u64, (handled, left): (u64, u32), turn: Instant) {
        if let Some(sample) = self.open.take_if(|sample| handled >= sample.until) {
            self.add(turn.saturating_duration_since(sample.since));
        }
        let is_new = std::mem::replace(&mut self.seen, delivered) != delivered;
        if is_new && left > 0 && self.open.is_none() {
            self.open = Some(Sample { since: turn, until: handled + u64::from(left) });
        }
    }

    /// Lets the next call of an app in the kernel's process be timed.
    pub(super) fn arm(&mut self) {
        self.is_armed = true;
    }

    /// Whether a call of an app that was given `delivered` packet-ins since the start of the kernel is to be timed: one call with new
    /// packet-ins after each [`arm`](Self::arm).
    pub(super) fn times_call(&mut self, delivered: u64) -> bool {
        let is_new = std::mem::replace(&mut self.seen, delivered) != delivered;
        is_new && std::mem::take(&mut self.is_armed)
    }

    /// Forgets the open sample: the app has ended, and its ring with it.
    pub(super) fn forget(&mut self) {
        self.open = None;
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < micros);
        self.samples.counts[bucket] += 1;
        self.samples.sum_us = self.samples.sum_us.saturating_add(micros);
    }

    /// The samples so far.
    pub(super) fn samples(&self) -> Latencies {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latency: &Latency) -> Vec<(u64, u64)> {
        let bounds = LATENCY_BOUNDS_US.into_iter().chain([u64::MAX]);
        bounds.zip(latency.samples.counts).filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn one_sample_at_a_time_lasts_until_its_records_are_handled() {
        let (mut latency, start) = (Latency::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        latency.note(0, (5, 3), at(0)); // records that are no packet-ins
        latency.note(2, (5, 4), at(10));
        latency.note(9, (8, 6), at(20)); // further ones join no sample
        latency.note(9, (8, 6), at(25));
        assert_eq!(counts(&latency), []);
        latency.note(9, (9, 5), at(30));
        assert_eq!((counts(&latency), latency.samples.sum_us), (vec![(25_000, 1)], 20_000));
        latency.note(9, (14, 0), at(99));
        assert_eq!(counts(&latency), [(25_000, 1)], "without new packet-ins there is no sample");
        latency.note(10, (14, 1), at(100));
        latency.forget();
        latency.note(10, (15, 0), at(200));
        assert_eq!(counts(&latency), [(25_000, 1)]);
    }

    #[test]
    fn calls_in_the_kernel_are_timed_once_per_tick() {
        let mut latency = Latency::default();
        assert!(!latency.times_call(1));
        latency.arm();
        assert!(latency.times_call(2) && !latency.times_call(3));
        latency.arm();
        assert!(!latency.times_call(3), "no packet-in has come since");
        assert!(latency.times_call(4));
    }

    #[test]
    fn bounds_belong_to_their_buckets() {
        let mut latency = Latency::default();
        for micros in [0, 100, 101, 10_000_000, 10_000_001, u64::MAX] {
            latency.add(Duration::from_micros(micros));
        }
        let expected = [(100, 2), (250, 1), (10_000_000, 1), (u64::MAX, 2)];
        assert_eq!(counts(&latency), expected);
        assert_eq!(latency.samples.sum_us, u64::MAX, "it saturates");
    }
}

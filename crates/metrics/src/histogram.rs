//! Counts durations in buckets.

use std::time::Duration;

use control::query::LATENCY_BOUNDS_US;

/// A histogram of durations. Its upper bounds ascend.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Durations up to each bound and above the one before; the last ones are above all bounds.
    counts: Vec<u64>,
    sum: Duration,
}

impl Histogram {
    /// Bounds from 100 microseconds to 10 seconds, for answers of programs.
    pub const ANSWERS: &'static [f64] =
        &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

    /// The bounds of the times of packet-ins, as the kernel has them.
    pub(crate) const PACKET_INS: &'static [f64; LATENCY_BOUNDS_US.len()] = &[
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        5.0, 10.0,
    ];

    /// Bounds from 10 milliseconds to an hour, for incidents.
    pub const INCIDENTS: &'static [f64] =
        &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0, 3600.0];

    /// Creates an empty histogram with these upper bounds in seconds.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: Duration::ZERO }
    }

    /// Creates a histogram of counts that another program made: those up to each bound and above the one before, and those above all.
    pub(crate) fn of(bounds: &'static [f64], counts: &[u64], sum: Duration) -> Self {
        debug_assert_eq!(counts.len(), bounds.len() + 1, "the last bucket has no bound");
        Self { bounds, counts: counts.to_vec(), sum }
    }

    /// Counts a duration.
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound);
        let bucket = bucket.unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(duration);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum.as_secs_f64()
    }

    /// Returns each bound as text, and the number of durations up to it.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (String, u64)> {
        let bounds = self.bounds.iter().map(ToString::to_string);
        let mut total = 0;
        bounds.chain(["+Inf".to_owned()]).zip(&self.counts).map(move |(bound, count)| {
            total += count;
            (bound, total)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_packet_ins_are_those_of_the_kernel() {
        let bounds =
            Histogram::PACKET_INS.iter().map(|it| Duration::from_secs_f64(*it).as_micros());
        assert!(bounds.eq(LATENCY_BOUNDS_US.map(u128::from)));
    }

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        for millis in [100, 101, 5000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        let expected = [("0.1", 1), ("1", 2), ("+Inf", 3)];
        assert_eq!(buckets, expected.map(|(bound, count)| (bound.to_owned(), count)));
        assert_eq!((histogram.count(), histogram.sum_seconds()), (3, 5.201));
    }
}

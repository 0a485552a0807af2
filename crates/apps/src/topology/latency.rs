//! Estimates the latency of links, and decides which of them are too slow to be a cable.
//!
//! A probe measures the way from this process over a switch, the link and the other switch back. Barriers measure the way
//! to each switch and back, and half of each is subtracted. The table shows the least of several samples, because waiting
//! only adds.
//!
//! A sample is *slow* if it is far above the other samples of the same time. Only these are compared: on a busy machine all
//! samples are large and differ much. A link with several slow samples in a row is suspicious: someone may relay its probes.
//! The relay that is as fast as a cable, or more than half of all links, cannot be found in this way.

use std::time::Duration;

/// Samples that count.
const SAMPLES: usize = 8;

/// Samples of all links that a new one is compared with, and without how many there is no comparison.
const RECENT: usize = 64;
const LEAST_RECENT: usize = 16;

/// Latency above the median that is never slow.
const TOLERANCE: Duration = Duration::from_millis(5);

/// Slow samples in a row that make a link suspicious, and others in a row that end that.
pub(super) const STREAK: u8 = 4;

/// The latest samples of one way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Samples {
    values: [Duration; SAMPLES],
    count: usize,
}

impl Samples {
    pub(super) fn add(&mut self, sample: Duration) {
        self.values[self.count % SAMPLES] = sample;
        self.count = self.count.saturating_add(1);
    }

    /// The least of the latest samples; zero without any.
    pub(super) fn least(&self) -> Duration {
        self.values.iter().take(self.count).min().copied().unwrap_or_default()
    }
}

/// The latest samples of all links.
#[derive(Debug)]
pub(super) struct Recent {
    values: [Duration; RECENT],
    count: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self { values: [Duration::ZERO; RECENT], count: 0 }
    }
}

impl Recent {
    /// Adds a sample. Returns the latency from which on it would be slow: the median of the samples before, and above that
    /// several times their median deviation from it; `None` if they are too few.
    pub(super) fn add(&mut self, sample: Duration) -> Option<Duration> {
        let limit = self.limit();
        self.values[self.count % RECENT] = sample;
        self.count = self.count.saturating_add(1);
        limit
    }

    fn limit(&self) -> Option<Duration> {
        let count = self.count.min(RECENT);
        if count < LEAST_RECENT {
            return None;
        }
        let mut values = self.values;
        let median = *values[..count].select_nth_unstable(count / 2).1;
        let mut deviations = values.map(|value| value.abs_diff(median));
        let deviation = *deviations[..count].select_nth_unstable(count / 2).1;
        Some(median + TOLERANCE.max(deviation * 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn least_of_the_latest_samples_counts() {
        let mut samples = Samples::default();
        assert_eq!(samples.least(), Duration::ZERO);
        for ms in [3, 1, 2] {
            samples.add(MS * ms);
        }
        assert_eq!(samples.least(), MS);
        (0..8).for_each(|_| samples.add(MS * 7));
        assert_eq!(samples.least(), MS * 7);
    }

    #[test]
    fn relay_is_slow_and_cables_are_not() {
        let mut recent = Recent::default();
        for number in 0..15 {
            assert_eq!(recent.add(MS + Duration::from_micros(number * 10)), None);
        }
        recent.add(MS * 30);
        let limit = recent.add(MS * 30).unwrap();
        assert!(limit > MS * 4 && limit < MS * 10, "{limit:?}");
    }

    #[test]
    fn nothing_is_slow_in_a_busy_time() {
        let mut recent = Recent::default();
        for _ in 0..64 {
            recent.add(MS);
        }
        for number in 0..64 {
            recent.add(MS * (100 + number * 7 % 50));
        }
        let limit = recent.add(MS).unwrap();
        assert!(limit > MS * 170, "{limit:?}");
    }
}

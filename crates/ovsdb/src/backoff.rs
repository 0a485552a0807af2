//! Decides how long a client waits before it connects again.

use std::time::Duration;

/// Doubles the pause with each failure in a row, from `first` to `most`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a back-off without failures.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, failures: 0 }
    }

    /// Counts a failure, and returns the pause: half of it is fixed, and `jitter`, any random number, chooses the rest. So the clients
    /// of a server that restarts do not all return in the same moment.
    pub fn fail(&mut self, jitter: u32) -> Duration {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let pause = self.first.saturating_mul(doubled).min(self.most);
        let half = pause / 2;
        half + half.mul_f64(f64::from(jitter) / f64::from(u32::MAX))
    }

    /// Forgets the failures, because the client has connected.
    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_to_the_most_and_begins_again() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
        let pauses: Vec<u64> = (0..6).map(|_| backoff.fail(u32::MAX).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 8, 8]);
        (0..100).for_each(|_| assert_eq!(backoff.fail(0), Duration::from_secs(4)));
        backoff.succeed();
        assert_eq!(backoff.fail(0), Duration::from_millis(500));
    }
}

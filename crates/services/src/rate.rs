//! Keeps what clients can repeat from filling the log.

use std::time::{Duration, Instant};

/// At most this many lines in a [`PERIOD`].
const LINES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// Counts what one client does.
#[derive(Debug)]
pub struct Rate {
    period_began: Instant,
    in_period: u32,
    suppressed: u64,
}

impl Rate {
    /// Starts counting at `now`.
    pub fn new(now: Instant) -> Self {
        Self { period_began: now, in_period: 0, suppressed: 0 }
    }

    /// Whether to log one more: `Some` if so, of how many were left out since the last.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.period_began) >= PERIOD {
            (self.period_began, self.in_period) = (now, 0);
        }
        if self.in_period >= LINES {
            self.suppressed += 1;
            return None;
        }
        self.in_period += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_cut_and_the_next_line_says_how_many_were_left_out() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        assert_eq!((0..100).filter(|_| rate.admit(start).is_some()).count(), 10);
        assert_eq!(rate.admit(start + PERIOD), Some(90));
        assert_eq!(rate.admit(start + PERIOD), Some(0));
    }
}

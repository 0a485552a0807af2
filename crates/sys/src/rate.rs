//! Limits log lines about events that others can repeat at will.

use std::time::{Duration, Instant};

/// Most lines in a period about one kind of event.
const LINES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// Limits the lines about one kind of event.
#[derive(Debug)]
pub struct Rate {
    period_began: Instant,
    in_period: u32,
    lines: u32,
    suppressed: u64,
}

impl Rate {
    /// Starts counting at `now`.
    pub fn new(now: Instant) -> Self {
        Self { period_began: now, in_period: 0, lines: LINES, suppressed: 0 }
    }

    /// Allows one line per period, for events that repeat while their cause lasts.
    pub fn seldom(now: Instant) -> Self {
        Self { lines: 1, ..Self::new(now) }
    }

    /// Takes the number of suppressed events after a flood has ended, when no further line will state it.
    pub fn rest(&mut self, now: Instant) -> Option<u64> {
        self.next_due().filter(|due| *due <= now).map(|_| std::mem::take(&mut self.suppressed))
    }

    /// When [`rest`](Self::rest) returns a number if no more events come.
    pub fn next_due(&self) -> Option<Instant> {
        (self.suppressed > 0).then(|| self.period_began + 2 * PERIOD)
    }

    /// Decides about one event. `Some`: log it, with the number of events suppressed since the last line, if any.
    /// `None`: do not log it.
    pub fn admit(&mut self, now: Instant) -> Option<Option<u64>> {
        if now.saturating_duration_since(self.period_began) >= PERIOD {
            (self.period_began, self.in_period) = (now, 0);
        }
        if self.in_period >= self.lines {
            self.suppressed += 1;
            return None;
        }
        self.in_period += 1;
        let suppressed = std::mem::take(&mut self.suppressed);
        Some((suppressed > 0).then_some(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_after_a_flood_states_suppressed_events() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let admitted = (0..100).filter(|_| rate.admit(start).is_some()).count();
        assert_eq!(admitted, 10);
        assert_eq!(rate.admit(start + PERIOD), Some(Some(90)));
        assert_eq!(rate.admit(start + PERIOD), Some(None));
    }

    #[test]
    fn ended_flood_is_reported_once() {
        let start = Instant::now();
        let mut rate = Rate::seldom(start);
        assert_eq!((rate.rest(start + 9 * PERIOD), rate.next_due()), (None, None));
        let admitted = (0..3).filter(|_| rate.admit(start).is_some()).count();
        assert_eq!(admitted, 1);
        assert_eq!(rate.rest(start + PERIOD), None, "the next line may say it");
        assert_eq!(rate.next_due(), Some(start + 2 * PERIOD));
        assert_eq!(rate.rest(start + 2 * PERIOD), Some(2));
        assert_eq!((rate.rest(start + 9 * PERIOD), rate.next_due()), (None, None));
    }
}

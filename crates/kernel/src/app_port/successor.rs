//! Decides when the next instance of a contained app in this process is made, after an instance has ended.
//!
//! The figures are those by which the monitor restarts a zone, except that the first instances after an end are made at once. The
//! monitor counts the ends of all workers, and [holds](super::AppPort::disable) an app that ends too often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control::log::LogLevel;

use super::guest::Artifact;
use sdk::services::host::Services;

/// An instance that ran shorter ran briefly.
const MIN_RUN: Duration = Duration::from_secs(1);

/// The number of brief runs in a row after which the next instance is made at once: one end, and one at the repetition of its cause.
const PATIENCE: u32 = 2;

/// The longest pause before an instance.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What another instance of an app needs.
#[derive(Debug)]
pub(super) struct Successor {
    pub(super) code: Arc<dyn Artifact>,
    pub(super) config: Box<[u8]>,
    pub(super) log_level: LogLevel,
    /// Those of the instance that has ended; with the instance while it runs.
    pub(super) services: Services,
    pub(super) runs: Runs,
}

/// How long the instances of an app ran.
#[derive(Debug)]
pub(super) struct Runs {
    began: Instant,
    /// The number of brief runs in a row.
    brief: u32,
    /// When the next instance is due, if none runs.
    due: Option<Instant>,
}

impl Runs {
    /// The first instance begins.
    pub(super) fn begin(now: Instant) -> Self {
        Self { began: now, brief: 0, due: None }
    }

    /// The instance has ended.
    pub(super) fn end(&mut self, now: Instant) {
        let ran = now.saturating_duration_since(self.began);
        self.brief = if ran < MIN_RUN { self.brief.saturating_add(1) } else { 0 };
        let pause = match self.brief.checked_sub(PATIENCE + 1) {
            Some(doublings) => MIN_RUN.saturating_mul(1 << doublings.min(31)).min(LONGEST_PAUSE),
            None => Duration::ZERO,
        };
        self.due = Some(now + pause);
    }

    /// Another instance begins.
    pub(super) fn begin_again(&mut self, now: Instant) {
        (self.began, self.due) = (now, None);
    }

    /// When the next instance is due, if none runs.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_runs_pause_longer_and_longer() {
        let mut now = Instant::now();
        let mut runs = Runs::begin(now);
        let mut pause = |ran: Duration| {
            now += ran;
            runs.end(now);
            let pause = runs.due().unwrap() - now;
            now += pause;
            runs.begin_again(now);
            assert_eq!(runs.due(), None);
            pause.as_secs()
        };
        let pauses: Vec<u64> = (0..9).map(|_| pause(Duration::ZERO)).collect();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(MIN_RUN), 0);
        assert_eq!(pause(Duration::ZERO), 0);
    }
}

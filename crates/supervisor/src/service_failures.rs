//! Decides when Rosemary restarts all its programs: several services failed within a short time.
//!
//! Services share nothing except the machine and the monitor's view of it, so several failures at once have a cause that
//! the restart of each alone may not remove. Between two such restarts at least [`QUIET`] passes; meanwhile each service is
//! restarted by its own policy.

use std::time::{Duration, Instant};

use control::service::ServiceKind;

/// The least time between two restarts of Rosemary for this reason.
const QUIET: Duration = Duration::from_secs(60);

/// The recent failures.
#[derive(Debug)]
pub struct ServiceFailures {
    /// The number of different services that must fail within the window.
    most: usize,
    window: Duration,
    /// The last failure of each service within the window.
    recent: Vec<(ServiceKind, Instant)>,
    restarted: Option<Instant>,
}

impl ServiceFailures {
    /// `most` different services that fail within `window` cause a restart.
    pub fn new(most: usize, window: Duration) -> Self {
        Self { most, window, recent: Vec::new(), restarted: None }
    }

    /// When failures last caused a restart of Rosemary.
    pub fn restarted(&self) -> Option<Instant> {
        self.restarted
    }

    /// A service failed. Returns the services that cause a restart of Rosemary, which the caller must perform.
    pub fn failed(&mut self, service: ServiceKind, now: Instant) -> Option<Vec<ServiceKind>> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < self.window;
        self.recent.retain(|(kind, at)| *kind != service && is_recent(*at));
        self.recent.push((service, now));
        let is_quiet = self.restarted.is_none_or(|at| now.saturating_duration_since(at) >= QUIET);
        if self.recent.len() < self.most || !is_quiet {
            return None;
        }
        self.restarted = Some(now);
        Some(self.recent.drain(..).map(|(kind, _)| kind).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORAGE: ServiceKind = ServiceKind::Storage;
    const BROKER: ServiceKind = ServiceKind::Broker;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn different_services_within_window_restart_rosemary() {
        let begin = Instant::now();
        let mut failures = ServiceFailures::new(2, s(10));
        assert_eq!(failures.failed(STORAGE, begin), None);
        assert_eq!(failures.failed(STORAGE, begin + s(1)), None, "one service, twice");
        assert_eq!(failures.failed(BROKER, begin + s(11)), None, "too late");
        assert_eq!(failures.failed(STORAGE, begin + s(12)), Some(vec![BROKER, STORAGE]));
    }

    #[test]
    fn restarts_of_rosemary_are_rare() {
        let begin = Instant::now();
        let mut failures = ServiceFailures::new(2, s(10));
        let restarts = (0..600_u64).filter(|second| {
            let kind = if second.is_multiple_of(2) { STORAGE } else { BROKER };
            failures.failed(kind, begin + s(*second)).is_some()
        });
        assert_eq!(restarts.count(), 10);
    }
}

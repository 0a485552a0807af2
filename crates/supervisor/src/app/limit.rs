//! The limit that another app has set, and the app's policy with it.

use control::kernel::KernelRequest;
use control::policy::Policy;
use control::query::AppCounters;
use sdk::services::apps::Measure;
use tracing::{info, warn};

use super::App;

impl App {
    /// The app's policy with the limit that another app has set.
    pub(super) fn policy_in_force(&self) -> Policy {
        let mut policy = self.spec.policy.clone();
        match self.limit {
            None => {}
            Some(Measure::Throttle(pace)) => {
                policy.pace = Some(policy.pace.map_or(pace, |own| own.min(pace)));
            }
            Some(Measure::Suspend) => policy.quota.flow_mods = 0,
        }
        policy
    }

    /// The limit that another app has set.
    pub fn limit(&self) -> Option<Measure> {
        self.limit
    }

    /// Sets the limit, or ends it. The kernel learns of it by [`know_request`](Self::know_request).
    pub fn set_limit(&mut self, limit: Option<Measure>) {
        self.limit = limit;
    }

    /// The request that gives the kernel the app's present policy.
    pub fn know_request(&self) -> KernelRequest {
        let policy = self.policy_in_force();
        KernelRequest::Know { app: self.id, name: self.name.clone(), policy }
    }
}

/// Whether flow-mods of an app wait for its pace, for the log.
#[derive(Debug, Default)]
pub(super) struct PaceWatch {
    delayed: u64,
    waits: bool,
}

impl PaceWatch {
    /// Takes the kernel's counters of an app, and logs when its flow-mods begin to wait and when none waits any more.
    pub(super) fn counted(&mut self, app: &str, counters: &AppCounters) {
        let AppCounters { delayed, paced, .. } = *counters;
        let began = delayed > self.delayed && !self.waits;
        let ended = self.waits && paced == 0 && delayed <= self.delayed;
        if began {
            let hint = "its pace in rosemary.toml, or the limit that another app has set, is lower than its rate";
            warn!(
                app,
                waiting_bytes = paced,
                hint,
                "flow-mods of an app began to wait for its pace"
            );
        } else if ended {
            info!(app, delayed, "flow-mods of an app wait no longer");
        }
        self.waits = (self.waits || began) && !ended;
        self.delayed = delayed; // a new kernel counts from 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_begins_and_ends_once() {
        let mut watch = PaceWatch::default();
        let mut waits = |delayed, paced| {
            watch.counted("bulk", &AppCounters { delayed, paced, ..AppCounters::default() });
            watch.waits
        };
        assert!(!waits(0, 0) && waits(5, 100) && waits(5, 20) && waits(9, 0), "it still grows");
        assert!(!waits(9, 0) && !waits(9, 0) && waits(10, 1));
        assert!(!waits(0, 0), "another kernel");
    }
}

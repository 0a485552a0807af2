//! Records incidents of the network that an app reports, a bounded number per minute.

use std::time::{Duration, Instant};

use control::incident::{Cause, Evidence, Program};
use tracing::warn;

use crate::incidents::Incidents;
use crate::text::{harmless, shortened};

/// Most incidents of an app in a period.
const MOST: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// The incidents that one app reports.
#[derive(Debug)]
pub(super) struct AppReports {
    incidents: Incidents,
    /// Since when, and how many were recorded in this period.
    period: Option<(Instant, u32)>,
    /// The number of reports that were not recorded since the last one that was.
    suppressed: u64,
}

impl AppReports {
    pub(super) fn new(incidents: Incidents) -> Self {
        Self { incidents, period: None, suppressed: 0 }
    }

    /// Records what `app` reports, unless it reports too much. The texts are claims of the app.
    pub(super) fn record(&mut self, app: &str, summary: &str, evidence: &str, now: Instant) {
        let (since, count) = match self.period {
            Some((since, count)) if now.saturating_duration_since(since) < PERIOD => (since, count),
            _ => (now, 0),
        };
        if count >= MOST {
            self.suppressed += 1;
            return;
        }
        self.period = Some((since, count + 1));
        let suppressed = std::mem::take(&mut self.suppressed);
        let not_recorded = (suppressed > 0).then_some(suppressed);
        let (what, why) = (shortened(summary, 200), shortened(evidence, 400));
        warn!(app, summary = what, evidence = why, not_recorded, "app reported an incident");
        let cause = Cause::Reported { summary: harmless(summary, 200) };
        let mut facts = Evidence::fact(harmless(evidence, 400));
        facts.facts.extend(
            not_recorded
                .map(|count| format!("{count} reports of the app before were not recorded")),
        );
        let id = self.incidents.open(Program::app(app), cause, facts);
        self.incidents.close(id, None);
    }
}

#[cfg(test)]
mod tests {
    use control::incident::IncidentId;

    use super::*;

    #[test]
    fn reports_beyond_the_bound_are_counted() {
        let incidents = Incidents::in_memory();
        let mut reports = AppReports::new(incidents.clone());
        let now = Instant::now();
        for number in 0..100 {
            reports.record("topology", "a forged probe", &format!("number {number}"), now);
        }
        assert_eq!(incidents.page(IncidentId(0)).0.len(), MOST as usize);
        reports.record("topology", "a\x1b[31mforged probe", "later", now + PERIOD);
        let (all, _) = incidents.page(IncidentId(0));
        let last = all.last().unwrap();
        assert!(!last.open && last.evidence.facts[1].starts_with("90 reports"), "{last:?}");
        assert_eq!(last.cause.to_string(), r"a\u{1b}[31mforged probe");
    }
}

//! Records the incidents and the problem that an app reports: a bounded number per minute.

use std::time::{Duration, Instant};

use control::incident::{Cause, Evidence, IncidentId, Program};
use sys::rate::Rate;
use tracing::{error, info, warn};

use crate::incidents::Incidents;
use crate::text::{harmless, shortened};

/// Most incidents of an app in a period.
const MOST: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// Most characters of a problem: as many as the SDK sends bytes.
const LONGEST: usize = 1024;

/// The incidents that one app reports.
#[derive(Debug)]
pub(super) struct AppReports {
    incidents: Incidents,
    /// Since when, and how many were recorded in this period.
    period: Option<(Instant, u32)>,
    /// The number of reports that were not recorded since the last record.
    suppressed: u64,
    problem: Option<Problem>,
    /// `None` before the first.
    amendments: Option<Rate>,
}

/// The problem that stops the app's work, in its own words.
#[derive(Debug)]
struct Problem {
    text: String,
    /// The incident; `None` while there are too many.
    incident: Option<IncidentId>,
    /// Whether the incident has the present text: there may be too many changes.
    is_recorded: bool,
    since: Instant,
}

impl AppReports {
    pub(super) fn new(incidents: Incidents) -> Self {
        Self { incidents, period: None, suppressed: 0, problem: None, amendments: None }
    }

    /// Records what `app` reports, unless it reports too much. The texts are claims of the app.
    pub(super) fn record(&mut self, app: &str, summary: &str, evidence: &str, now: Instant) {
        if !self.admits(now) {
            return;
        }
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

    /// Takes what `app` states about its work: a problem lasts until it states another, or none with an empty text.
    pub(super) fn state_problem(&mut self, app: &str, text: &str, now: Instant) {
        if text.trim().is_empty() {
            if self.problem.as_ref().is_some_and(|problem| problem.incident.is_some()) {
                info!(app, "app reported that its problem was over");
            }
            return self.end_problem(now);
        }
        let shown = harmless(text, LONGEST);
        let since = self.problem.as_ref().map_or(now, |problem| problem.since);
        let (incident, is_recorded) = match self.problem.take() {
            Some(Problem { text: known, incident: Some(id), is_recorded, .. }) => {
                let is_known = known == shown && is_recorded;
                let is_recorded = is_known
                    || self.amendments.get_or_insert_with(|| Rate::new(now)).admit(now).is_some();
                if is_recorded && !is_known {
                    self.incidents.amend(id, |evidence| *evidence = Evidence::fact(shown.clone()));
                }
                (Some(id), is_recorded)
            }
            _ if self.admits(now) => {
                error!(app, problem = shortened(text, LONGEST), "app reported a problem");
                let cause = Cause::Reported { summary: harmless(text, 200) };
                let facts = Evidence::fact(shown.clone());
                (Some(self.incidents.open(Program::app(app), cause, facts)), true)
            }
            _ => (None, false),
        };
        self.problem = Some(Problem { text: shown, incident, is_recorded, since });
    }

    /// The problem is over, or the process that stated it has ended.
    pub(super) fn end_problem(&mut self, now: Instant) {
        if let Some(Problem { text, incident: Some(id), is_recorded, since }) = self.problem.take()
        {
            if !is_recorded {
                self.incidents.amend(id, |evidence| *evidence = Evidence::fact(text));
            }
            self.incidents.close(id, Some(now.saturating_duration_since(since)));
        }
    }

    /// The problem that the app last stated.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_ref().map(|problem| problem.text.as_str())
    }

    /// Counts an incident, and returns whether it may be recorded.
    fn admits(&mut self, now: Instant) -> bool {
        let (since, count) = match self.period {
            Some((since, count)) if now.saturating_duration_since(since) < PERIOD => (since, count),
            _ => (now, 0),
        };
        let admits = count < MOST;
        if admits {
            self.period = Some((since, count + 1));
        } else {
            self.suppressed += 1;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_one_incident_while_it_lasts() {
        let incidents = Incidents::default();
        let mut reports = AppReports::new(incidents.clone());
        let now = Instant::now();
        let all = || incidents.page(IncidentId(0)).0;
        reports.state_problem("firewall", "", now);
        assert!(reports.problem().is_none() && all().is_empty());
        reports.state_problem("firewall", "rule 1 is not in switch 1", now);
        reports.state_problem("firewall", "rules 1\x1b and 2 are not", now);
        assert_eq!(reports.problem(), Some(r"rules 1\u{1b} and 2 are not"));
        let first = all().remove(0);
        assert_eq!((first.open, all().len()), (true, 1));
        assert_eq!(first.cause.to_string(), "rule 1 is not in switch 1");
        assert_eq!(first.evidence.facts, [r"rules 1\u{1b} and 2 are not"]);
        reports.state_problem("firewall", " ", now + Duration::from_millis(30));
        assert!(reports.problem().is_none());
        let first = all().remove(0);
        assert_eq!((first.open, first.duration_ms), (false, Some(30)));
        for _ in 0..100 {
            reports.state_problem("firewall", "again", now);
            reports.end_problem(now);
        }
        assert_eq!(all().len(), MOST as usize, "no flood of incidents");
        reports.state_problem("firewall", "again", now);
        assert_eq!(reports.problem(), Some("again"), "the status shows it all the same");
        reports.state_problem("firewall", "again", now + PERIOD);
        assert_eq!(
            all().len(),
            MOST as usize + 1,
            "it has an incident as soon as there may be one"
        );
    }

    #[test]
    fn flood_of_texts_changes_the_incident_seldom() {
        let incidents = Incidents::default();
        let mut reports = AppReports::new(incidents.clone());
        let now = Instant::now();
        for number in 0..1000 {
            reports.state_problem("firewall", &format!("problem {number}"), now);
        }
        let changes = incidents.take_changes().len();
        assert!((2..=12).contains(&changes), "{changes}");
        assert_eq!(reports.problem(), Some("problem 999"));
        reports.end_problem(now);
        let last = incidents.page(IncidentId(0)).0.remove(0);
        assert_eq!(last.evidence.facts, ["problem 999"], "the last text is kept");
    }

    #[test]
    fn reports_beyond_the_bound_are_counted() {
        let incidents = Incidents::default();
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

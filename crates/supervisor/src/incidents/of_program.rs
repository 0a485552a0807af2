//! The incidents of one program, from its end until it runs again.

use std::time::Instant;

use control::incident::{Cause, Evidence, IncidentId, Program};

use super::Incidents;

/// The most incidents of a program that last at the same time. The oldest is closed first.
const MOST_OPEN: usize = 8;

/// Opens an incident when the program ends, and closes it when the program runs again.
#[derive(Debug)]
pub struct ProgramIncidents {
    incidents: Incidents,
    program: Program,
    open: Vec<Lasting>,
    /// The cause that the program itself reported before its end, with its words.
    reported: Option<(Cause, String)>,
    /// Whether the program is a candidate: its failure is no incident, as the change that it is for is refused.
    is_of_candidate: bool,
}

/// An incident that lasts.
#[derive(Debug)]
struct Lasting {
    id: IncidentId,
    cause: Cause,
    since: Instant,
}

impl ProgramIncidents {
    /// Without an incident yet.
    pub fn new(incidents: Incidents, program: Program) -> Self {
        Self { incidents, program, open: Vec::new(), reported: None, is_of_candidate: false }
    }

    /// All incidents, of this program and of others.
    pub fn all(&self) -> &Incidents {
        &self.incidents
    }

    /// The program begins or ceases to be a candidate, which loads beside the one that serves.
    pub fn set_candidate(&mut self, is_candidate: bool) {
        self.is_of_candidate = is_candidate;
    }

    /// The last incident that lasts.
    pub fn last(&self) -> Option<IncidentId> {
        self.open.last().map(|lasting| lasting.id)
    }

    /// The program reports why it is about to end. The report is the app's claim; it replaces only an exit status.
    pub fn reported(&mut self, cause: Cause, why: &str) {
        self.reported = Some((cause, why.to_owned()));
    }

    /// A new process was started: what an earlier one reported is over.
    pub fn started(&mut self) {
        self.reported = None;
    }

    /// The program ended without being asked to, because of `cause`. `facts` are phrases; `reaction` says what follows.
    ///
    /// If it has not run since it ended in the same way, this counts as the same incident.
    pub fn ended(&mut self, cause: Cause, mut facts: Vec<String>, reaction: String, now: Instant) {
        let cause = match (cause, self.reported.take()) {
            (Cause::Exit { .. } | Cause::Signal { .. }, Some((reported, why))) => {
                facts.push(format!("it reported: {why}"));
                reported
            }
            (cause, _) => cause,
        };
        if self.is_of_candidate {
            return;
        }
        if let Some(same) = self.open.iter().find(|lasting| lasting.cause == cause) {
            return self.incidents.repeated(same.id);
        }
        let evidence = Evidence { facts, ..Evidence::default() };
        let id = self.incidents.open(self.program.clone(), cause.clone(), evidence);
        self.incidents.reaction(id, reaction);
        self.add(Lasting { id, cause, since: now });
    }

    /// The incident `id`, which began `now` elsewhere, lasts until this program runs.
    pub fn adopt(&mut self, id: IncidentId, cause: Cause, now: Instant) {
        self.add(Lasting { id, cause, since: now });
    }

    /// The program runs again.
    pub fn runs(&mut self, now: Instant) {
        for Lasting { id, since, .. } in self.open.drain(..) {
            self.incidents.close(id, Some(now.saturating_duration_since(since)));
        }
    }

    fn add(&mut self, lasting: Lasting) {
        if self.open.len() == MOST_OPEN {
            self.incidents.close(self.open.remove(0).id, None);
        }
        self.open.push(lasting);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control::incident::Incident;

    use super::*;

    fn all(incidents: &Incidents) -> Vec<Incident> {
        incidents.page(IncidentId(0)).0
    }

    fn ended(of: &mut ProgramIncidents, cause: Cause, now: Instant) {
        of.ended(cause, vec!["ran 1.000 s".into()], "restarted at once".into(), now);
    }

    #[test]
    fn incident_lasts_until_the_program_runs() {
        let (incidents, now) = (Incidents::default(), Instant::now());
        let mut of = ProgramIncidents::new(incidents.clone(), Program::app("a"));
        ended(&mut of, Cause::Signal { signal: 9 }, now);
        assert!(all(&incidents)[0].open);
        of.runs(now + Duration::from_millis(30));
        let incident = all(&incidents).remove(0);
        assert_eq!((incident.open, incident.duration_ms, incident.count), (false, Some(30), 1));
        assert_eq!(incident.reaction, ["restarted at once"]);
        ended(&mut of, Cause::Signal { signal: 9 }, now);
        assert_eq!(all(&incidents).len(), 2);
    }

    #[test]
    fn failure_of_a_candidate_is_no_incident() {
        let (incidents, now) = (Incidents::default(), Instant::now());
        let mut of = ProgramIncidents::new(incidents.clone(), Program::app("a"));
        of.set_candidate(true);
        of.reported(Cause::Unfit, "no memory");
        ended(&mut of, Cause::Exit { code: 1 }, now);
        assert!(all(&incidents).is_empty());
        of.set_candidate(false);
        ended(&mut of, Cause::Exit { code: 1 }, now);
        assert_eq!(all(&incidents)[0].cause, Cause::Exit { code: 1 });
    }

    #[test]
    fn failing_starts_are_one_incident_per_cause() {
        let (incidents, now) = (Incidents::default(), Instant::now());
        let mut of = ProgramIncidents::new(incidents.clone(), Program::service("log"));
        ended(&mut of, Cause::Signal { signal: 11 }, now);
        for _ in 0..1_000 {
            ended(&mut of, Cause::NotStarted, now);
        }
        let counts: Vec<u32> = all(&incidents).iter().map(|it| it.count).collect();
        assert_eq!(counts, [1, 1_000]);
        for signal in 1..30 {
            ended(&mut of, Cause::Signal { signal }, now);
        }
        assert_eq!(all(&incidents).iter().filter(|it| it.open).count(), MOST_OPEN);
        of.runs(now);
        assert_eq!(all(&incidents).iter().filter(|it| it.open).count(), 0);
    }

    #[test]
    fn report_of_an_app_replaces_its_exit_status_only() {
        let (incidents, now) = (Incidents::default(), Instant::now());
        let mut of = ProgramIncidents::new(incidents.clone(), Program::app("a"));
        of.reported(Cause::Panic, "index out of bounds");
        ended(&mut of, Cause::Exit { code: 1 }, now);
        of.reported(Cause::Panic, "not my fault");
        ended(&mut of, Cause::Hang, now);
        let causes: Vec<Cause> = all(&incidents).into_iter().map(|it| it.cause).collect();
        assert_eq!(causes, [Cause::Panic, Cause::Hang]);
        assert!(all(&incidents)[0].evidence.facts[1].contains("index out of bounds"));
    }
}

//! Records that switches do not carry out messages of the kernel or of guards.
//!
//! The kernel repeats such a message until the switch carries it out. A failure is one incident. If it comes back within
//! [`WINDOW`] after its end, as when the switch connects again and again, the incident counts it. At most [`MOST`] failures
//! are kept at once, so switches cannot cause more incidents in that time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use control::incident::{Cause, Evidence, IncidentId, Program};
use control::kernel::FailedMessage;

use super::Programs;

/// How long a failure is kept after its end.
const WINDOW: Duration = Duration::from_secs(5 * 60);

/// The most failures that are kept.
const MOST: usize = 64;

/// The failures of messages, the newest last.
#[derive(Debug, Default)]
pub(super) struct FailedMessages(VecDeque<Failure>);

/// A message that a switch does not carry out.
#[derive(Debug)]
struct Failure {
    dpid: String,
    message: String,
    since: Instant,
    /// When it last ended; `None` while it lasts.
    ended: Option<Instant>,
    incident: IncidentId,
}

/// The meaning of a report that a message has failed.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    /// It needs an incident.
    New,
    /// It continues this incident.
    Again(IncidentId),
    /// Too many failures are kept.
    Full,
}

impl FailedMessages {
    fn find(&mut self, dpid: &str, message: &str) -> Option<&mut Failure> {
        self.0.iter_mut().find(|it| it.dpid == dpid && it.message == message)
    }

    /// Notes that a message has failed.
    fn failed(&mut self, dpid: &str, message: &str, now: Instant) -> Noted {
        let is_over = |ended: Instant| now.saturating_duration_since(ended) >= WINDOW;
        self.0.retain(|it| !it.ended.is_some_and(is_over));
        if let Some(known) = self.find(dpid, message) {
            known.ended = None;
            return Noted::Again(known.incident);
        }
        if self.0.len() < MOST { Noted::New } else { Noted::Full }
    }

    /// Notes that a switch has carried out a message. Returns the incident, and how long the failure has lasted.
    fn recovered(
        &mut self,
        dpid: &str,
        message: &str,
        now: Instant,
    ) -> Option<(IncidentId, Duration)> {
        let failure = self.find(dpid, message).filter(|it| it.ended.is_none())?;
        failure.ended = Some(now);
        Some((failure.incident, now.saturating_duration_since(failure.since)))
    }

    /// Ends all failures, because the kernel that has reported them is gone.
    fn end_all(&mut self, now: Instant) -> Vec<(IncidentId, Duration)> {
        let lasting = self.0.iter_mut().filter(|it| it.ended.is_none());
        let ended = lasting.map(|it| {
            it.ended = Some(now);
            (it.incident, now.saturating_duration_since(it.since))
        });
        ended.collect()
    }
}

impl Programs {
    /// Records that a switch does not carry out a message. The kernel has logged it.
    pub(super) fn message_failed(&mut self, failed: FailedMessage, now: Instant) {
        let FailedMessage { dpid, message, why, effect } = failed;
        match self.failed_messages.failed(&dpid, &message, now) {
            Noted::New => {
                let cause = Cause::FailedMessage { switch: dpid.clone(), message: message.clone() };
                let mut evidence = Evidence::fact(format!("the switch: {why}"));
                evidence.facts.push(effect);
                let incident = self.incidents.open(Program::kernel(), cause, evidence);
                self.incidents.reaction(incident, "the kernel repeats it with increasing pauses");
                let failure = Failure { dpid, message, since: now, ended: None, incident };
                self.failed_messages.0.push_back(failure);
            }
            Noted::Again(incident) => self.incidents.repeated(incident),
            Noted::Full => {}
        }
    }

    /// Records that a switch has carried out a message that had failed, or has disconnected.
    pub(super) fn message_recovered(&mut self, dpid: &str, message: &str, now: Instant) {
        if let Some((incident, lasted)) = self.failed_messages.recovered(dpid, message, now) {
            self.incidents.close(incident, Some(lasted));
        }
    }

    /// Closes the incidents about failed messages, because the kernel is gone.
    pub(super) fn forget_failed_messages(&mut self, now: Instant) {
        for (incident, lasted) in self.failed_messages.end_all(now) {
            self.incidents.close(incident, Some(lasted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(number: u64, since: Instant) -> Failure {
        let (dpid, message) = (number.to_string(), "m".to_owned());
        Failure { dpid, message, since, ended: None, incident: IncidentId(number) }
    }

    #[test]
    fn failure_that_returns_continues_its_incident() {
        let (mut failed, start) = (FailedMessages::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(failed.failed("1", "m", start), Noted::New);
        failed.0.push_back(failure(1, start));
        let lasted = Duration::from_secs(7);
        assert_eq!(failed.recovered("1", "m", after(7)), Some((IncidentId(1), lasted)));
        assert_eq!(failed.recovered("1", "m", after(8)), None, "it is over");
        assert_eq!(failed.failed("1", "m", after(9)), Noted::Again(IncidentId(1)));
        assert_eq!(failed.failed("2", "m", after(9)), Noted::New, "another switch");
        assert_eq!(failed.end_all(after(10)), [(IncidentId(1), Duration::from_secs(10))]);
        assert_eq!(failed.end_all(after(10)), []);
        assert_eq!(failed.failed("1", "m", after(10) + WINDOW), Noted::New, "it was over");
    }

    #[test]
    fn failures_are_bounded() {
        let (mut failed, start) = (FailedMessages::default(), Instant::now());
        failed.0.extend((0..MOST as u64).map(|number| failure(number, start)));
        assert_eq!(failed.failed("x", "m", start), Noted::Full);
        failed.end_all(start);
        assert_eq!(failed.failed("x", "m", start + WINDOW), Noted::New);
    }
}

//! Sessions as operators see them: what is reserved, what holds it, and what is free.

use control::session::{
    CpuReservation, HeldBy, MemberReport, ResourceReport, SYSTEM, SessionReport,
};
use serde::Serialize;

/// A session. Its JSON is stable (`docs/schemas/sessions.schema.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// Its reserved processor time.
    pub cpu: Option<CpuReservation>,
    /// Whether `rosemary session set` has changed it since the configuration was applied.
    pub adjusted: bool,
    /// The present guarantee of the processor time, as a sentence.
    pub guarantee: String,
    /// Its members.
    pub members: Vec<MemberReport>,
    /// Each resource: what the session has reserved, what is free, and what the machine has.
    pub resources: Vec<ResourceReport>,
}

impl From<SessionReport> for Session {
    fn from(report: SessionReport) -> Self {
        let SessionReport { name, cpu, adjusted, resources, members, guarantee, .. } = report;
        Self { name, cpu, adjusted, guarantee, members, resources }
    }
}

impl Session {
    /// What holds the processor time of its members, in a few words. The programs of `system` are always members: if nothing limits
    /// them, admission keeps an amount free.
    pub fn held(&self) -> String {
        let mut held: Vec<&str> =
            self.members.iter().filter_map(|it| it.held.as_ref()).map(word).collect();
        held.sort_unstable();
        held.dedup();
        match (self.cpu, held.is_empty()) {
            (None, true) => "-".to_owned(),
            (Some(_), true) if self.name == SYSTEM => "admission".to_owned(),
            (Some(_), true) => "not running".to_owned(),
            _ => held.join(", "),
        }
    }
}

fn word(held: &HeldBy) -> &'static str {
    match held {
        HeldBy::Deadline { .. } => "deadline",
        HeldBy::Weight { .. } => "weight",
        HeldBy::Nothing { .. } => "nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_named_once() {
        let member = |held| MemberReport { name: "a".into(), held };
        let deadline = || Some(HeldBy::Deadline { runtime_us: 1, period_us: 2 });
        let mut session = Session {
            name: "video".into(),
            cpu: Some(CpuReservation::new(100, 1_000)),
            adjusted: false,
            guarantee: String::new(),
            members: vec![member(None)],
            resources: Vec::new(),
        };
        assert_eq!(session.held(), "not running");
        session.name = SYSTEM.into();
        assert_eq!(session.held(), "admission");
        session.members.extend([member(deadline()), member(deadline())]);
        assert_eq!(session.held(), "deadline");
        session.members.push(member(Some(HeldBy::Nothing { why: "x".into() })));
        assert_eq!(session.held(), "deadline, nothing");
        session.cpu = None;
        session.members.clear();
        assert_eq!(session.held(), "-");
    }
}

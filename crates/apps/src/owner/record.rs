//! Describes what a change did, for its audit record: who requested what, and the entries before and after.
//!
//! The entries are those that the app keeps. A flow with a timeout is only in the switch, and so is the configuration of a port: what
//! was there before is then unknown. Of many entries the record has the first ones and the number of the others.

use std::fmt::Display;

use rosemary_sdk::services::operator::Answer;
use rosemary_sdk::{Dpid, FlowMod};

use super::change::COOKIE;

/// Entries that a record shows on each side. The number of the others follows.
const SHOWN: usize = 2;

/// Most characters of an entry, and of the reason for an outcome.
const LONGEST: usize = 160;

/// Entries on one side of a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entries {
    /// Only the switch knows them.
    Unknown,
    /// The first ones, and the number of the others.
    Known { shown: Vec<String>, others: usize },
}

impl Default for Entries {
    fn default() -> Self {
        Self::Known { shown: Vec::new(), others: 0 }
    }
}

impl Entries {
    /// One entry.
    pub(super) fn one(entry: &impl Display) -> Self {
        let mut entries = Self::default();
        entries.add(std::iter::once(entry));
        entries
    }

    /// One flow, with its priority counted from `lowest`.
    pub(super) fn flow(flow: &FlowMod<'_>, lowest: u16) -> Self {
        let mut entries = Self::default();
        entries.add_flow(flow, lowest);
        entries
    }

    /// Adds entries.
    pub(super) fn add<'a, T: Display + 'a>(&mut self, entries: impl Iterator<Item = &'a T>) {
        for entry in entries {
            self.push(|| entry.to_string());
        }
    }

    /// Adds a flow, whose priority counts from `lowest`, as it is on the switch.
    pub(super) fn add_flow(&mut self, flow: &FlowMod<'_>, lowest: u16) {
        self.push(|| {
            let priority = lowest.saturating_add(flow.priority);
            FlowMod { priority, cookie: flow.cookie & COOKIE, ..flow.clone() }.to_string()
        });
    }

    fn push(&mut self, text: impl FnOnce() -> String) {
        match self {
            Self::Known { shown, .. } if shown.len() < SHOWN => {
                // The text is that of the message which adds it.
                let text = text();
                let text =
                    ["ADD ", "MOD "].iter().find_map(|it| text.strip_prefix(it)).unwrap_or(&text);
                shown.push(short(text));
            }
            Self::Known { others, .. } => *others += 1,
            Self::Unknown => {}
        }
    }
}

impl Display for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Known { shown, .. } if shown.is_empty() => f.write_str("none"),
            Self::Known { shown, others: 0 } => f.write_str(&shown.join(" | ")),
            Self::Known { shown, others } => write!(f, "{} | {others} more", shown.join(" | ")),
        }
    }
}

/// The user, the request and the entries of a change.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) who: String,
    what: String,
    pub(super) before: Entries,
    pub(super) after: Entries,
}

impl Record {
    /// Describes a change; who requested it is added later.
    pub(super) fn of(what: String, before: Entries, after: Entries) -> Self {
        Self { who: String::new(), what, before, after }
    }

    /// Describes a change that no entry is known of yet.
    pub(super) fn none(what: &str, dpid: Dpid) -> Self {
        Self::of(format!("{what} {dpid}"), Entries::default(), Entries::default())
    }

    /// The text of the record, with the outcome that `answer` tells the client.
    pub(super) fn text(&self, answer: &Answer) -> String {
        let Self { who, what, before, after } = self;
        let outcome = match answer {
            Answer::Later { why } => format!(" (later: {})", short(why)),
            Answer::Refused { why, .. } => {
                return format!("{who}: {what} was refused: {}", short(why));
            }
            _ => String::new(),
        };
        format!("{who}: {what}{outcome}: {before} -> {after}")
    }
}

fn short(text: &str) -> String {
    let mut start: String = text.chars().take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        start.push_str("...");
    }
    start
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::{Match, PortNo};

    use super::*;

    #[test]
    fn many_entries_are_counted_and_long_ones_cut() {
        let flow = |port| FlowMod::add(Match::new().in_port(PortNo(port))).priority(1);
        let mut before = Entries::default();
        (0..1000).for_each(|port| before.add_flow(&flow(port), 100));
        let after = Entries::one(&"x".repeat(5000));
        let text =
            Record::of("delete flows".into(), before, after).text(&Answer::Done { priority: None });
        assert!(
            text.contains("priority=101,in_port=0") && text.contains("| 998 more -> x"),
            "{text}"
        );
        assert!(text.len() < 1024, "{}", text.len());
    }
}

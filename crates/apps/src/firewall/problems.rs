//! Records the rules that switches lack, and reports them to the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rosemary_sdk::Dpid;

/// Switches that a text names; further ones are counted.
const MOST_SWITCHES: usize = 2;

/// Rules of a switch that a text names; further ones are counted.
const MOST_RULES: usize = 3;

/// What to do about refused rules.
const REFUSED: &str = "Until a switch has a rule, packets to deny can pass by flows of other apps; change or remove the rules, \
     or use a switch that can have them";

/// What to do about flows without room.
const FULL: &str = "The firewall tries again every 30 s; remove flows of other apps (`rosemary flows` lists them) or rules";

/// The rules that a switch does not have.
#[derive(Debug, Default)]
struct Lack {
    /// The rules that it, or the kernel, has refused, and why the first was.
    refused: BTreeSet<u64>,
    why: String,
    /// Flows without room, and why there is none. `is_full_now` holds during the notices that report it.
    full: Option<(usize, String)>,
    is_full_now: bool,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Problems {
    lacks: BTreeMap<Dpid, Lack>,
    /// The last statement to the operator; empty if nothing was wrong.
    stated: String,
}

impl Problems {
    /// A switch does not have a rule. Returns whether it is the first of this switch.
    pub(super) fn refused(&mut self, switch: Dpid, rule: u64, why: &str) -> bool {
        let lack = self.lacks.entry(switch).or_default();
        let is_first = lack.refused.is_empty();
        if is_first {
            why.clone_into(&mut lack.why);
        }
        lack.refused.insert(rule);
        is_first
    }

    /// A switch has no room for this number of flows.
    pub(super) fn full(&mut self, switch: Dpid, missing: usize, why: &str) {
        let lack = self.lacks.entry(switch).or_default();
        (lack.full, lack.is_full_now) = (Some((missing, why.to_owned())), true);
    }

    /// A switch has all flows, except those that it has refused, and those without room if that was reported just before.
    pub(super) fn reconciled(&mut self, switch: Dpid) {
        if let Some(lack) = self.lacks.get_mut(&switch).filter(|it| !it.is_full_now) {
            lack.full = None;
        }
    }

    /// All is sent to a switch again, or it is not connected any more.
    pub(super) fn forget(&mut self, switch: Dpid) {
        self.lacks.remove(&switch);
    }

    /// The kernel begins to list all switches.
    pub(super) fn clear(&mut self) {
        self.lacks.clear();
    }

    /// Returns the present problems if they have changed; an empty text if none is left.
    pub(super) fn news(&mut self) -> Option<String> {
        for lack in self.lacks.values_mut() {
            lack.is_full_now = false;
        }
        self.lacks.retain(|_, lack| !lack.refused.is_empty() || lack.full.is_some());
        let now = self.text();
        if now == self.stated {
            return None;
        }
        self.stated.clone_from(&now);
        Some(now)
    }

    /// Says first what is wrong at each switch, then each remedy once.
    fn text(&self) -> String {
        let (mut wrong, mut remedies) = (Vec::new(), BTreeSet::new());
        for (switch, lack) in self.lacks.iter().take(MOST_SWITCHES) {
            if !lack.refused.is_empty() {
                let (rules, why) = (named(&lack.refused), &lack.why);
                wrong.push(format!("switch {switch} does not have {rules}: {why}"));
                remedies.insert(REFUSED);
            }
            if let Some((missing, why)) = &lack.full {
                let flows =
                    if *missing == 1 { "1 flow".into() } else { format!("{missing} flows") };
                wrong.push(format!("switch {switch} has no room for {flows} of rules: {why}"));
                remedies.insert(FULL);
            }
        }
        let others = self.lacks.len().saturating_sub(MOST_SWITCHES);
        if others > 0 {
            wrong.push(format!("{others} more switches lack rules (`rosemary logs app firewall`)"));
        }
        let mut text = wrong.join("; ");
        for remedy in remedies {
            let _ = write!(text, ". {remedy}"); // a String takes all
        }
        text
    }
}

/// Names rules: `rule 3`, `rules 1, 2, 3 and 9 more`.
fn named(rules: &BTreeSet<u64>) -> String {
    let mut text = if rules.len() == 1 { "rule".to_owned() } else { "rules".to_owned() };
    for (rule, mark) in rules.iter().take(MOST_RULES).zip([" ", ", ", ", "]) {
        let _ = write!(text, "{mark}{rule}"); // a String takes all
    }
    let others = rules.len().saturating_sub(MOST_RULES);
    if others > 0 {
        let _ = write!(text, " and {others} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(problems: &mut Problems) -> String {
        problems.news().expect("news")
    }

    #[test]
    fn refused_rules_are_named_until_they_are_sent_again() {
        let mut problems = Problems::default();
        assert_eq!(problems.news(), None);
        assert!(problems.refused(Dpid(1), 3, "BAD_MATCH"));
        let text = stated(&mut problems);
        assert!(
            text.starts_with("switch 00:00:00:00:00:00:00:01 does not have rule 3: BAD_MATCH. "),
            "{text}"
        );
        for rule in [1, 2, 3, 4] {
            assert!(!problems.refused(Dpid(1), rule, "BAD_FIELD"));
        }
        let text = stated(&mut problems);
        assert!(text.contains("does not have rules 1, 2, 3 and 1 more: BAD_MATCH"), "{text}");
        problems.reconciled(Dpid(1));
        assert_eq!(problems.news(), None, "the others are in the switch");
        problems.forget(Dpid(1));
        assert_eq!(problems.news(), Some(String::new()));
    }

    #[test]
    fn full_switch_is_named_until_it_has_all() {
        let mut problems = Problems::default();
        problems.full(Dpid(2), 5, "the flow table is full");
        problems.reconciled(Dpid(2)); // with some of them
        let text = stated(&mut problems);
        assert!(
            text.contains("has no room for 5 flows of rules: the flow table is full."),
            "{text}"
        );
        problems.reconciled(Dpid(2));
        assert_eq!(problems.news(), Some(String::new()));
    }

    #[test]
    fn text_is_bounded() {
        let mut problems = Problems::default();
        let why = "error BAD_MATCH, code BAD_FIELD, from the switch";
        for switch in 1..100 {
            for rule in 1..100 {
                problems.refused(Dpid(switch), 1_000_000 + rule, why);
            }
            problems.full(Dpid(switch), 100_000, "the flow table is full, and it evicts no flows");
        }
        let text = stated(&mut problems);
        let others = "; 97 more switches lack rules (`rosemary logs app firewall`). ";
        assert!(text.contains(others), "{text}");
        assert_eq!((text.matches(REFUSED).count(), text.matches(FULL).count()), (1, 1), "{text}");
        assert!(text.len() < 1024, "{}", text.len());
    }
}

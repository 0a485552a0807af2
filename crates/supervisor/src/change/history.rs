//! The history of the configuration: the texts that were applied, who requested them, and what differed.
//!
//! A bound holds for the number of texts and for their bytes. The oldest ones are dropped first; the last one is always kept, as the
//! next change is compared with it.

use std::collections::VecDeque;
use std::sync::Arc;

use control::change::{ConfigChange, Outcome};
use serde::Serialize;

use crate::text::{harmless, shortened};

/// The most configurations that are kept.
pub const MOST: usize = 100;

/// The most bytes of all texts that are kept.
pub const MOST_BYTES: usize = 8 << 20;

/// The most bytes of the differences of a configuration, as JSON.
const MOST_DIFFERENCE: usize = 16 << 10;

/// The bytes of a page of [`History::page`], apart from one further change. A message holds more.
const PAGE: usize = 48 << 10;

/// Most characters of a name and of a phrase.
const LONGEST: usize = 200;

/// A configuration that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The change that applied it.
    pub change: ConfigChange,
    /// The number of the configuration before it; `None` for the first one.
    pub previous: Option<u64>,
    /// The text.
    pub text: Arc<str>,
}

/// The configurations that were applied, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    kept: VecDeque<Configuration>,
    next: u64,
    /// Why the last configuration could not be stored, if so.
    not_stored: Option<String>,
}

/// A configuration that was applied, before it has a number.
#[derive(Debug)]
pub struct Applied<'a> {
    /// Who requested it.
    pub who: &'a str,
    /// What was requested, as a phrase.
    pub what: &'a str,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Whether it waits for a confirmation.
    pub waits: bool,
    /// Its text.
    pub text: &'a str,
}

impl History {
    /// Continues a history. Further configurations have numbers above `highest`, which may have belonged to one that is lost.
    pub fn new(mut kept: Vec<Configuration>, highest: u64) -> Self {
        kept.sort_by_key(|it| it.change.id);
        kept.dedup_by_key(|it| it.change.id);
        let last = kept.last().map_or(0, |it| it.change.id);
        let next = last.max(highest).saturating_add(1);
        let mut history = Self { kept: kept.into(), next, not_stored: None };
        history.trim();
        history
    }

    /// The configuration that was applied last.
    pub fn last(&self) -> Option<&Configuration> {
        self.kept.back()
    }

    /// The configuration with this number, if it is kept.
    pub fn get(&self, id: u64) -> Option<&Configuration> {
        self.kept.iter().find(|it| it.change.id == id)
    }

    /// The configuration before the change `id`.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    pub fn before(&self, id: u64) -> Result<&Configuration, String> {
        let change = self.get(id).ok_or_else(|| {
            format!("there is no change {id} of the configuration; see `rosemary changes`")
        })?;
        let previous = change.previous.ok_or_else(|| {
            format!("change {id} is the first one: no configuration before it is known")
        })?;
        self.get(previous).ok_or_else(|| {
            format!("the configuration before change {id} is not kept any more; undo a later change, or edit the file")
        })
    }

    /// Adds a configuration. Returns it, and the numbers of those that are dropped for it.
    pub fn add(&mut self, applied: &Applied<'_>) -> (Configuration, Vec<u64>) {
        let previous = self.kept.back();
        let (difference, more) = match previous {
            Some(previous) => difference(&previous.text, applied.text),
            None => (Vec::new(), 0),
        };
        let id = self.next.max(1);
        self.next = id.saturating_add(1);
        let outcome = if applied.waits { Outcome::Waiting } else { Outcome::Applied };
        let previous = previous.map(|it| it.change.id);
        let change = ConfigChange {
            id,
            time: applied.time,
            who: harmless(applied.who, LONGEST),
            what: harmless(applied.what, LONGEST),
            outcome,
            difference,
            more,
            undoable: false, // as shown, see `page`
        };
        let new = Configuration { change, previous, text: applied.text.into() };
        self.kept.push_back(new.clone());
        (new, self.trim())
    }

    /// Sets what became of a configuration. Returns it, if it is kept.
    pub fn set_outcome(&mut self, id: u64, outcome: Outcome) -> Option<Configuration> {
        let kept = self.kept.iter_mut().find(|it| it.change.id == id)?;
        kept.change.outcome = outcome;
        Some(kept.clone())
    }

    /// Notes why the last configuration could not be stored, if so.
    pub fn set_stored(&mut self, stored: Result<(), String>) {
        self.not_stored = stored.err();
    }

    /// Why the last configuration could not be stored, as a phrase with a remedy, if so.
    pub fn not_stored(&self) -> Option<String> {
        let why = self.not_stored.as_ref()?;
        Some(format!(
            "the history of the configuration cannot be stored: {why}; make room or allow writing there, and reload"
        ))
    }

    /// Changes from number `from` on, as many as one message holds, and whether there are later ones.
    pub fn page(&self, from: u64) -> (Vec<ConfigChange>, bool) {
        let (mut page, mut size) = (Vec::new(), 0);
        for kept in self.kept.iter().filter(|it| it.change.id >= from) {
            let undoable = kept.previous.is_some_and(|it| self.get(it).is_some());
            let change = ConfigChange { undoable, ..kept.change.clone() };
            size += encoded_size(&change);
            if size > PAGE && !page.is_empty() {
                return (page, true);
            }
            page.push(change);
        }
        (page, false)
    }

    /// The numbers and texts, the oldest first.
    pub fn texts(&self) -> impl Iterator<Item = (u64, &str)> {
        self.kept.iter().map(|it| (it.change.id, &*it.text))
    }

    /// Drops the oldest ones. Returns their numbers.
    fn trim(&mut self) -> Vec<u64> {
        let mut bytes: usize = self.kept.iter().map(|it| it.text.len()).sum();
        let mut dropped = Vec::new();
        while self.kept.len() > 1 && (self.kept.len() > MOST || bytes > MOST_BYTES) {
            let Some(oldest) = self.kept.pop_front() else { break };
            bytes -= oldest.text.len();
            dropped.push(oldest.change.id);
        }
        dropped
    }
}

/// The keys that differ, as many as are kept, and the number of further ones.
fn difference(before: &str, after: &str) -> (Vec<String>, usize) {
    let all = config::changes(before, after);
    let all = all.unwrap_or_else(|why| vec![format!("not TOML: {}", shortened(&why, LONGEST))]);
    let mut size = 0;
    let fits = |change: &&String| {
        size += encoded_size(change);
        size <= MOST_DIFFERENCE
    };
    let kept: Vec<String> = all.iter().take_while(fits).cloned().collect();
    let more = all.len() - kept.len();
    (kept, more)
}

/// The bytes of a value as JSON.
fn encoded_size<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied<'a>(text: &'a str) -> Applied<'a> {
        Applied { who: "user 0", what: "reload", time: 7, waits: false, text }
    }

    #[test]
    fn change_has_its_difference_and_the_text_before() {
        let mut history = History::default();
        let (first, dropped) = history.add(&applied(""));
        assert_eq!((first.change.id, first.previous, dropped), (1, None, Vec::new()));
        history.add(&applied("[controller]\nworkers = 1\n"));
        let (third, _) = history.add(&applied("[controller]\nworkers = 2\n"));
        assert_eq!(third.change.difference, ["controller.workers 1 -> 2"]);
        assert_eq!(&*history.before(3).unwrap().text, "[controller]\nworkers = 1\n");
        assert!(history.before(1).unwrap_err().contains("the first one"));
        assert!(history.before(9).unwrap_err().contains("there is no change 9"));
        let (page, more) = history.page(2);
        assert_eq!(page.iter().map(|it| it.id).collect::<Vec<_>>(), [2, 3]);
        assert!(!more && page.iter().all(|it| it.undoable));
        assert!(!history.page(0).0[0].undoable);
    }

    #[test]
    fn oldest_configurations_are_dropped() {
        let mut history = History::default();
        for number in 1..=130 {
            history.add(&applied(&format!("# {number}\n")));
        }
        let ids: Vec<u64> = history.texts().map(|(id, _)| id).collect();
        assert_eq!(ids, (31..=130).collect::<Vec<u64>>());
        assert!(history.before(31).unwrap_err().contains("not kept any more"));
        let large = "#".repeat(MOST_BYTES - 10);
        let (_, dropped) = history.add(&applied(&large));
        assert!(dropped.contains(&31) && dropped.contains(&120));
        assert!(history.texts().map(|(_, text)| text.len()).sum::<usize>() <= MOST_BYTES);
        history.add(&applied(&"x".repeat(MOST_BYTES + 1)));
        assert_eq!(history.texts().count(), 1, "the last one is always kept");
    }

    #[test]
    fn numbers_of_lost_configurations_are_not_used_again() {
        let mut first = History::default();
        let (one, _) = first.add(&applied("a = 1"));
        let mut second = History::new(vec![one], 5);
        let (new, _) = second.add(&applied("a = 2"));
        assert_eq!((new.change.id, new.previous), (6, Some(1)));
    }

    #[test]
    fn pages_return_every_change_once_and_fit_into_a_message() {
        let mut history = History::default();
        let keys = |value: &str| -> String {
            (0..500).map(|it| format!("k{it:04} = {value:?}\n")).collect()
        };
        for number in 0..60 {
            history.add(&applied(&keys(&format!("{number}{}", "\"".repeat(60)))));
        }
        let (mut seen, mut from) = (0, 0);
        loop {
            let (page, more) = history.page(from);
            assert!(serde_json::to_vec(&page).unwrap().len() < sys::channel::MAX_MESSAGE);
            seen += page.len();
            from = page.last().unwrap().id + 1;
            let counts = page.iter().filter(|it| it.id > 1);
            assert!(counts.map(|it| it.difference.len() + it.more).all(|keys| keys == 500));
            if !more {
                break;
            }
        }
        assert_eq!(seen, 60);
    }
}

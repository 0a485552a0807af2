//! Counts incidents by the kind of the program and the cause.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::incident::{Incident, IncidentId};

use crate::histogram::Histogram;

/// Most incidents that last and are remembered.
const MOST_OPEN: usize = 10_000;

/// Counts of incidents. Each incident counts once, whatever is learned about it later.
#[derive(Debug, Clone)]
pub struct IncidentCounts {
    counts: BTreeMap<(String, String), u64>,
    open: BTreeSet<IncidentId>,
    next: IncidentId,
    durations: Histogram,
}

impl Default for IncidentCounts {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            open: BTreeSet::new(),
            next: IncidentId(0),
            durations: Histogram::new(Histogram::INCIDENTS),
        }
    }
}

impl IncidentCounts {
    /// Returns the number of the first incident that the counts need next: the oldest that lasts, or the next new one.
    pub fn from(&self) -> IncidentId {
        self.open.first().copied().unwrap_or(self.next)
    }

    /// Counts incidents, which ascend from the one that [`from`](Self::from) names.
    pub fn count(&mut self, incidents: &[Incident]) {
        // An incident that lasted and that the monitor has forgotten does not last any more.
        let from = self.from();
        let listed: BTreeSet<IncidentId> = incidents.iter().map(|it| it.id).collect();
        self.open.retain(|id| *id < from || listed.contains(id));
        for incident in incidents {
            let is_new = incident.id >= self.next;
            if is_new {
                self.next = IncidentId(incident.id.0.saturating_add(1));
                let key = (word(&incident.program.kind), cause(incident));
                *self.counts.entry(key).or_default() += 1;
            }
            if incident.open {
                if self.open.len() < MOST_OPEN {
                    self.open.insert(incident.id);
                }
            } else if (self.open.remove(&incident.id) || is_new)
                && let Some(millis) = incident.duration_ms
            {
                self.durations.observe(Duration::from_millis(millis));
            }
        }
    }

    /// Iterates over the counts with their kind and cause.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ([String; 2], u64)> {
        self.counts.iter().map(|((kind, cause), count)| ([kind.clone(), cause.clone()], *count))
    }

    /// Returns the number of incidents that last.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns how long incidents lasted.
    pub(crate) fn durations(&self) -> &Histogram {
        &self.durations
    }
}

/// The name of a variant in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}

/// The kind of the cause, as in `rosemary incidents --json`.
fn cause(incident: &Incident) -> String {
    let value = serde_json::to_value(&incident.cause).unwrap_or_default();
    value["kind"].as_str().unwrap_or("unknown").to_owned()
}

//! Counts what a simulation has tried.

use std::collections::BTreeMap;

/// The counts of each group by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coverage {
    counts: BTreeMap<(&'static str, String), u64>,
    /// All steps.
    pub steps: u64,
    /// The steps that are faults or operators' requests.
    pub provoked: u64,
}

impl Coverage {
    /// Counts something of a group.
    pub(crate) fn count(&mut self, group: &'static str, name: &str) {
        if let Some(count) = self.counts.get_mut(&(group, name.to_owned())) {
            *count += 1;
        } else {
            self.counts.insert((group, name.to_owned()), 1);
        }
    }

    /// Adds the counts of another simulation.
    pub(crate) fn add(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
        self.steps += other.steps;
        self.provoked += other.provoked;
    }

    /// The names of a group with their counts.
    pub(crate) fn group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        let of_group = move |((of, name), count): (&'a (&'static str, String), &'a u64)| {
            (*of == group).then_some((name.as_str(), *count))
        };
        self.counts.iter().filter_map(of_group)
    }

    /// Those of `names` that a group has less often than `least` times.
    pub(crate) fn missing(&self, group: &'static str, names: &[String], least: u64) -> Vec<String> {
        let count = |name: &String| self.counts.get(&(group, name.clone())).copied().unwrap_or(0);
        let rare = names.iter().filter(|name| count(name) < least);
        rare.map(|name| format!("{group} {name}: {}", count(name))).collect()
    }
}

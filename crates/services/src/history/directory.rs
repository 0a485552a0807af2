//! Chooses the series that are kept: at most a configured number, links and used ports first.
//!
//! A series has a class. A new series gets a free place; without one it displaces a series of a worse class, or one without
//! a sample for a day. A port counts as used for a day after it carried traffic. Numbers of series are never reused, so a block in
//! the store belongs to one series for ever.

use std::collections::BTreeMap;

use control::history::{SeriesName, Subject};

/// Seconds for which a port counts as used, and after which a series without samples gives up its place to any other.
const DAY: u64 = 86_400;

/// How worthy a series is of a place; the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The network, switches, apps and programs: few, and each of them matters.
    First,
    /// A link.
    Link,
    /// A port that carried traffic within a day.
    UsedPort,
    /// Any other port.
    IdlePort,
    /// A series that has no samples any more.
    Gone,
}

/// A series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the store.
    pub id: u32,
    /// When it was last measured, in seconds since 1970.
    pub seen: u64,
    /// When it last had a sample that marks it as used, in seconds since 1970; 0 for never.
    pub used: u64,
}

impl Entry {
    fn class(&self, name: &SeriesName, now: u64) -> Class {
        // A clock that jumped back must not make all series new.
        if now.saturating_sub(self.seen) > DAY {
            return Class::Gone;
        }
        let is_used = self.used > 0 && now.saturating_sub(self.used) <= DAY;
        class(&name.subject, is_used)
    }
}

fn class(subject: &Subject, is_used: bool) -> Class {
    match subject {
        Subject::Network | Subject::Switch(_) | Subject::App(_) | Subject::Program(_) => {
            Class::First
        }
        Subject::Link(..) => Class::Link,
        Subject::Port(..) if is_used => Class::UsedPort,
        Subject::Port(..) => Class::IdlePort,
    }
}

/// A sample of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The series.
    pub name: SeriesName,
    /// The value.
    pub value: u64,
    /// Whether its subject is in use, for ports.
    pub is_used: bool,
}

/// The changes of the directory by one time's samples, which the store writes before it uses the numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Numbers and values, in ascending order of the numbers.
    pub values: BTreeMap<u32, u64>,
    /// Series that are new, or whose times change.
    pub changed: Vec<(SeriesName, Entry)>,
    /// Series that lost their places.
    pub displaced: Vec<SeriesName>,
    /// Number of samples without a place.
    pub left_out: usize,
}

/// The series that are kept.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    entries: BTreeMap<SeriesName, Entry>,
    next: u32,
    most: usize,
}

impl Directory {
    /// Makes a directory of at most `most` series, with the stored ones and the next number. It may have more than `most` entries
    /// after the operator has lowered that; they then stay until they are displaced.
    pub fn new(entries: BTreeMap<SeriesName, Entry>, next: u32, most: usize) -> Self {
        Self { entries, next, most }
    }

    /// Returns the series with this name.
    pub fn get(&self, name: &SeriesName) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Returns all series, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&SeriesName, &Entry)> {
        self.entries.iter()
    }

    /// Returns the next number.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Chooses which samples are kept, without changing the directory; [`apply`](Self::apply) does that once the choice is stored.
    pub fn choose(&self, samples: &[Sample], now: u64) -> Choice {
        let (mut choice, mut next) = (Choice::default(), self.next);
        let mut new = Vec::new();
        for sample in samples {
            let Some(entry) = self.entries.get(&sample.name) else {
                new.push(sample);
                continue;
            };
            choice.values.insert(entry.id, sample.value);
            let used = if sample.is_used { now } else { entry.used };
            choice.changed.push((sample.name.clone(), Entry { id: entry.id, seen: now, used }));
        }
        // The best first, so that they find the free places.
        new.sort_by_key(|it| class(&it.name.subject, it.is_used));
        let mut free = self.most.saturating_sub(self.entries.len());
        let mut victims = None;
        for sample in new {
            let class = class(&sample.name.subject, sample.is_used);
            if free == 0 {
                let worst = victims.get_or_insert_with(|| self.victims(&choice, now));
                let Some((_, _, name)) = worst.pop_if(|(its, ..)| *its > class) else {
                    choice.left_out += 1;
                    continue;
                };
                if let Some(entry) = self.entries.get(&name) {
                    choice.values.remove(&entry.id);
                }
                choice.changed.retain(|(it, _)| *it != name);
                choice.displaced.push(name);
            } else {
                free -= 1;
            }
            let used = if sample.is_used { now } else { 0 };
            choice.values.insert(next, sample.value);
            choice.changed.push((sample.name.clone(), Entry { id: next, seen: now, used }));
            next = next.saturating_add(1);
        }
        choice
    }

    /// Returns the series with their classes, the first one to lose its place last.
    fn victims(
        &self,
        choice: &Choice,
        now: u64,
    ) -> Vec<(Class, std::cmp::Reverse<u64>, SeriesName)> {
        let updated: BTreeMap<&SeriesName, &Entry> =
            choice.changed.iter().map(|(name, entry)| (name, entry)).collect();
        let mut all: Vec<_> = self
            .entries
            .iter()
            .map(|(name, entry)| {
                let entry = updated.get(name).copied().unwrap_or(entry);
                (entry.class(name, now), std::cmp::Reverse(entry.used), name.clone())
            })
            .collect();
        all.sort();
        all
    }

    /// Takes over a choice that was stored.
    pub fn apply(&mut self, choice: &Choice) {
        for name in &choice.displaced {
            self.entries.remove(name);
        }
        for (name, entry) in &choice.changed {
            self.next = self.next.max(entry.id.saturating_add(1));
            self.entries.insert(name.clone(), *entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use control::history::Metric;
    use proptest::prelude::*;
    use sdk::{Dpid, PortNo};

    use super::*;

    fn port(number: u32, is_used: bool) -> Sample {
        let subject = Subject::Port(Dpid(1), PortNo(number));
        sample(subject, is_used)
    }

    fn link(number: u32) -> Sample {
        sample(Subject::Link((Dpid(1), PortNo(number)), (Dpid(2), PortNo(1))), false)
    }

    fn sample(subject: Subject, is_used: bool) -> Sample {
        Sample { name: SeriesName { subject, metric: Metric::RxBits }, value: 7, is_used }
    }

    fn record(directory: &mut Directory, samples: &[Sample], now: u64) -> Choice {
        let choice = directory.choose(samples, now);
        directory.apply(&choice);
        choice
    }

    #[test]
    fn links_and_used_ports_come_first() {
        let mut directory = Directory::new(BTreeMap::new(), 0, 3);
        let idle: Vec<Sample> = (1..=5).map(|it| port(it, false)).collect();
        let choice = record(&mut directory, &idle, 1_000);
        assert_eq!((choice.values.len(), choice.left_out), (3, 2));
        let busy = [port(8, true), port(9, true), link(1), sample(Subject::Network, false)];
        let choice = record(&mut directory, &[&idle[..3], &busy].concat(), 1_010);
        assert_eq!((choice.displaced.len(), choice.left_out), (3, 1));
        let kept: Vec<bool> = busy.iter().map(|it| directory.get(&it.name).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);
        // Numbers are not reused.
        assert!(directory.iter().all(|(_, it)| it.id >= 3));
    }

    #[test]
    fn equals_do_not_displace_each_other() {
        let mut directory = Directory::new(BTreeMap::new(), 0, 2);
        record(&mut directory, &[port(1, true), port(2, true)], 1_000);
        let choice = record(&mut directory, &[port(3, true)], 1_010);
        assert_eq!((choice.left_out, choice.displaced.len()), (1, 0));
        // After a day without samples the first two have lost their claim.
        let choice = record(&mut directory, &[port(3, false)], 1_000 + DAY + 1);
        assert_eq!((choice.left_out, choice.displaced.len()), (0, 1));
    }

    #[test]
    fn port_stays_used_for_a_day() {
        let mut directory = Directory::new(BTreeMap::new(), 0, 1);
        record(&mut directory, &[port(1, true)], 1_000);
        record(&mut directory, &[port(1, false)], 1_000 + DAY);
        assert_eq!(record(&mut directory, &[port(2, true)], 1_000 + DAY).left_out, 1);
        record(&mut directory, &[port(1, false)], 1_010 + DAY);
        assert_eq!(record(&mut directory, &[port(2, true)], 1_010 + DAY).left_out, 0);
    }

    #[test]
    fn clock_that_jumps_back_displaces_nothing() {
        let mut directory = Directory::new(BTreeMap::new(), 0, 1);
        record(&mut directory, &[port(1, true)], 2_000_000_000);
        assert_eq!(record(&mut directory, &[port(2, true)], 100).left_out, 1);
        assert_eq!(record(&mut directory, &[port(1, true)], 100).left_out, 0);
    }

    proptest! {
        #[test]
        fn number_of_series_is_bounded(
            most in 1_usize..8,
            rounds in proptest::collection::vec(proptest::collection::vec((0_u32..20, any::<bool>()), 0..12), 0..20),
        ) {
            let mut directory = Directory::new(BTreeMap::new(), 0, most);
            let mut names: BTreeMap<u32, SeriesName> = BTreeMap::new();
            for (round, samples) in rounds.iter().enumerate() {
                let mut samples: Vec<Sample> = samples.iter().map(|(it, used)| port(*it, *used)).collect();
                samples.sort_by(|a, b| a.name.cmp(&b.name));
                samples.dedup_by(|a, b| a.name == b.name);
                let choice = record(&mut directory, &samples, 1_000 + round as u64);
                prop_assert_eq!(choice.values.len() + choice.left_out + lost(&choice, &samples), samples.len());
                let kept = directory.iter().count();
                prop_assert!(kept <= most, "{} of {}", kept, most);
                for (name, entry) in directory.iter() {
                    prop_assert_eq!(names.entry(entry.id).or_insert_with(|| name.clone()), name);
                }
            }
        }
    }

    /// Samples of series that this choice displaced.
    fn lost(choice: &Choice, samples: &[Sample]) -> usize {
        samples.iter().filter(|it| choice.displaced.contains(&it.name)).count()
    }
}

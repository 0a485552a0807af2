//! Limits reports about events that others can repeat at will: [`Repeats`].

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

/// Most details that are reported about one subject in a period.
const MOST_DETAILS: usize = 8;

/// Decides which of many similar reports an application makes.
///
/// A *subject* is what repeats, such as a kind of event at a switch. A *detail* is what differs from one report to the next, such
/// as the port. In a period, each detail of a subject is reported once, and at most eight details. So whoever can invent
/// details, as a switch its ports, cannot fill the log.
///
/// ```
/// use std::time::Duration;
///
/// use rosemary_sdk::Repeats;
///
/// let minute = Duration::from_secs(60);
/// let mut repeats = Repeats::new(minute, 1000);
/// assert_eq!(repeats.admit("switch 1", "port 1", Duration::ZERO), Some(0));
/// assert_eq!(repeats.admit("switch 1", "port 1", Duration::ZERO), None);
/// assert_eq!(repeats.admit("switch 1", "port 1", minute), Some(1));
/// ```
#[derive(Debug)]
pub struct Repeats<S, D = ()> {
    period: Duration,
    most: usize,
    subjects: HashMap<S, Subject<D>>,
    /// Reports left out because there were too many subjects.
    left_out: u64,
}

#[derive(Debug)]
struct Subject<D> {
    since: Duration,
    details: HashSet<D>,
    left_out: u64,
}

impl<S: Eq + Hash, D: Eq + Hash> Repeats<S, D> {
    /// Remembers at most `most` subjects, for `period` each.
    pub fn new(period: Duration, most: usize) -> Self {
        Self { period, most, subjects: HashMap::new(), left_out: 0 }
    }

    /// Decides about a report. `Some`: make it, with the number of similar reports that were left out since the last one.
    /// `None`: leave it out. `now` is a time since an arbitrary moment.
    pub fn admit(&mut self, subject: S, detail: D, now: Duration) -> Option<u64> {
        let period = self.period;
        let has_ended = |since: Duration| now.saturating_sub(since) >= period;
        if let Some(known) = self.subjects.get_mut(&subject) {
            if has_ended(known.since) {
                (known.since, known.details) = (now, HashSet::new());
            }
            if known.details.len() >= MOST_DETAILS || !known.details.insert(detail) {
                known.left_out += 1;
                return None;
            }
            return Some(std::mem::take(&mut known.left_out));
        }
        if self.subjects.len() >= self.most {
            self.subjects.retain(|_, known| !has_ended(known.since));
        }
        if self.subjects.len() >= self.most {
            self.left_out += 1;
            return None;
        }
        let details = HashSet::from([detail]);
        self.subjects.insert(subject, Subject { since: now, details, left_out: 0 });
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    #[test]
    fn invented_details_are_few_reports() {
        let mut repeats = Repeats::new(PERIOD, 10);
        let admitted = (0..10_000).filter(|port| repeats.admit(1, *port, Duration::ZERO).is_some());
        assert_eq!(admitted.count(), MOST_DETAILS);
        assert_eq!(repeats.admit(1, 0, PERIOD), Some(10_000 - MOST_DETAILS as u64));
        assert_eq!(repeats.admit(1, 1, PERIOD), Some(0));
        assert_eq!(repeats.admit(1, 1, PERIOD), None);
    }

    #[test]
    fn invented_subjects_take_bounded_memory() {
        let mut repeats = Repeats::new(PERIOD, 10);
        let admitted = (0..1000).filter(|it| repeats.admit(*it, (), Duration::ZERO).is_some());
        assert_eq!((admitted.count(), repeats.subjects.len()), (10, 10));
        assert_eq!(repeats.admit(2000, (), PERIOD), Some(990), "the old subjects are forgotten");
    }
}

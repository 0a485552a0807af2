//! Finds the worker's switches by datapath.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::ids::ConnId;

/// Time after a disconnection in which apps may still send to the switch.
const JUST: Duration = Duration::from_secs(10);

/// Most disconnected switches that are remembered.
const MOST_GONE: usize = 1024;

/// A switch's connection and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RosterEntry {
    pub(super) key: ConnId,
    pub(super) epoch: u32,
}

/// The switches of a worker.
///
/// Switches choose their datapath ids, so the hash is keyed and slow. Apps answer a batch of one switch at a time: most
/// lookups are for the same switch as the lookup before, so the last entry is cached.
#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: HashMap<u64, RosterEntry>,
    last: Option<(u64, RosterEntry)>,
    /// When switches disconnected, by datapath and epoch; and the order of these events.
    gone: HashMap<(u64, u32), Instant>,
    gone_in_order: VecDeque<(u64, u32)>,
}

impl Roster {
    pub(super) fn get(&self, dpid: u64) -> Option<RosterEntry> {
        self.entries.get(&dpid).copied()
    }

    /// The same as [`get`](Self::get), but faster if the last call was for the same datapath.
    #[inline]
    pub(super) fn find(&mut self, dpid: u64) -> Option<RosterEntry> {
        match self.last {
            Some((last, entry)) if last == dpid => Some(entry),
            _ => {
                let entry = self.get(dpid)?;
                self.last = Some((dpid, entry));
                Some(entry)
            }
        }
    }

    pub(super) fn insert(&mut self, dpid: u64, key: ConnId, epoch: u32) {
        self.last = None;
        self.entries.insert(dpid, RosterEntry { key, epoch });
    }

    pub(super) fn remove(&mut self, dpid: u64, now: Instant) {
        self.last = None;
        if let Some(entry) = self.entries.remove(&dpid) {
            if self.gone_in_order.len() == MOST_GONE
                && let Some(oldest) = self.gone_in_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
            self.gone_in_order.push_back((dpid, entry.epoch));
            self.gone.insert((dpid, entry.epoch), now);
        }
    }

    /// Whether the datapath with this epoch disconnected from this worker a moment ago.
    pub(super) fn has_just_gone(&self, dpid: u64, epoch: u32, now: Instant) -> bool {
        let gone = self.gone.get(&(dpid, epoch));
        gone.is_some_and(|gone| now.saturating_duration_since(*gone) < JUST)
    }

    /// All switches, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, RosterEntry)> {
        self.entries.iter().map(|(dpid, entry)| (*dpid, *entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_entry_is_forgotten_with_its_switch() {
        let mut roster = Roster::default();
        roster.insert(1, ConnId(10), 1);
        roster.insert(2, ConnId(20), 1);
        assert_eq!(roster.find(1).map(|entry| entry.key), Some(ConnId(10)));
        assert_eq!(roster.find(2).map(|entry| entry.key), Some(ConnId(20)));
        roster.insert(2, ConnId(30), 2);
        assert_eq!(roster.find(2), Some(RosterEntry { key: ConnId(30), epoch: 2 }));
        roster.remove(2, Instant::now());
        assert_eq!((roster.find(2), roster.get(2)), (None, None));
        assert_eq!(roster.find(1).map(|entry| entry.key), Some(ConnId(10)));
    }

    #[test]
    fn disconnected_switch_is_remembered_with_its_epoch() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        roster.insert(1, ConnId(10), 7);
        assert!(!roster.has_just_gone(1, 7, now), "it is here");
        roster.remove(1, now);
        roster.remove(2, now);
        assert!(roster.has_just_gone(1, 7, now + JUST / 2));
        assert!(!roster.has_just_gone(1, 8, now) && !roster.has_just_gone(2, 0, now));
        assert!(!roster.has_just_gone(1, 7, now + JUST));
        for dpid in 0..2 * MOST_GONE as u64 {
            roster.insert(dpid, ConnId(10), 9);
            roster.remove(dpid, now);
        }
        assert_eq!((roster.gone.len(), roster.gone_in_order.len()), (MOST_GONE, MOST_GONE));
        let last = 2 * MOST_GONE as u64 - 1;
        assert!(roster.has_just_gone(last, 9, now) && !roster.has_just_gone(0, 9, now));
    }
}

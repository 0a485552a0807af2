//! Where the worker's switches are, by datapath.

use std::collections::HashMap;

/// A switch's place among the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: usize,
    pub(super) epoch: u32,
}

/// The switches of a worker.
///
/// Datapath-ids come from switches, so their hash is keyed, and takes its time. Apps answer a
/// batch of one switch at a time: the last entry found is most often the next one asked for.
#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: HashMap<u64, Entry>,
    last: Option<(u64, Entry)>,
}

impl Roster {
    pub(super) fn get(&self, dpid: u64) -> Option<Entry> {
        self.entries.get(&dpid).copied()
    }

    /// As [`get`](Self::get), of a datapath that was probably asked for just before.
    #[inline]
    pub(super) fn find(&mut self, dpid: u64) -> Option<Entry> {
        match self.last {
            Some((last, entry)) if last == dpid => Some(entry),
            _ => {
                let entry = self.get(dpid)?;
                self.last = Some((dpid, entry));
                Some(entry)
            }
        }
    }

    pub(super) fn insert(&mut self, dpid: u64, key: usize, epoch: u32) {
        self.last = None;
        self.entries.insert(dpid, Entry { key, epoch });
    }

    pub(super) fn remove(&mut self, dpid: u64) {
        self.last = None;
        self.entries.remove(&dpid);
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Entry)> {
        self.entries.iter().map(|(dpid, entry)| (*dpid, *entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_last_is_forgotten_with_its_switch() {
        let mut roster = Roster::default();
        roster.insert(1, 10, 1);
        roster.insert(2, 20, 1);
        assert_eq!(roster.find(1).map(|entry| entry.key), Some(10));
        assert_eq!(roster.find(2).map(|entry| entry.key), Some(20));
        roster.insert(2, 30, 2);
        assert_eq!(roster.find(2), Some(Entry { key: 30, epoch: 2 }));
        roster.remove(2);
        assert_eq!((roster.find(2), roster.get(2)), (None, None));
        assert_eq!(roster.find(1).map(|entry| entry.key), Some(10));
    }
}

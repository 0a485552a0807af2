//! Holds all wanted entries of an application and finds those of a switch.

use std::collections::HashMap;

use openflow::{Dpid, FlowMod};

use crate::Switch;

use super::entry::{At, Content, Key, WantedEntry, flow_key};

/// The number of an entry. An entry whose content changes gets another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryId(u64);

/// All wanted entries, and notes about earlier groups and meters.
#[derive(Debug, Default)]
pub(super) struct WantedSet {
    entries: HashMap<EntryId, WantedEntry>,
    by_key: HashMap<At, HashMap<Key, EntryId>>,
    last: u64,
}

impl WantedSet {
    /// Returns the number of entries, with notes.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns an entry.
    pub(super) fn get(&self, id: EntryId) -> Option<&WantedEntry> {
        self.entries.get(&id)
    }

    /// Returns the entry with this scope and key.
    pub(super) fn find(&self, at: At, key: &Key) -> Option<EntryId> {
        self.by_key.get(&at)?.get(key).copied()
    }

    /// Returns the entry with this key that holds at a switch.
    pub(super) fn at(&self, dpid: Dpid, key: &Key) -> Option<EntryId> {
        self.find(At::One(dpid), key).or_else(|| self.find(At::All, key))
    }

    /// Whether a group or meter of this number was wanted once.
    pub(super) fn was_wanted(&self, key: &Key) -> bool {
        WantedEntry::note(key).is_some_and(|note| self.find(At::All, &note.key).is_some())
    }

    /// Inserts an entry; returns its number, and the number of the entry that it replaces.
    pub(super) fn insert(&mut self, entry: WantedEntry) -> (EntryId, Option<EntryId>) {
        self.last += 1;
        let id = EntryId(self.last);
        let keys = self.by_key.entry(entry.at).or_default();
        let replaced = keys.insert(entry.key.clone(), id);
        if let Some(replaced) = replaced {
            self.entries.remove(&replaced);
        }
        self.entries.insert(id, entry);
        (id, replaced)
    }

    /// Notes that the application has declared the entry since it started.
    pub(super) fn declare(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_declared = true;
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, id: EntryId) -> Option<WantedEntry> {
        let entry = self.entries.remove(&id)?;
        if let Some(keys) = self.by_key.get_mut(&entry.at) {
            keys.remove(&entry.key);
            if keys.is_empty() {
                self.by_key.remove(&entry.at);
            }
        }
        Some(entry)
    }

    /// Returns the entries that the application has not declared since it started, without notes.
    pub(super) fn undeclared(&self) -> Vec<EntryId> {
        let is_old = |entry: &WantedEntry| {
            !entry.is_declared && !matches!(entry.key, Key::OldGroup(_) | Key::OldMeter(_))
        };
        self.entries.iter().filter(|(_, entry)| is_old(entry)).map(|(id, _)| *id).collect()
    }

    /// Returns the entries that hold at a switch, oldest first.
    pub(super) fn all_at(&self, dpid: Dpid) -> Vec<EntryId> {
        let (one, all) = (self.by_key.get(&At::One(dpid)), self.by_key.get(&At::All));
        let is_replaced = |key: &Key| one.is_some_and(|one| one.contains_key(key));
        let all = all.into_iter().flatten().filter(|(key, _)| !is_replaced(key));
        let both = one.into_iter().flatten().chain(all);
        let is_note = |key: &Key| matches!(key, Key::OldGroup(_) | Key::OldMeter(_));
        let mut ids: Vec<_> = both.filter(|(key, _)| !is_note(key)).map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Whether groups or meters are wanted, or were.
    pub(super) fn has_groups_or_meters(&self, dpid: Dpid) -> bool {
        let scopes = [At::All, At::One(dpid)].into_iter();
        let mut keys = scopes.filter_map(|at| self.by_key.get(&at)).flat_map(HashMap::keys);
        keys.any(|key| !matches!(key, Key::Flow { .. }))
    }

    /// Returns the flows that hold at a switch under the keys by which its version lists them. A version without OXM cannot
    /// express all fields, so the listed match may differ from the match that the application declared.
    pub(super) fn keys_as_listed(&self, switch: Switch) -> HashMap<Key, EntryId> {
        let mut message = Vec::new();
        let listed = self.all_at(switch.dpid).into_iter().filter_map(|id| {
            let Content::Flow(flow) = self.get(id)?.content() else { return None };
            message.clear();
            openflow::append(&mut message, |out| flow.encode(switch.version, 0, out)).ok()?;
            let listed = FlowMod::decode(&message).ok()?;
            Some((flow_key(listed.table_id, listed.priority, listed.match_), id))
        });
        listed.collect()
    }
}

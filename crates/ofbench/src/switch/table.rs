//! Flow tables that answer where a packet would go.
//!
//! A [`Packet`] holds its fields as a match that only packets with these fields fit. An entry applies if its match covers
//! that match, field by field. A non-strict modify or delete selects entries by the same rule. A strict one selects the
//! entry with the same match and priority.
//!
//! The tables are for tests and counting, not for forwarding: lookups, modifies and deletes scan all entries, and so does an
//! add with `CHECK_OVERLAP`. Other adds take constant time.

mod packet;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use openflow::{
    Action, FlowCounters, FlowMod, FlowModCommand, FlowModFlags, FlowStats, Instructions, Match,
    PortNo, Version,
};
use thiserror::Error;

pub use packet::Packet;

/// Why a flow-mod was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TableError {
    /// The table holds its maximum number of entries.
    #[error("the table is full")]
    Full,
    /// There is no table of this number.
    #[error("there is no such table")]
    NoSuchTable,
    /// `CHECK_OVERLAP` is set and another entry of the same priority overlaps.
    #[error("the entry overlaps another of the same priority")]
    Overlap,
}

/// An entry of a flow table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowEntry {
    /// Number of its table.
    pub table_id: u8,
    /// Match.
    pub match_: Match,
    /// Priority; the highest matching entry applies.
    pub priority: u16,
    /// Cookie that the controller chose.
    pub cookie: u64,
    /// Idle timeout in seconds; stored but not enforced.
    pub idle_timeout: u16,
    /// Hard timeout in seconds; stored but not enforced.
    pub hard_timeout: u16,
    /// Flags of the flow-mod; stored but not reported, as the statistics of OpenFlow 1.0 have none.
    pub flags: FlowModFlags,
    /// Apply-actions instruction.
    pub apply: Vec<Action>,
    /// Clear-actions instruction.
    pub clear: bool,
    /// Write-actions instruction.
    pub write: Vec<Action>,
    /// Write-metadata instruction: value and mask.
    pub metadata: Option<(u64, u64)>,
    /// Goto-table instruction.
    pub goto_table: Option<u8>,
}

impl FlowEntry {
    fn new(flow_mod: &FlowMod<'_>) -> Self {
        let mut entry = Self {
            table_id: flow_mod.table_id,
            match_: flow_mod.match_.clone(),
            priority: flow_mod.priority,
            cookie: flow_mod.cookie,
            idle_timeout: flow_mod.idle_timeout,
            hard_timeout: flow_mod.hard_timeout,
            flags: flow_mod.flags,
            apply: Vec::new(),
            clear: false,
            write: Vec::new(),
            metadata: None,
            goto_table: None,
        };
        entry.set_instructions(&flow_mod.instructions);
        entry
    }

    fn set_instructions(&mut self, instructions: &Instructions<'_>) {
        self.apply = instructions.apply.iter().collect();
        self.clear = instructions.clear;
        self.write = instructions.write.iter().collect();
        self.metadata = instructions.metadata;
        self.goto_table = instructions.goto_table;
    }

    /// Whether `wider` matches every packet that this entry matches.
    pub fn is_covered_by(&self, wider: &Match) -> bool {
        covers(wider, &self.match_)
    }

    /// Whether one of its actions outputs packets to this port.
    pub fn outputs_to(&self, wanted: PortNo) -> bool {
        let sends = |action: &Action| matches!(action, Action::Output { port, .. } | Action::Enqueue { port, .. } if *port == wanted);
        self.apply.iter().chain(&self.write).any(sends)
    }

    /// Converts the entry to flow statistics.
    pub(super) fn to_stats(&self) -> FlowStats<'_> {
        FlowStats {
            table_id: self.table_id,
            duration: Duration::ZERO,
            priority: self.priority,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            flags: FlowModFlags::default(),
            importance: 0,
            cookie: self.cookie,
            packet_count: 0,
            byte_count: 0,
            match_: self.match_.clone(),
            instructions: Instructions {
                apply: (&self.apply).into(),
                clear: self.clear,
                write: (&self.write).into(),
                metadata: self.metadata,
                goto_table: self.goto_table,
                ..Instructions::default()
            },
        }
    }

    /// Converts the entry to flow statistics without its description.
    pub(super) fn to_counters(&self) -> FlowCounters {
        FlowCounters {
            table_id: self.table_id,
            reason: 0,
            priority: self.priority,
            match_: self.match_.clone(),
            duration: Some(Duration::ZERO),
            idle_time: None,
            packet_count: 0,
            byte_count: 0,
        }
    }
}

/// Where a packet goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LookupResult {
    /// Output ports in the order of the actions. Reserved ports such as [`PortNo::FLOOD`] are not expanded.
    pub ports: Vec<PortNo>,
    /// Whether the packet goes to the controller, by an action or by an OpenFlow 1.0 table miss.
    pub to_controller: bool,
    /// Whether no entry matched in the last table that the packet reached.
    pub missed: bool,
}

/// Identifies an entry: an add with an equal key replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EntryKey {
    table_id: u8,
    priority: u16,
    match_: Match,
}

/// The flow tables of a switch.
#[derive(Debug, Clone)]
pub struct FlowTables {
    version: Version,
    n_tables: u8,
    /// Maximum number of entries per table.
    max_flows: usize,
    entries: HashMap<EntryKey, FlowEntry>,
    /// The number of entries, by table.
    in_table: [usize; 256],
}

/// Returns the number of flow tables of a switch of this version. OpenFlow 1.0 describes one (§3.1). For 1.3 any number
/// would do that is greater than the pipelines of the controllers under test.
pub(super) fn n_tables(version: Version) -> u8 {
    if version.features().multiple_tables { 8 } else { 1 }
}

impl FlowTables {
    /// Creates the empty tables of a switch with at most `max_flows` entries each.
    pub fn new(version: Version, max_flows: usize) -> Self {
        let n_tables = n_tables(version);
        Self { version, n_tables, max_flows, entries: HashMap::new(), in_table: [0; 256] }
    }

    /// Iterates over the entries in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &FlowEntry> {
        self.entries.values()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Applies a flow-mod.
    ///
    /// # Errors
    /// [`TableError`]; the tables are unchanged then.
    pub fn apply(&mut self, flow_mod: &FlowMod<'_>) -> Result<(), TableError> {
        let everywhere = flow_mod.command.is_delete() && flow_mod.table_id == FlowMod::ALL_TABLES;
        if flow_mod.table_id >= self.n_tables && !everywhere {
            return Err(TableError::NoSuchTable);
        }
        match flow_mod.command {
            FlowModCommand::Add => self.add(flow_mod),
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => self.modify(flow_mod),
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                self.delete(flow_mod);
                Ok(())
            }
        }
    }

    fn add(&mut self, flow_mod: &FlowMod<'_>) -> Result<(), TableError> {
        let table = usize::from(flow_mod.table_id);
        let &FlowMod { table_id, priority, ref match_, .. } = flow_mod;
        let key = EntryKey { table_id, priority, match_: match_.clone() };
        if flow_mod.flags.contains(FlowModFlags::CHECK_OVERLAP) {
            // The entry with the same match is no overlap: it is replaced.
            let mut others = self.entries().filter(|entry| {
                (entry.table_id, entry.priority) == (table_id, priority) && entry.match_ != *match_
            });
            if others.any(|entry| overlaps(&entry.match_, match_)) {
                return Err(TableError::Overlap);
            }
        }
        if !self.entries.contains_key(&key) {
            if self.in_table[table] >= self.max_flows {
                return Err(TableError::Full);
            }
            self.in_table[table] += 1;
        }
        self.entries.insert(key, FlowEntry::new(flow_mod));
        Ok(())
    }

    fn modify(&mut self, flow_mod: &FlowMod<'_>) -> Result<(), TableError> {
        let mut found = false;
        for entry in self.entries.values_mut().filter(|entry| selects(flow_mod, entry)) {
            found = true;
            // Cookie, timeouts and flags stay (OpenFlow 1.3.5 §6.4).
            entry.set_instructions(&flow_mod.instructions);
        }
        // In OpenFlow 1.0, a modify without a matching entry adds one (§4.6).
        if found || !self.version.features().modify_adds { Ok(()) } else { self.add(flow_mod) }
    }

    /// Deletes the selected entries. The filter `out_group` is ignored, as these switches have no groups.
    fn delete(&mut self, flow_mod: &FlowMod<'_>) {
        let in_table = &mut self.in_table;
        self.entries.retain(|_, entry| {
            let is_deleted = selects(flow_mod, entry)
                && (flow_mod.out_port == PortNo::ANY || entry.outputs_to(flow_mod.out_port));
            in_table[usize::from(entry.table_id)] -= usize::from(is_deleted);
            !is_deleted
        });
    }

    /// Returns where a packet would go.
    pub fn lookup(&self, packet: &Packet) -> LookupResult {
        let mut packet = packet.clone();
        let mut result = LookupResult::default();
        let mut action_set: Vec<Action> = Vec::new();
        let mut table_id = 0;
        loop {
            let matches =
                |entry: &&FlowEntry| entry.table_id == table_id && packet.is_in(&entry.match_);
            // Of matching entries with the same priority an arbitrary one applies: the specification does not define which
            // (OpenFlow 1.3.5 §5.3).
            let Some(entry) = self.entries().filter(matches).max_by_key(|entry| entry.priority)
            else {
                // The packet is dropped (OpenFlow 1.3.5 §5.4), so the action set is not executed. Outputs by apply-actions
                // have happened.
                result.missed = true;
                result.to_controller |= self.version.features().miss_to_controller;
                return result;
            };
            packet.apply_actions(&entry.apply, &mut result);
            if entry.clear {
                action_set.clear();
            }
            // The action set holds at most one output: the last one written (OpenFlow 1.3.5 §5.10).
            action_set.extend(entry.write.iter().cloned());
            if let Some((bits, mask)) = entry.metadata {
                packet.write_metadata(bits, mask);
            }
            match entry.goto_table {
                // Goto-table may only go forward (OpenFlow 1.3.5 §5.1), which prevents loops.
                Some(next) if next > table_id => table_id = next,
                _ => break,
            }
        }
        let is_output = |action: &&Action| matches!(action, Action::Output { .. });
        let output = action_set.iter().rfind(is_output).cloned();
        packet.apply_actions(output.as_slice(), &mut result);
        result
    }
}

/// Whether a modify or delete selects an entry: by table, cookie and match.
fn selects(flow_mod: &FlowMod<'_>, entry: &FlowEntry) -> bool {
    let has_table = [entry.table_id, FlowMod::ALL_TABLES].contains(&flow_mod.table_id);
    let has_cookie = (entry.cookie ^ flow_mod.cookie) & flow_mod.cookie_mask == 0;
    let is_strict =
        matches!(flow_mod.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
    let has_match = if is_strict {
        flow_mod.priority == entry.priority && flow_mod.match_ == entry.match_
    } else {
        entry.is_covered_by(&flow_mod.match_)
    };
    has_table && has_cookie && has_match
}

/// Whether `wide` matches every packet that `narrow` matches: `narrow` has each field of `wide`, with the same bits where
/// the mask of `wide` has ones.
fn covers(wide: &Match, narrow: &Match) -> bool {
    wide.oxms().all(|wide| {
        let (wide_value, wide_mask) = wide.value_and_mask();
        narrow.oxms().any(|narrow| {
            let (value, mask) = narrow.value_and_mask();
            (narrow.class, narrow.field, value.len()) == (wide.class, wide.field, wide_value.len())
                && (0..value.len()).all(|at| {
                    let (wide_mask, mask) = (mask_byte(wide_mask, at), mask_byte(mask, at));
                    mask & wide_mask == wide_mask && (value[at] ^ wide_value[at]) & wide_mask == 0
                })
        })
    })
}

/// Whether some packet could match both: no field that both have demands different bits where both masks have ones.
fn overlaps(one: &Match, other: &Match) -> bool {
    one.oxms().all(|a| {
        let (a_value, a_mask) = a.value_and_mask();
        other.oxms().filter(|b| (a.class, a.field) == (b.class, b.field)).all(|b| {
            let (b_value, b_mask) = b.value_and_mask();
            // Unknown fields can have values of different lengths, which cannot be compared.
            a_value.len() != b_value.len()
                || (0..a_value.len()).all(|at| {
                    let mask = mask_byte(a_mask, at) & mask_byte(b_mask, at);
                    (a_value[at] ^ b_value[at]) & mask == 0
                })
        })
    })
}

/// The byte of a mask; all ones if the field has none.
fn mask_byte(mask: Option<&[u8]>, at: usize) -> u8 {
    mask.map_or(0xff, |mask| mask[at])
}

//! Flow tables that answer where a packet would go.
//!
//! A [`Packet`] is represented by the match that fits only this packet. An entry applies if its
//! match covers the packet's match, field by field; a delete selects entries by the same rule.
//! Adding takes constant time and lookup scans all entries: the tables are for tests and counting,
//! not for forwarding.

mod packet;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use openflow::{
    Action, Field, FlowMod, FlowModCommand, FlowModFlags, FlowStats, Instructions, Match, PortNo,
    Version,
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
pub struct Entry {
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
    /// Flags.
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

impl Entry {
    fn new(flow_mod: &FlowMod<'_>) -> Self {
        let instructions = &flow_mod.instructions;
        Self {
            table_id: flow_mod.table_id,
            match_: flow_mod.match_.clone(),
            priority: flow_mod.priority,
            cookie: flow_mod.cookie,
            idle_timeout: flow_mod.idle_timeout,
            hard_timeout: flow_mod.hard_timeout,
            flags: flow_mod.flags,
            apply: instructions.apply.iter().collect(),
            clear: instructions.clear,
            write: instructions.write.iter().collect(),
            metadata: instructions.metadata,
            goto_table: instructions.goto_table,
        }
    }

    /// Whether `wider` matches every packet that this entry matches.
    pub fn is_covered(&self, wider: &Match) -> bool {
        covers(wider, &self.match_)
    }

    /// Whether it outputs packets to a port.
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
}

/// Result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LookupResult {
    /// Output ports as the actions name them: [`PortNo::FLOOD`] is not expanded.
    pub ports: Vec<PortNo>,
    /// Whether the packet goes to the controller, by an action or by an OpenFlow 1.0 table miss.
    pub to_controller: bool,
    /// Whether no entry matched in the last table.
    pub missed: bool,
}

/// The flow tables of a switch.
#[derive(Debug, Clone)]
pub struct FlowTables {
    version: Version,
    n_tables: u8,
    /// Maximum number of entries per table.
    max_flows: usize,
    entries: HashMap<(u8, u16, Match), Entry>,
    in_table: [usize; 256],
}

impl FlowTables {
    /// Creates the empty tables of a switch with at most `max_flows` entries each.
    pub fn new(version: Version, max_flows: usize) -> Self {
        let n_tables = match version {
            Version::V1_0 => 1,
            Version::V1_3 => 8,
        };
        Self { version, n_tables, max_flows, entries: HashMap::new(), in_table: [0; 256] }
    }

    /// Iterates over the entries in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
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
        let key = (flow_mod.table_id, flow_mod.priority, flow_mod.match_.clone());
        if flow_mod.flags.contains(FlowModFlags::CHECK_OVERLAP) {
            let mut others = self.entries().filter(|entry| {
                (entry.table_id, entry.priority) == (key.0, key.1) && entry.match_ != key.2
            });
            if others.any(|entry| overlaps(&entry.match_, &flow_mod.match_)) {
                return Err(TableError::Overlap);
            }
        }
        if !self.entries.contains_key(&key) {
            if self.in_table[table] >= self.max_flows {
                return Err(TableError::Full);
            }
            self.in_table[table] += 1;
        }
        self.entries.insert(key, Entry::new(flow_mod));
        Ok(())
    }

    fn modify(&mut self, flow_mod: &FlowMod<'_>) -> Result<(), TableError> {
        let mut found = false;
        for entry in self.entries.values_mut().filter(|entry| concerns(flow_mod, entry)) {
            found = true;
            // Only the instructions change (OpenFlow 1.3.5 §6.4).
            let Entry { apply, clear, write, metadata, goto_table, .. } = Entry::new(flow_mod);
            *entry = Entry { apply, clear, write, metadata, goto_table, ..entry.clone() };
        }
        // In OpenFlow 1.0, a modify without a matching entry adds one (§4.6).
        if found || self.version != Version::V1_0 { Ok(()) } else { self.add(flow_mod) }
    }

    fn delete(&mut self, flow_mod: &FlowMod<'_>) {
        let gone = |entry: &Entry| {
            concerns(flow_mod, entry)
                && (flow_mod.out_port == PortNo::ANY || entry.outputs_to(flow_mod.out_port))
        };
        let in_table = &mut self.in_table;
        self.entries.retain(|_, entry| {
            let goes = gone(entry);
            in_table[usize::from(entry.table_id)] -= usize::from(goes);
            !goes
        });
    }

    /// Returns where a packet would go.
    pub fn lookup(&self, packet: &Packet) -> LookupResult {
        let mut packet = packet.clone();
        let mut fate = LookupResult::default();
        let mut set: Vec<Action> = Vec::new();
        let mut table_id = 0;
        loop {
            let takes = |entry: &&Entry| entry.table_id == table_id && packet.is_in(&entry.match_);
            let Some(entry) = self.entries().filter(takes).max_by_key(|entry| entry.priority)
            else {
                fate.missed = true;
                fate.to_controller |= self.version == Version::V1_0;
                return fate;
            };
            packet.apply_actions(&entry.apply, &mut fate);
            if entry.clear {
                set.clear();
            }
            // The action set holds at most one output: the last one written (OpenFlow 1.3.5 §5.10).
            set.extend(entry.write.iter().cloned());
            if let Some((bits, mask)) = entry.metadata {
                packet.write_metadata(bits, mask);
            }
            match entry.goto_table {
                // Goto-table may only go forward (OpenFlow 1.3.5 §5.1), which prevents loops.
                Some(next) if next > table_id => table_id = next,
                _ => break,
            }
        }
        let output = set.iter().rfind(|action| matches!(action, Action::Output { .. })).cloned();
        packet.apply_actions(output.as_slice(), &mut fate);
        fate
    }
}

/// Whether a modify or delete applies to an entry.
fn concerns(flow_mod: &FlowMod<'_>, entry: &Entry) -> bool {
    let table = [entry.table_id, FlowMod::ALL_TABLES].contains(&flow_mod.table_id);
    let cookie = (entry.cookie ^ flow_mod.cookie) & flow_mod.cookie_mask == 0;
    let strict =
        matches!(flow_mod.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
    let match_ = if strict {
        flow_mod.priority == entry.priority && flow_mod.match_ == entry.match_
    } else {
        entry.is_covered(&flow_mod.match_)
    };
    table && cookie && match_
}

/// Whether `wide` matches every packet that `narrow` matches.
fn covers(wide: &Match, narrow: &Match) -> bool {
    wide.oxms().all(|wanted| {
        let (value, mask) = wanted.value_and_mask();
        narrow.oxms().any(|has| {
            let (its_value, its_mask) = has.value_and_mask();
            (has.class, has.field, its_value.len()) == (wanted.class, wanted.field, value.len())
                && (0..value.len()).all(|at| {
                    let mask = mask.map_or(0xff, |mask| mask[at]);
                    let its_mask = its_mask.map_or(0xff, |mask| mask[at]);
                    its_mask & mask == mask && (value[at] ^ its_value[at]) & mask == 0
                })
        })
    })
}

/// Whether some packet could match both.
fn overlaps(one: &Match, other: &Match) -> bool {
    one.oxms().all(|a| {
        let (value, mask) = a.value_and_mask();
        other.oxms().filter(|b| (a.class, a.field) == (b.class, b.field)).all(|b| {
            let (others_value, others_mask) = b.value_and_mask();
            value.len() != others_value.len()
                || (0..value.len()).all(|at| {
                    let mask = mask.map_or(0xff, |mask| mask[at])
                        & others_mask.map_or(0xff, |mask| mask[at]);
                    (value[at] ^ others_value[at]) & mask == 0
                })
        })
    })
}

impl Packet {
    /// Applies actions to the packet and collects its outputs.
    pub(crate) fn apply_actions(&mut self, actions: &[Action], fate: &mut LookupResult) {
        for action in actions {
            match action {
                Action::Output { port: PortNo::CONTROLLER, .. } => fate.to_controller = true,
                Action::Output { port, .. } | Action::Enqueue { port, .. } => {
                    fate.ports.push(*port);
                }
                Action::SetField(field) => self.set(field),
                Action::SetTpSrc(port) => self.set_transport(*port, true),
                Action::SetTpDst(port) => self.set_transport(*port, false),
                Action::PopVlan => self.set(&Field::VlanVid(0.into())),
                _ => {}
            }
        }
    }
}

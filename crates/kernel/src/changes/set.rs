//! Holds one admitted change set, and orders its changes for a switch without bundles.
//!
//! There, additions come first, so that no packet misses both the former and the new state (make before break). An addition
//! stays behind an earlier change that could touch it, because the final state would be another one otherwise. So do
//! all additions behind it, which may depend on it.

use std::collections::HashSet;
use std::ops::Range;

use openflow::{
    FlowMod, FlowModCommand, FlowModFlags, GroupMod, GroupModCommand, Match, MeterMod,
    MeterModCommand, Version,
};

use crate::check::{Allowed, Sweep};
use crate::transactions::Sender;

/// The table number of a deletion from every table.
const ALL_TABLES: u8 = FlowMod::ALL_TABLES;

/// Bytes that a message takes in a bundle beyond its size: the most of any version (EXT-230).
const ADD_HEAD: usize = 24;

/// The kind of entry that a change concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Flow,
    Group,
    Meter,
}

/// The effect of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Add,
    Modify,
    Delete,
}

/// One change of a set.
#[derive(Debug, Clone)]
pub(super) struct Item {
    range: Range<usize>,
    pub(super) what: What,
    pub(super) does: Does,
    /// The effect on the table-miss entry.
    pub(super) sweeps: Option<Sweep>,
}

/// A change set whose messages were admitted and marked.
#[derive(Debug)]
pub(crate) struct ChangeSet {
    /// The app, and the number that it gave the set.
    pub(crate) sender: Sender,
    /// Flow-mods of the app that a switch receives per second.
    pub(crate) pace: Option<u32>,
    version: Version,
    bytes: Box<[u8]>,
    pub(super) items: Vec<Item>,
}

impl ChangeSet {
    /// Makes a set of messages that the kernel has checked. `None` if one of them is no flow-mod, group-mod or meter-mod.
    pub(crate) fn new(
        sender: Sender,
        pace: Option<u32>,
        version: Version,
        bytes: &[u8],
        messages: impl Iterator<Item = (Range<usize>, Allowed)>,
    ) -> Option<Self> {
        let items = messages.map(|(range, allowed)| item(bytes, range, allowed));
        let items = items.collect::<Option<Vec<_>>>()?;
        Some(Self { sender, pace, version, bytes: bytes.into(), items })
    }

    /// Bytes of the set.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether each message fits into a message that adds it to a bundle.
    pub(super) fn fits_bundle(&self) -> bool {
        self.items.iter().all(|item| item.range.len() <= usize::from(u16::MAX) - ADD_HEAD)
    }

    /// Number of flows that it adds.
    pub(super) fn added_flows(&self) -> u32 {
        let adds = |item: &&Item| item.what == What::Flow && item.does == Does::Add;
        u32::try_from(self.items.iter().filter(adds).count()).unwrap_or(u32::MAX)
    }

    /// The message of a change.
    pub(super) fn message(&self, index: usize) -> &[u8] {
        &self.bytes[self.items[index].range.clone()]
    }

    /// The changes for a switch without bundles: the additions that come first, and all others, each in the order of the
    /// app.
    pub(super) fn make_before_break(&self) -> (Vec<usize>, Vec<usize>) {
        let mut earlier = Earlier::default();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        let mut stay = false;
        for (index, item) in self.items.iter().enumerate() {
            stay |= item.does == Does::Add && earlier.may_touch(self, index);
            if item.does == Does::Add && !stay {
                first.push(index);
            } else {
                earlier.note(self, index);
                others.push(index);
            }
        }
        (first, others)
    }

    /// Whether [`undo`](Self::undo) undoes a change: the addition of a group or a meter. A flow may have replaced another one.
    pub(super) fn is_undone(&self, index: usize) -> bool {
        let Item { what, does, .. } = self.items[index];
        what != What::Flow && does == Does::Add
    }

    /// Appends the message that undoes the addition of a group or a meter.
    pub(super) fn undo(&self, index: usize, xid: u32, out: &mut Vec<u8>) {
        let (message, version) = (self.message(index), self.version);
        if let Ok(added) = GroupMod::decode(message) {
            let command = GroupModCommand::Delete;
            let undo = GroupMod { command, buckets: Vec::new(), ..added };
            // It is shorter than the addition.
            let _ = openflow::append(out, |out| undo.encode(version, xid, out));
        } else if let Ok(added) = MeterMod::decode(message) {
            let command = MeterModCommand::Delete;
            let undo = MeterMod { command, bands: Vec::new(), ..added };
            let _ = openflow::append(out, |out| undo.encode(version, xid, out));
        }
    }
}

/// Reads what an admitted message does.
fn item(bytes: &[u8], range: Range<usize>, allowed: Allowed) -> Option<Item> {
    let message = bytes.get(range.clone())?;
    let mut effect = None;
    let (what, does) = match allowed {
        Allowed::FlowMod { sweeps, .. } => {
            effect = sweeps;
            (What::Flow, does_flow(openflow::FlowModView::decode(message).ok()?.command))
        }
        Allowed::GroupMod { .. } => {
            let does = match GroupMod::decode(message).ok()?.command {
                GroupModCommand::Add => Does::Add,
                GroupModCommand::Delete => Does::Delete,
                _ => Does::Modify,
            };
            (What::Group, does)
        }
        Allowed::MeterMod { .. } => {
            let does = match MeterMod::decode(message).ok()?.command {
                MeterModCommand::Add => Does::Add,
                MeterModCommand::Modify => Does::Modify,
                MeterModCommand::Delete => Does::Delete,
            };
            (What::Meter, does)
        }
        Allowed::Config | Allowed::PacketOut | Allowed::Request(_) | Allowed::Experimenter => {
            return None;
        }
    };
    Some(Item { range, what, does, sweeps: effect })
}

fn does_flow(command: FlowModCommand) -> Does {
    match command {
        FlowModCommand::Add => Does::Add,
        FlowModCommand::Modify | FlowModCommand::ModifyStrict => Does::Modify,
        FlowModCommand::Delete | FlowModCommand::DeleteStrict => Does::Delete,
    }
}

/// Changes before an addition that are no additions, or additions that stay behind such.
#[derive(Debug, Default)]
struct Earlier {
    /// Strict changes of flows.
    strict: HashSet<(u8, u16, Match)>,
    /// Other changes of flows: table, cookie and mask. They may touch flows of every match.
    wide: HashSet<(u8, u64, u64)>,
    groups: bool,
    meters: bool,
}

impl Earlier {
    fn note(&mut self, set: &ChangeSet, index: usize) {
        match set.items[index].what {
            What::Group => self.groups = true,
            What::Meter => self.meters = true,
            What::Flow => {
                let Ok(flow_mod) = FlowMod::decode(set.message(index)) else { return };
                let FlowMod { command, table_id, cookie, cookie_mask, priority, match_, .. } =
                    flow_mod;
                if matches!(command, FlowModCommand::Modify | FlowModCommand::Delete) {
                    self.wide.insert((table_id, cookie & cookie_mask, cookie_mask));
                } else {
                    self.strict.insert((table_id, priority, match_));
                }
            }
        }
    }

    /// Whether one of these changes could touch what change `index` adds.
    fn may_touch(&self, set: &ChangeSet, index: usize) -> bool {
        match set.items[index].what {
            What::Group => self.groups,
            What::Meter => self.meters,
            What::Flow if self.strict.is_empty() && self.wide.is_empty() => false,
            What::Flow => {
                let Ok(flow_mod) = FlowMod::decode(set.message(index)) else { return true };
                let FlowMod { table_id, cookie, priority, match_, flags, .. } = flow_mod;
                if flags.contains(FlowModFlags::CHECK_OVERLAP) {
                    return true; // the switch refuses it while a flow is there that an earlier change removes
                }
                let mut wide = self.wide.iter();
                let is_in = |table: u8| table == table_id || table == ALL_TABLES;
                wide.any(|(table, value, mask)| is_in(*table) && cookie & mask == *value)
                    || self.strict.contains(&(ALL_TABLES, priority, match_.clone()))
                    || self.strict.contains(&(table_id, priority, match_))
            }
        }
    }
}

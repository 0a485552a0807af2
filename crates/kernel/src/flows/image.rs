//! Knows the owner, the priority and the table of each flow of a switch, by the reports of its flow monitor, and judges what a
//! change means. It does no I/O.
//!
//! A flow is found by a hash of its table, priority and match, as the switch wrote them. The hash has a secret key, so a switch
//! cannot choose flows that share one. An image holds at most [`MOST_FLOWS`] flows, and the flows of all images together come
//! from a pool ([`Memory::flows`](crate::memory::Memory::flows)).
//!
//! A list of all flows is received beside the image that is known. Changes that come with it apply to both. At its end the list
//! replaces the image, and a flow that is only in the image was lost unseen.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use openflow::{FlowEntryView, FlowEvent, FlowRemovedReason};

use crate::memory::Share;
use crate::rewrite::{KERNEL, owner};
use control::app::AppId;

/// Most flows in an image.
pub(crate) const MOST_FLOWS: usize = 1 << 18;

/// A flow of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The app whose number its cookie has.
    pub(crate) owner: AppId,
    pub(crate) priority: u16,
    pub(crate) table: u8,
}

impl Flow {
    /// Whether it is a table-miss entry of the kernel.
    fn is_entry(self) -> bool {
        self.owner == KERNEL && self.priority == 0
    }
}

/// The meaning of a change for the owner of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Nothing that the owner must know.
    Nothing,
    /// A flow of this owner was removed.
    Removed(AppId),
    /// A flow of this owner was changed, or was replaced by one of another owner.
    Changed(AppId),
}

/// The flows of one switch.
#[derive(Debug)]
pub(crate) struct FlowImage {
    key: RandomState,
    known: Flows,
    /// The list that is being received.
    next: Option<Flows>,
    room: Share,
    /// Whether a whole list was received.
    is_complete: bool,
    /// Whether flows were added or removed since [`take_changed`](Self::take_changed).
    is_changed: bool,
    /// Number of reports about flows.
    pub(crate) reports: u64,
    /// The switch does not report the kernel's own changes, so a flow that is removed may be unknown.
    pub(crate) sees_others_only: bool,
}

/// The image has no room for a further flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Flows by their hashes, and their numbers.
#[derive(Debug, Default)]
struct Flows {
    by_hash: HashMap<u64, Flow>,
    by_owner: BTreeMap<AppId, u32>,
    by_table: BTreeMap<u8, u32>,
    /// Number of table-miss entries of the kernel.
    entries: u32,
}

impl Flows {
    fn insert(&mut self, hash: u64, flow: Flow) -> Option<Flow> {
        let before = self.by_hash.insert(hash, flow);
        if let Some(before) = before {
            self.uncount(before);
        }
        self.entries += u32::from(flow.is_entry());
        *self.by_owner.entry(flow.owner).or_default() += 1;
        *self.by_table.entry(flow.table).or_default() += 1;
        before
    }

    fn remove(&mut self, hash: u64) -> Option<Flow> {
        let before = self.by_hash.remove(&hash)?;
        self.uncount(before);
        // The pool counts flows, so the map may not stay large for few of them.
        let (len, capacity) = (self.by_hash.len(), self.by_hash.capacity());
        if capacity > 64 && len < capacity / 8 {
            self.by_hash.shrink_to(len * 2);
        }
        Some(before)
    }

    fn uncount(&mut self, flow: Flow) {
        self.entries -= u32::from(flow.is_entry());
        if let Some(count) = self.by_owner.get_mut(&flow.owner) {
            *count -= 1;
            if *count == 0 {
                self.by_owner.remove(&flow.owner);
            }
        }
        if let Some(count) = self.by_table.get_mut(&flow.table) {
            *count -= 1; // an empty table stays, so that its number is reported
        }
    }
}

impl FlowImage {
    /// An image of no flows that takes its room from `room`.
    pub(crate) fn new(room: Share) -> Self {
        Self {
            key: RandomState::new(),
            known: Flows::default(),
            next: None,
            room,
            is_complete: false,
            is_changed: false,
            reports: 0,
            sees_others_only: false,
        }
    }

    /// Begins to receive a list of all flows.
    pub(crate) fn begin_list(&mut self) {
        self.next = Some(Flows::default());
    }

    /// Notes a report about a flow: a part of a list, or a change. Judges a change.
    ///
    /// # Errors
    /// [`NoRoom`]: the image is no longer right.
    pub(crate) fn report(&mut self, entry: &FlowEntryView<'_>) -> Result<Judgement, NoRoom> {
        let hash = self.key.hash_one((entry.table_id, entry.priority, entry.match_fields));
        let flow =
            Flow { owner: owner(entry.cookie), priority: entry.priority, table: entry.table_id };
        self.reports += 1;
        let is_removal = entry.event == FlowEvent::Removed;
        let is_listed = self.next.is_some();
        if let Some(next) = &mut self.next {
            if is_removal {
                next.remove(hash);
            } else {
                next.insert(hash, flow);
            }
        }
        // A part of a list does not tell when a flow was written.
        let before = if is_removal {
            self.known.remove(hash)
        } else if is_listed {
            self.known.by_hash.get(&hash).copied()
        } else {
            self.known.insert(hash, flow)
        };
        self.is_changed = true;
        let before = before.or_else(|| Some(flow).filter(|_| is_removal && self.sees_others_only));
        let size = self.known.by_hash.len() + self.next.as_ref().map_or(0, |it| it.by_hash.len());
        if size > MOST_FLOWS || !self.room.hold(size) {
            return Err(NoRoom);
        }
        Ok(if is_listed && !is_removal { Judgement::Nothing } else { judge(before, flow, entry) })
    }

    /// Ends the list, which replaces what was known. Returns the owners of flows that were lost unseen.
    pub(crate) fn end_list(&mut self) -> BTreeSet<AppId> {
        let Some(next) = self.next.take() else { return BTreeSet::new() };
        let before = std::mem::replace(&mut self.known, next);
        self.is_changed = true;
        self.room.hold(self.known.by_hash.len());
        // Without reports of its own changes, the kernel may have deleted flows that are missing.
        if !std::mem::replace(&mut self.is_complete, true) || self.sees_others_only {
            return BTreeSet::new();
        }
        let of_known = |hash: &u64| self.known.by_hash.get(hash).map(|flow| flow.owner);
        let lost = before.by_hash.iter().filter(|(hash, flow)| of_known(hash) != Some(flow.owner));
        lost.map(|(_, flow)| flow.owner).collect()
    }

    /// Whether a whole list was received.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the switch has the kernel's table-miss entry.
    pub(crate) fn has_entry(&self) -> bool {
        self.known.entries > 0
    }

    /// The number of flows of an owner.
    pub(crate) fn count_of(&self, owner: AppId) -> u32 {
        self.known.by_owner.get(&owner).copied().unwrap_or(0)
    }

    /// The owners of flows, each with its number of flows.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (AppId, u32)> {
        self.known.by_owner.iter().map(|(owner, count)| (*owner, *count))
    }

    /// The tables that have or had flows, each with its number of flows.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (u8, u32)> {
        self.known.by_table.iter().map(|(table, count)| (*table, *count))
    }

    /// The flows.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.known.by_hash.values()
    }

    /// Whether flows were added or removed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

/// Judges the change of a flow that was `before` and is `flow` now, or was `flow` until it was removed.
///
/// A removal counts only for a flow that was there: reports of a switch about flows that it never had cause nothing. An entry that
/// is added again by its owner is no change, because the owner itself may have written it.
fn judge(before: Option<Flow>, flow: Flow, entry: &FlowEntryView<'_>) -> Judgement {
    let Some(before) = before else { return Judgement::Nothing };
    let has_expired = matches!(
        entry.reason,
        FlowRemovedReason::IdleTimeout
            | FlowRemovedReason::HardTimeout
            | FlowRemovedReason::EVICTION
    );
    match entry.event {
        FlowEvent::Removed if has_expired => Judgement::Nothing,
        FlowEvent::Removed => Judgement::Removed(before.owner),
        FlowEvent::Added | FlowEvent::Initial if before.owner == flow.owner => Judgement::Nothing,
        FlowEvent::Added | FlowEvent::Initial | FlowEvent::Modified => {
            Judgement::Changed(before.owner)
        }
    }
}

#[cfg(test)]
mod tests;

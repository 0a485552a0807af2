//! Sends queued messages, in windows and while there is room, unless they are sent as one [change set](super::sets).

use std::time::Duration;

use openflow::{
    FlowMod, FlowModCommand, GroupKind, GroupMod, GroupModCommand, MeterFlags, MeterMod,
    MeterModCommand,
};

use super::super::entry::{Content, Key, on_switch};
use super::super::set::WantedSet;
use super::super::window::{MOST_IN_WINDOW, Op};
use super::sets::SentAs;
use super::{Phase, RING_PAUSE, ROOM_LEFT, Site, Turn};
use crate::changes::Change;
use crate::network::{SendError, Xid};

impl Site {
    /// Sends queued messages while there is room. Returns when to try again.
    pub(super) fn send(&mut self, turn: &mut Turn<'_, '_, '_>) -> Option<Duration> {
        let may_pass = turn.settings.at_once;
        if turn.settings.dry_run {
            self.queue.clear();
        }
        match self.send_set(turn) {
            SentAs::Messages => {}
            SentAs::Set => return None,
            SentAs::Nothing(again) => return Some(again),
        }
        while let Some(op) = self.queue.front() {
            if self.window.is_closed() && !may_pass {
                return None;
            }
            let is_other =
                self.window.last().is_some_and(|last| class(last, turn.set) != class(op, turn.set));
            if (self.window.len() >= MOST_IN_WINDOW && !may_pass || is_other)
                && !self.window.is_closed()
            {
                if self.close(turn) {
                    continue;
                }
                return Some(turn.now() + RING_PAUSE);
            }
            let room_left = if may_pass { 0 } else { ROOM_LEFT };
            if *turn.budget == 0 || turn.network.room() < room_left {
                return Some(turn.now() + RING_PAUSE);
            }
            let op = op.clone();
            match self.send_one(&op, turn) {
                Ok(Some(xid)) => {
                    *turn.budget -= 1;
                    let may_lack = !self.has_kept || matches!(self.phase, Phase::Reading(_));
                    if may_lack && let Op::Put(id) | Op::Replace(id) = op {
                        self.known.unlisted.insert(id);
                    }
                    self.window.push(xid, op);
                }
                Ok(None) => {}
                Err(SendError::Full) => return Some(turn.now() + RING_PAUSE),
                Err(error) => self.failed(&op, error.to_string(), turn),
            }
            self.queue.pop_front();
        }
        if !self.window.has_none() && !self.window.is_closed() && !self.close(turn) {
            return Some(turn.now() + RING_PAUSE);
        }
        None
    }

    /// Ends the window with a barrier; returns whether there was room.
    pub(super) fn close(&mut self, turn: &mut Turn<'_, '_, '_>) -> bool {
        match turn.network.barrier(self.switch) {
            Ok(xid) => {
                self.window.close(xid, turn.now());
                true
            }
            Err(_) => false,
        }
    }

    /// Sends one message; `None` if the entry is no longer wanted.
    pub(super) fn send_one(
        &self,
        op: &Op,
        turn: &mut Turn<'_, '_, '_>,
    ) -> Result<Option<Xid>, SendError> {
        let (network, switch) = (&mut *turn.network, self.switch);
        match self.change(op, turn.set) {
            None => Ok(None),
            Some(Change::Flow(flow)) => {
                network.flow_mod(switch, &flow)?;
                Ok(Some(network.last_xid()))
            }
            Some(Change::Group(group)) => network.group_mod(switch, &group).map(Some),
            Some(Change::Meter(meter)) => network.meter_mod(switch, &meter).map(Some),
        }
    }

    /// Returns the message of an operation; `None` if the entry is no longer wanted, or wanted again.
    pub(super) fn change<'s>(&self, op: &'s Op, set: &'s WantedSet) -> Option<Change<'s>> {
        let features = self.switch.version.features();
        let (Op::Put(id) | Op::Modify(id) | Op::Replace(id)) = op else {
            let Op::Remove(stray) = op else { return None };
            // It may be wanted again, or in another scope.
            let is_wanted = set.at(self.switch.dpid, &stray.key).is_some();
            return (!is_wanted).then(|| removal(&stray.key));
        };
        let is_change = matches!(op, Op::Modify(_));
        match set.get(*id)?.content() {
            Content::Flow(mut flow) => {
                // Where an add resets the counters of the flow that it replaces, a modify keeps them, and it adds a flow
                // that is not there (OpenFlow 1.0.2 §4.6).
                let keeps = matches!(op, Op::Put(_)) && features.add_resets_counters;
                if is_change || keeps && !self.only_add {
                    flow.command = FlowModCommand::ModifyStrict;
                }
                if is_change && features.cookie_masks {
                    flow.cookie = 0; // a modify would take it for a condition
                }
                flow.flags = on_switch(flow.flags);
                Some(Change::Flow(flow))
            }
            Content::Group(mut group) => {
                if is_change {
                    group.command = GroupModCommand::Modify;
                }
                Some(Change::Group(group))
            }
            Content::Meter(mut meter) => {
                if is_change {
                    meter.command = MeterModCommand::Modify;
                }
                Some(Change::Meter(meter))
            }
            Content::Note => None,
        }
    }
}

/// Returns the message that removes one entry and no other.
fn removal(key: &Key) -> Change<'static> {
    match key {
        Key::Flow { table, priority, match_ } => {
            let delete = FlowMod::new(FlowModCommand::DeleteStrict, match_.clone());
            Change::Flow(delete.priority(*priority).table(*table))
        }
        Key::Group(group_id) | Key::OldGroup(group_id) => {
            let (command, kind) = (GroupModCommand::Delete, GroupKind::All);
            Change::Group(GroupMod { command, kind, group_id: *group_id, buckets: Vec::new() })
        }
        Key::Meter(meter_id) | Key::OldMeter(meter_id) => {
            let (command, flags) = (MeterModCommand::Delete, MeterFlags::default());
            Change::Meter(MeterMod { command, flags, meter_id: *meter_id, bands: Vec::new() })
        }
    }
}

/// The kind of an operation: a switch may reorder messages within a window, so those that others depend on have one of
/// their own.
pub(super) fn class(op: &Op, set: &WantedSet) -> u8 {
    let key = match op {
        Op::Put(id) | Op::Modify(id) | Op::Replace(id) => set.get(*id).map(|entry| &entry.key),
        Op::Remove(stray) => Some(&stray.key),
    };
    match key {
        Some(Key::Flow { .. }) | None => 0,
        Some(Key::Group(_) | Key::OldGroup(_)) => 1,
        Some(Key::Meter(_) | Key::OldMeter(_)) => 2,
    }
}

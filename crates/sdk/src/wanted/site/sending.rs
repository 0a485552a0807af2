//! Sends queued messages, in windows and while there is room.

use std::time::Duration;

use openflow::{
    FlowMod, FlowModCommand, GroupKind, GroupMod, GroupModCommand, MeterFlags, MeterMod,
    MeterModCommand,
};

use super::super::entry::{Content, Key, on_switch};
use super::super::window::{MOST_IN_WINDOW, Op};
use super::{Phase, RING_PAUSE, ROOM_LEFT, Site, Turn};
use crate::Switch;
use crate::network::{Network, SendError, Xid};

impl Site {
    /// Sends queued messages while there is room. Returns when to try again.
    pub(super) fn send(&mut self, turn: &mut Turn<'_, '_, '_>) -> Option<Duration> {
        let may_pass = turn.settings.at_once;
        if turn.settings.dry_run {
            self.queue.clear();
        }
        while let Some(op) = self.queue.front() {
            if self.window.is_closed() && !may_pass {
                return None;
            }
            let is_other =
                self.window.last().is_some_and(|last| class(last, turn) != class(op, turn));
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
        match op {
            Op::Put(id) | Op::Modify(id) | Op::Replace(id) => {
                let Some(entry) = turn.set.get(*id) else { return Ok(None) };
                let is_change = matches!(op, Op::Modify(_));
                match entry.content() {
                    Content::Flow(mut flow) => {
                        // Where an add resets the counters of the flow that it replaces, a modify keeps them, and it adds a
                        // flow that is not there (OpenFlow 1.0.2 §4.6).
                        let features = switch.version.features();
                        let keeps = matches!(op, Op::Put(_)) && features.add_resets_counters;
                        if is_change || keeps && !self.only_add {
                            flow.command = FlowModCommand::ModifyStrict;
                        }
                        if is_change && features.cookie_masks {
                            flow.cookie = 0; // a modify would take it for a condition
                        }
                        flow.flags = on_switch(flow.flags);
                        network.flow_mod(switch, &flow)?;
                        Ok(Some(network.last_xid()))
                    }
                    Content::Group(mut group) => {
                        if is_change {
                            group.command = GroupModCommand::Modify;
                        }
                        network.group_mod(switch, &group).map(Some)
                    }
                    Content::Meter(mut meter) => {
                        if is_change {
                            meter.command = MeterModCommand::Modify;
                        }
                        network.meter_mod(switch, &meter).map(Some)
                    }
                    Content::Note => Ok(None),
                }
            }
            Op::Remove(stray) => {
                // It may be wanted again, or in another scope.
                if turn.set.at(switch.dpid, &stray.key).is_some() {
                    return Ok(None);
                }
                remove(&stray.key, switch, network).map(Some)
            }
        }
    }
}

/// Sends the message that removes one entry and no other.
fn remove(key: &Key, switch: Switch, network: &mut Network<'_>) -> Result<Xid, SendError> {
    match key {
        Key::Flow { table, priority, match_ } => {
            let delete = FlowMod::new(FlowModCommand::DeleteStrict, match_.clone());
            network.flow_mod(switch, &delete.priority(*priority).table(*table))?;
            Ok(network.last_xid())
        }
        Key::Group(group_id) | Key::OldGroup(group_id) => {
            let (command, kind) = (GroupModCommand::Delete, GroupKind::All);
            let delete = GroupMod { command, kind, group_id: *group_id, buckets: Vec::new() };
            network.group_mod(switch, &delete)
        }
        Key::Meter(meter_id) | Key::OldMeter(meter_id) => {
            let (command, flags) = (MeterModCommand::Delete, MeterFlags::default());
            let delete = MeterMod { command, flags, meter_id: *meter_id, bands: Vec::new() };
            network.meter_mod(switch, &delete)
        }
    }
}

/// The kind of an operation: a switch may reorder messages within a window, so those that others depend on have one of
/// their own.
fn class(op: &Op, turn: &Turn<'_, '_, '_>) -> u8 {
    let key = match op {
        Op::Put(id) | Op::Modify(id) | Op::Replace(id) => turn.set.get(*id).map(|entry| &entry.key),
        Op::Remove(stray) => Some(&stray.key),
    };
    match key {
        Some(Key::Flow { .. }) | None => 0,
        Some(Key::Group(_) | Key::OldGroup(_)) => 1,
        Some(Key::Meter(_) | Key::OldMeter(_)) => 2,
    }
}

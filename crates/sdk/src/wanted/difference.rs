//! Compares what an application wants in a switch with what the switch lists.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use openflow::{
    Action, Actions, DecodeError, FlowModFlags, FlowStats, GroupDesc, Instructions, Match,
    MeterBand, MeterConfig, MeterFlags, MultipartReply, PortNo, ReplyBody,
};

use super::entry::{Content, Key, MARK, flow_key, on_switch};
use super::set::{EntryId, WantedSet};
use super::{Exception, Owns, Settings};
use crate::Switch;
use crate::own::Own;

/// The flags of a flow-mod that belong to the flow.
const FLOW_FLAGS: u16 =
    FlowModFlags::SEND_FLOW_REM.0 | FlowModFlags::NO_PKT_COUNTS.0 | FlowModFlags::NO_BYT_COUNTS.0;

/// A switch's listing of an application's entries.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Multipart replies with flow statistics.
    pub(super) flows: Vec<Box<[u8]>>,
    /// `None` if they were not requested.
    pub(super) groups: Option<Vec<GroupDesc>>,
    pub(super) meters: Option<Vec<MeterConfig>>,
}

/// An entry in a switch that is not wanted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    pub(super) key: Key,
    pub(super) cookie: u64,
}

/// How an entry that the switch has differs from the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Only what a modify can change. The number is a fingerprint of what the switch lists.
    Instructions(u64),
    /// Its cookie or flags, too.
    Whole,
    /// Only that the switch does not report its removal. The number is a fingerprint of what the switch lists.
    Unreported(u64),
    /// It expires.
    Timeouts,
}

/// What must be done so that a switch has what is wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) missing: Vec<EntryId>,
    pub(super) changed: Vec<(EntryId, Change)>,
    pub(super) stray: Vec<Stray>,
    /// Number of entries that are as they are wanted.
    pub(super) kept: usize,
}

/// The difference between what is wanted and what a switch has, one line for each entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Entries that are missing: `flow table=0,priority=3,in_port=1`.
    pub missing: Vec<String>,
    /// Entries that are there and differ.
    pub changed: Vec<String>,
    /// Entries that are not wanted and would be removed.
    pub stray: Vec<String>,
    /// Number of entries that are as they are wanted.
    pub kept: usize,
}

impl Difference {
    pub(super) fn of(plan: &Plan, set: &WantedSet) -> Self {
        let text = |id: &EntryId| set.get(*id).map(|entry| entry.key.to_string());
        Self {
            missing: plan.missing.iter().filter_map(text).collect(),
            changed: plan.changed.iter().filter_map(|(id, _)| text(id)).collect(),
            stray: plan.stray.iter().map(|stray| stray.key.to_string()).collect(),
            kept: plan.kept,
        }
    }
}

/// A line for each entry: `+` missing, `~` changed, `-` stray; then the number of those that stay.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (sign, lines) in [('+', &self.missing), ('~', &self.changed), ('-', &self.stray)] {
            lines.iter().try_for_each(|line| writeln!(f, "{sign} {line}"))?;
        }
        write!(f, "= {} entries stay", self.kept)
    }
}

impl Listing {
    /// Compares the listing of `switch` with what is wanted there.
    ///
    /// # Errors
    /// A reply of the switch is malformed.
    pub(super) fn compare(
        &self,
        switch: Switch,
        set: &WantedSet,
        own: Own,
        settings: &Settings,
    ) -> Result<Plan, DecodeError> {
        let mut compared = Comparison {
            switch,
            set,
            own,
            settings,
            as_listed: (!switch.version.features().oxm).then(|| set.keys_as_listed(switch)),
            seen: HashSet::new(),
            plan: Plan::default(),
        };
        for message in &self.flows {
            if let ReplyBody::Flow(flows) = MultipartReply::decode(message)?.body {
                for flow in &flows {
                    compared.flow(flow);
                }
            }
        }
        self.groups.iter().flatten().for_each(|group| compared.group(group));
        self.meters.iter().flatten().for_each(|meter| compared.meter(meter));
        let Comparison { seen, mut plan, .. } = compared;
        plan.missing.extend(set.all_at(switch.dpid).into_iter().filter(|id| !seen.contains(id)));
        Ok(plan)
    }
}

/// A comparison in progress.
struct Comparison<'c> {
    switch: Switch,
    set: &'c WantedSet,
    own: Own,
    settings: &'c Settings,
    /// The wanted flows as a version without OXM lists them.
    as_listed: Option<HashMap<Key, EntryId>>,
    seen: HashSet<EntryId>,
    plan: Plan,
}

impl Comparison<'_> {
    /// Finds the wanted flow with this match and this priority on the switch.
    fn find(&self, table: u8, on_switch: u16, match_: &Match) -> Option<EntryId> {
        let (lowest, _) = self.own.priorities;
        // An application that states no priority may get the middle of its band.
        let default = openflow::FlowMod::DEFAULT_PRIORITY;
        let stated = [on_switch.checked_sub(lowest), Some(default)];
        stated.into_iter().flatten().find_map(|priority| {
            if self.own.priority(priority).ok()? != on_switch {
                return None;
            }
            let key = flow_key(table, priority, match_.clone());
            match &self.as_listed {
                Some(keys) => keys.get(&key).copied(),
                None => self.set.at(self.switch.dpid, &key),
            }
        })
    }

    fn flow(&mut self, flow: &FlowStats<'_>) {
        let wanted = self.find(flow.table_id, flow.priority, &flow.match_);
        let Some(id) = wanted.filter(|id| !self.seen.contains(id)) else {
            return self.stray_flow(flow);
        };
        let Some(Content::Flow(wanted)) = self.set.get(id).map(|entry| entry.content()) else {
            return;
        };
        self.seen.insert(id);
        let has_flags = self.switch.version.features().flow_stats_flags;
        if (flow.idle_timeout, flow.hard_timeout) != (0, 0) {
            return self.plan.changed.push((id, Change::Timeouts));
        }
        let other_flags = (flow.flags.0 ^ on_switch(wanted.flags).0) & FLOW_FLAGS;
        let other_flags = if has_flags { other_flags } else { 0 };
        let is_unreported = other_flags == FlowModFlags::SEND_FLOW_REM.0;
        let is_same_flow = flow.cookie == wanted.cookie && (other_flags == 0 || is_unreported);
        let is_same = self.own.is_same(&wanted.instructions, &flow.instructions);
        match (is_same_flow, is_same) {
            (true, true) if is_unreported => {
                let listed = fingerprint(&flow.instructions);
                self.plan.changed.push((id, Change::Unreported(listed)));
            }
            (true, true) => self.plan.kept += 1,
            (true, false) => {
                let listed = fingerprint(&flow.instructions);
                self.plan.changed.push((id, Change::Instructions(listed)));
            }
            (false, _) => self.plan.changed.push((id, Change::Whole)),
        }
    }

    fn stray_flow(&mut self, flow: &FlowStats<'_>) {
        let is_ours = match self.settings.owns {
            Owns::Declared => flow.cookie & MARK != 0,
            Owns::All => true,
        };
        let cookie = match self.settings.owns {
            Owns::Declared => flow.cookie & !MARK,
            Owns::All => flow.cookie,
        };
        let is_except = |except: &Exception| except.covers(flow.table_id, cookie);
        let (lowest, highest) = self.own.priorities;
        let priority = flow.priority.checked_sub(lowest).filter(|_| flow.priority <= highest);
        if let Some(priority) = priority
            && is_ours
            && !self.settings.exceptions.iter().any(is_except)
        {
            let key = flow_key(flow.table_id, priority, flow.match_.clone());
            self.plan.stray.push(Stray { key, cookie: flow.cookie });
        }
    }

    fn group(&mut self, group: &GroupDesc) {
        let (first, last) = self.own.groups;
        let number = group.group_id.checked_sub(first).filter(|_| group.group_id <= last);
        let Some(number) = number else { return };
        let key = Key::Group(number);
        let Some(id) = self.set.at(self.switch.dpid, &key) else {
            return self.stray(key);
        };
        let Some(Content::Group(wanted)) = self.set.get(id).map(|entry| entry.content()) else {
            return;
        };
        self.seen.insert(id);
        let is_same = self.own.group_mod(&wanted).is_ok_and(|wanted| {
            let buckets = wanted.buckets.iter().zip(&group.buckets);
            wanted.kind == group.kind
                && wanted.buckets.len() == group.buckets.len()
                && buckets.into_iter().all(|(wanted, listed)| {
                    // The weight counts only in a select group.
                    let is_select =
                        wanted.weight == listed.weight || group.kind != openflow::GroupKind::Select;
                    is_select
                        && wanted.watch_port == listed.watch_port
                        && wanted.watch_group == listed.watch_group
                        && is_same_list(&wanted.actions, listed.actions.iter().cloned())
                })
        });
        self.note(id, is_same, || {
            let buckets = group.buckets.iter();
            let buckets = buckets.map(|it| (it.weight, it.watch_port, it.watch_group, &it.actions));
            hash(|to| {
                group.kind.hash(to);
                buckets.for_each(|bucket| bucket.hash(to));
            })
        });
    }

    fn meter(&mut self, meter: &MeterConfig) {
        let (first, last) = self.own.meters;
        let number = meter.meter_id.checked_sub(first).filter(|_| meter.meter_id <= last);
        let Some(number) = number else { return };
        let key = Key::Meter(number);
        let Some(id) = self.set.at(self.switch.dpid, &key) else {
            return self.stray(key);
        };
        let Some(Content::Meter(wanted)) = self.set.get(id).map(|entry| entry.content()) else {
            return;
        };
        self.seen.insert(id);
        let is_same = wanted.flags == meter.flags
            && effective_bands(wanted.flags, &wanted.bands)
                == effective_bands(meter.flags, &meter.bands);
        self.note(id, is_same, || hash(|to| format!("{meter:?}").hash(to)));
    }

    fn note(&mut self, id: EntryId, is_same: bool, fingerprint: impl FnOnce() -> u64) {
        if is_same {
            self.plan.kept += 1;
        } else {
            self.plan.changed.push((id, Change::Instructions(fingerprint())));
        }
    }

    /// Notes a group or meter that is not wanted, if it is the library's to remove.
    fn stray(&mut self, key: Key) {
        if self.settings.owns == Owns::All || self.set.was_wanted(&key) {
            self.plan.stray.push(Stray { key, cookie: 0 });
        }
    }
}

impl Own {
    /// Whether a switch lists the instructions that an application wrote.
    fn is_same(&self, wanted: &Instructions<'_>, listed: &Instructions<'_>) -> bool {
        let meter = wanted.meter.map(|meter| self.meter(meter).ok());
        let listed_meter = listed.meter.map(Some);
        meter == listed_meter
            && wanted.clear == listed.clear
            && wanted.metadata == listed.metadata
            && wanted.goto_table == listed.goto_table
            && wanted.others == listed.others
            && self.are_same(wanted.apply, listed.apply)
            && self.are_same(wanted.write, listed.write)
    }

    fn are_same(&self, wanted: Actions<'_>, listed: Actions<'_>) -> bool {
        match self.actions(wanted) {
            Ok(Some(converted)) => is_same_list(&converted, listed.iter()),
            Ok(None) => {
                let wanted: Vec<Action> = wanted.iter().collect();
                is_same_list(&wanted, listed.iter())
            }
            Err(_) => false,
        }
    }
}

/// The bands of a meter without values that have no effect. A burst size counts with [`MeterFlags::BURST`] alone (OpenFlow
/// 1.3.5 §7.3.4.4); otherwise Open vSwitch lists the rate in its place.
fn effective_bands(flags: MeterFlags, bands: &[MeterBand]) -> Vec<MeterBand> {
    let has_bursts = flags.0 & MeterFlags::BURST.0 != 0;
    let effective = |band: &MeterBand| {
        let mut band = band.clone();
        match &mut band {
            MeterBand::Drop { burst_size, .. }
            | MeterBand::DscpRemark { burst_size, .. }
            | MeterBand::Experimenter { burst_size, .. }
                if !has_bursts =>
            {
                *burst_size = 0;
            }
            _ => {}
        }
        band
    };
    bands.iter().map(effective).collect()
}

/// Whether a switch lists these actions. The size of the packet's part for the controller has no meaning for other ports.
fn is_same_list(wanted: &[Action], listed: impl Iterator<Item = Action>) -> bool {
    let without_len = |action: Action| match action {
        Action::Output { port, .. } if port != PortNo::CONTROLLER => {
            Action::Output { port, max_len: 0 }
        }
        other => other,
    };
    wanted.iter().cloned().map(without_len).eq(listed.map(without_len))
}

fn hash(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    write(&mut hasher);
    hasher.finish()
}

fn fingerprint(listed: &Instructions<'_>) -> u64 {
    hash(|to| format!("{listed:?}").hash(to))
}

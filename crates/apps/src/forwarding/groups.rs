//! Holds the groups of one switch: [`Groups`] gives each kind and list of ports one group, which all flows share.
//!
//! The switch states which types of groups it has. Groups that an earlier instance of this app has made there are used
//! again.

use std::collections::HashMap;

use rosemary_sdk::openflow::{
    Bucket, GroupDesc, GroupFeatures, GroupKind, GroupMod, GroupModCommand,
};
use rosemary_sdk::{Action, PortNo};

use super::world::Act;

/// Most groups of a switch: flows beyond it use a single port.
const MOST_GROUPS: usize = 4096;

/// `OFPGFC_SELECT_LIVENESS`.
const SELECT_LIVENESS: u32 = 1 << 1;

/// What makes two groups alike: the type, and the outputs with the ports that they watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Shape {
    kind: GroupKind,
    /// Output and watched port of each bucket.
    buckets: Vec<(PortNo, PortNo)>,
}

impl Shape {
    fn of(desc: &GroupDesc) -> Option<Self> {
        let bucket = |bucket: &Bucket| match bucket.actions[..] {
            [Action::Output { port, .. }] => Some((port, bucket.watch_port)),
            _ => None,
        };
        let buckets: Option<Vec<_>> = desc.buckets.iter().map(bucket).collect();
        Some(Self { kind: desc.kind, buckets: buckets? })
    }

    fn group_mod(&self, group_id: u32) -> GroupMod {
        let weight = u16::from(self.kind == GroupKind::Select);
        let bucket = |(output, watch_port): &(PortNo, PortNo)| Bucket {
            weight,
            watch_port: *watch_port,
            ..Bucket::new([Action::output(*output)])
        };
        let buckets = self.buckets.iter().map(bucket).collect();
        GroupMod { command: GroupModCommand::Add, kind: self.kind, group_id, buckets }
    }
}

/// The groups of a switch.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    ids: HashMap<Shape, u32>,
    used: std::collections::BTreeSet<u32>,
    has_types: bool,
    knows_ids: bool,
}

impl Groups {
    /// Takes the switch's statement of its types of groups.
    pub(crate) fn on_features(&mut self, features: &GroupFeatures) {
        let has = |kind: GroupKind| features.types & 1 << kind.wire() != 0;
        self.has_types = has(GroupKind::Select)
            && has(GroupKind::FastFailover)
            && features.capabilities & SELECT_LIVENESS != 0;
    }

    /// Takes a group of this app that the switch has; `group_id` counts from this app's first.
    pub(crate) fn on_desc(&mut self, group_id: u32, desc: &GroupDesc) {
        self.used.insert(group_id);
        if let Some(shape) = Shape::of(desc) {
            self.ids.insert(shape, group_id);
        }
    }

    /// States that all groups of this app in the switch are known.
    pub(crate) fn on_all_known(&mut self) {
        self.knows_ids = true;
    }

    /// Uses groups no longer: the switch refused one.
    pub(crate) fn give_up(&mut self) {
        self.has_types = false;
    }

    /// Returns whether flows may use groups.
    pub(crate) fn are_usable(&self) -> bool {
        self.has_types && self.knows_ids
    }

    /// Returns the action for packets that came in through `in_port`, and the group that must be added before it is used.
    pub(crate) fn act(
        &mut self,
        in_port: PortNo,
        next: &[PortNo],
        backup: Option<PortNo>,
    ) -> (Act, Option<GroupMod>) {
        let output = |port: PortNo| if port == in_port { PortNo::IN_PORT } else { port };
        let Some(first) = next.first() else { return (Act::Drop, None) };
        let (kind, ports): (_, Vec<PortNo>) = match (next, backup) {
            ([first], Some(backup)) => (GroupKind::FastFailover, vec![*first, backup]),
            ([_], None) => return (Act::Port(output(*first)), None),
            _ => (GroupKind::Select, next.to_vec()),
        };
        if !self.are_usable() {
            return (Act::Port(output(*first)), None);
        }
        let buckets = ports.into_iter().map(|port| (output(port), port)).collect();
        let shape = Shape { kind, buckets };
        if let Some(id) = self.ids.get(&shape) {
            return (Act::Group(*id), None);
        }
        let free = (0..=0xffff).find(|id| !self.used.contains(id));
        let Some(id) = free.filter(|_| self.used.len() < MOST_GROUPS) else {
            return (Act::Port(output(*first)), None);
        };
        let group_mod = shape.group_mod(id);
        self.used.insert(id);
        self.ids.insert(shape, id);
        (Act::Group(id), Some(group_mod))
    }
}

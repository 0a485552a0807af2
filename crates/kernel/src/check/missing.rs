//! Says which capabilities a refused message needs, and how the operator grants them.
//!
//! The message is checked again with every capability, and then with one after the other taken away, the widest first.
//! Those without which the message is refused are missing. This is for what is logged, not for every refusal.

use std::fmt;

use openflow::nicira::NICIRA;
use openflow::{
    Action, Actions, Experimenter, FlowModView, GroupMod, Kind, MultipartRequest, PacketOut,
    Version,
};
use sdk::Refusal;

use control::policy::{Capability, Grant, Policy, TableSet};

use super::requests::Expects;
use super::{AppRights, Rights, reach};

/// The capabilities that can be missing, the widest first: if one of several suffices, the narrowest is named.
const WIDEST_FIRST: [Capability; 10] = [
    Capability::FlowWriteAny,
    Capability::SwitchConfig,
    Capability::PacketOutReserved,
    Capability::TopologyProbe,
    Capability::GroupWrite,
    Capability::MeterWrite,
    Capability::FlowWrite,
    Capability::PacketOut,
    Capability::FlowRead,
    Capability::StatsRead,
];

/// Longest line of the configuration that is written out, in bytes.
const LONGEST_LINE: usize = 400;

/// Most experimenters of a message that are considered.
const MOST_EXPERIMENTERS: usize = 8;

/// The grants that a refused message needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    kind: Expects,
    grants: Vec<Grant>,
    /// The key of the configuration with these grants, or what to add to it.
    pub(crate) line: String,
}

impl Missing {
    /// The grants, separated by commas.
    pub(crate) fn names(&self) -> String {
        let names: Vec<String> = self.grants.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

impl fmt::Display for Missing {
    /// `multipart_request of type 3 (tables) needs stats.read; the operator can grant it: capabilities = [...]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, line, .. } = self;
        write!(f, "{kind} needs {}; the operator can grant it: {line}", self.names())
    }
}

impl AppRights {
    /// Returns the grants that would let the app send a message to the switch `dpid` that was refused with `why`; `None`
    /// if no capability would.
    #[cold]
    pub(crate) fn missing(&self, dpid: u64, why: Refusal, message: &[u8]) -> Option<Missing> {
        // Admission gives the other reasons, which no capability changes.
        let by_content =
            [Refusal::Capability, Refusal::Action, Refusal::Foreign, Refusal::Id].contains(&why);
        let kind = Expects::of(message).filter(|_| by_content)?;
        let version = Version::from_wire(*message.first()?).ok()?;
        let mut granted: Vec<Capability> =
            experimenters(kind.kind, message).into_iter().map(Capability::Experimenter).collect();
        granted.extend(WIDEST_FIRST);
        let check = |granted: &[Capability]| self.with(dpid, granted).check(version, message).err();
        let best = check(&granted);
        if check(&[]) == best {
            return None;
        }
        for capability in granted.clone() {
            let fewer: Vec<Capability> =
                granted.iter().copied().filter(|it| *it != capability).collect();
            if check(&fewer) == best {
                granted = fewer;
            }
        }
        let table = table(kind.kind, version, message);
        let grants: Vec<Grant> =
            granted.into_iter().rev().map(|it| self.grant(it, dpid, table)).collect();
        Some(Missing { kind, line: self.line(&grants), grants })
    }

    /// The rights at a switch with these capabilities too.
    fn with(&self, dpid: u64, more: &[Capability]) -> Rights {
        let mut policy: Policy = self.policy.clone();
        policy.capabilities.extend(more.iter().copied().map(Grant::from));
        Rights { alone: self.is_alone(), ..Rights::of(self.app(), &policy, Some(dpid)) }
    }

    /// The grant of a capability for a message: with a scope if the app has the capability with a scope already.
    fn grant(&self, capability: Capability, dpid: u64, table: u8) -> Grant {
        let known = || self.policy.capabilities.iter().filter(|it| it.capability == capability);
        let is_scoped =
            |has_scope: fn(&Grant) -> bool| known().next().is_some() && known().all(has_scope);
        let mut grant = Grant::from(capability);
        if is_scoped(|grant| !grant.dpids.is_empty()) {
            grant.dpids.push(dpid);
        }
        if is_scoped(|grant| !grant.tables.is_empty()) && table != TableSet::ALL {
            grant.tables.push(table);
        }
        grant
    }

    /// Returns the key of the configuration with `more` grants. If that is long, or other rights stand in the same list,
    /// returns what the operator must add to it.
    fn line(&self, more: &[Grant]) -> String {
        let list = |grants: &[Grant]| {
            let grants: Vec<String> = grants.iter().map(Grant::toml).collect();
            grants.join(", ")
        };
        let all = [&self.policy.capabilities[..], more].concat();
        let line = format!("capabilities = [{}]", list(&all));
        if self.policy.has_other_rights || line.len() > LONGEST_LINE {
            return format!("add {} to its capabilities", list(more));
        }
        line
    }
}

/// The table that a message names; [`TableSet::ALL`] if it names none or all.
fn table(kind: Kind, version: Version, message: &[u8]) -> u8 {
    let table = match kind {
        Kind::FlowMod => FlowModView::decode(message)
            .map(|flow_mod| reach::table(version, flow_mod.command, message)),
        Kind::MultipartRequest => MultipartRequest::decode(message).map(|request| match request {
            MultipartRequest::Flow(flows) | MultipartRequest::Aggregate(flows) => flows.table_id,
            _ => TableSet::ALL,
        }),
        _ => return TableSet::ALL,
    };
    table.unwrap_or(TableSet::ALL)
}

/// The ids of the experimenters whose message this is, or whose actions it has.
fn experimenters(kind: Kind, message: &[u8]) -> Vec<u32> {
    let mut ids = match kind {
        Kind::Experimenter => {
            Experimenter::decode(message).map(|it| vec![it.experimenter]).unwrap_or_default()
        }
        Kind::MultipartRequest => match MultipartRequest::decode(message) {
            Ok(MultipartRequest::Experimenter { experimenter, .. }) => vec![experimenter],
            _ => Vec::new(),
        },
        Kind::PacketOut => {
            PacketOut::decode(message).map(|it| of_actions(it.actions)).unwrap_or_default()
        }
        Kind::FlowMod => {
            FlowModView::decode(message).map(|it| of_flow_mod(&it)).unwrap_or_default()
        }
        Kind::GroupMod => {
            let group_mod = GroupMod::decode(message);
            let actions = |it: GroupMod| {
                it.buckets.iter().flat_map(|it| it.actions.iter().filter_map(of_action)).collect()
            };
            group_mod.map(actions).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(MOST_EXPERIMENTERS);
    ids
}

fn of_flow_mod(flow_mod: &FlowModView<'_>) -> Vec<u32> {
    let instructions = &flow_mod.instructions;
    let mut ids = of_actions(instructions.apply);
    ids.extend(of_actions(instructions.write));
    ids.extend(instructions.others.experimenters().flatten());
    // Any experimenter's grant admits such a field, and most are of Open vSwitch.
    ids.extend(flow_mod.has_opaque_field.then_some(NICIRA));
    ids
}

fn of_actions(actions: Actions<'_>) -> Vec<u32> {
    actions.iter().filter_map(|action| of_action(&action)).collect()
}

fn of_action(action: &Action) -> Option<u32> {
    match action {
        Action::Nicira(_) => Some(NICIRA),
        Action::Experimenter { experimenter, .. } => Some(*experimenter),
        _ => None,
    }
}

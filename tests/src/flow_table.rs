//! A model of Open vSwitch's flow tables: the effects of each flow-mod, group-mod and meter-mod,
//! and the owners of the affected entries.
//!
//! It models the behaviour of Open vSwitch 3.1: `tests/system/wire/model.rs` sends the same
//! messages to both and compares the tables. The model accepts some messages that Open vSwitch
//! rejects: it does not check ports, prerequisites of OXMs (OpenFlow 1.3.5 §7.2.3.6) and table
//! capacity. Flows do not time out.
//!
//! A match is a list of fields with value and mask, in the form to which Open vSwitch normalises
//! it:
//!
//! ```text
//! strict: the same priority, the same fields with the same masks
//! loose:  every field of the flow-mod is in the flow, with at least that mask, and has its value there
//! ```

use std::collections::BTreeMap;

use control::app::AppId;
use openflow::{
    Action, FlowMod, FlowModCommand as Command, FlowModFlags, GroupMod, GroupModCommand, MeterMod,
    MeterModCommand, PortNo, Version,
};

/// Offset of the match in a flow-mod, in bytes.
const MATCH_1_0: usize = 8;
const MATCH_1_3: usize = 48;

/// Class and number of `OXM_OF_VLAN_VID`.
const VLAN_VID_1_3: u32 = 0x8000 << 7 | 6;

/// Open vSwitch's field that distinguishes Ethernet packets; it is never shown.
const PACKET_TYPE: u32 = 100;

/// Open vSwitch's internal table, which controllers cannot write.
const INTERNAL_TABLE: u8 = 254;

/// The tables, groups and meters of one switch.
#[derive(Debug, Clone)]
pub struct FlowTable {
    version: Version,
    /// Whether an OpenFlow 1.0 flow without wildcards gets priority 65535, as in Open vSwitch, or
    /// the stated one.
    exact_is_highest: bool,
    flows: Vec<Flow>,
    /// By number, with their owners.
    groups: BTreeMap<u32, u16>,
    meters: BTreeMap<u32, u16>,
}

/// A flow entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The app that added it.
    pub owner: u16,
    /// Its table.
    pub table: u8,
    /// Its priority in the switch.
    pub priority: u16,
    /// Its match.
    pub fields: Vec<MatchField>,
    /// Its cookie.
    pub cookie: u64,
    /// Actions of the flow-mod that added it or last changed it.
    pub actions: Vec<Action>,
    /// Its meter.
    pub meter: Option<u32>,
}

/// A field of a match; value bits outside the mask are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchField {
    key: u32,
    value: u128,
    mask: u128,
}

/// Effect of a message on the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A flow was added.
    Added(Flow),
    /// A flow was replaced or changed: before, and after.
    Changed(Flow, Flow),
    /// A flow was deleted.
    Deleted(Flow),
    /// A group was added, changed or deleted: its number and its owner.
    Group(u32, u16),
    /// A meter was added, changed or deleted: its number and its owner.
    Meter(u32, u16),
}

/// Why a switch rejects a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// It cannot be decoded.
    Malformed,
    /// The command cannot apply to this table.
    Table,
    /// Emergency flows are not supported.
    Emergency,
    /// It overlaps another flow of the same priority.
    Overlap,
    /// It refers to a missing group or meter, or adds an existing one.
    Exists,
}

impl FlowTable {
    /// Creates the empty tables of a switch. `exact_is_highest` is true for Open vSwitch.
    pub fn new(version: Version, exact_is_highest: bool) -> Self {
        let (groups, meters) = (BTreeMap::new(), BTreeMap::new());
        Self { version, exact_is_highest, flows: Vec::new(), groups, meters }
    }

    /// Returns all flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the groups and the meters by number, with their owners.
    pub fn groups_and_meters(&self) -> [&BTreeMap<u32, u16>; 2] {
        [&self.groups, &self.meters]
    }

    /// Applies a flow-mod of `sender`.
    ///
    /// # Errors
    /// The switch rejects it; the tables are unchanged.
    pub fn flow_mod(&mut self, sender: u16, message: &[u8]) -> Result<Vec<Effect>, Error> {
        let flow_mod = FlowMod::decode(message).map_err(|_| Error::Malformed)?;
        if flow_mod.flags.contains(FlowModFlags::EMERGENCY) {
            return Err(Error::Emergency);
        }
        let fields = self.fields(message).ok_or(Error::Malformed)?;
        let exact = self.version == Version::V1_0 && wildcards_1_0(message) == Some(0);
        let highest = exact && self.exact_is_highest;
        let adds = !flow_mod.command.is_delete();
        if adds && self.version > Version::V1_0 && flow_mod.table_id >= INTERNAL_TABLE {
            return Err(Error::Table);
        }
        let flow = Flow {
            owner: sender,
            table: flow_mod.table_id,
            priority: if highest { u16::MAX } else { flow_mod.priority },
            fields,
            cookie: flow_mod.cookie,
            actions: actions(&flow_mod),
            meter: flow_mod.instructions.meter,
        };
        match flow_mod.command {
            Command::Add => self.add(flow, flow_mod.flags),
            Command::Modify | Command::ModifyStrict => self.modify(&flow_mod, flow),
            Command::Delete | Command::DeleteStrict => Ok(self.delete(&flow_mod, &flow)),
        }
    }

    /// Checks that the groups and meters of a flow exist.
    ///
    /// # Errors
    /// One does not.
    fn check_uses(&self, flow: &Flow) -> Result<(), Error> {
        let mut groups = flow.actions.iter().filter_map(group_of);
        let has_groups = groups.all(|group| self.groups.contains_key(&group));
        let has_meter = flow.meter.is_none_or(|meter| self.meters.contains_key(&meter));
        if has_groups && has_meter { Ok(()) } else { Err(Error::Exists) }
    }

    fn add(&mut self, flow: Flow, flags: FlowModFlags) -> Result<Vec<Effect>, Error> {
        self.check_uses(&flow)?;
        if let Some(old) =
            self.flows.iter_mut().find(|old| old.table == flow.table && is_same(old, &flow))
        {
            let new = Flow { owner: old.owner, ..flow };
            return Ok(vec![Effect::Changed(std::mem::replace(old, new.clone()), new)]);
        }
        let overlaps = |old: &Flow| {
            old.table == flow.table
                && old.priority == flow.priority
                && may_match_the_same(&old.fields, &flow.fields)
        };
        if flags.contains(FlowModFlags::CHECK_OVERLAP) && self.flows.iter().any(overlaps) {
            return Err(Error::Overlap);
        }
        self.flows.push(flow.clone());
        Ok(vec![Effect::Added(flow)])
    }

    fn modify(&mut self, flow_mod: &FlowMod<'_>, as_said: Flow) -> Result<Vec<Effect>, Error> {
        let old = self.version == Version::V1_0;
        let is_meant = |flow: &Flow| {
            (old || flow.table == as_said.table) && is_selected(flow_mod, &as_said, flow)
        };
        if !self.flows.iter().any(is_meant) {
            return if old { self.add(as_said, flow_mod.flags) } else { Ok(Vec::new()) };
        }
        self.check_uses(&as_said)?;
        let mut effects = Vec::new();
        for flow in self.flows.iter_mut().filter(|flow| is_meant(flow)) {
            let cookie = if old { as_said.cookie } else { flow.cookie };
            let actions = as_said.actions.clone();
            let new = Flow { actions, meter: as_said.meter, cookie, ..flow.clone() };
            effects.push(Effect::Changed(std::mem::replace(flow, new.clone()), new));
        }
        Ok(effects)
    }

    fn delete(&mut self, flow_mod: &FlowMod<'_>, as_said: &Flow) -> Vec<Effect> {
        let any_table = self.version == Version::V1_0 || flow_mod.table_id == FlowMod::ALL_TABLES;
        let is_out = |flow: &Flow| {
            let to_port = |action: &Action| outputs_to(action, flow_mod.out_port);
            let to_group = |action: &Action| group_of(action) == Some(flow_mod.out_group);
            (flow_mod.out_port == PortNo::ANY || flow.actions.iter().any(to_port))
                && (flow_mod.out_group == FlowMod::ANY_GROUP || flow.actions.iter().any(to_group))
        };
        self.delete_where(|flow| {
            (any_table || flow.table == as_said.table)
                && is_selected(flow_mod, as_said, flow)
                && is_out(flow)
        })
    }

    fn delete_where(&mut self, goes: impl Fn(&Flow) -> bool) -> Vec<Effect> {
        self.flows.extract_if(.., |flow| goes(flow)).map(Effect::Deleted).collect()
    }

    /// Applies a group-mod of `sender`. Deleting a group deletes the flows that use it.
    ///
    /// # Errors
    /// Like [`flow_mod`](Self::flow_mod).
    pub fn group_mod(&mut self, sender: u16, message: &[u8]) -> Result<Vec<Effect>, Error> {
        let GroupMod { command, group_id, buckets, .. } =
            GroupMod::decode(message).map_err(|_| Error::Malformed)?;
        let mut groups =
            buckets.iter().flat_map(|bucket| bucket.actions.iter().filter_map(group_of));
        if command != GroupModCommand::Delete
            && groups.any(|group| !self.groups.contains_key(&group))
        {
            return Err(Error::Exists);
        }
        let owner = self.groups.get(&group_id).copied();
        match (command, owner) {
            (GroupModCommand::Add, None) if group_id <= GroupMod::MAX_GROUP => {
                self.groups.insert(group_id, sender);
                Ok(vec![Effect::Group(group_id, sender)])
            }
            (GroupModCommand::Modify, Some(owner)) => Ok(vec![Effect::Group(group_id, owner)]),
            (GroupModCommand::Delete, _) => {
                let all = group_id == GroupMod::ALL_GROUPS;
                let gone = take(&mut self.groups, |number| all || number == group_id);
                let uses =
                    |action: &Action| group_of(action).is_some_and(|it| gone.contains_key(&it));
                let mut effects = self.delete_where(|flow| flow.actions.iter().any(uses));
                effects
                    .extend(gone.into_iter().map(|(number, owner)| Effect::Group(number, owner)));
                Ok(effects)
            }
            _ => Err(Error::Exists),
        }
    }

    /// Applies a meter-mod of `sender`. Deleting a meter deletes the flows that use it.
    ///
    /// # Errors
    /// Like [`flow_mod`](Self::flow_mod).
    pub fn meter_mod(&mut self, sender: u16, message: &[u8]) -> Result<Vec<Effect>, Error> {
        let MeterMod { command, meter_id, .. } =
            MeterMod::decode(message).map_err(|_| Error::Malformed)?;
        let owner = self.meters.get(&meter_id).copied();
        match (command, owner) {
            (MeterModCommand::Add, None) if (1..=MeterMod::MAX_METER).contains(&meter_id) => {
                self.meters.insert(meter_id, sender);
                Ok(vec![Effect::Meter(meter_id, sender)])
            }
            (MeterModCommand::Modify, Some(owner)) => Ok(vec![Effect::Meter(meter_id, owner)]),
            (MeterModCommand::Delete, _) => {
                let all = meter_id == MeterMod::ALL_METERS;
                let gone = take(&mut self.meters, |number| all || number == meter_id);
                let uses = |flow: &Flow| flow.meter.is_some_and(|it| gone.contains_key(&it));
                let mut effects = self.delete_where(uses);
                effects
                    .extend(gone.into_iter().map(|(number, owner)| Effect::Meter(number, owner)));
                Ok(effects)
            }
            _ => Err(Error::Exists),
        }
    }

    /// Returns the match of a flow-mod as fields in ascending order; `None` if it has none.
    pub fn fields(&self, message: &[u8]) -> Option<Vec<MatchField>> {
        match self.version {
            Version::V1_0 => fields_1_0(message.get(MATCH_1_0..)?.first_chunk()?),
            _ => fields_1_3(message.get(MATCH_1_3..)?),
        }
    }
}

impl Flow {
    /// Returns the fields of its match that a switch shows.
    pub fn shown(&self) -> impl Iterator<Item = &MatchField> {
        self.fields.iter().filter(|field| field.key != PACKET_TYPE)
    }
}

/// Removes the entries with matching numbers and returns them.
fn take(from: &mut BTreeMap<u32, u16>, which: impl Fn(u32) -> bool) -> BTreeMap<u32, u16> {
    let (gone, left) = std::mem::take(from).into_iter().partition(|(number, _)| which(*number));
    *from = left;
    gone
}

/// Whether two flows have the same priority and match.
fn is_same(one: &Flow, other: &Flow) -> bool {
    one.priority == other.priority && one.fields == other.fields
}

/// Whether a modify or delete for `as_said` selects this flow, apart from tables and outputs.
fn is_selected(flow_mod: &FlowMod<'_>, as_said: &Flow, flow: &Flow) -> bool {
    let strict = matches!(flow_mod.command, Command::ModifyStrict | Command::DeleteStrict);
    let fits = if strict { is_same(flow, as_said) } else { covers(&as_said.fields, &flow.fields) };
    fits && (flow.cookie ^ flow_mod.cookie) & flow_mod.cookie_mask == 0
}

/// Whether, by their masks, every packet that matches `narrow` matches `wide`.
fn covers(wide: &[MatchField], narrow: &[MatchField]) -> bool {
    wide.iter().all(|field| {
        let same = narrow.iter().find(|it| it.key == field.key);
        same.is_some_and(|it| {
            it.mask & field.mask == field.mask && it.value & field.mask == field.value
        })
    })
}

/// Whether a packet could match both.
fn may_match_the_same(one: &[MatchField], other: &[MatchField]) -> bool {
    one.iter().all(|field| {
        let same = other.iter().find(|it| it.key == field.key);
        same.is_none_or(|it| (it.value ^ field.value) & it.mask & field.mask == 0)
    })
}

/// Returns all actions of a flow-mod's instructions.
fn actions(flow_mod: &FlowMod<'_>) -> Vec<Action> {
    flow_mod.instructions.apply.iter().chain(flow_mod.instructions.write.iter()).collect()
}

fn group_of(action: &Action) -> Option<u32> {
    match action {
        Action::Group(group) => Some(*group),
        _ => None,
    }
}

fn outputs_to(action: &Action, to: PortNo) -> bool {
    matches!(action, Action::Output { port, .. } | Action::Enqueue { port, .. } if *port == to)
}

/// Returns the defined wildcard bits of an OpenFlow 1.0 flow-mod.
fn wildcards_1_0(message: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*message.get(MATCH_1_0..)?.first_chunk()?) & ((1 << 22) - 1))
}

/// Returns the fields of an OpenFlow 1.0 match (§5.2.3), without those that are meaningless for its
/// ethertype and protocol.
fn fields_1_0(bytes: &[u8; 40]) -> Option<Vec<MatchField>> {
    const NO_VLAN: u16 = 0xffff;
    let number = |at: usize, size: usize| {
        bytes[at..at + size].iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
    };
    let wildcards = u32::from_be_bytes(*bytes.first_chunk()?);
    let is_open = |bit: u32| wildcards >> bit & 1 != 0;
    let prefix = |shift: u32| match wildcards >> shift & 0x3f {
        open @ 0..32 => u128::from(u32::MAX << open),
        _ => 0,
    };
    let [dl_type, nw_proto] = [(4, 22, 2), (5, 25, 1)]
        .map(|(bit, at, size)| if is_open(bit) { 0 } else { number(at, size) });
    let (is_ip, is_ipv6) = (dl_type == 0x0800, dl_type == 0x86dd);
    let is_arp = matches!(dl_type, 0x0806 | 0x8035);
    let has_ports = is_ip && matches!(nw_proto, 1 | 6 | 17 | 132)
        || is_ipv6 && matches!(nw_proto, 6 | 17 | 58 | 132);
    let mask = |bit: u32, mask: u128| if is_open(bit) { 0 } else { mask };
    let mut fields = vec![
        (0, number(4, 2), mask(0, 0xffff)),
        (4, number(6, 6), mask(2, (1 << 48) - 1)),
        (3, number(12, 6), mask(3, (1 << 48) - 1)),
        (5, dl_type, mask(4, 0xffff)),
    ];
    // VLAN id and priority form one field, with a bit that marks a tag as present.
    if !is_open(1) && number(18, 2) == u128::from(NO_VLAN) {
        fields.push((6, 0, 0xffff));
    } else {
        let tci = number(18, 2) & 0xfff | (number(20, 1) & 7) << 13 | 0x1000;
        fields.push((6, tci, mask(1, 0x1fff) | mask(20, 0xf000)));
    }
    if is_ip || is_ipv6 {
        fields.push((8, number(24, 1), mask(21, 0xfc)));
    }
    if is_ip || is_ipv6 || is_arp {
        fields.push((10, nw_proto, mask(5, 0xff)));
    }
    if is_ip || is_arp {
        fields.push((11, number(28, 4), prefix(8)));
        fields.push((12, number(32, 4), prefix(14)));
    }
    if has_ports {
        fields.push((13, number(36, 2), mask(6, 0xffff)));
        fields.push((14, number(38, 2), mask(7, 0xffff)));
    }
    // A match of more than the port applies to Ethernet packets, even if normalising removes all of
    // its fields.
    let says_more = (1..8).chain([20, 21]).any(|bit| !is_open(bit)) || prefix(8) | prefix(14) != 0;
    fields.push((PACKET_TYPE, 0, u128::from(says_more)));
    Some(in_order(fields))
}

/// Returns the fields of an OpenFlow 1.3 match (OpenFlow 1.3.5 §7.2.3.1) at the start of `bytes`.
fn fields_1_3(bytes: &[u8]) -> Option<Vec<MatchField>> {
    let length = usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    let mut oxms = bytes.get(4..length)?;
    let mut fields = Vec::new();
    while let Some((head, rest)) = oxms.split_first_chunk::<4>() {
        let head = u32::from_be_bytes(*head);
        let (has_mask, size) = (head >> 8 & 1 != 0, head as usize & 0xff);
        let (body, rest) = rest.split_at_checked(size)?;
        let number = |bytes: &[u8]| {
            bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
        };
        let (value, mask) = if has_mask {
            let (value, mask) = body.split_at(size / 2);
            (number(value), number(mask))
        } else {
            (number(body), u128::MAX >> (128 - 8 * size.clamp(1, 16)))
        };
        // A VLAN id has 12 bits, and one that marks a tag as present (OpenFlow 1.3.5 §7.2.3.7).
        let mask = if head >> 9 == VLAN_VID_1_3 { mask & 0x1fff } else { mask };
        fields.push((head >> 9, value, mask));
        oxms = rest;
    }
    Some(in_order(fields))
}

fn in_order(fields: Vec<(u32, u128, u128)>) -> Vec<MatchField> {
    let fields = fields.into_iter().filter(|(.., mask)| *mask != 0);
    let mut fields: Vec<_> =
        fields.map(|(key, value, mask)| MatchField { key, value: value & mask, mask }).collect();
    fields.sort_unstable();
    fields
}

/// An app's rights on a switch, for the ownership model.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// Its number.
    pub app: u16,
    /// Lowest and highest priority of its flows.
    pub band: (u16, u16),
    /// Whether it may change and delete flows of other apps.
    pub any: bool,
}

impl Owner {
    /// Checks that an effect of the app's message is limited to its own entries.
    ///
    /// # Errors
    /// A description of the violation.
    pub fn may(self, effect: &Effect) -> Result<(), String> {
        let Self { app, band, any } = self;
        let is_marked = |flow: &Flow| {
            flow.cookie >> 48 == u64::from(app) && (band.0..=band.1).contains(&flow.priority)
        };
        let (is_right, what) = match effect {
            Effect::Added(flow) => {
                (flow.owner == app && is_marked(flow), "added a flow that is not marked as its own")
            }
            Effect::Changed(old, new) => {
                let stays = old.owner == new.owner && old.priority == new.priority;
                let is_own = old.owner == app && (is_marked(new) || new.cookie == old.cookie);
                (stays && (is_own || any), "changed a flow of another")
            }
            Effect::Deleted(flow) => (flow.owner == app || any, "deleted a flow of another"),
            Effect::Group(number, owner) => {
                (*owner == app && number >> 16 == u32::from(app), "touched a group of another")
            }
            Effect::Meter(number, owner) => (
                *owner == app && AppId(app).meters().contains(number),
                "touched a meter of another",
            ),
        };
        if is_right { Ok(()) } else { Err(format!("app {app} {what}: {effect:?}")) }
    }
}

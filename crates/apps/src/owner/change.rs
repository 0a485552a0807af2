//! Carries out a change: what becomes of the wanted entries, and which messages go to the switch.

use rosemary_sdk::openflow::{
    self, FlowModCommand, FlowModFlags, GroupMod, Header, Kind, MeterMod, MultipartRequest,
    PortMod, QueueConfig, Version,
};
use rosemary_sdk::services::operator::Refused;
use rosemary_sdk::wanted::{At, WantError, flow_name};
use rosemary_sdk::{Dpid, FlowMod, Match, Network, SendError, Switch, Xid};

use super::record::{Entries, Record};
use super::selection::covers;
use super::{Numbering, Owner, Refusal};

/// The bits of a cookie that clients may use; the library has the one above them.
pub(super) const COOKIE: u64 = (1 << 47) - 1;

/// A change that was begun.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Messages that were sent besides those of the library.
    pub(super) sent: Vec<Xid>,
    /// The barrier behind them, until the switch has confirmed it.
    pub(super) barrier: Option<Xid>,
    /// The entries that were declared or are no longer wanted.
    pub(super) declared: Vec<Declared>,
    /// The flow's priority on the switch.
    pub(super) priority: Option<u16>,
    /// Describes it for the audit record.
    pub(super) record: Record,
}

/// An entry whose declaration has changed.
#[derive(Debug)]
pub(super) struct Declared {
    /// Its name in notices of the library.
    pub(super) name: String,
    pub(super) undo: Undo,
}

/// How a declaration is undone if the switch does not accept it.
#[derive(Debug)]
pub(super) enum Undo {
    NoFlow {
        table: u8,
        priority: u16,
        match_: Match,
    },
    NoGroup(u32),
    NoMeter(u32),
    /// The earlier flow, as a message.
    Flow(Vec<u8>),
    Group(GroupMod),
    Meter(MeterMod),
    Nothing,
}

impl Change {
    /// Whether the change has sent this message.
    pub(super) fn sent(&self, xid: Xid) -> bool {
        self.sent.contains(&xid) || self.barrier == Some(xid)
    }
}

fn rule(why: impl Into<String>) -> Refusal {
    (Refused::Rule, why.into())
}

fn malformed(error: impl std::fmt::Display) -> Refusal {
    (Refused::Malformed, error.to_string())
}

pub(super) fn not_sent(error: SendError) -> Refusal {
    match error {
        SendError::Full => (Refused::Unavailable, "too many messages wait; try again".into()),
        error => rule(error.to_string()),
    }
}

pub(super) fn not_wanted(error: WantError) -> Refusal {
    rule(error.to_string())
}

/// Sends a question to a switch.
pub(super) fn ask(
    switch: Switch,
    message: &[u8],
    network: &mut Network<'_>,
) -> Result<Xid, Refusal> {
    let header = Header::decode(message).map_err(malformed)?;
    let version = Version::from_wire(header.version).map_err(malformed)?;
    match Kind::from_wire(version, header.kind).map_err(malformed)? {
        Kind::MultipartRequest => {
            let request = MultipartRequest::decode(message).map_err(malformed)?;
            network.request(switch, &request).map_err(not_sent)
        }
        Kind::QueueGetConfigRequest => {
            let port = QueueConfig::decode_request(message).map_err(malformed)?;
            network.queue_config(switch, port).map_err(not_sent)
        }
        Kind::GetConfigRequest => network.get_config(switch).map_err(not_sent),
        kind => Err(rule(format!("{kind:?} is not a question that an owner of flows asks"))),
    }
}

impl Owner {
    /// Begins the change that `message` describes.
    pub(super) fn change(
        &mut self,
        dpid: Dpid,
        message: &[u8],
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        let header = Header::decode(message).map_err(malformed)?;
        let version = Version::from_wire(header.version).map_err(malformed)?;
        let mut change = match Kind::from_wire(version, header.kind).map_err(malformed)? {
            Kind::FlowMod => {
                let mut flow = FlowMod::decode(message).map_err(malformed)?;
                if flow.cookie & !COOKIE != 0 {
                    return Err(rule("a cookie has at most 47 bits: the others name the owner"));
                }
                flow.cookie_mask &= COOKIE;
                self.flow(dpid, &flow, network)?
            }
            Kind::GroupMod => {
                let group = GroupMod::decode(message).map_err(malformed)?;
                self.numbered(dpid, group, network)?
            }
            Kind::MeterMod => {
                let meter = MeterMod::decode(message).map_err(malformed)?;
                self.numbered(dpid, meter, network)?
            }
            Kind::PortMod => {
                let port = PortMod::decode(message).map_err(malformed)?;
                let xid = network.port_mod(self.switch(dpid)?, &port).map_err(not_sent)?;
                let what = format!("configure port {} of {dpid}", port.port_no);
                let record = Record::of(what, Entries::Unknown, Entries::one(&port));
                Change { sent: vec![xid], record, ..Change::default() }
            }
            kind => return Err(rule(format!("{kind:?} is not a change of an owner of flows"))),
        };
        if !change.sent.is_empty() {
            let switch = self.switch(dpid)?;
            change.barrier = Some(network.barrier(switch).map_err(not_sent)?);
        }
        Ok(change)
    }

    fn flow(
        &mut self,
        dpid: Dpid,
        flow: &FlowMod<'_>,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        match flow.command {
            FlowModCommand::Add => self.add(dpid, flow, network),
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                self.modify(dpid, flow, network)
            }
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                self.delete(dpid, flow, network)
            }
        }
    }

    fn add(
        &mut self,
        dpid: Dpid,
        flow: &FlowMod<'_>,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        let switch = self.switch(dpid)?;
        let flow = FlowMod {
            command: FlowModCommand::Add,
            priority: self.priority(flow.priority, network)?,
            cookie_mask: 0,
            ..flow.clone()
        };
        let lowest = network.own_numbers().priorities.0;
        let what = format!("add a flow to {dpid}");
        let mut change = Change {
            priority: lowest.checked_add(flow.priority),
            record: Record::of(what, Entries::Unknown, Entries::flow(&flow, lowest)),
            ..Change::default()
        };
        let once = FlowModFlags::CHECK_OVERLAP.0 | FlowModFlags::RESET_COUNTS.0;
        if flow.idle_timeout != 0 || flow.hard_timeout != 0 || flow.flags.0 & once != 0 {
            network.flow_mod(switch, &flow).map_err(not_sent)?;
            change.sent.push(network.last_xid());
        } else {
            let (declared, before) = self.declare(dpid, &flow, lowest)?;
            change.declared.push(declared);
            change.record.before = before;
        }
        Ok(change)
    }

    /// Wants a flow. Returns what was declared, and the flow in its place before, with the priority that it has on the switch.
    fn declare(
        &mut self,
        dpid: Dpid,
        flow: &FlowMod<'_>,
        lowest: u16,
    ) -> Result<(Declared, Entries), Refusal> {
        let is_it = |it: &FlowMod<'_>| {
            (it.table_id, it.priority) == (flow.table_id, flow.priority) && it.match_ == flow.match_
        };
        let earlier = self.wanted.flows(dpid).map(|(_, it)| it).find(is_it);
        let before = earlier.as_ref().map_or_else(Entries::default, |it| Entries::flow(it, lowest));
        let earlier = earlier.map(|it| encode(&it));
        self.wanted.flow(At::One(dpid), flow).map_err(not_wanted)?;
        let undo = earlier.flatten().map_or_else(
            || Undo::NoFlow {
                table: flow.table_id,
                priority: flow.priority,
                match_: flow.match_.clone(),
            },
            Undo::Flow,
        );
        Ok((Declared { name: flow_name(flow), undo }, before))
    }

    fn modify(
        &mut self,
        dpid: Dpid,
        flow: &FlowMod<'_>,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        let switch = self.switch(dpid)?;
        let Some(request) = self.with_priority(flow, network)? else {
            return self.modified_nothing(switch, flow, network);
        };
        let lowest = network.own_numbers().priorities.0;
        let (covered, before) = self.covered(dpid, &request, lowest);
        if covered.is_empty() && switch.version.features().modify_adds {
            return self.add(dpid, flow, network);
        }
        let mut change =
            Change { record: Record::none("modify flows of", dpid), ..Change::default() };
        change.record.before = before;
        for covered in covered {
            let changed = FlowMod { instructions: request.instructions, ..covered };
            change.declared.push(self.declare(dpid, &changed, lowest)?.0);
            change.record.after.add_flow(&changed, lowest);
        }
        // Flows with timeouts are only in the switch.
        if switch.version.features().cookie_masks {
            network.flow_mod(switch, &request).map_err(not_sent)?;
            change.sent.push(network.last_xid());
        }
        Ok(change)
    }

    /// OpenFlow 1.0.2 §4.6: a modify that covers no flow adds one. Later versions do nothing.
    fn modified_nothing(
        &mut self,
        switch: Switch,
        flow: &FlowMod<'_>,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        if switch.version.features().modify_adds {
            return self.add(switch.dpid, flow, network);
        }
        Ok(Change { record: Record::none("modify flows of", switch.dpid), ..Change::default() })
    }

    fn delete(
        &mut self,
        dpid: Dpid,
        flow: &FlowMod<'_>,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        let lowest = network.own_numbers().priorities.0;
        let mut change =
            Change { record: Record::none("delete flows of", dpid), ..Change::default() };
        let Some(request) = self.with_priority(flow, network)? else {
            return self.switch(dpid).map(|_| change);
        };
        let (covered, before) = self.covered(dpid, &request, lowest);
        change.record.before = before;
        let switch = match self.switch(dpid) {
            Err(_) if !covered.is_empty() => None, // it is no longer wanted there
            switch => Some(switch?),
        };
        for flow in &covered {
            self.wanted.drop_flow(At::One(dpid), flow.table_id, flow.priority, &flow.match_);
            change.declared.push(Declared { name: flow_name(flow), undo: Undo::Nothing });
        }
        let Some(switch) = switch else { return Ok(change) };
        // The library removes flows after it has read the switch, and flows with timeouts are only in the switch.
        let is_strict = request.command == FlowModCommand::DeleteStrict;
        if switch.version.features().cookie_masks || is_strict {
            network.flow_mod(switch, &request).map_err(not_sent)?;
            change.sent.push(network.last_xid());
        } else {
            // OpenFlow 1.0 cannot restrict a delete to flows of one owner.
            for flow in &covered {
                let one = FlowMod::new(FlowModCommand::DeleteStrict, flow.match_.clone());
                network.flow_mod(switch, &one.priority(flow.priority)).map_err(not_sent)?;
                change.sent.push(network.last_xid());
            }
        }
        Ok(change)
    }

    /// Returns the wanted flows that a modify or delete covers, without their instructions, and what a record shows of them.
    fn covered(
        &self,
        dpid: Dpid,
        request: &FlowMod<'_>,
        lowest: u16,
    ) -> (Vec<FlowMod<'static>>, Entries) {
        let flows = self.wanted.flows(dpid).map(|(_, flow)| flow);
        let mut shown = Entries::default();
        let covered = flows.filter(|flow| covers(request, flow)).map(|flow| {
            shown.add_flow(&flow, lowest);
            FlowMod::add(flow.match_.clone())
                .table(flow.table_id)
                .priority(flow.priority)
                .cookie(flow.cookie)
                .flags(flow.flags)
        });
        (covered.collect(), shown)
    }

    /// Converts the priority of a modify or delete; `None` if no flow can have it.
    fn with_priority<'f>(
        &self,
        flow: &FlowMod<'f>,
        network: &Network<'_>,
    ) -> Result<Option<FlowMod<'f>>, Refusal> {
        let is_strict =
            matches!(flow.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
        let priority = match self.numbering {
            _ if !is_strict => Some(0),
            Numbering::OnSwitch => Some(on_switch(flow.priority, network)?),
            Numbering::Assigned => self.priorities.known(flow.priority),
        };
        Ok(priority.map(|priority| FlowMod { priority, ..flow.clone() }))
    }

    /// Converts the priority of a flow that is added.
    fn priority(&mut self, requested: u16, network: &mut Network<'_>) -> Result<u16, Refusal> {
        if self.numbering == Numbering::OnSwitch {
            return on_switch(requested, network);
        }
        let (lowest, highest) = network.own_numbers().priorities;
        let most = highest.saturating_sub(lowest);
        let (place, is_new) = self.priorities.place(requested, most).ok_or_else(|| {
            rule(format!(
                "priority {requested}: no priority of this owner's band of {} is free in the order of those that were used \
                 before; use one of them",
                u32::from(most) + 1
            ))
        })?;
        if is_new {
            self.keep_priorities(network)?;
        }
        Ok(place)
    }

    /// Undoes the declaration of an entry that the switch did not accept.
    pub(super) fn forget(&mut self, dpid: Dpid, undo: &Undo) {
        let at = At::One(dpid);
        // An earlier entry was valid when it was declared.
        match undo {
            Undo::NoFlow { table, priority, match_ } => {
                self.wanted.drop_flow(at, *table, *priority, match_);
            }
            Undo::NoGroup(number) => drop(self.wanted.drop_group(at, *number)),
            Undo::NoMeter(number) => drop(self.wanted.drop_meter(at, *number)),
            Undo::Flow(message) => {
                if let Ok(flow) = FlowMod::decode(message) {
                    let _ = self.wanted.flow(at, &flow);
                }
            }
            Undo::Group(group) => drop(self.wanted.group(at, group)),
            Undo::Meter(meter) => drop(self.wanted.meter(at, meter)),
            Undo::Nothing => {}
        }
    }
}

/// Converts a priority on the switch. The default of a flow-mod becomes the middle of the band.
fn on_switch(requested: u16, network: &Network<'_>) -> Result<u16, Refusal> {
    let (lowest, highest) = network.own_numbers().priorities;
    match network.own_priority(requested) {
        Some(priority) => Ok(priority),
        None if requested == FlowMod::DEFAULT_PRIORITY => Ok((highest - lowest) / 2),
        None => Err(rule(format!(
            "priority {requested} is outside of {lowest} to {highest}, the band of this owner; choose one of these, or none"
        ))),
    }
}

/// Encodes a flow in the first version, by preference, that can express it.
fn encode(flow: &FlowMod<'_>) -> Option<Vec<u8>> {
    Version::BY_PREFERENCE.iter().find_map(|version| {
        let mut out = Vec::new();
        openflow::append(&mut out, |room| flow.encode(*version, 0, room)).ok().map(|_| out)
    })
}

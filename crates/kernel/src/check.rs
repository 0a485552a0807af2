//! Decides what an application may send to a switch: message kinds, shape, capabilities, ownership.
//!
//! Works as an allow-list: message kinds, actions and instructions that are not on it are refused, even where the codec
//! can carry them. The message is the kernel's private copy; the application can no longer change it. An allowed message
//! is changed in two places ([`Checked::mark`]): the app's number is written into the top of a flow's cookie, and a modify
//! or delete is narrowed to cookies with that number.
//!
//! ```text
//!  63             48 47                                                            0
//! +-----------------+---------------------------------------------------------------+
//! | app's number    | cookie that the app chose                                     |
//! | 0xffff: kernel  | the installation                                              |
//! +-----------------+---------------------------------------------------------------+
//! ```
//!
//! The numbers of an installation begin at a random one, so they tell its flows from those of another one.
//!
//! Only the message and the app's policy decide here. What depends on the switch and on earlier messages, such as buffers
//! and quotas, is decided in `worker/sending.rs`.
//!
//! `check/switches.rs` has the rights of an app at each switch, as its grants' scopes say. `check/nicira.rs` has the actions of
//! Open vSwitch. `check/missing.rs` says which capabilities a refused message needs. `check/requests.rs` covers requests and the other changes. `check/reach.rs` says which flows of a switch a flow-mod
//! touches: those that it names must be in the app's band. OpenFlow 1.0 has no cookie masks, so there a modify or delete
//! that is not strict could touch any app's flow.

use openflow::ethernet::{LLDP, carries, may_carry};
use openflow::nicira::NICIRA;
use openflow::{
    Action, Actions, Field, FlowModCommand as Command, FlowModFlags, FlowModView, GroupMod,
    GroupModCommand, Header, Kind, PacketOut, PortNo, Version, deletes_table_miss,
};
use sdk::Refusal;
use series::Limits;

use control::app::AppId;
use control::policy::{Band, Capability, Policy, Stage, TableSet, tables_of};

mod lldp;
mod missing;
mod nicira;
mod outputs;
mod past_checks;
mod reach;
mod requests;
mod switches;

use self::outputs::{ActionContext, Outputs, check_in_port};
use self::reach::{Reach, table};
pub(crate) use self::requests::Expects;
pub(crate) use self::switches::AppRights;

/// Where the app's number begins in a cookie, in bits.
pub(crate) const APP_SHIFT: u32 = 48;

/// The bits of a cookie that are the app's own.
pub(crate) const OWN_BITS: u64 = (1 << APP_SHIFT) - 1;

/// Where the buffer id is in packet-outs of every version, in bytes.
const PACKET_OUT_BUFFER: u8 = 8;

/// `OFP_NO_BUFFER`, OpenFlow 1.3.5 §7.3.4.1.
const NO_BUFFER: u32 = u32::MAX;

/// The result of checking an allowed message. Admission needs nothing else of the message but its size and its buffer id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) version: Version,
    pub(crate) allowed: Allowed,
    buffer: Buffer,
    mark: Mark,
}

impl Checked {
    fn only(version: Version, allowed: Allowed) -> Self {
        Self { version, allowed, buffer: Buffer::None, mark: Mark::None }
    }

    /// The buffer that the message names: the app must have been given its packet.
    #[inline]
    pub(crate) fn buffer_id(&self, message: &[u8]) -> Option<u32> {
        let (Buffer::Used { at } | Buffer::Named { at }) = self.buffer else { return None };
        let id = message.get(usize::from(at)..).and_then(|rest| rest.first_chunk());
        id.map(|id| u32::from_be_bytes(*id)).filter(|id| *id != NO_BUFFER)
    }

    /// Whether the switch frees the buffer that the message names.
    #[inline]
    pub(crate) fn uses_buffer(&self) -> bool {
        matches!(self.buffer, Buffer::Used { .. })
    }

    /// Whether two messages may be admitted together, if they also have the same size, connection and order of transaction
    /// ids: admission treats them alike except for their buffer ids, and the kernel adds nothing behind either.
    #[inline]
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let is_common =
            matches!(self.allowed, Allowed::FlowMod { sweeps: None, .. } | Allowed::PacketOut);
        is_common && self == other
    }

    /// Makes the message, which was checked, the app's own: its flows carry the app's number, and it touches no others.
    #[inline]
    pub(crate) fn mark(&self, app: AppId, message: &mut [u8]) {
        // The bits above the app's own are zero in every message that was checked.
        match self.mark {
            Mark::None => {}
            Mark::Cookie { at } => put(message, at.into(), app.0),
            Mark::CookieAndMask { at } => {
                put(message, at.into(), app.0);
                put(message, usize::from(at) + size_of::<u64>(), u16::MAX);
            }
        }
    }
}

/// Where a message has the cookie that the app's number is put into; a mask is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Cookie { at: u8 },
    CookieAndMask { at: u8 },
}

/// The part of a buffer in a message, and where its id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buffer {
    None,
    /// The switch applies the message to the buffered packet and frees the buffer.
    Used {
        at: u8,
    },
    /// The id has no meaning for the switch (OpenFlow 1.3.5 §7.3.4.1).
    Named {
        at: u8,
    },
}

/// The effect of a flow-mod on the table-miss entry, which is the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// It may change or delete the entry.
    Possible,
    /// It deletes the entry, and the switch reports that.
    Certain,
}

/// The effect of an allowed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// A flow-mod.
    FlowMod {
        /// Its effect on the table-miss entry, if it may have one.
        sweeps: Option<Sweep>,
        /// The table into which it may put one more flow.
        adds_to: Option<u8>,
        /// Whether it deletes flows.
        deletes: bool,
    },
    /// A group-mod.
    GroupMod {
        /// Whether it deletes groups, and so the flows that use them (OpenFlow 1.3.5 §6.4).
        deletes: bool,
    },
    /// A meter-mod.
    MeterMod {
        /// Whether it deletes meters, and so the flows that use them.
        deletes: bool,
    },
    /// A port-mod or a table-mod.
    Config,
    /// A packet-out.
    PacketOut,
    /// A request, which the switch answers.
    Request(Expects),
    /// An experimenter's message, which may be answered.
    Experimenter,
}

impl Allowed {
    /// Whether the message removes flows, and its effect on the table-miss entry.
    #[inline]
    pub(crate) fn removals(self) -> (bool, Option<Sweep>) {
        match self {
            Self::FlowMod { deletes, sweeps, .. } => (deletes, sweeps),
            Self::GroupMod { deletes } | Self::MeterMod { deletes } => (deletes, None),
            Self::Config | Self::PacketOut | Self::Request(_) | Self::Experimenter => (false, None),
        }
    }
}

/// What one app may do at a switch, made from its policy ([`AppRights`]).
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability, granted or not")]
pub(crate) struct Rights {
    pub(crate) app: AppId,
    band: Band,
    packet_out: bool,
    /// Which ports it may output to.
    outputs: Outputs,
    /// The tables whose flows of others it may see; with all of them, others' groups and meters too.
    pub(crate) flow_read: TableSet,
    /// The tables whose flows it may change, those of `flow_write_any` among them.
    flow_write: TableSet,
    flow_write_any: TableSet,
    group_write: bool,
    meter_write: bool,
    stats_read: bool,
    switch_config: bool,
    topology_probe: bool,
    /// Whether it receives packet-ins.
    pub(crate) packet_in: bool,
    /// Whether it has no use for a switch without packet-ins: it decides about packets, or looks for links by them.
    pub(crate) needs_packets: bool,
    experimenters: Vec<u32>,
    /// No other app writes flows: there is nothing of others to touch.
    alone: bool,
}

impl Rights {
    /// Of an app with this policy, at the switch `dpid`; with `None`, at a switch that no scope names.
    fn of(app: AppId, policy: &Policy, dpid: Option<u64>) -> Self {
        let tables = |capability| tables_of(&policy.capabilities, capability, dpid);
        let has = |capability| !tables(capability).is_empty();
        let granted = policy.capabilities.iter().map(|grant| grant.capability);
        let experimenters = granted.filter(|capability| has(*capability));
        let flow_write_any = tables(Capability::FlowWriteAny);
        Self {
            app,
            band: policy.band,
            packet_out: has(Capability::PacketOut),
            outputs: Outputs::new(has(Capability::PacketOutReserved)),
            flow_read: tables(Capability::FlowRead),
            flow_write: tables(Capability::FlowWrite).with(flow_write_any),
            flow_write_any,
            group_write: has(Capability::GroupWrite),
            meter_write: has(Capability::MeterWrite),
            stats_read: has(Capability::StatsRead),
            switch_config: has(Capability::SwitchConfig),
            topology_probe: has(Capability::TopologyProbe),
            packet_in: has(Capability::PacketIn),
            needs_packets: has(Capability::TopologyProbe)
                || has(Capability::PacketIn) && policy.stage != Stage::Observe,
            experimenters: experimenters
                .filter_map(|capability| match capability {
                    Capability::Experimenter(id) => Some(id),
                    _ => None,
                })
                .collect(),
            alone: false,
        }
    }

    /// Whether it learns which flows it has in the switch: it writes flows, and may read statistics.
    pub(crate) fn learns_its_flows(&self) -> bool {
        !self.flow_write.is_empty() && self.stats_read
    }

    /// Checks a message, for switches that speak its version.
    ///
    /// # Errors
    /// Why it must not be sent.
    #[inline]
    pub(crate) fn check_message(&self, message: &[u8]) -> Result<Checked, Refusal> {
        let version = message.first().and_then(|version| Version::from_wire(*version).ok());
        self.check(version.ok_or(Refusal::Shape)?, message)
    }

    /// Checks a message for a switch that speaks `version`.
    ///
    /// # Errors
    /// Why it must not be sent.
    pub(crate) fn check(&self, version: Version, message: &[u8]) -> Result<Checked, Refusal> {
        let header = Header::decode(message).map_err(|_| Refusal::Shape)?;
        if header.version != version.wire() || usize::from(header.length) != message.len() {
            return Err(Refusal::Shape);
        }
        match Kind::from_wire(version, header.kind).map_err(|_| Refusal::Shape)? {
            Kind::FlowMod => self.flow_mod(version, message),
            Kind::PacketOut => self.packet_out(version, message),
            kind => self.check_other(version, kind, message),
        }
    }

    #[inline(never)]
    fn check_other(
        &self,
        version: Version,
        kind: Kind,
        message: &[u8],
    ) -> Result<Checked, Refusal> {
        let allowed = match kind {
            Kind::MultipartRequest => return self.multipart(version, message),
            Kind::GroupMod => self.group_mod(message)?,
            Kind::MeterMod => self.meter_mod(message)?,
            Kind::BarrierRequest => self.barrier(message)?,
            Kind::GetConfigRequest => self.get_config(message)?,
            Kind::QueueGetConfigRequest => self.queue_config(message)?,
            Kind::PortMod => self.port_mod(message)?,
            Kind::TableMod => self.table_mod(message)?,
            Kind::Experimenter => self.experimenter(version, message)?,
            _ => return Err(Refusal::Kind),
        };
        Ok(Checked::only(version, allowed))
    }

    fn flow_mod(&self, version: Version, message: &[u8]) -> Result<Checked, Refusal> {
        let flow_mod = FlowModView::decode(message).map_err(|_| Refusal::Shape)?;
        let checked = self.flow_mod_head(version, message, &flow_mod)?;
        let names_lldp = lldp::names_lldp(&flow_mod)
            || flow_mod.has_opaque_field && lldp::names_lldp_otherwise(message);
        allow(self.topology_probe || !names_lldp, Refusal::Capability)?;
        let instructions = &flow_mod.instructions;
        self.actions(ActionContext::Flow, instructions.apply)?;
        self.actions(ActionContext::Flow, instructions.write)?;
        instructions.meter.map_or(Ok(()), |meter| self.meter(meter))?;
        for experimenter in instructions.others.experimenters() {
            let granted = experimenter.is_some_and(|it| self.experimenters.contains(&it));
            allow(granted, Refusal::Action)?;
        }
        Ok(checked)
    }

    /// Checks a flow-mod, its instructions aside.
    #[inline]
    fn flow_mod_head(
        &self,
        version: Version,
        message: &[u8],
        flow_mod: &FlowModView<'_>,
    ) -> Result<Checked, Refusal> {
        let table = table(version, flow_mod.command, message);
        allow(self.flow_write.has(table), Refusal::Capability)?;
        let writes_any = self.flow_write_any.has(table);
        allow((flow_mod.cookie | flow_mod.cookie_mask) & !OWN_BITS == 0, Refusal::Cookie)?;
        let reach = Reach::of(version, flow_mod.command, flow_mod.priority, message);
        allow(reach.keeps_to(self.band), Refusal::Priority)?;
        let narrowed = version.features().cookie_masks; // to its own cookies, where it may not touch others' flows
        let may_cover_all = narrowed || writes_any || self.alone;
        allow(!reach.covers_all || may_cover_all, Refusal::Foreign)?;
        // Open vSwitch has no emergency table. In those that have one, its flows replace all others.
        allow(!flow_mod.flags.contains(FlowModFlags::EMERGENCY), Refusal::Action)?;
        // Whose field it is does not always stand in it, so one grant stands for all.
        allow(!flow_mod.has_opaque_field || !self.experimenters.is_empty(), Refusal::Action)?;
        let others = !narrowed && reach.covers_all || writes_any;
        let sweeps = others && !matches!(flow_mod.command, Command::Add | Command::ModifyStrict);
        let is_certain = || deletes_table_miss(version, flow_mod.command, message);
        let sweep = || if is_certain() { Sweep::Certain } else { Sweep::Possible };
        let sweeps = sweeps.then(sweep);
        let layout = version.layout();
        let (cookie, at) = (layout.flow_mod_cookie, layout.flow_mod_buffer);
        let mark = match flow_mod.command {
            _ if !narrowed => Mark::Cookie { at: cookie },
            Command::Add => Mark::Cookie { at: cookie },
            // It may add a flow, which is the app's.
            Command::Modify | Command::ModifyStrict
                if writes_any && version.features().modify_adds =>
            {
                Mark::Cookie { at: cookie }
            }
            _ if writes_any => Mark::None,
            _ => Mark::CookieAndMask { at: cookie },
        };
        let buffer = match flow_mod.command {
            Command::Delete | Command::DeleteStrict => Buffer::Named { at },
            _ => Buffer::Used { at },
        };
        let adds_to = reach::adds_to(version, flow_mod.command, message);
        let deletes = matches!(flow_mod.command, Command::Delete | Command::DeleteStrict);
        Ok(Checked {
            version,
            allowed: Allowed::FlowMod { sweeps, adds_to, deletes },
            buffer,
            mark,
        })
    }

    fn packet_out(&self, version: Version, message: &[u8]) -> Result<Checked, Refusal> {
        let packet_out = PacketOut::decode(message).map_err(|_| Refusal::Shape)?;
        let checked = self.packet_out_head(version, &packet_out)?;
        self.actions(ActionContext::PacketOut { in_port: packet_out.in_port }, packet_out.actions)?;
        Ok(checked)
    }

    /// Checks a packet-out, its actions aside.
    #[inline]
    fn packet_out_head(
        &self,
        version: Version,
        packet_out: &PacketOut<'_>,
    ) -> Result<Checked, Refusal> {
        check_in_port(packet_out.in_port)?;
        self.packet(packet_out.data)?;
        let buffer = Buffer::Used { at: PACKET_OUT_BUFFER };
        Ok(Checked { buffer, ..Checked::only(version, Allowed::PacketOut) })
    }

    /// Checks the content of a packet.
    #[inline]
    fn packet(&self, packet: &[u8]) -> Result<(), Refusal> {
        allow(self.packet_out, Refusal::Capability)?;
        allow(self.topology_probe || !carries(packet, LLDP), Refusal::Capability)
    }

    /// Whether the app may use the buffer of a packet that begins with these bytes: of LLDP, and of what may be LLDP, only
    /// with `topology.probe`.
    #[inline]
    pub(crate) fn may_use_buffer_of(&self, beginning: &[u8]) -> bool {
        self.topology_probe || !may_carry(beginning, LLDP)
    }

    fn group_mod(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        let group_mod = GroupMod::decode(message).map_err(|_| Refusal::Shape)?;
        allow(self.group_write, Refusal::Capability)?;
        self.group(group_mod.group_id)?;
        for bucket in &group_mod.buckets {
            bucket
                .actions
                .iter()
                .try_for_each(|action| self.action(ActionContext::Bucket, action))?;
            if bucket.watch_group != openflow::Bucket::ANY_GROUP {
                self.group(bucket.watch_group)?;
            }
        }
        Ok(Allowed::GroupMod { deletes: group_mod.command == GroupModCommand::Delete })
    }

    #[inline]
    fn actions(&self, context: ActionContext, actions: Actions<'_>) -> Result<(), Refusal> {
        if actions.only_output_to(|port| self.outputs.allow(context, port)) {
            return Ok(());
        }
        actions.iter().try_for_each(|action| self.action(context, &action))
    }

    fn action(&self, context: ActionContext, action: &Action) -> Result<(), Refusal> {
        allow(self.topology_probe || !lldp::may_make_lldp(action), Refusal::Capability)?;
        match action {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => {
                allow(self.outputs.allow(context, *port), Refusal::Capability)
            }
            Action::Group(group) => {
                allow(self.outputs.allow_group(context), Refusal::Capability)?;
                self.group(*group)
            }
            Action::Nicira(action) => self.nicira(context, action),
            Action::Experimenter { experimenter, .. } => {
                // Of Open vSwitch's, the codec decodes all that can be checked.
                let is_granted = self.experimenters.contains(experimenter);
                allow(is_granted && *experimenter != NICIRA, Refusal::Action)
            }
            Action::SetField(Field::InPort(_) | Field::InPhyPort(_)) => {
                allow(self.outputs.may_change_in_port(), Refusal::Capability)
            }
            Action::SetField(field @ Field::Opaque(_)) => self.opaque_field(field),
            Action::SetField(_)
            | Action::SetTpSrc(_)
            | Action::SetTpDst(_)
            | Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::PushPbb(_)
            | Action::PopPbb
            | Action::SetQueue(_)
            | Action::SetNwTtl(_)
            | Action::DecNwTtl
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::CopyTtlOut
            | Action::CopyTtlIn => Ok(()),
            _ => Err(Refusal::Action),
        }
    }

    /// Whether a group is the app's own.
    fn group(&self, group_id: u32) -> Result<(), Refusal> {
        allow(self.app.groups().contains(&group_id), Refusal::Id)
    }
}

impl Limits for Rights {
    #[inline]
    fn may_output(&self, port: PortNo) -> bool {
        self.outputs.allow(ActionContext::Flow, port)
    }

    #[inline]
    fn may_send(&self, in_port: PortNo, output: PortNo, packet: &[u8]) -> bool {
        check_in_port(in_port).is_ok()
            && self.packet(packet).is_ok()
            && self.outputs.allow(ActionContext::PacketOut { in_port }, output)
    }
}

/// Returns a refusal unless something is allowed.
#[inline]
pub(crate) fn allow(allowed: bool, otherwise: Refusal) -> Result<(), Refusal> {
    if allowed { Ok(()) } else { Err(otherwise) }
}

/// Puts a 16-bit field where the message, whose shape was checked, has it.
fn put(message: &mut [u8], at: usize, value: u16) {
    message[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;

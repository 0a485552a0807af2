//! What an application may send: shape, capability, scope, ownership (design §8, §10).
//!
//! An allow-list: message kinds, actions and instructions that are not on it are refused, whatever
//! the codec can carry. The message is the kernel's private copy; the application cannot change it
//! any more. What passes is changed in two places: the number of the app is stamped into the top
//! of a flow's cookie, and a modify or delete is narrowed to cookies with that number.
//!
//! ```text
//!  63             48 47                                                            0
//! +-----------------+---------------------------------------------------------------+
//! | app's number    | what the app calls its cookie                                 |
//! +-----------------+---------------------------------------------------------------+
//! ```
//!
//! What it may ask, and what else it may change, stands in `check/asks.rs`.
//!
//! Which flows a switch touches for a flow-mod is the matter of `check/reach.rs`: those that it names must be in the
//! app's band. OpenFlow 1.0 has no cookie masks, so there a modify or delete that is not strict could touch anybody's flow.

use openflow::ethernet::{LLDP, carries, may_carry};
use openflow::{
    Action, Actions, Field, FlowModCommand as Command, FlowModFlags, FlowModView, GroupMod, Header,
    Kind, PacketOut, Version, v1_3,
};
use sdk::Refusal;

use crate::control::AppId;
use crate::policy::{Band, Capability, Policy};
use reach::Reach;

mod lldp;
mod outputs;
mod reach;
mod requests;

pub(crate) use outputs::{ActionContext, Outputs, check_in_port};
pub(crate) use requests::{Expects, STATS_COOKIE_1_3, STATS_MASK_1_3};

/// Where the app's number begins in a cookie, in bits.
pub(crate) const APP_SHIFT: u32 = 48;

/// The bits of a cookie that are the app's own.
pub(crate) const OWN_BITS: u64 = (1 << APP_SHIFT) - 1;

/// Where cookie and cookie mask are in a 1.3 flow-mod, and the cookie in a 1.0 one, in bytes.
pub(crate) const COOKIE_1_3: usize = 8;
pub(crate) const MASK_1_3: usize = 16;
pub(crate) const COOKIE_1_0: usize = 48;

/// A message that may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// A flow-mod.
    FlowMod {
        /// It may have changed or deleted the table-miss entry, which is the kernel's.
        sweeps: bool,
    },
    /// A group-mod.
    GroupMod,
    /// A meter-mod.
    MeterMod,
    /// A port-mod or a table-mod.
    Config,
    /// A packet-out.
    PacketOut,
    /// Something that will be answered.
    Request(Expects),
    /// An experimenter's message, which may be answered.
    Experimenter,
}

/// What one app may do, made from its policy.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability, granted or not")]
pub(crate) struct Rights {
    pub(crate) app: AppId,
    band: Band,
    packet_out: bool,
    /// Which ports it may output to.
    pub(crate) outputs: Outputs,
    /// May see others' flows, groups and meters.
    pub(crate) flow_read: bool,
    flow_write: bool,
    flow_write_any: bool,
    group_write: bool,
    meter_write: bool,
    stats_read: bool,
    switch_config: bool,
    topology_probe: bool,
    experimenters: Vec<u32>,
    /// All of them, as the policy has them.
    capabilities: Vec<Capability>,
    /// No other app writes flows: there is nothing of others to touch.
    pub(crate) alone: bool,
}

/// What is still to be known of a flow-mod that may go out.
struct Stamped {
    adds: bool,
    cookie: u64,
    cookie_mask: u64,
    /// As in [`Allowed::FlowMod`].
    sweeps: bool,
}

impl Rights {
    /// Of an app with this policy.
    pub(crate) fn of(app: AppId, policy: &Policy) -> Self {
        let has = |capability| policy.capabilities.contains(&capability);
        let experimenter = |capability: &Capability| match capability {
            Capability::Experimenter(id) => Some(*id),
            _ => None,
        };
        Self {
            app,
            band: policy.band,
            packet_out: has(Capability::PacketOut),
            outputs: Outputs::of(policy),
            flow_read: has(Capability::FlowRead),
            flow_write: has(Capability::FlowWrite) || has(Capability::FlowWriteAny),
            flow_write_any: has(Capability::FlowWriteAny),
            group_write: has(Capability::GroupWrite),
            meter_write: has(Capability::MeterWrite),
            stats_read: has(Capability::StatsRead),
            switch_config: has(Capability::SwitchConfig),
            topology_probe: has(Capability::TopologyProbe),
            experimenters: policy.capabilities.iter().filter_map(experimenter).collect(),
            capabilities: policy.capabilities.clone(),
            alone: false,
        }
    }

    /// The capability that would let the app send a message that was refused with [`Refusal::Capability`]; `None` if it
    /// takes more than one, or an experimenter.
    ///
    /// Checks the message again with each in turn, so this is for what is logged, not for every refusal.
    #[cold]
    pub(crate) fn missing(&self, message: &[u8]) -> Option<Capability> {
        let version = Version::from_wire(*message.first()?).ok()?;
        let suffices = |capability: &Capability| {
            let capabilities = [&self.capabilities[..], &[*capability]].concat();
            let granted = Policy { band: self.band, capabilities, ..Policy::default() };
            let rights = Self { alone: self.alone, ..Self::of(self.app, &granted) };
            let checked = rights.check(version, &mut message.to_vec(), |_| true);
            checked != Err(Refusal::Capability)
        };
        Capability::NAMED.into_iter().map(|(_, it)| it).find(suffices)
    }

    /// Whether it writes flows.
    pub(crate) fn writes_flows(&self) -> bool {
        self.flow_write
    }

    /// Checks a message for a switch that speaks `version`, and makes it the app's own.
    ///
    /// `was_given` says whether a packet-in with this buffer was delivered to the app.
    ///
    /// # Errors
    /// Why it must not go out.
    pub(crate) fn check(
        &self,
        version: Version,
        message: &mut [u8],
        was_given: impl Fn(u32) -> bool,
    ) -> Result<Allowed, Refusal> {
        if message.first().copied() == Some(version.wire())
            && let Some(usual) = FlowModView::usual(message)
            && usual.eth_type != Some(LLDP)
        {
            let stamped = self.flow_mod_of(version, message, &usual, was_given)?;
            // All that it does is to output to ports that every app may output to.
            return Ok(self.stamp(version, message, &stamped));
        }
        if message.first().copied() == Some(version.wire())
            && let Some(usual) = PacketOut::usual(message)
        {
            return self.packet_out_of(&usual, was_given);
        }
        let header = Header::decode(message).map_err(|_| Refusal::Shape)?;
        if header.version != version.wire() || usize::from(header.length) != message.len() {
            return Err(Refusal::Shape);
        }
        match Kind::from_wire(version, header.kind).map_err(|_| Refusal::Shape)? {
            Kind::FlowMod => self.flow_mod(version, message, was_given),
            Kind::PacketOut => self.packet_out(message, was_given),
            Kind::GroupMod => self.group_mod(message),
            Kind::MeterMod => self.meter_mod(message),
            Kind::MultipartRequest => self.multipart(version, message),
            Kind::BarrierRequest => self.barrier(message),
            Kind::GetConfigRequest => self.get_config(message),
            Kind::QueueGetConfigRequest => self.queue_config(version, message),
            Kind::PortMod => self.port_mod(message),
            Kind::TableMod => self.table_mod(message),
            Kind::Experimenter => self.experimenter(message),
            _ => Err(Refusal::Kind),
        }
    }

    fn flow_mod(
        &self,
        version: Version,
        message: &mut [u8],
        was_given: impl Fn(u32) -> bool,
    ) -> Result<Allowed, Refusal> {
        let flow_mod = FlowModView::decode(message).map_err(|_| Refusal::Shape)?;
        let stamped = self.flow_mod_of(version, message, &flow_mod, was_given)?;
        allow(self.topology_probe || !lldp::names_lldp(&flow_mod), Refusal::Capability)?;
        let instructions = &flow_mod.instructions;
        self.actions(ActionContext::Flow, instructions.apply)?;
        self.actions(ActionContext::Flow, instructions.write)?;
        instructions.meter.map_or(Ok(()), |meter| self.meter(meter))?;
        for other in instructions.others.iter() {
            let granted = match other {
                v1_3::Instruction::Experimenter(other) => {
                    self.experimenters.contains(&other.experimenter)
                }
                _ => false,
            };
            allow(granted, Refusal::Action)?;
        }
        Ok(self.stamp(version, message, &stamped))
    }

    /// Puts the app's mark upon a flow-mod.
    #[inline]
    fn stamp(&self, version: Version, message: &mut [u8], stamped: &Stamped) -> Allowed {
        let (cookie, mask) = (stamped.cookie | self.mark(), stamped.cookie_mask | !OWN_BITS);
        if version == Version::V1_0 {
            put(message, COOKIE_1_0, cookie);
        } else if stamped.adds {
            put(message, COOKIE_1_3, cookie);
        } else if !self.flow_write_any {
            put(message, COOKIE_1_3, cookie);
            put(message, MASK_1_3, mask);
        }
        Allowed::FlowMod { sweeps: stamped.sweeps }
    }

    /// Whether a flow-mod may go out, its instructions aside, and what the app's mark is to be put upon.
    #[inline]
    fn flow_mod_of(
        &self,
        version: Version,
        message: &[u8],
        flow_mod: &FlowModView<'_>,
        was_given: impl Fn(u32) -> bool,
    ) -> Result<Stamped, Refusal> {
        allow(self.flow_write, Refusal::Capability)?;
        allow((flow_mod.cookie | flow_mod.cookie_mask) & !OWN_BITS == 0, Refusal::Cookie)?;
        let reach = Reach::of(version, flow_mod.command, flow_mod.priority, message);
        allow(reach.keeps_to(self.band), Refusal::Priority)?;
        let narrowed = version > Version::V1_0; // to its own cookies, where it may not touch others' flows
        let may_cover_all = narrowed || self.flow_write_any || self.alone;
        allow(!reach.covers_all || may_cover_all, Refusal::Foreign)?;
        // Open vSwitch has no emergency table. In those that have one, its flows replace all others.
        allow(!flow_mod.flags.contains(FlowModFlags::EMERGENCY), Refusal::Action)?;
        // Whose field it is does not always stand in it, so one grant stands for all.
        allow(!flow_mod.has_opaque_field || !self.experimenters.is_empty(), Refusal::Action)?;
        allow(flow_mod.buffer_id.is_none_or(was_given), Refusal::Buffer)?;
        let others = !narrowed && reach.covers_all || self.flow_write_any;
        let sweeps = others && !matches!(flow_mod.command, Command::Add | Command::ModifyStrict);
        Ok(Stamped {
            adds: flow_mod.command == Command::Add,
            cookie: flow_mod.cookie,
            cookie_mask: flow_mod.cookie_mask,
            sweeps,
        })
    }

    fn packet_out(
        &self,
        message: &[u8],
        was_given: impl Fn(u32) -> bool,
    ) -> Result<Allowed, Refusal> {
        let packet_out = PacketOut::decode(message).map_err(|_| Refusal::Shape)?;
        let allowed = self.packet_out_of(&packet_out, was_given)?;
        self.actions(ActionContext::PacketOut { in_port: packet_out.in_port }, packet_out.actions)?;
        Ok(allowed)
    }

    /// Whether a packet-out may go out, its actions aside.
    #[inline]
    fn packet_out_of(
        &self,
        packet_out: &PacketOut<'_>,
        was_given: impl Fn(u32) -> bool,
    ) -> Result<Allowed, Refusal> {
        check_in_port(packet_out.in_port)?;
        self.packet(packet_out.data)?;
        allow(packet_out.buffer_id.is_none_or(was_given), Refusal::Buffer)?;
        Ok(Allowed::PacketOut)
    }

    /// Whether a packet may go out, as far as its content is concerned.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub(crate) fn packet(&self, packet: &[u8]) -> Result<(), Refusal> {
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
        Ok(Allowed::GroupMod)
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
            Action::Experimenter { experimenter, .. } => {
                allow(self.experimenters.contains(experimenter), Refusal::Action)
            }
            Action::SetField(Field::InPort(_) | Field::InPhyPort(_)) => {
                allow(self.outputs.may_change_in_port(), Refusal::Capability)
            }
            Action::SetField(Field::Opaque(_)) => {
                allow(!self.experimenters.is_empty(), Refusal::Action)
            }
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

fn allow(allowed: bool, otherwise: Refusal) -> Result<(), Refusal> {
    if allowed { Ok(()) } else { Err(otherwise) }
}

/// Puts a 64-bit field where the message, whose shape was checked, has it.
pub(crate) fn put(message: &mut [u8], at: usize, value: u64) {
    message[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;

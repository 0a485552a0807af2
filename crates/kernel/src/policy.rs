//! What the operator lets an app do, and where it stands among the others (design §7, §8, §10).
//!
//! Made by the monitor from `rosemary.toml`, handed to the kernel with the app, enforced there.

use serde::{Deserialize, Serialize};

/// An app's rights and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// When packets reach it.
    pub stage: Stage,
    /// Its place among the apps of its stage: the operator's order, smallest first. No two apps
    /// of a stage have the same.
    pub order: u16,
    /// Which packet-ins it wants.
    pub filter: Filter,
    /// The priorities that its flows may have.
    pub band: Band,
    /// What it may send. What is not here is refused.
    pub capabilities: Vec<Capability>,
    /// Messages it may send per second.
    pub quota: Quota,
    /// Flows it may have in each switch.
    pub flows: u32,
}

/// When packets reach an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// First, all guards in parallel; any `Stop` ends the packet.
    Guard(Fail),
    /// Then one after the other in the operator's order, until one says `Stop`.
    Control,
    /// Copies; decides nothing.
    Observe,
}

/// What becomes of a packet whose guard does not answer in time, or is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fail {
    /// It goes on without that guard.
    Open,
    /// It is dropped.
    Closed,
}

/// Which packet-ins an app wants; an empty list stands for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Ethertypes, behind VLAN tags and SNAP headers.
    pub ethertypes: Vec<u16>,
    /// Switches.
    pub dpids: Vec<u64>,
}

/// Priorities, both ends included. Bands of two apps do not overlap; 0 is the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// What an app's priority 0 is on the switch.
    pub lowest: u16,
    /// The highest on the switch.
    pub highest: u16,
}

/// Something an app may do, beyond seeing the packet-ins of its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Capability {
    /// `packet-out`: send packets by the ports of a switch.
    PacketOut,
    /// `packet-out.reserved`: with `packet-out`, send packets to `CONTROLLER` and through the flow tables (`TABLE`); in
    /// flows and groups too, hand packets to the switch's own forwarding (`NORMAL`).
    PacketOutReserved,
    /// `flow.read`: statistics of others' flows, groups and meters too.
    FlowRead,
    /// `flow.write`: add, modify and delete flows of its own.
    FlowWrite,
    /// `flow.write.any`: modify and delete others' flows.
    FlowWriteAny,
    /// `group.write`: groups in its own range.
    GroupWrite,
    /// `meter.write`: meters in its own range.
    MeterWrite,
    /// `stats.read`: ask for statistics, descriptions, configuration and queues.
    StatsRead,
    /// `switch.config`: port-mod and table-mod.
    SwitchConfig,
    /// `topology.probe`: send LLDP, and write flows for it.
    TopologyProbe,
    /// `experimenter`: messages and actions of this experimenter.
    Experimenter(u32),
}

impl Capability {
    /// Those without a scope, by their names in the configuration.
    pub const NAMED: [(&str, Self); 10] = [
        ("packet-out", Self::PacketOut),
        ("packet-out.reserved", Self::PacketOutReserved),
        ("flow.read", Self::FlowRead),
        ("flow.write", Self::FlowWrite),
        ("flow.write.any", Self::FlowWriteAny),
        ("group.write", Self::GroupWrite),
        ("meter.write", Self::MeterWrite),
        ("stats.read", Self::StatsRead),
        ("switch.config", Self::SwitchConfig),
        ("topology.probe", Self::TopologyProbe),
    ];
}

impl std::fmt::Display for Capability {
    /// As in the configuration.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Self::Experimenter(id) = self {
            return write!(f, "experimenter:{id:#010x}");
        }
        match Self::NAMED.iter().find(|(_, known)| known == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{self:?}"), // there is none, as a test says
        }
    }
}

/// Messages per second; the kernel counts them, and refuses what is above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Flow-mods, group-mods, meter-mods, port-mods and table-mods.
    pub flow_mods: u32,
    /// Packet-outs.
    pub packet_outs: u32,
    /// What asks for an answer: statistics, barriers, and experimenters' messages, which may.
    pub requests: u32,
}

impl Quota {
    /// Any number of everything.
    pub const NONE: Self = Self { flow_mods: u32::MAX, packet_outs: u32::MAX, requests: u32::MAX };
}

impl Default for Policy {
    /// A control app that sees everything and may send packets and write flows.
    fn default() -> Self {
        Self {
            stage: Stage::Control,
            order: 0,
            filter: Filter::default(),
            band: Band { lowest: 1, highest: 65_535 },
            capabilities: vec![Capability::PacketOut, Capability::FlowWrite],
            quota: Quota::NONE,
            flows: u32::MAX,
        }
    }
}

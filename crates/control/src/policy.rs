//! Defines an app's policy: its rights, and its position among the other apps.
//!
//! The monitor derives it from `rosemary.toml` and hands it to the kernel with the app. The kernel
//! enforces it.

use serde::{Deserialize, Serialize};

/// An app's rights and position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The stage in which packets reach it.
    pub stage: Stage,
    /// Its position in its stage: the operator's order, smallest first. No two apps of a stage share one.
    pub order: u16,
    /// The packet-ins that it receives.
    pub filter: Filter,
    /// The priorities that its flows may have.
    pub band: Band,
    /// Its capabilities. The kernel refuses every other message.
    pub capabilities: Vec<Capability>,
    /// The messages that it may send per second.
    pub quota: Quota,
    /// The flows that it may have in each switch.
    pub flows: u32,
}

/// The stage in which packets reach an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The first stage: all guards receive a packet in parallel, and any `Stop` ends it.
    Guard(Fail),
    /// The second stage: apps receive a packet one after the other in the operator's order, until one
    /// returns `Stop`.
    Control,
    /// Copies of packets, beside the other stages. Observers decide nothing.
    Observe,
}

/// The fate of a packet whose guard is down or does not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fail {
    /// The packet proceeds without that guard.
    Open,
    /// The kernel drops the packet.
    Closed,
}

/// The packet-ins that an app receives; an empty list matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Ethertypes, behind VLAN tags and SNAP headers.
    pub ethertypes: Vec<u16>,
    /// Switches, by datapath identifier.
    pub dpids: Vec<u64>,
}

/// A range of priorities, both ends included. Bands of two apps do not overlap; priority 0 is the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The priority on the switch of a flow to which the app gives priority 0.
    pub lowest: u16,
    /// The highest priority on the switch.
    pub highest: u16,
}

/// A right of an app, beyond receiving the packet-ins of its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Capability {
    /// `packet-out`: send packets out of ports of a switch.
    PacketOut,
    /// `packet-out.reserved`: with `packet-out`, send packets to `CONTROLLER` and through the flow tables
    /// (`TABLE`); also in flows and groups, pass packets to the switch's own forwarding (`NORMAL`).
    PacketOutReserved,
    /// `flow.read`: read statistics of flows, groups and meters of other apps too.
    FlowRead,
    /// `flow.write`: add, modify and delete flows of its own.
    FlowWrite,
    /// `flow.write.any`: modify and delete flows of other apps.
    FlowWriteAny,
    /// `group.write`: write groups in its own range.
    GroupWrite,
    /// `meter.write`: write meters in its own range.
    MeterWrite,
    /// `stats.read`: request statistics, descriptions, configuration and queues.
    StatsRead,
    /// `switch.config`: send port-mod and table-mod.
    SwitchConfig,
    /// `topology.probe`: send LLDP packets, and write flows for them.
    TopologyProbe,
    /// `experimenter`: use messages and actions of this experimenter.
    Experimenter(u32),
}

impl Capability {
    /// The capabilities without a scope, by their names in the configuration.
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
    /// Writes the name that the configuration uses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Self::Experimenter(id) = self {
            return write!(f, "experimenter:{id:#010x}");
        }
        match Self::NAMED.iter().find(|(_, known)| known == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{self:?}"), // unreachable: a test checks that every capability has a name
        }
    }
}

/// Messages per second. The kernel counts them and refuses the excess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Flow-mods, group-mods, meter-mods, port-mods and table-mods.
    pub flow_mods: u32,
    /// Packet-outs.
    pub packet_outs: u32,
    /// Messages that request a reply: statistics, barriers, and experimenters' messages, which may.
    pub requests: u32,
}

impl Quota {
    /// No limit.
    pub const NONE: Self = Self { flow_mods: u32::MAX, packet_outs: u32::MAX, requests: u32::MAX };
}

impl Default for Policy {
    /// A control app that receives every packet-in and may send packets and write flows.
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

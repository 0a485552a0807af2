//! Defines an app's policy: its rights, and its position among the other apps.
//!
//! The monitor derives it from `rosemary.toml` and hands it to the kernel with the app. The kernel
//! enforces it.

use serde::{Deserialize, Serialize};

use crate::session::SessionId;

pub use crate::capability::{Capability, Grant, TableSet, tables_of};

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
    /// Its capabilities and their scopes. The kernel refuses every other message.
    pub capabilities: Vec<Grant>,
    /// Whether it has rights beyond these, which the kernel does not enforce: in services, or to read files.
    pub has_other_rights: bool,
    /// The messages that it may send per second.
    pub quota: Quota,
    /// The flows that it may have in each switch.
    pub flows: u32,
    /// The most flow-mods per second that each switch receives from it; the others wait. `None` for no pace.
    #[serde(default)]
    pub pace: Option<u32>,
    /// Its session.
    #[serde(default)]
    pub session: SessionId,
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

impl Band {
    /// No priority, for an app that writes no flows.
    pub const NONE: Self = Self { lowest: 0, highest: 0 };

    /// Returns whether two bands have a priority in common. [`Band::NONE`] has none.
    pub fn overlaps(self, other: Self) -> bool {
        self != Self::NONE
            && other != Self::NONE
            && self.lowest <= other.highest
            && other.lowest <= self.highest
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
            capabilities: Grant::unscoped(&[
                Capability::PacketIn,
                Capability::PacketOut,
                Capability::FlowWrite,
            ]),
            has_other_rights: false,
            quota: Quota::NONE,
            flows: u32::MAX,
            pace: None,
            session: SessionId::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_overlap_where_they_share_a_priority() {
        let band = |lowest, highest| Band { lowest, highest };
        assert!(band(1, 10).overlaps(band(10, 20)));
        assert!(band(10, 20).overlaps(band(1, 10)));
        assert!(band(1, 100).overlaps(band(10, 20)));
        assert!(!band(1, 9).overlaps(band(10, 20)));
        assert!(!Band::NONE.overlaps(band(0, 20)) && !band(0, 20).overlaps(Band::NONE));
    }
}

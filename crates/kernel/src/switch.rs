//! A switch that can be used: what is known of it, what apps were told, what waits.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use dal::drivers::openflow::SwitchInfo;
use openflow::{Dpid, PortDesc, Version};

use crate::query::SwitchStatus;

/// A switch that can be used.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) dpid: Dpid,
    pub(crate) version: Version,
    pub(crate) epoch: u32,
    /// By number.
    pub(crate) ports: BTreeMap<u32, PortDesc>,
    /// What each link's app was told, by the link's slot.
    pub(crate) told: Vec<Told>,
    pub(crate) counters: Counters,
    /// What of it waits for what apps say, oldest first; see [`Holds`](crate::held::Holds).
    pub(crate) queue: VecDeque<usize>,
}

/// What an app was told of a switch's present connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing.
    #[default]
    Nothing,
    /// That it is there, and its ports below this number.
    PortsBelow(u32),
    /// Everything.
    All,
    /// Something that has changed since: it is to be told anew.
    Stale,
}

/// What happened on this connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) packet_ins: u64,
    pub(crate) dropped: u64,
    /// Packet-ins that ended because a guard was silent or away.
    pub(crate) guarded: u64,
    pub(crate) flow_mods: u64,
    pub(crate) packet_outs: u64,
    pub(crate) refused: u64,
    pub(crate) errors: u64,
}

impl Switch {
    /// One that has completed the handshake.
    pub(crate) fn new(info: SwitchInfo, epoch: u32) -> Self {
        Self {
            dpid: info.dpid,
            version: info.version,
            epoch,
            ports: info.ports.into_iter().map(|port| (port.port_no.0, port)).collect(),
            told: Vec::new(),
            counters: Counters::default(),
            queue: VecDeque::new(),
        }
    }

    /// What operators are told about it.
    pub(crate) fn status(&self, address: SocketAddr, transport: &str) -> SwitchStatus {
        let Counters { packet_ins, dropped, guarded, flow_mods, packet_outs, refused, errors } =
            self.counters;
        SwitchStatus {
            dpid: self.dpid.to_string(),
            version: self.version.to_string(),
            address: address.to_string(),
            transport: transport.to_owned(),
            epoch: self.epoch,
            ports: self.ports.values().filter(|port| port.port_no.is_physical()).count(),
            packet_ins,
            dropped,
            guarded,
            flow_mods,
            packet_outs,
            refused,
            errors,
        }
    }
}

//! Details of one switch, which the kernel requests from the switch for an operator's command.

use serde::{Deserialize, Serialize};

/// A part of a switch's details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DetailPart {
    /// Its description of itself. Answered by [`Details::Description`].
    Description,
    /// Its tables with their counters. Answered by [`Details::Tables`].
    Tables,
    /// Its ports with their counters. Answered by [`Details::Ports`].
    Ports,
}

/// A part of a switch's details, or a page of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Details {
    /// Its description of itself.
    Description(SwitchDescription),
    /// Its tables, in the switch's order.
    Tables(Vec<TableStatus>),
    /// Its ports, by number.
    Ports(Vec<PortDetails>),
}

/// Most ports in one reply.
pub const PAGE: usize = 128;

/// A switch's description of itself; the switch chooses the texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchDescription {
    /// Its manufacturer.
    pub manufacturer: String,
    /// Its hardware.
    pub hardware: String,
    /// Its software, with the version.
    pub software: String,
    /// Its serial number.
    pub serial: String,
    /// Its datapath, for people.
    pub datapath: String,
}

/// A flow table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// Its number.
    pub table: u8,
    /// Its name; `None` in versions of OpenFlow whose statistics have no names.
    pub name: Option<String>,
    /// Flows in it; `None` if the switch does not count them. Open vSwitch counts hidden flows, which it does not list.
    pub flows: Option<u32>,
    /// Most flows that it can hold; `None` if the switch does not state it.
    pub size: Option<u32>,
    /// Packets that were looked up in it; `None` if the switch does not count them.
    pub lookups: Option<u64>,
    /// Packets that matched one of its flows; `None` if the switch does not count them.
    pub matched: Option<u64>,
}

/// A port. Counters are `None` if the switch does not count them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDetails {
    /// Its number; names such as `LOCAL` for reserved ports.
    pub port: String,
    /// Its name; the switch chooses it.
    pub name: String,
    /// Its Ethernet address.
    pub hw_addr: String,
    /// Whether it is up: the operator has not switched it off, and its link is up.
    pub up: bool,
    /// The speed of its link in kbit/s; `None` if the switch does not state it.
    pub speed_kbps: Option<u32>,
    /// Packets received.
    pub rx_packets: Option<u64>,
    /// Packets sent.
    pub tx_packets: Option<u64>,
    /// Bytes received.
    pub rx_bytes: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// Packets dropped on reception.
    pub rx_dropped: Option<u64>,
    /// Packets dropped on sending.
    pub tx_dropped: Option<u64>,
    /// Errors on reception.
    pub rx_errors: Option<u64>,
    /// Errors on sending.
    pub tx_errors: Option<u64>,
}

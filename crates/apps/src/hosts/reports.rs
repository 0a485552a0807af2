//! Words the incidents of the app, and limits how often each is reported.

use std::collections::HashMap;
use std::net::IpAddr;

use rosemary_sdk::MacAddr;
use rosemary_sdk::services::topology::Endpoint;

use super::sighting::Forged;

/// Seconds from one report to the next about the same host or port.
const EVERY_S: u64 = 60;

/// Most hosts and ports that are remembered as reported.
const MOST: usize = 4096;

/// Something that an operator should know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// A message states another Ethernet address than its packet's source.
    Forged { what: Forged, sender: MacAddr, stated: MacAddr, at: Endpoint },
    /// A host was claimed at a second port and is still at the first.
    HijackRefused { mac: MacAddr, first: Endpoint, second: Endpoint, answered: bool },
    /// A host has moved although its former port is up.
    Moved { mac: MacAddr, from: Endpoint, to: Endpoint },
    /// A host moves again and again.
    Flapping { mac: MacAddr, from: Endpoint, to: Endpoint, moves: u8 },
    /// An address was claimed by a second host, and the first still has it.
    AddressRefused { ip: IpAddr, owner: MacAddr, by: MacAddr, at: Endpoint },
    /// An address was claimed by a second host and the first did not answer.
    AddressMoved { ip: IpAddr, owner: MacAddr, by: MacAddr, at: Endpoint },
    /// A host sends packets with the address of another.
    AddressUsed { ip: IpAddr, owner: MacAddr, by: MacAddr, at: Endpoint },
    /// A port has as many hosts as it may.
    PortFull { at: Endpoint, hosts: usize },
    /// The table has no room.
    TableFull { mac: MacAddr, at: Endpoint, hosts: usize },
}

impl Report {
    /// Returns what the same report is recognised by.
    fn key(&self) -> (u8, MacAddr, Option<Endpoint>) {
        let nobody = MacAddr([0; 6]);
        match *self {
            Self::Forged { sender, .. } => (0, sender, None),
            Self::HijackRefused { mac, .. } => (1, mac, None),
            Self::Moved { mac, .. } => (2, mac, None),
            Self::Flapping { mac, .. } => (3, mac, None),
            Self::AddressRefused { by, .. } => (4, by, None),
            Self::AddressMoved { by, .. } => (5, by, None),
            Self::AddressUsed { by, .. } => (6, by, None),
            Self::PortFull { at, .. } => (7, nobody, Some(at)),
            Self::TableFull { .. } => (8, nobody, None),
        }
    }

    /// Returns a sentence that is the same for all reports of a kind.
    pub(super) fn summary(&self) -> &'static str {
        match self {
            Self::Forged { what: Forged::Arp, .. } => {
                "a host sent ARP with another Ethernet address than its own"
            }
            Self::Forged { what: Forged::NeighbourDiscovery, .. } => {
                "a host sent neighbour discovery with another Ethernet address than its own"
            }
            Self::Forged { what: Forged::Dhcp, .. } => {
                "a host sent DHCP with another Ethernet address than its own"
            }
            Self::HijackRefused { .. } => "a second port claimed the Ethernet address of a host",
            Self::Moved { .. } => "a host moved although its former port is up",
            Self::Flapping { .. } => "a host moves between ports again and again",
            Self::AddressRefused { .. } => "a second host claimed the IP address of a host",
            Self::AddressMoved { .. } => "the IP address of a silent host went to another host",
            Self::AddressUsed { .. } => "a host sent packets with the IP address of another host",
            Self::PortFull { .. } => "more hosts are behind a port than are learned",
            Self::TableFull { .. } => "the table of hosts is full",
        }
    }

    /// Returns what happened, with the names.
    pub(super) fn evidence(&self) -> String {
        match *self {
            Self::Forged { sender, stated, at, .. } => {
                format!("{sender} at {at} stated {stated}; nothing was learned from the message")
            }
            Self::HijackRefused { mac, first, second, answered } => {
                let why =
                    if answered { "it is still" } else { "only one packet says so; it stays" };
                format!("{mac} was claimed at {second}; {why} at {first}")
            }
            Self::Moved { mac, from, to } => format!(
                "{mac} moved from {from} to {to}; it answered no more at {from}, whose link is up"
            ),
            Self::Flapping { mac, from, to, moves } => {
                format!("{mac} moved {moves} times within a minute, now from {from} to {to}")
            }
            Self::AddressRefused { ip, owner, by, at } => {
                format!("{by} at {at} claimed {ip}; {owner} still has it")
            }
            Self::AddressMoved { ip, owner, by, at } => {
                format!("{by} at {at} claimed {ip}; {owner} did not answer, and lost it")
            }
            Self::AddressUsed { ip, owner, by, at } => {
                format!("{by} at {at} sent a packet from {ip}, which {owner} has")
            }
            Self::PortFull { at, hosts } => {
                format!("{at} has {hosts} hosts, the most that are learned behind one port")
            }
            Self::TableFull { mac, at, hosts } => {
                format!("{mac} at {at} found no room beside {hosts} hosts and their addresses")
            }
        }
    }
}

/// Remembers what was reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    last: HashMap<(u8, MacAddr, Option<Endpoint>), u64>,
    /// Reports that wait to be made.
    pub(super) pending: Vec<Report>,
    /// Reports that were left out.
    pub(super) left_out: u64,
}

impl Reports {
    /// Reports something, unless the same was reported in the last minute.
    pub(super) fn report(&mut self, report: Report, now_s: u64) {
        let key = report.key();
        let is_new = self.last.get(&key).is_none_or(|last| now_s >= last + EVERY_S);
        if !is_new || self.last.len() >= MOST && !self.last.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        self.last.insert(key, now_s);
        self.pending.push(report);
    }

    /// Forgets reports that are old enough to be made again.
    pub(super) fn forget_old(&mut self, now_s: u64) {
        self.last.retain(|_, last| now_s < *last + EVERY_S);
    }
}

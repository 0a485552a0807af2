//! Words the incidents of the app, and limits how often each is reported.

use std::net::IpAddr;
use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{MacAddr, Repeats};

use super::sighting::Forged;

/// Time from one report to the next about the same host or port.
const EVERY: Duration = Duration::from_secs(60);

/// Most ports that are remembered as reported, for each kind of report.
const MOST_PORTS: usize = 4096;

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
    /// Returns what repeats, which is the kind and the port, and what differs, which is the host: a sender can invent hosts.
    fn key(&self) -> ((u8, Option<Endpoint>), MacAddr) {
        let nobody = MacAddr([0; 6]);
        match *self {
            Self::Forged { sender, at, .. } => ((0, Some(at)), sender),
            Self::HijackRefused { mac, second, .. } => ((1, Some(second)), mac),
            Self::Moved { mac, to, .. } => ((2, Some(to)), mac),
            // Two ports take turns.
            Self::Flapping { mac, from, to, .. } => ((3, Some(from.min(to))), mac),
            Self::AddressRefused { by, at, .. } => ((4, Some(at)), by),
            Self::AddressMoved { by, at, .. } => ((5, Some(at)), by),
            Self::AddressUsed { by, at, .. } => ((6, Some(at)), by),
            Self::PortFull { at, .. } => ((7, Some(at)), nobody),
            Self::TableFull { .. } => ((8, None), nobody),
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
#[derive(Debug)]
pub(super) struct Reports {
    last: Repeats<(u8, Option<Endpoint>), MacAddr>,
    /// Reports that wait to be made.
    pub(super) pending: Vec<Report>,
    /// Reports that were left out.
    pub(super) left_out: u64,
}

impl Default for Reports {
    fn default() -> Self {
        Self { last: Repeats::new(EVERY, MOST_PORTS), pending: Vec::new(), left_out: 0 }
    }
}

impl Reports {
    /// Reports something, unless the same was reported in the last minute.
    pub(super) fn report(&mut self, report: Report, now_s: u64) {
        let (subject, host) = report.key();
        match self.last.admit(subject, host, Duration::from_secs(now_s)) {
            Some(_) => self.pending.push(report),
            None => self.left_out += 1,
        }
    }
}

//! The hosts as operators see them. The JSON of [`Line`] is a stable interface.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use openflow::{Dpid, MacAddr, PortNo};
use sdk::services::hosts::{Host, Record, UNTAGGED, hosts, records};
use sdk::services::table::Table;
use serde::Serialize;

/// The address by which an operator names a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostName {
    /// Its Ethernet address.
    Mac(MacAddr),
    /// One of its IP addresses.
    Ip(IpAddr),
}

impl HostName {
    /// Reads an operator's word.
    ///
    /// # Errors
    /// It is neither kind of address.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        text.parse().map(Self::Mac).map_err(|_| {
            "not a host; write an Ethernet address such as 02:00:00:00:00:01, or an IP address"
                .to_owned()
        })
    }
}

/// A host; its JSON is a stable interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its Ethernet address.
    pub mac: String,
    /// Its VLAN; null for packets without a tag.
    pub vlan: Option<u16>,
    /// The datapath id of its switch.
    pub dpid: String,
    /// The port of the switch; `LOCAL` for the switch itself.
    pub port: String,
    /// Its IP addresses.
    pub addresses: Vec<String>,
    /// Seconds since a packet of it reached the controller.
    pub seen_seconds: u64,
    /// Seconds since the first one.
    pub known_seconds: u64,
    /// Whether packets with its address come in at another port, too.
    pub contested: bool,
    /// Whether it is known from before a restart, and no packet has confirmed its place since.
    pub doubted: bool,
}

/// The hosts at a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtSwitch {
    /// Their number.
    pub count: usize,
    /// The ports that they are at.
    pub ports: BTreeSet<PortNo>,
}

/// Returns the hosts at each switch.
pub fn by_switch(service: &impl Table) -> BTreeMap<Dpid, AtSwitch> {
    let mut switches: BTreeMap<Dpid, AtSwitch> = BTreeMap::new();
    for host in hosts(service) {
        let at = switches.entry(host.dpid).or_default();
        at.count += 1;
        at.ports.insert(host.port);
    }
    switches
}

/// Reads all hosts with their addresses, in the order of switches and ports.
pub fn lines(service: &impl Table, now_s: u64) -> Vec<Line> {
    let all: Vec<Record> = records(service).collect();
    lines_of(&all, now_s)
}

/// Turns records into lines. `now_s` is the time of the clock of records, in seconds.
pub fn lines_of(records: &[Record], now_s: u64) -> Vec<Line> {
    let mut addresses: HashMap<(MacAddr, u16), Vec<IpAddr>> = HashMap::new();
    let mut hosts: Vec<Host> = Vec::new();
    for record in records {
        match record {
            Record::Host(host) => hosts.push(*host),
            Record::Address(it) => {
                addresses.entry((it.mac, it.vlan)).or_default().push(it.ip);
            }
        }
    }
    hosts.sort_by_key(|it| (it.dpid, it.port, it.mac, it.vlan));
    let line = |host: &Host| {
        let mut addresses = addresses.remove(&(host.mac, host.vlan)).unwrap_or_default();
        addresses.sort_unstable();
        Line {
            mac: host.mac.to_string(),
            vlan: (host.vlan != UNTAGGED).then_some(host.vlan),
            dpid: host.dpid.to_string(),
            port: host.port.to_string(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            seen_seconds: now_s.saturating_sub(host.last_seen_s),
            known_seconds: now_s.saturating_sub(host.first_seen_s),
            contested: host.is_contested,
            doubted: host.is_doubted,
        }
    };
    hosts.iter().map(line).collect()
}

impl Line {
    /// Returns whether it is the named host.
    pub fn is(&self, host: HostName) -> bool {
        match host {
            HostName::Mac(mac) => self.mac == mac.to_string(),
            HostName::Ip(ip) => self.addresses.contains(&ip.to_string()),
        }
    }
}

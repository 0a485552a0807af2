//! The topology as operators see it: switches, links, paths. The JSON of these types is a stable interface.

use std::fmt;
use std::str::FromStr;

use openflow::{Dpid, MacAddr, PortNo};
use sdk::services::hosts;
use sdk::services::topology::{Endpoint, LinkRecord, PortRecord, SwitchRecord};
use sdk::topology::{Graph, Path};
use serde::Serialize;

use crate::hosts::HostName;

/// A port; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct End {
    /// The switch.
    pub dpid: String,
    /// The port's number; `LOCAL` for the switch itself.
    pub port: String,
}

/// One direction of a link; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// Where it begins.
    pub from: End,
    /// Where it ends.
    pub to: End,
    /// Its cost.
    pub metric: u32,
    /// Microseconds; `None` if not measured.
    pub latency_us: Option<f64>,
    /// Whether its latency is that of a relay.
    pub suspicious: bool,
    /// Whether the other direction is known, too.
    pub both_directions: bool,
}

/// A port of a switch; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct Port {
    /// The port's number; `LOCAL` for the switch itself.
    pub port: String,
    /// Its name; printable ASCII.
    pub name: String,
    /// Its Ethernet address.
    pub hw_addr: String,
    /// Its speed in kbit/s; `None` if unknown.
    pub speed_kbps: Option<u64>,
    /// Whether it is up.
    pub live: bool,
    /// Whether no switch is behind it.
    pub edge: bool,
    /// Whether a link begins there.
    pub link: bool,
}

/// A switch; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct Switch {
    /// The switch.
    pub dpid: String,
    /// Whether an operator keeps traffic away from it.
    pub drained: bool,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// The whole topology; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct Topology {
    /// Whether all ports have been probed.
    pub settled: bool,
    /// The switches.
    pub switches: Vec<Switch>,
    /// The links.
    pub links: Vec<Link>,
}

impl From<Endpoint> for End {
    fn from(at: Endpoint) -> Self {
        Self { dpid: at.dpid.to_string(), port: at.port.to_string() }
    }
}

impl Link {
    /// Describes a direction of a link.
    pub fn of(record: &LinkRecord, graph: &Graph) -> Self {
        Self {
            from: record.from.into(),
            to: record.to.into(),
            metric: record.metric,
            latency_us: latency_us(record),
            suspicious: record.suspicious,
            both_directions: has_both_directions(record, graph),
        }
    }
}

impl From<&PortRecord> for Port {
    fn from(port: &PortRecord) -> Self {
        Self {
            port: port.at.port.to_string(),
            name: name_of(port),
            hw_addr: port.hw_addr.to_string(),
            speed_kbps: (port.speed_kbps > 0).then_some(port.speed_kbps),
            live: port.live,
            edge: port.edge,
            link: port.link,
        }
    }
}

/// Returns the switches by datapath identifier.
pub fn switches(graph: &Graph) -> Vec<SwitchRecord> {
    let mut switches: Vec<SwitchRecord> = graph.switches().copied().collect();
    switches.sort_unstable_by_key(|switch| switch.dpid);
    switches
}

/// Returns all directions of links, by the ports where they begin.
pub fn directions(graph: &Graph) -> Vec<LinkRecord> {
    let mut links: Vec<LinkRecord> = graph.links().copied().collect();
    links.sort_unstable_by_key(|link| (link.from, link.to));
    links
}

/// Returns whether the direction back is known, too.
pub fn has_both_directions(link: &LinkRecord, graph: &Graph) -> bool {
    graph.link_from(link.to).is_some_and(|back| back.to == link.from)
}

/// Returns the whole topology.
pub fn topology(graph: &Graph) -> Topology {
    let switch = |switch: &SwitchRecord| Switch {
        dpid: switch.dpid.to_string(),
        drained: switch.drained,
        ports: graph.ports(switch.dpid).map(Port::from).collect(),
    };
    Topology {
        settled: graph.is_settled(),
        switches: switches(graph).iter().map(switch).collect(),
        links: directions(graph).iter().map(|link| Link::of(link, graph)).collect(),
    }
}

/// The name of a port: printable ASCII; other bytes are escaped, because the switch chooses them.
pub fn name_of(port: &PortRecord) -> String {
    port.name().escape_ascii().to_string()
}

/// The latency of a link in microseconds, if it was measured.
#[expect(clippy::cast_precision_loss, reason = "no latency has 52 bits of nanoseconds")]
pub fn latency_us(link: &LinkRecord) -> Option<f64> {
    (link.latency_ns > 0).then_some(link.latency_ns as f64 / 1000.0)
}

/// Where a path begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// A switch.
    Switch(Dpid),
    /// A host, which the service `hosts` knows.
    Host(HostName),
}

impl FromStr for PathEnd {
    type Err = String;

    /// Reads an operator's word. The usual form of a datapath id is also one of an IPv6 address; it is a datapath id here.
    fn from_str(text: &str) -> Result<Self, String> {
        let host = || HostName::parse(text).ok().map(Self::Host);
        text.parse().map(Self::Switch).ok().or_else(host).ok_or_else(|| {
            "expected the Ethernet or IP address of a host, or the datapath id of a switch"
                .to_owned()
        })
    }
}

impl fmt::Display for PathEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(dpid) => write!(f, "switch {dpid}"),
            Self::Host(HostName::Mac(mac)) => write!(f, "host {mac}"),
            Self::Host(HostName::Ip(ip)) => write!(f, "host {ip}"),
        }
    }
}

/// A link of a path; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct HopLine {
    /// Where it begins.
    pub from: End,
    /// Where it ends.
    pub to: End,
    /// Its cost.
    pub metric: u32,
}

/// A path; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct PathLine {
    /// The sum of its metrics.
    pub cost: u64,
    /// Its links.
    pub hops: Vec<HopLine>,
}

impl From<&Path> for PathLine {
    fn from(path: &Path) -> Self {
        let hop = |hop: &sdk::topology::Hop| HopLine {
            from: hop.from.into(),
            to: hop.to.into(),
            metric: hop.metric,
        };
        Self { cost: path.cost, hops: path.hops.iter().map(hop).collect() }
    }
}

/// Returns where a host is attached.
///
/// # Errors
/// It is unknown, or at several places.
pub fn host_at(
    name: HostName,
    table: &impl sdk::services::table::Table,
) -> Result<(Dpid, PortNo), String> {
    let macs: Vec<(MacAddr, u16)> = match name {
        HostName::Mac(mac) => {
            hosts::hosts(table).filter(|host| host.mac == mac).map(|it| (it.mac, it.vlan)).collect()
        }
        HostName::Ip(ip) => {
            let addresses = hosts::addresses(table).filter(|address| address.ip == ip);
            addresses.map(|it| (it.mac, it.vlan)).collect()
        }
    };
    let found = macs.iter().filter_map(|(mac, vlan)| hosts::find_host(table, *mac, *vlan));
    let mut places: Vec<(Dpid, PortNo)> = found.map(|host| (host.dpid, host.port)).collect();
    places.sort_unstable();
    places.dedup();
    let place = PathEnd::Host(name);
    match places[..] {
        [] => Err(format!("{place} is not known: see `rosemary hosts`")),
        [at] => Ok(at),
        _ => {
            Err(format!("{place} is at several places, in different VLANs: name a switch instead"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_switches_or_hosts() {
        let place = |text: &str| text.parse::<PathEnd>();
        assert_eq!(place("00:00:00:00:00:00:00:01"), Ok(PathEnd::Switch(Dpid(1))));
        assert_eq!(place("0x10"), Ok(PathEnd::Switch(Dpid(16))));
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        assert_eq!(place("02:00:00:00:00:01"), Ok(PathEnd::Host(HostName::Mac(mac))));
        for ip in ["10.0.0.1", "fe80::1"] {
            assert_eq!(place(ip), Ok(PathEnd::Host(HostName::Ip(ip.parse().unwrap()))));
        }
        assert!(place("h1").is_err());
    }
}

//! The topology as operators see it: switches, links, paths. The JSON of these types is a stable interface.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use openflow::{Dpid, MacAddr};
use sdk::services::hosts;
use sdk::services::topology::{
    Endpoint, LinkDownRecord, LinkRecord, PortRecord, SwitchRecord, WhyDown,
};
use sdk::topology::{Graph, Path};
use serde::Serialize;

use crate::hosts::{AtSwitch, HostName};

/// A port; its JSON is a stable interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

/// One direction of a link that was there and is down; its JSON is a stable interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkDown {
    /// Where it began.
    pub from: End,
    /// Where it ended.
    pub to: End,
    /// `port-down`, `port-removed`, `switch-gone`, `silent` or `other`.
    pub why: &'static str,
    /// The port that the reason is about.
    pub cause: End,
    /// Seconds since it is down.
    pub down_seconds: u64,
}

/// A port of a switch; its JSON is a stable interface.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the record")]
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
    /// Whether a bridge without OpenFlow joins it with other ports. If it is no edge and has no link, it is not used.
    pub shared: bool,
}

/// A switch; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct Switch {
    /// The switch.
    pub dpid: String,
    /// Whether an operator keeps traffic away from it.
    pub drained: bool,
    /// Why it carries traffic although it is drained, as phrases that say what to do; empty if it need not carry any.
    pub remaining: Vec<String>,
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
    /// The links that were there and are down.
    pub links_down: Vec<LinkDown>,
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

impl LinkDown {
    /// Describes a direction of a link that is down. `now_ns` is the time of the clock of records.
    pub fn of(record: &LinkDownRecord, now_ns: u64) -> Self {
        let why = match record.why {
            WhyDown::PortDown => "port-down",
            WhyDown::PortRemoved => "port-removed",
            WhyDown::SwitchGone => "switch-gone",
            WhyDown::Silent => "silent",
            _ => "other",
        };
        Self {
            from: record.from.into(),
            to: record.to.into(),
            why,
            cause: record.cause().into(),
            down_seconds: now_ns.saturating_sub(record.since_ns) / 1_000_000_000,
        }
    }
}

/// Describes all directions of links that are down, by the ports where they began.
pub fn links_down(graph: &Graph, now_ns: u64) -> Vec<LinkDown> {
    graph.links_down().map(|it| LinkDown::of(it, now_ns)).collect()
}

/// Returns each link that is down once: the direction from the lower port, or the only one.
pub fn pairs_down(graph: &Graph) -> Vec<LinkDownRecord> {
    let all: BTreeMap<Endpoint, LinkDownRecord> =
        graph.links_down().map(|it| (it.from, *it)).collect();
    let has_back = |it: &LinkDownRecord| all.get(&it.to).is_some_and(|back| back.to == it.from);
    all.values().filter(|it| it.from <= it.to || !has_back(it)).copied().collect()
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
            shared: port.shared,
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

/// Returns whether a bridge without OpenFlow leads from a port to another that is used in its place.
pub fn is_unused(port: &PortRecord) -> bool {
    port.shared && !port.edge && !port.link
}

/// Returns whether a link is a bridge without OpenFlow that joins two parts of the network.
pub fn is_bridge(link: &LinkRecord, graph: &Graph) -> bool {
    [link.from, link.to].iter().all(|end| graph.port(*end).is_some_and(|port| port.shared))
}

/// Returns the whole topology. `hosts` are the hosts at switches, or `None` if the service `hosts` does not run;
/// `now_ns` is the time of the clock of records.
pub fn topology(graph: &Graph, hosts: Option<&BTreeMap<Dpid, AtSwitch>>, now_ns: u64) -> Topology {
    let switch = |switch: &SwitchRecord| Switch {
        dpid: switch.dpid.to_string(),
        drained: switch.drained,
        remaining: if switch.drained { remaining(switch.dpid, graph, hosts) } else { Vec::new() },
        ports: graph.ports(switch.dpid).map(Port::from).collect(),
    };
    Topology {
        settled: graph.is_settled(),
        switches: switches(graph).iter().map(switch).collect(),
        links: directions(graph).iter().map(|link| Link::of(link, graph)).collect(),
        links_down: links_down(graph, now_ns),
    }
}

/// Returns why a drained switch carries traffic, as phrases that say what to do; none if it need not carry any. `hosts` as for
/// [`topology`].
pub fn remaining(
    dpid: Dpid,
    graph: &Graph,
    hosts: Option<&BTreeMap<Dpid, AtSwitch>>,
) -> Vec<String> {
    let mut why = Vec::new();
    match hosts.map(|hosts| hosts.get(&dpid)) {
        Some(None) => {}
        Some(Some(at)) => why.push(attached(at)),
        None => why.push(
            "hosts may be attached to it, which are not known because the service `hosts` does not run".to_owned(),
        ),
    }
    if let Some((one, other)) = parts_joined_by(dpid, graph) {
        why.push(format!(
            "no other path leads from switch {one} to switch {other}, except over drained switches: add a link between them"
        ));
    }
    why
}

/// Ports of hosts that are named.
const MOST_PORTS: usize = 8;

/// Returns which hosts a switch has, as a phrase that says what to do.
fn attached(at: &AtSwitch) -> String {
    let (are, them) = if at.count == 1 { ("host is", "it") } else { ("hosts are", "them") };
    let ports: Vec<String> = at.ports.iter().take(MOST_PORTS).map(ToString::to_string).collect();
    let more = if at.ports.len() > MOST_PORTS { " and others" } else { "" };
    let port = if at.ports.len() == 1 { "port" } else { "ports" };
    format!(
        "{} {are} attached to it, at {port} {}{more}: move {them} to another switch",
        at.count,
        ports.join(", ")
    )
}

/// Returns two neighbours of a switch between which no path leads over other switches that are not drained.
fn parts_joined_by(dpid: Dpid, graph: &Graph) -> Option<(Dpid, Dpid)> {
    let neighbours = |of: Dpid| {
        let ports = graph.ports(of).filter(|port| graph.is_usable(port.at));
        ports.filter_map(|port| Some(graph.link_from(port.at)?.to.dpid)).filter(|it| *it != dpid)
    };
    let around: BTreeSet<Dpid> = neighbours(dpid).collect();
    let first = *around.first()?;
    // The switches that packets from the first neighbour reach. A drained switch is an end of a path, not a part of it.
    let (mut reached, mut open) = (BTreeSet::from([first]), vec![first]);
    while let Some(at) = open.pop() {
        if at != first && graph.is_drained(at) {
            continue;
        }
        open.extend(neighbours(at).filter(|next| reached.insert(*next)));
    }
    around.into_iter().find(|it| !reached.contains(it)).map(|other| (first, other))
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

/// Where a path begins or ends in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// A switch.
    Switch(Dpid),
    /// The port at which a host is known.
    Host(Endpoint),
}

impl Attachment {
    /// Returns the switch.
    pub fn dpid(self) -> Dpid {
        match self {
            Self::Switch(dpid) => dpid,
            Self::Host(at) => at.dpid,
        }
    }

    /// Returns the switches by which packets enter and leave the network here: two for a host at a bridge that joins two
    /// parts of the network. The switch at which the host is known is the first.
    fn entries(self, graph: &Graph) -> Vec<Dpid> {
        let bridge = match self {
            Self::Switch(_) => None,
            Self::Host(at) => bridge_at(at, graph),
        };
        [Some(self.dpid()), bridge.map(|it| it.to.dpid)].into_iter().flatten().collect()
    }
}

/// Returns the bridge without OpenFlow that joins two parts of the network, if its hosts are known at this port.
pub fn bridge_at(at: Endpoint, graph: &Graph) -> Option<LinkRecord> {
    graph.port(at).filter(|port| port.shared && port.edge)?;
    graph.link_from(at).filter(|link| is_bridge(link, graph)).copied()
}

/// Returns up to `count` paths between two places, the best first. From a host at a bridge that joins two parts of the network,
/// packets enter by the nearer port of the bridge. Between hosts at the same port there is one path without links.
pub fn paths(
    graph: &Graph,
    [from, to]: [Attachment; 2],
    count: usize,
    disjoint: bool,
) -> Vec<Path> {
    let pairs = from.entries(graph).into_iter().flat_map(|one| {
        let others = to.entries(graph).into_iter();
        others.map(move |other| (one, other))
    });
    let nearest = pairs.min_by_key(|(one, other)| graph.distance(*one, *other).unwrap_or(u64::MAX));
    match nearest {
        Some((one, other)) if disjoint && one != other => graph.disjoint_paths(one, other, count),
        Some((one, other)) => graph.paths(one, other, count),
        None => Vec::new(),
    }
}

/// Returns where a host is attached.
///
/// # Errors
/// It is unknown, or at several places.
pub fn host_at(
    name: HostName,
    table: &impl sdk::services::table::Table,
) -> Result<Endpoint, String> {
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
    let mut places: Vec<Endpoint> =
        found.map(|host| Endpoint { dpid: host.dpid, port: host.port }).collect();
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

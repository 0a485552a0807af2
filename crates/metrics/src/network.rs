//! Makes the text about ports, links and hosts: [`Network`].
//!
//! Services know them, which may not run: then their metrics are missing. The number of series is bounded, whatever switches say.

use std::collections::BTreeMap;

use crate::catalogue as it;
use crate::exposition::Exposition;
use crate::snapshot::MOST_SWITCHES;

/// Most links that are down, and ports, that have series of their own.
pub const MOST_LINKS_DOWN: usize = 100;
/// See [`MOST_LINKS_DOWN`].
pub const MOST_PORTS: usize = 2000;

/// The network as services know it; see the module's documentation.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// From the service `topology`.
    pub links: Option<Links>,
    /// The number of hosts at each switch, from the service `hosts`.
    pub hosts: Option<BTreeMap<String, u64>>,
    /// Counters of ports, from the service `stats`.
    pub traffic: Option<Vec<PortTraffic>>,
}

/// Ports and links.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// Ports that are up.
    pub ports_up: u64,
    /// Other ports of connected switches.
    pub ports_down: u64,
    /// Links with two known directions.
    pub up: u64,
    /// Links with one known direction.
    pub one_way: u64,
    /// Links among these whose latency is that of a relay.
    pub suspicious: u64,
    /// Links that were there and are down.
    pub down: Vec<LinkDown>,
}

/// A link that was there and is down.
#[derive(Debug, Clone)]
pub struct LinkDown {
    /// The datapath id and the port of both ends, and the reason.
    pub labels: [String; 5],
    /// For how long, in seconds.
    pub seconds: u64,
}

/// Counters of a port.
#[derive(Debug, Clone)]
pub struct PortTraffic {
    /// The datapath id and the port.
    pub port: [String; 2],
    /// Bytes received and sent; `None` if the switch does not count them.
    pub bytes: [Option<u64>; 2],
    /// Packets received and sent.
    pub packets: [Option<u64>; 2],
}

pub(crate) fn about(network: &Network, out: &mut Exposition) {
    if let Some(links) = &network.links {
        let state = |state: &str, count: u64| ([state.to_owned()], count);
        out.family(it::PORTS, [state("up", links.ports_up), state("down", links.ports_down)]);
        let down = links.down.len();
        let states = [
            state("up", links.up),
            state("one_way", links.one_way),
            state("suspicious", links.suspicious),
            state("down", down as u64),
        ];
        out.family(it::LINKS, states);
        let shown = links.down.iter().take(MOST_LINKS_DOWN);
        out.family(it::LINK_DOWN, shown.map(|link| (link.labels.clone(), link.seconds)));
        out.single(it::LINKS_DOWN_OMITTED, Some(down.saturating_sub(MOST_LINKS_DOWN)));
    }
    if let Some(hosts) = &network.hosts {
        out.single(it::HOSTS, Some(hosts.values().sum::<u64>()));
        let shown = hosts.iter().take(MOST_SWITCHES);
        out.family(it::SWITCH_HOSTS, shown.map(|(dpid, count)| ([dpid.clone()], *count)));
    }
    if let Some(traffic) = &network.traffic {
        let of = |counts: fn(&PortTraffic) -> [Option<u64>; 2]| {
            traffic.iter().take(MOST_PORTS).flat_map(move |port| {
                let [dpid, number] = port.port.clone();
                ["rx", "tx"].into_iter().zip(counts(port)).filter_map(move |(direction, count)| {
                    Some(([dpid.clone(), number.clone(), direction.to_owned()], count?))
                })
            })
        };
        out.family(it::PORT_BYTES, of(|port| port.bytes));
        out.family(it::PORT_PACKETS, of(|port| port.packets));
        out.single(it::PORTS_OMITTED, Some(traffic.len().saturating_sub(MOST_PORTS)));
    }
}

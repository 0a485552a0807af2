//! Says what has changed in the topology: the data of the event `topology`.

use std::collections::{BTreeMap, BTreeSet};

use openflow::Dpid;
use sdk::services::topology::Endpoint;
use sdk::topology::Graph;
use serde_json::{Value, json};
use view::topology::{End, LinkDown, links_down};

/// Most switches, ports or links in a list of an event.
const MOST_LISTED: usize = 100;

/// A link, by its lower port first.
type Pair = (Endpoint, Endpoint);

/// The topology at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TopologySeen {
    /// The version of the table.
    version: u64,
    is_settled: bool,
    switches: BTreeSet<Dpid>,
    ports_up: BTreeSet<Endpoint>,
    ports_down: BTreeSet<Endpoint>,
    links: BTreeSet<Pair>,
    /// Why links are down.
    down: BTreeMap<Pair, LinkDown>,
}

impl TopologySeen {
    /// Reads a graph. `now_ns` is the time of the clock of records.
    pub(super) fn of(version: u64, graph: &Graph, now_ns: u64) -> Self {
        let switches: BTreeSet<Dpid> = graph.switches().map(|it| it.dpid).collect();
        let ports = || switches.iter().flat_map(|dpid| graph.ports(*dpid));
        let records = graph.links_down().zip(links_down(graph, now_ns));
        Self {
            version,
            is_settled: graph.is_settled(),
            ports_up: ports().filter(|it| it.live).map(|it| it.at).collect(),
            ports_down: ports().filter(|it| !it.live).map(|it| it.at).collect(),
            links: graph.links().map(|it| pair(it.from, it.to)).collect(),
            down: records.map(|(it, shown)| (pair(it.from, it.to), shown)).collect(),
            switches,
        }
    }

    /// Returns the data of the event between two states. Until the service has probed all ports, it says only that: links that
    /// are not found yet are not down.
    pub(super) fn changes_since(&self, before: &Self) -> Value {
        let (version, settled) = (self.version, self.is_settled);
        if !settled || !before.is_settled {
            return json!({ "version": version, "settled": settled });
        }
        let mut omitted = 0;
        let mut few = |all: Vec<Value>| {
            omitted += all.len().saturating_sub(MOST_LISTED);
            all.into_iter().take(MOST_LISTED).collect::<Value>()
        };
        let dpids = |all: &BTreeSet<Dpid>, without: &BTreeSet<Dpid>| -> Vec<Value> {
            all.difference(without).map(|it| it.to_string().into()).collect()
        };
        let ends = |all: &BTreeSet<Endpoint>, without: &BTreeSet<Endpoint>| -> Vec<Value> {
            all.difference(without).map(|it| json!(End::from(*it))).collect()
        };
        let link = |(from, to): &Pair| json!({ "from": End::from(*from), "to": End::from(*to) });
        let down = |pair: &Pair| self.down.get(pair).map_or_else(|| link(pair), |it| json!(it));
        let switches_added = few(dpids(&self.switches, &before.switches));
        let switches_removed = few(dpids(&before.switches, &self.switches));
        let ports_up = few(ends(&self.ports_up, &before.ports_up));
        let ports_down = few(ends(&self.ports_down, &before.ports_down));
        let links_up = few(self.links.difference(&before.links).map(link).collect());
        let links_down = few(before.links.difference(&self.links).map(down).collect());
        json!({
            "version": version, "settled": settled, "switches_added": switches_added,
            "switches_removed": switches_removed, "ports_up": ports_up, "ports_down": ports_down,
            "links_up": links_up, "links_down": links_down, "omitted": omitted,
        })
    }
}

fn pair(one: Endpoint, other: Endpoint) -> Pair {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use sdk::openflow::{MacAddr, PortNo};
    use sdk::services::topology::{
        LinkDownRecord, LinkRecord, PortRecord, Record, SwitchRecord, WhyDown,
    };

    use super::*;

    fn at(dpid: u64, port: u32) -> Endpoint {
        Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
    }

    fn port(at: Endpoint, live: bool) -> Record {
        let (hw_addr, speed_kbps, name) = (MacAddr([2; 6]), 0, [0; 16]);
        Record::Port(PortRecord {
            at,
            hw_addr,
            speed_kbps,
            name,
            live,
            edge: false,
            link: live,
            shared: false,
        })
    }

    fn link(from: Endpoint, to: Endpoint) -> Record {
        let (metric, latency_ns, found_ns, suspicious) = (1, 0, 0, false);
        Record::Link(LinkRecord { from, to, metric, latency_ns, found_ns, suspicious })
    }

    fn seen(version: u64, settled: bool, records: &[Record]) -> TopologySeen {
        let switch = |dpid| {
            Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch: 1, ports: 1, drained: false })
        };
        let all = [Record::Status { settled }, switch(1), switch(2)];
        let all = all.iter().chain(records).map(Record::encode);
        TopologySeen::of(version, &Graph::of(all), 7_000_000_000)
    }

    fn linked(settled: bool) -> TopologySeen {
        let (one, other) = (at(1, 1), at(2, 1));
        seen(1, settled, &[port(one, true), port(other, true), link(one, other), link(other, one)])
    }

    #[test]
    fn lost_link_is_named_once_with_its_reason() {
        let down = |from, to, is_far_end| {
            let (why, since_ns) = (WhyDown::PortDown, 2_000_000_000);
            Record::LinkDown(LinkDownRecord { from, to, why, is_far_end, since_ns })
        };
        let (one, other) = (at(1, 1), at(2, 1));
        let records =
            [port(one, false), port(other, true), down(one, other, false), down(other, one, true)];
        let event = seen(2, true, &records).changes_since(&linked(true));
        let [link] = &event["links_down"].as_array().unwrap()[..] else { panic!("{event}") };
        assert_eq!(
            (link["why"].as_str(), link["down_seconds"].as_u64()),
            (Some("port-down"), Some(5))
        );
        assert_eq!(link["cause"], json!({ "dpid": "00:00:00:00:00:00:00:01", "port": "1" }));
        assert_eq!(event["ports_down"].as_array().unwrap().len(), 1);
        assert_eq!((&event["links_up"], &event["omitted"]), (&json!([]), &json!(0)));
        let event = linked(true).changes_since(&seen(2, true, &records));
        assert_eq!(event["links_up"].as_array().unwrap().len(), 1);
        assert_eq!(event["ports_up"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn links_that_are_not_found_yet_are_not_down() {
        let event = seen(2, false, &[]).changes_since(&linked(true));
        assert_eq!(event, json!({ "version": 2, "settled": false }));
    }

    #[test]
    fn lists_of_an_event_are_bounded() {
        let ports: Vec<Record> = (0..1000).map(|number| port(at(1, number), true)).collect();
        let event = seen(2, true, &ports).changes_since(&seen(1, true, &[]));
        assert_eq!(event["ports_up"].as_array().unwrap().len(), MOST_LISTED);
        assert_eq!(event["omitted"], 900);
    }
}

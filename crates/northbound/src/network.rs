//! Reads ports, links, hosts and counters from the services that know them, for the metrics.

use std::collections::BTreeMap;

use metrics::{LinkDown, Links, Network, PortTraffic};
use openflow::Dpid;
use sdk::services::layout::records;
use sdk::services::stats::{PortCounters, Record};
use sdk::services::{Service, table::Table as _};
use sdk::topology::Graph;
use view::hosts::AtSwitch;

use crate::state::Api;

/// Returns the knowledge of the running services. For blocking threads.
pub(crate) fn read(api: &Api) -> Network {
    let graph = |graph: &Graph| links(graph, sys::clock::now_ns());
    Network {
        links: api
            .ask_service(Service::Topology, |table| {
                Ok(graph(&Graph::of(table.records().map(|(_, record)| record))))
            })
            .ok(),
        hosts: api
            .ask_service(Service::Hosts, |table| Ok(hosts(&view::hosts::by_switch(table))))
            .ok(),
        traffic: api
            .ask_service(Service::Stats, |table| {
                let all = records(table).filter_map(|slot| Record::of_slot(&slot));
                Ok(traffic(all))
            })
            .ok(),
    }
}

fn links(graph: &Graph, now_ns: u64) -> Links {
    let mut links = Links::default();
    for port in graph.switches().flat_map(|switch| graph.ports(switch.dpid)) {
        *(if port.live { &mut links.ports_up } else { &mut links.ports_down }) += 1;
    }
    for link in graph.links() {
        let back = graph.link_from(link.to).filter(|back| back.to == link.from);
        if back.is_some() && link.from > link.to {
            continue; // counted in the other direction
        }
        *(if back.is_some() { &mut links.up } else { &mut links.one_way }) += 1;
        let is_suspicious = link.suspicious || back.is_some_and(|back| back.suspicious);
        links.suspicious += u64::from(is_suspicious);
    }
    let down = view::topology::pairs_down(graph);
    links.down = down
        .iter()
        .map(|record| {
            let shown = view::topology::LinkDown::of(record, now_ns);
            let (from, to) = (shown.from, shown.to);
            let labels = [from.dpid, from.port, to.dpid, to.port, shown.why.to_owned()];
            LinkDown { labels, seconds: shown.down_seconds }
        })
        .collect();
    links
}

fn hosts(by_switch: &BTreeMap<Dpid, AtSwitch>) -> BTreeMap<String, u64> {
    by_switch.iter().map(|(dpid, at)| (dpid.to_string(), at.count as u64)).collect()
}

fn traffic(records: impl Iterator<Item = Record>) -> Vec<PortTraffic> {
    let mut ports: Vec<PortCounters> = records
        .filter_map(|record| match record {
            Record::Port(port) => Some(port),
            _ => None,
        })
        .collect();
    // The same ports have series each time, if there are too many.
    ports.sort_unstable_by_key(|port| (port.dpid, port.port));
    let traffic = |it: &PortCounters| PortTraffic {
        port: [it.dpid.to_string(), it.port.to_string()],
        bytes: [it.rx_bytes, it.tx_bytes],
        packets: [it.rx_packets, it.tx_packets],
    };
    ports.iter().map(traffic).collect()
}

#[cfg(test)]
mod tests {
    use sdk::openflow::PortNo;
    use sdk::services::topology::{
        self, Endpoint, LinkDownRecord, LinkRecord, SwitchRecord, WhyDown,
    };

    use super::*;

    #[test]
    fn each_link_counts_once() {
        let at = |dpid, port| Endpoint { dpid: Dpid(dpid), port: PortNo(port) };
        let link = |from, to, suspicious| {
            let (metric, latency_ns, found_ns) = (1, 0, 0);
            topology::Record::Link(LinkRecord {
                from,
                to,
                metric,
                latency_ns,
                found_ns,
                suspicious,
            })
        };
        let down = |from, to, is_far_end| {
            let (why, since_ns) = (WhyDown::Silent, 1_000_000_000);
            topology::Record::LinkDown(LinkDownRecord { from, to, why, is_far_end, since_ns })
        };
        let switch = |dpid| {
            let (epoch, ports, drained) = (1, 0, false);
            topology::Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch, ports, drained })
        };
        let records = [
            switch(1),
            switch(2),
            link(at(1, 1), at(2, 1), false),
            link(at(2, 1), at(1, 1), true),
            link(at(2, 2), at(1, 2), false),
            down(at(1, 3), at(2, 3), false),
            down(at(2, 3), at(1, 3), true),
        ];
        let graph = Graph::of(records.iter().map(topology::Record::encode));
        let links = links(&graph, 4_000_000_000);
        assert_eq!((links.up, links.one_way, links.suspicious), (1, 1, 1));
        let [down] = &links.down[..] else { panic!("{links:?}") };
        assert_eq!(
            (down.seconds, down.labels[1].as_str(), down.labels[4].as_str()),
            (3, "3", "silent")
        );
    }
}

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Instant;

use openflow::{Dpid, MacAddr, PortNo};
use proptest::prelude::*;

use super::*;
use crate::services::topology::{LinkRecord, PortRecord, Record, Slot, SwitchRecord};

fn end(dpid: u64, port: u32) -> Endpoint {
    Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
}

fn switch(dpid: u64, drained: bool) -> Record {
    Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch: 1, ports: 4, drained })
}

fn link(from: Endpoint, to: Endpoint, metric: u32) -> Record {
    let (latency_ns, found_ns, suspicious) = (0, 0, false);
    Record::Link(LinkRecord { from, to, metric, latency_ns, found_ns, suspicious })
}

fn edge_port(at: Endpoint) -> Record {
    Record::Port(PortRecord {
        at,
        hw_addr: MacAddr([2; 6]),
        speed_kbps: 0,
        name: [0; 16],
        live: true,
        edge: true,
        link: false,
        shared: false,
    })
}

fn graph(records: &[Record]) -> Graph {
    Graph::of(records.iter().map(Record::encode))
}

/// A small network: which switches are drained, and links as switch, switch and their metrics by direction; a metric of 0
/// stands for a direction that is not known.
#[derive(Debug, Clone)]
struct Net {
    drained: Vec<bool>,
    links: Vec<(usize, usize, u32, u32)>,
}

impl Net {
    fn records(&self) -> Vec<Record> {
        let switches = self.drained.iter().zip(1..).map(|(drained, dpid)| switch(dpid, *drained));
        let mut records: Vec<Record> = switches.collect();
        for (number, (a, b, there, back)) in (1..).zip(&self.links) {
            // Link n uses port n at its first switch and port 100 + n at its second.
            let (a, b) = (end(*a as u64 + 1, number), end(*b as u64 + 1, 100 + number));
            records.extend((*there > 0).then(|| link(a, b, *there)));
            records.extend((*back > 0).then(|| link(b, a, *back)));
        }
        records
    }

    /// All directions that paths may use.
    fn hops(&self) -> Vec<Hop> {
        let links = (1..).zip(&self.links);
        let links = links.filter(|(_, (a, b, there, back))| a != b && *there > 0 && *back > 0);
        links
            .flat_map(|(number, (a, b, there, back))| {
                let (a, b) = (end(*a as u64 + 1, number), end(*b as u64 + 1, 100 + number));
                [Hop { from: a, to: b, metric: *there }, Hop { from: b, to: a, metric: *back }]
            })
            .collect()
    }

    fn is_drained(&self, dpid: Dpid) -> bool {
        self.drained[usize::try_from(dpid.0).unwrap() - 1]
    }

    /// All loopless paths, found by trying everything.
    fn all_paths(&self, from: Dpid, to: Dpid) -> Vec<Path> {
        let (hops, mut found) = (self.hops(), Vec::new());
        let mut open: Vec<Vec<Hop>> = vec![Vec::new()];
        while let Some(path) = open.pop() {
            let at = path.last().map_or(from, |hop| hop.to.dpid);
            if at == to {
                found.push(Path::of(path));
                continue;
            }
            if at != from && self.is_drained(at) {
                continue;
            }
            for hop in hops.iter().filter(|hop| hop.from.dpid == at) {
                let next = hop.to.dpid;
                if next != from && path.iter().all(|passed| passed.to.dpid != next) {
                    open.push([&path[..], &[*hop]].concat());
                }
            }
        }
        found.sort_by_key(|path| path.cost);
        found
    }
}

fn net() -> impl Strategy<Value = Net> {
    (2_usize..6).prop_flat_map(|switches| {
        let drained = proptest::collection::vec(proptest::bool::weighted(0.2), switches);
        let metric = || prop_oneof![1 => Just(0_u32), 12 => 1_u32..5];
        let links = proptest::collection::vec((0..switches, 0..switches, metric(), metric()), 0..8);
        (drained, links).prop_map(|(drained, links)| Net { drained, links })
    })
}

/// The links of a path without their direction.
fn undirected(path: &Path) -> BTreeSet<(Endpoint, Endpoint)> {
    path.hops.iter().map(|hop| (hop.from.min(hop.to), hop.from.max(hop.to))).collect()
}

/// Returns the number of most disjoint paths up to `count`, and their least cost, found by trying everything.
fn best_disjoint(paths: &[Path], count: usize) -> (usize, u64) {
    fn extend(
        paths: &[Path],
        used: &BTreeSet<(Endpoint, Endpoint)>,
        chosen: (usize, u64),
        count: usize,
        best: &mut (usize, u64),
    ) {
        let is_better =
            (chosen.0, std::cmp::Reverse(chosen.1)) > (best.0, std::cmp::Reverse(best.1));
        if is_better {
            *best = chosen;
        }
        if chosen.0 == count {
            return;
        }
        for (place, path) in paths.iter().enumerate() {
            let links = undirected(path);
            if links.is_disjoint(used) {
                let used = used.union(&links).copied().collect();
                let chosen = (chosen.0 + 1, chosen.1 + path.cost);
                extend(&paths[place + 1..], &used, chosen, count, best);
            }
        }
    }
    let mut best = (0, 0);
    extend(paths, &BTreeSet::new(), (0, 0), count, &mut best);
    best
}

/// Checks that a path is one of all paths.
fn is_path(net: &Net, path: &Path, from: Dpid, to: Dpid) -> bool {
    net.all_paths(from, to).contains(path)
}

/// Identifies the thing that a record describes: it has one slot.
fn key(record: &Record) -> (u32, Endpoint) {
    match record {
        Record::Switch(it) => (1, Endpoint { dpid: it.dpid, port: PortNo(0) }),
        Record::Port(it) => (2, it.at),
        Record::Link(it) => (3, it.from),
        Record::Status { .. } => (4, end(0, 0)),
        Record::LinkDown(it) => (5, it.from),
    }
}

/// Everything that a graph answers about small networks.
fn shape(graph: &Graph) -> impl PartialEq + std::fmt::Debug + use<> {
    let links = graph.links().map(|link| (link.from, link.to, link.metric));
    let links: BTreeSet<_> = links.collect();
    let switches: BTreeSet<_> = graph.switches().map(|it| (it.dpid, it.drained)).collect();
    let pairs = (1..7).flat_map(|a| (1..7).map(move |b| (Dpid(a), Dpid(b))));
    let paths: Vec<_> = pairs.map(|(a, b)| graph.path(a, b)).collect();
    let floods: Vec<_> = (1..7).map(|dpid| graph.flood_ports(Dpid(dpid))).collect();
    (links, switches, paths, floods, graph.link_count())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn paths_are_the_best_of_all(net in net()) {
        let graph = graph(&net.records());
        let last = net.drained.len() as u64;
        for (from, to) in (1..=last).flat_map(|a| (1..=last).map(move |b| (Dpid(a), Dpid(b)))) {
            let all = net.all_paths(from, to);
            let best = graph.path(from, to);
            prop_assert_eq!(best.as_ref().map(|path| path.cost), all.first().map(|path| path.cost));
            prop_assert!(best.is_none_or(|path| all.contains(&path)));
            prop_assert_eq!(graph.distance(from, to), all.first().map(|path| path.cost));

            let some = graph.paths(from, to, 6);
            let costs = |paths: &[Path]| paths.iter().map(|path| path.cost).collect::<Vec<_>>();
            prop_assert_eq!(costs(&some), costs(&all[..all.len().min(6)]));
            prop_assert!(some.iter().all(|path| all.contains(path)));
            let distinct: HashSet<&Vec<Hop>> = some.iter().map(|path| &path.hops).collect();
            prop_assert_eq!(distinct.len(), some.len());

            let shortest = all.iter().filter(|path| path.cost == all[0].cost);
            let first: BTreeSet<Hop> = shortest.filter_map(|path| path.hops.first()).copied().collect();
            prop_assert!(graph.next_hops(from, to).into_iter().eq(first));
        }
    }

    #[test]
    fn disjoint_paths_are_the_most_and_cheapest(net in net(), count in 1_usize..4) {
        let graph = graph(&net.records());
        let (from, to) = (Dpid(1), Dpid(2));
        let all = net.all_paths(from, to);
        let found = graph.disjoint_paths(from, to, count);
        let cost = found.iter().map(|path| path.cost).sum::<u64>();
        prop_assert_eq!((found.len(), cost), best_disjoint(&all, count));
        let mut used = BTreeSet::new();
        for path in &found {
            prop_assert!(is_path(&net, path, from, to));
            prop_assert!(undirected(path).into_iter().all(|link| used.insert(link)));
        }
    }

    /// A flood along the tree reaches every switch that some path reaches, once, and passes no drained one.
    #[test]
    fn flood_reaches_each_switch_once(net in net()) {
        let graph = graph(&net.records());
        let ends: BTreeMap<Endpoint, Endpoint> =
            net.hops().iter().map(|hop| (hop.from, hop.to)).collect();
        for start in (1..=net.drained.len() as u64).map(Dpid) {
            let mut reached = Vec::new();
            let mut open = vec![(start, None)];
            while let Some((at, came)) = open.pop() {
                reached.push(at);
                prop_assert!(reached.len() <= net.drained.len(), "a loop");
                if came.is_some() && net.is_drained(at) {
                    continue; // a leaf; the ports of its own flood are checked below
                }
                for port in graph.flood_ports(at).into_iter().filter(|port| Some(*port) != came) {
                    let to = ends[&Endpoint { dpid: at, port }];
                    open.push((to.dpid, Some(to.port)));
                }
            }
            let distinct: BTreeSet<Dpid> = reached.iter().copied().collect();
            prop_assert_eq!(distinct.len(), reached.len(), "twice");
            // A drained switch that would join two parts of the network belongs to one of them.
            let mut all = (1..=net.drained.len() as u64).map(Dpid);
            let is_missed = |to: &Dpid| {
                let is_connected = graph.distance(start, *to).is_some();
                is_connected && !distinct.contains(to) && !net.is_drained(*to)
            };
            prop_assert!(net.is_drained(start) || !all.any(|to| is_missed(&to)), "{:?}", distinct);
            if net.is_drained(start) {
                let hops = net.hops();
                let mut neighbours = hops.iter().filter(|hop| hop.from.dpid == start);
                let has_neighbour = neighbours.any(|hop| !net.is_drained(hop.to.dpid));
                prop_assert_eq!(graph.tree_ports(start).len(), usize::from(has_neighbour));
            }
        }
    }

    /// Changes of slots lead to the same graph as their result, whatever their order.
    #[test]
    fn changes_lead_to_the_same_graph(
        before in net(),
        after in net(),
        order in any::<prop::sample::Index>(),
    ) {
        let (before, after) = (before.records(), after.records());
        let mut slots: BTreeMap<(u32, Endpoint), (Slot, Slot)> = BTreeMap::new();
        for record in &before {
            slots.entry(key(record)).or_default().0 = record.encode();
        }
        for record in &after {
            slots.entry(key(record)).or_default().1 = record.encode();
        }
        let mut changes: Vec<(Slot, Slot)> = slots.into_values().collect();
        let turn = order.index(changes.len());
        changes.rotate_left(turn);
        let mut changed = graph(&before);
        for (before, after) in &changes {
            changed.apply(before, after);
        }
        prop_assert_eq!(shape(&changed), shape(&graph(&after)));
        for record in &after {
            changed.apply(&record.encode(), &Slot::default());
        }
        prop_assert_eq!(changed.index_len(), 0, "nothing is left behind");
    }

    #[test]
    fn hostile_slots_do_not_panic(
        slots in proptest::collection::vec((0_u64..6, 0_u64..4, 0_u64..4, any::<u64>()), 0..40),
    ) {
        let mut graph = Graph::default();
        let mut earlier = Slot::default();
        for (kind, a, b, other) in slots {
            let slot = [kind | (other & 3) << 8 | (other & 3) << 32, a, b, other, other, 0, 0];
            graph.apply(&earlier, &slot);
            earlier = if other & 4 == 0 { slot } else { Slot::default() };
            for (from, to) in [(0, 1), (1, 2), (2, 3)].map(|(a, b)| (Dpid(a), Dpid(b))) {
                graph.path(from, to);
                graph.paths(from, to, 3);
                graph.disjoint_paths(from, to, 3);
                graph.flood_ports(from);
            }
        }
    }
}

#[test]
fn one_direction_is_no_link_and_drained_switch_no_transit() {
    let pair = |a, b| [link(a, b, 1), link(b, a, 1)];
    let mut records = vec![switch(1, false), switch(2, false), switch(3, false)];
    records.extend(pair(end(1, 1), end(2, 1)));
    records.extend(pair(end(2, 2), end(3, 1)));
    records.push(link(end(1, 2), end(3, 2), 1));
    let mut graph = graph(&records);
    assert_eq!(graph.path(Dpid(1), Dpid(3)).unwrap().cost, 2);
    assert!(graph.is_usable(end(1, 1)) && !graph.is_usable(end(1, 2)));
    assert_eq!(graph.link_count(), 5);
    let version = graph.version();
    graph.apply(&switch(2, false).encode(), &switch(2, true).encode());
    assert!(graph.version() > version);
    assert_eq!(graph.path(Dpid(1), Dpid(3)), None);
    assert_eq!(graph.path(Dpid(1), Dpid(2)).unwrap().hops[0].to, end(2, 1));
    graph.apply(&Slot::default(), &link(end(3, 2), end(1, 2), 1).encode());
    assert_eq!(graph.path(Dpid(1), Dpid(3)).unwrap().cost, 1);
}

#[test]
fn flood_leaves_through_edge_ports_and_the_tree() {
    let mut records = vec![switch(1, false), switch(2, false), switch(3, false)];
    let ring = [(1, 1, 2, 1), (2, 2, 3, 1), (3, 2, 1, 2)];
    for (a, p, b, q) in ring {
        records.extend([link(end(a, p), end(b, q), 1), link(end(b, q), end(a, p), 1)]);
    }
    records.push(edge_port(end(2, 9)));
    let graph = graph(&records);
    assert_eq!(graph.flood_ports(Dpid(1)), [PortNo(1), PortNo(2)]);
    assert_eq!(graph.flood_ports(Dpid(2)), [PortNo(1), PortNo(9)]);
    assert_eq!(graph.flood_ports(Dpid(3)), [PortNo(2)]);
    assert_eq!(graph.flood_ports(Dpid(4)), []);
}

/// A fat tree of `ports` ports per switch, as [`Net`] numbers links.
fn fat_tree(ports: usize) -> Net {
    let half = ports / 2;
    let (cores, pods) = (half * half, ports);
    let mut links = Vec::new();
    for pod in 0..pods {
        let aggregation = |place| cores + pod * ports + place;
        for upper in 0..half {
            links.extend((0..half).map(|up| (upper * half + up, aggregation(upper), 1, 1)));
            links
                .extend((0..half).map(|down| (aggregation(upper), aggregation(half + down), 1, 1)));
        }
    }
    Net { drained: vec![false; cores + pods * ports], links }
}

/// 980 switches and 10,976 links: the limits are 20 times what a slow machine needs without optimisation.
#[test]
fn large_network_is_handled_in_time() {
    let net = fat_tree(28);
    assert_eq!((net.drained.len(), net.links.len()), (980, 10_976));
    // Ports of `Net` are for few links; here each link has its own pair.
    let mut records: Vec<Record> = (1..=980).map(|dpid| switch(dpid, false)).collect();
    for (number, (a, b, ..)) in (1..).zip(&net.links) {
        let (a, b) = (end(*a as u64 + 1, number), end(*b as u64 + 1, 100_000 + number));
        records.extend([link(a, b, 1), link(b, a, 1)]);
    }
    let clock = Instant::now();
    let lap = |what: &str| println!("{what}: {:?}", clock.elapsed());
    let mut graph = graph(&records);
    lap("built");
    let (from, to) = (Dpid(980), Dpid(196 + 28));
    assert_eq!(graph.path(from, to).unwrap().hops.len(), 4);
    lap("first path");
    for at in 1..=980 {
        assert!(graph.path(Dpid(at), to).is_some());
    }
    lap("980 paths to one switch");
    assert_eq!(graph.next_hops(from, to).len(), 14);
    assert_eq!(graph.paths(from, to, 8).len(), 8);
    lap("8 paths");
    assert_eq!(graph.disjoint_paths(from, to, 14).len(), 14);
    lap("14 disjoint paths");
    let floods: usize = (1..=980).map(|dpid| graph.flood_ports(Dpid(dpid)).len()).sum();
    assert_eq!(floods, 2 * 979);
    lap("tree");
    let cut = records.iter().find(|it| matches!(it, Record::Link(it) if it.from.dpid == from));
    graph.apply(&cut.unwrap().encode(), &Slot::default());
    assert_eq!(graph.path(from, to).unwrap().hops.len(), 4);
    lap("path after a cut");
    assert!(clock.elapsed().as_secs() < 20, "{:?}", clock.elapsed());
}

//! Holds a snapshot of the network for path computation: switches, usable links, the spanning tree, and the ports of
//! hosts.
//!
//! A link is usable if both of its directions are known and both of its ports are up. Costs are those of the topology, with
//! a penalty for suspicious links and for drained switches: both are used only if there is no other path.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use rosemary_sdk::{Dpid, PortNo};

use super::routes::Route;

/// A port of a switch.
pub(crate) type End = (Dpid, PortNo);

/// Cost of a switch that is drained, and of a link that is suspicious: above that of all other links of a path.
const PENALTY: u64 = 1 << 40;

/// A switch, as the topology states it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwitchFacts {
    pub(crate) dpid: Dpid,
    pub(crate) is_drained: bool,
    /// Whether it has groups of the types select and fast failover.
    pub(crate) has_groups: bool,
}

/// One direction of a link, as the topology states it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkFacts {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) metric: u32,
    pub(crate) is_suspicious: bool,
}

/// The kind of neighbour at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortKind {
    /// Hosts: the topology found no switch there.
    Edge,
    /// Another switch, over a link of the spanning tree.
    Tree,
    /// Another switch, over a link that floods do not use.
    OffTree,
    /// A bridge whose hosts are reached through another port.
    Blocked,
    /// Not known yet, or down.
    Unknown,
}

/// A usable link, seen from one of its switches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) port: PortNo,
    /// The switch at the other end, and its port.
    pub(crate) to: usize,
    pub(crate) to_port: PortNo,
    cost: u64,
    /// Cost of the opposite direction.
    cost_back: u64,
}

/// A switch of the snapshot.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) dpid: Dpid,
    pub(crate) has_groups: bool,
    is_drained: bool,
    links: Vec<Link>,
    edges: BTreeSet<PortNo>,
    tree: BTreeSet<PortNo>,
}

/// The snapshot. Switches have indices.
#[derive(Debug, Default)]
pub(crate) struct Net {
    index: HashMap<Dpid, usize>,
    nodes: Vec<Node>,
    blocked: HashSet<End>,
    /// Ports with the hosts of a bridge that is a link, too.
    segments: HashSet<End>,
    /// Switches, ports and links that were looked at to make the snapshot.
    work: usize,
}

/// The cost from each switch to one destination.
#[derive(Debug)]
pub(crate) struct Distances {
    costs: Vec<u64>,
    without: Option<(usize, PortNo)>,
}

impl Net {
    /// Makes a snapshot.
    pub(crate) fn new(
        switches: impl IntoIterator<Item = SwitchFacts>,
        edges: impl IntoIterator<Item = End>,
        links: impl IntoIterator<Item = LinkFacts>,
    ) -> Self {
        let mut facts: Vec<SwitchFacts> = switches.into_iter().collect();
        facts.sort_by_key(|it| it.dpid);
        facts.dedup_by_key(|it| it.dpid);
        let node = |it: &SwitchFacts| Node {
            dpid: it.dpid,
            has_groups: it.has_groups,
            is_drained: it.is_drained,
            links: Vec::new(),
            edges: BTreeSet::new(),
            tree: BTreeSet::new(),
        };
        let nodes: Vec<Node> = facts.iter().map(node).collect();
        let index = nodes.iter().enumerate().map(|(at, node)| (node.dpid, at)).collect();
        let work = nodes.len();
        let mut net = Self { index, nodes, work, ..Self::default() };
        net.add_links(links);
        for (dpid, port) in edges {
            net.work += 1;
            if let Some(node) = net.index.get(&dpid).and_then(|at| net.nodes.get_mut(*at)) {
                node.edges.insert(port);
            }
        }
        net.grow_trees();
        net
    }

    /// Adds the ports at bridges without OpenFlow: those that are not used, and those with the hosts of a bridge that joins
    /// two parts of the network.
    pub(crate) fn add_segments(
        &mut self,
        blocked: impl IntoIterator<Item = End>,
        segments: impl IntoIterator<Item = End>,
    ) {
        self.blocked.extend(blocked);
        self.segments.extend(segments);
    }

    /// Returns the other port of a segment that joins two parts of the network, if hosts of the segment are known at `end`.
    pub(crate) fn other_end(&self, end: End) -> Option<End> {
        self.segments.contains(&end).then(|| self.peer(end))?
    }

    /// Returns whether a port leads to a segment that joins two parts of the network. The bridge brings a packet that enters
    /// here to the other port itself.
    pub(crate) fn is_bridge(&self, end: End) -> bool {
        self.segments.contains(&end) || self.peer(end).is_some_and(|it| self.segments.contains(&it))
    }

    fn add_links(&mut self, links: impl IntoIterator<Item = LinkFacts>) {
        // A port with several neighbours leads to a shared segment; the lowest neighbour counts.
        let mut by_end: BTreeMap<End, LinkFacts> = BTreeMap::new();
        for link in links {
            self.work += 1;
            let known = by_end.entry(link.from).or_insert(link);
            if link.to < known.to {
                *known = link;
            }
        }
        let cost = |link: &LinkFacts| {
            u64::from(link.metric.max(1)) + if link.is_suspicious { PENALTY } else { 0 }
        };
        for (from, link) in &by_end {
            let Some(back) = by_end.get(&link.to).filter(|back| back.to == *from) else { continue };
            let (Some(at), Some(to)) = (self.find(from.0), self.find(link.to.0)) else { continue };
            self.nodes[at].links.push(Link {
                port: from.1,
                to,
                to_port: link.to.1,
                cost: cost(link),
                cost_back: cost(back),
            });
        }
    }

    /// Returns the number of switches, ports and links that were looked at to make this snapshot. It is proportional to the
    /// size of the network, whatever links there are.
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    /// Returns the number of switches.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the index of a switch.
    pub(crate) fn find(&self, dpid: Dpid) -> Option<usize> {
        self.index.get(&dpid).copied()
    }

    /// Returns the switch with this index.
    pub(crate) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// Returns both ends of all links.
    pub(crate) fn link_ends(&self) -> impl Iterator<Item = End> {
        self.nodes.iter().flat_map(|node| node.links.iter().map(|link| (node.dpid, link.port)))
    }

    /// Returns the other end of the link at a port.
    pub(crate) fn peer(&self, (dpid, port): End) -> Option<End> {
        let link = self.link(self.find(dpid)?, port)?;
        Some((self.nodes.get(link.to)?.dpid, link.to_port))
    }

    /// Returns whether there is a link at a port.
    pub(crate) fn has_link(&self, (dpid, port): End) -> bool {
        self.find(dpid).is_some_and(|at| self.link(at, port).is_some())
    }

    /// Returns whether there is a link at a switch.
    pub(crate) fn has_links(&self, dpid: Dpid) -> bool {
        self.find(dpid).is_some_and(|at| !self.nodes[at].links.is_empty())
    }

    /// Returns the link at a port.
    pub(crate) fn link(&self, at: usize, port: PortNo) -> Option<&Link> {
        self.nodes.get(at)?.links.iter().find(|link| link.port == port)
    }

    /// Returns what a port leads to.
    pub(crate) fn kind(&self, end: End) -> PortKind {
        let Some(node) = self.find(end.0).and_then(|at| self.nodes.get(at)) else {
            return PortKind::Unknown;
        };
        if node.tree.contains(&end.1) {
            PortKind::Tree
        } else if node.links.iter().any(|link| link.port == end.1) {
            PortKind::OffTree
        } else if node.edges.contains(&end.1) {
            PortKind::Edge
        } else if self.blocked.contains(&end) {
            PortKind::Blocked
        } else {
            PortKind::Unknown
        }
    }

    /// Returns where the packets of a route leave the network: the only port of hosts among the outputs of its hops.
    pub(crate) fn egress(&self, route: &Route) -> Option<End> {
        let is_crossed =
            |end: End| self.peer(end).is_some_and(|behind| route.hops.contains_key(&behind));
        let is_for_hosts = |end: &End| {
            self.kind(*end) == PortKind::Edge || self.is_bridge(*end) && !is_crossed(*end)
        };
        let mut ends = route.outputs().filter(is_for_hosts);
        let first = ends.next()?;
        ends.all(|end| end == first).then_some(first)
    }

    /// Returns the ports through which a flood leaves a switch that it entered through `in_port`.
    pub(crate) fn flood_ports(&self, dpid: Dpid, in_port: PortNo) -> Vec<PortNo> {
        let Some(node) = self.find(dpid).and_then(|at| self.nodes.get(at)) else {
            return Vec::new();
        };
        let links: BTreeSet<PortNo> = node.links.iter().map(|link| link.port).collect();
        let edges = node.edges.iter().filter(|port| !links.contains(port));
        node.tree.iter().chain(edges).copied().filter(|port| *port != in_port).collect()
    }

    /// Returns the ports of hosts in the part of the network over which a flood at a switch spreads.
    pub(crate) fn flood_ends(&self, dpid: Dpid) -> BTreeSet<End> {
        let mut ends = BTreeSet::new();
        let Some(start) = self.find(dpid) else { return ends };
        let (mut seen, mut open) = (HashSet::from([start]), vec![start]);
        while let Some(at) = open.pop() {
            let Some(node) = self.nodes.get(at) else { continue };
            let is_edge = |port: &&PortNo| self.link(at, **port).is_none();
            ends.extend(node.edges.iter().filter(is_edge).map(|port| (node.dpid, *port)));
            for link in node.links.iter().filter(|link| node.tree.contains(&link.port)) {
                if seen.insert(link.to) {
                    open.push(link.to);
                }
            }
        }
        ends
    }

    /// Returns the links from one switch to another along the spanning tree.
    pub(crate) fn tree_path(&self, from: usize, to: usize) -> Option<Vec<Link>> {
        // From the end, so that each step knows the link that leads on.
        let mut onward: HashMap<usize, Option<Link>> = HashMap::from([(to, None)]);
        let mut open = vec![to];
        while let Some(at) = open.pop() {
            let node = self.nodes.get(at)?;
            for link in node.links.iter().filter(|link| node.tree.contains(&link.port)) {
                if let Entry::Vacant(entry) = onward.entry(link.to) {
                    entry.insert(self.link(link.to, link.to_port).copied());
                    open.push(link.to);
                }
            }
        }
        let (mut path, mut at) = (Vec::new(), from);
        while let Some(link) = *onward.get(&at)? {
            at = link.to;
            path.push(link);
        }
        Some(path)
    }

    /// Marks the links of a spanning tree in each connected part, from its lowest switch that is not drained. Drained
    /// switches become leaves where other links can replace theirs.
    fn grow_trees(&mut self) {
        let mut roots: Vec<usize> = (0..self.nodes.len()).collect();
        roots.sort_by_key(|at| self.nodes[*at].is_drained);
        // The parts have no switch in common, so one list holds the costs of all of them: a network of many parts costs no more
        // than one of few.
        let mut distances = self.no_distances(None);
        for root in roots {
            if distances.reaches(root) {
                continue;
            }
            for at in self.spread(&mut distances, root) {
                self.work += 1 + self.nodes[at].links.len();
                let link = self.next(at, &distances).next().copied();
                if let Some(link) = link.filter(|_| at != root) {
                    self.nodes[at].tree.insert(link.port);
                    self.nodes[link.to].tree.insert(link.to_port);
                }
            }
        }
    }

    /// Computes the cost from each switch to `to`, without the link at a port, if one is given.
    pub(crate) fn distances(&self, to: usize, without: Option<(usize, PortNo)>) -> Distances {
        let mut distances = self.no_distances(without);
        self.spread(&mut distances, to);
        distances
    }

    fn no_distances(&self, without: Option<(usize, PortNo)>) -> Distances {
        Distances { costs: vec![u64::MAX; self.nodes.len()], without }
    }

    /// Computes the cost to `to` from each switch of its part of the network. Returns those switches.
    fn spread(&self, distances: &mut Distances, to: usize) -> Vec<usize> {
        let Distances { costs, without } = distances;
        let mut reached = Vec::new();
        let mut heap = BinaryHeap::new();
        costs[to] = 0;
        heap.push(Reverse((0, to)));
        while let Some(Reverse((cost, at))) = heap.pop() {
            if cost > costs[at] {
                continue;
            }
            reached.push(at);
            let through = if at == to { 0 } else { self.transit_cost(at) };
            for link in &self.nodes[at].links {
                if is_without(*without, at, link) {
                    continue;
                }
                let new = cost + link.cost_back + through;
                if new < costs[link.to] {
                    costs[link.to] = new;
                    heap.push(Reverse((new, link.to)));
                }
            }
        }
        reached
    }

    /// Returns the links that are the first of a shortest path to the destination, in ascending order of their ports.
    pub(crate) fn next<'n>(
        &'n self,
        at: usize,
        distances: &'n Distances,
    ) -> impl Iterator<Item = &'n Link> {
        let here = distances.costs.get(at).copied().unwrap_or(u64::MAX);
        let links = self.nodes.get(at).map_or(&[][..], |node| &node.links);
        links.iter().filter(move |link| {
            let there = distances.costs[link.to];
            let through = if there == 0 { 0 } else { self.transit_cost(link.to) };
            here != u64::MAX
                && there != u64::MAX
                && there + link.cost + through == here
                && !is_without(distances.without, at, link)
        })
    }

    fn transit_cost(&self, at: usize) -> u64 {
        if self.nodes[at].is_drained { PENALTY } else { 0 }
    }
}

impl Distances {
    /// Returns whether every path from a switch uses a suspicious link or a drained switch, or none is known.
    pub(crate) fn are_poor(&self, from: usize) -> bool {
        self.costs.get(from).is_none_or(|cost| *cost >= PENALTY)
    }

    /// Returns the cost from a switch; `u64::MAX` if there is no path.
    pub(crate) fn cost(&self, from: usize) -> u64 {
        self.costs.get(from).copied().unwrap_or(u64::MAX)
    }

    /// Returns whether the destination can be reached from a switch.
    pub(crate) fn reaches(&self, from: usize) -> bool {
        self.costs.get(from).is_some_and(|cost| *cost != u64::MAX)
    }
}

/// Whether a link is the one to leave out, in either direction.
fn is_without(without: Option<(usize, PortNo)>, at: usize, link: &Link) -> bool {
    without.is_some_and(|end| end == (at, link.port) || end == (link.to, link.to_port))
}

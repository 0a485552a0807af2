//! Finds shortest paths: Dijkstra's algorithm, and Yen's for the next ones ("Finding the K Shortest Loopless Paths in a
//! Network", 1971).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

use openflow::{Dpid, PortNo};

use super::graph::{Edge, Graph, NodeId};
use super::{Hop, Path};

/// The distance of a node that no path reaches.
pub(super) const UNREACHABLE: u64 = u64::MAX;

/// Returns the distance from each node to `to`.
pub(super) fn distances_to(graph: &Graph, to: NodeId) -> Vec<u64> {
    let mut distances = vec![UNREACHABLE; graph.len()];
    let mut queue = BinaryHeap::from([Reverse((0, to))]);
    distances[to as usize] = 0;
    while let Some(Reverse((distance, id))) = queue.pop() {
        let is_old = distance > distances[id as usize];
        if is_old || (id != to && graph.at(id).is_drained()) {
            continue;
        }
        for edge in graph.usable(id) {
            // Packets take the other direction.
            let there = distance + edge.back_metric();
            if there < distances[edge.to as usize] {
                distances[edge.to as usize] = there;
                queue.push(Reverse((there, edge.to)));
            }
        }
    }
    distances
}

impl Graph {
    /// Returns a path of the least cost, or `None` if there is none or a switch is not connected. Of several it is the one
    /// with the lowest port at each switch.
    pub fn path(&self, from: Dpid, to: Dpid) -> Option<Path> {
        let (mut at, to) = (self.id(from)?, self.id(to)?);
        let distances = self.distances_to(to);
        if distances[at as usize] == UNREACHABLE {
            return None;
        }
        let mut hops = Vec::new();
        while at != to {
            let edge = self.shortest_edges(at, to, &distances).next()?;
            hops.push(edge.hop());
            at = edge.to;
        }
        Some(Path::of(hops))
    }

    /// Returns the cost of the best path, or `None` if there is none or a switch is not connected.
    pub fn distance(&self, from: Dpid, to: Dpid) -> Option<u64> {
        let (from, to) = (self.id(from)?, self.id(to)?);
        Some(self.distances_to(to)[from as usize]).filter(|distance| *distance != UNREACHABLE)
    }

    /// Returns the first hops of all paths of the least cost, by port; none from a switch to itself.
    pub fn next_hops(&self, at: Dpid, to: Dpid) -> Vec<Hop> {
        let (Some(at), Some(to)) = (self.id(at), self.id(to)) else { return Vec::new() };
        let distances = self.distances_to(to);
        if at == to || distances[at as usize] == UNREACHABLE {
            return Vec::new();
        }
        self.shortest_edges(at, to, &distances).map(Edge::hop).collect()
    }

    /// Returns up to `count` paths in the order of their cost. No path passes a switch twice.
    pub fn paths(&self, from: Dpid, to: Dpid, count: usize) -> Vec<Path> {
        let (Some(source), Some(target)) = (self.id(from), self.id(to)) else { return Vec::new() };
        let Some(first) = self.path(from, to).filter(|_| count > 0) else { return Vec::new() };
        let distances = self.distances_to(target);
        let mut last = first.hops.clone();
        let mut found = vec![first];
        let mut candidates: BTreeSet<(u64, Vec<Hop>)> = BTreeSet::new();
        while found.len() < count {
            self.branch(source, target, &distances, &found, &last, &mut candidates);
            let Some((_, hops)) = candidates.pop_first() else { break };
            last.clone_from(&hops);
            found.push(Path::of(hops));
        }
        found
    }

    /// Adds the best paths that leave `last` at each of its switches, other than those that were found.
    fn branch(
        &self,
        source: NodeId,
        target: NodeId,
        distances: &[u64],
        found: &[Path],
        last: &[Hop],
        candidates: &mut BTreeSet<(u64, Vec<Hop>)>,
    ) {
        let mut at = source;
        let mut passed = HashSet::new();
        for (length, hop) in last.iter().enumerate() {
            let root = &last[..length];
            let with_root = found.iter().filter(|path| path.hops.starts_with(root));
            let taken: HashSet<PortNo> = with_root
                .filter_map(|path| path.hops.get(length))
                .map(|hop| hop.from.port)
                .collect();
            let detour = Detour { at, target, passed: &passed, taken: &taken };
            if let Some(rest) = self.detour(&detour, distances) {
                let path = Path::of([root, &rest].concat());
                candidates.insert((path.cost, path.hops));
            }
            passed.insert(at);
            let Some(next) = self.id(hop.to.dpid) else { return };
            at = next;
        }
    }

    /// Finds the best path that avoids some ports of the first switch, and switches. The distances to the target without
    /// these bans lead the search.
    fn detour(&self, bans: &Detour<'_>, distances: &[u64]) -> Option<Vec<Hop>> {
        let Detour { at, target, passed, taken } = *bans;
        let mut costs = vec![UNREACHABLE; self.len()];
        let mut before: Vec<Option<Hop>> = vec![None; self.len()];
        let mut queue = BinaryHeap::from([Reverse((distances[at as usize], 0, at))]);
        costs[at as usize] = 0;
        while let Some(Reverse((_, cost, id))) = queue.pop() {
            if id == target {
                return Some(self.walk_back(at, target, &before));
            }
            if cost > costs[id as usize] || (id != at && self.at(id).is_drained()) {
                continue;
            }
            for edge in self.usable(id) {
                let is_banned = (id == at && taken.contains(&edge.port()))
                    || passed.contains(&edge.to)
                    || distances[edge.to as usize] == UNREACHABLE;
                let there = cost + edge.metric();
                if !is_banned && there < costs[edge.to as usize] {
                    costs[edge.to as usize] = there;
                    before[edge.to as usize] = Some(edge.hop());
                    queue.push(Reverse((there + distances[edge.to as usize], there, edge.to)));
                }
            }
        }
        None
    }

    fn walk_back(&self, from: NodeId, to: NodeId, before: &[Option<Hop>]) -> Vec<Hop> {
        let mut hops = Vec::new();
        let mut at = to;
        while at != from {
            let Some(hop) = before[at as usize] else { break };
            hops.push(hop);
            let Some(previous) = self.id(hop.from.dpid) else { break };
            at = previous;
        }
        hops.reverse();
        hops
    }

    /// Returns the links from `at` that lie on paths of the least cost.
    fn shortest_edges<'g>(
        &'g self,
        at: NodeId,
        to: NodeId,
        distances: &'g [u64],
    ) -> impl Iterator<Item = &'g Edge> {
        let left = distances[at as usize];
        self.usable(at).filter(move |edge| {
            let may_pass = edge.to == to || !self.at(edge.to).is_drained();
            let behind = distances[edge.to as usize];
            may_pass && behind != UNREACHABLE && behind + edge.metric() == left
        })
    }
}

/// The start, the target and the bans of a search.
struct Detour<'a> {
    at: NodeId,
    target: NodeId,
    /// Switches that the path has passed before.
    passed: &'a HashSet<NodeId>,
    /// Ports of the first switch.
    taken: &'a HashSet<PortNo>,
}

//! Finds paths that share no link: a flow of the least cost, path after path (Bhandari, "Survivable Networks", 1999).
//!
//! Each search may take back a link of an earlier path, which lets the paths swap their ends. So the paths exist whenever
//! the network has that many, and their costs add up to the least sum.

use std::collections::{BTreeMap, VecDeque};

use openflow::{Dpid, PortNo};

use super::graph::{Graph, NodeId};
use super::search::UNREACHABLE;
use super::{Hop, Path};

/// A direction of a link: its node and port.
type Arc = (NodeId, PortNo);

/// The directions that the paths use, with their hops and the nodes where they end.
type Flow = BTreeMap<Arc, (Hop, NodeId)>;

/// A step of a search.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Uses a link.
    Use { arc: Arc, hop: Hop, to: NodeId },
    /// Takes back a link that an earlier path uses, against its direction.
    TakeBack { arc: Arc },
}

impl Graph {
    /// Returns up to `count` paths that share no link, whatever its direction; the cheapest first. Their costs add up to
    /// the least possible sum. From a switch to itself there is none.
    pub fn disjoint_paths(&self, from: Dpid, to: Dpid, count: usize) -> Vec<Path> {
        let (Some(from), Some(to)) = (self.id(from), self.id(to)) else { return Vec::new() };
        let mut flow = Flow::new();
        if from != to {
            for _ in 0..count {
                if !self.augment(from, to, &mut flow) {
                    break;
                }
            }
        }
        let mut paths: Vec<Path> = std::iter::from_fn(|| take_path(from, to, &mut flow)).collect();
        paths.sort_by(|one, other| (one.cost, &one.hops).cmp(&(other.cost, &other.hops)));
        paths
    }

    /// Adds one path to the flow; returns `false` if there is no further one.
    fn augment(&self, from: NodeId, to: NodeId, flow: &mut Flow) -> bool {
        // Costs of links that are taken back are negative, so this is the algorithm of Bellman and Ford.
        let mut costs = vec![i64::MAX; self.len()];
        let mut steps: Vec<Option<(NodeId, Step)>> = vec![None; self.len()];
        let mut is_waiting = vec![false; self.len()];
        let mut queue = VecDeque::from([from]);
        costs[from as usize] = 0;
        while let Some(id) = queue.pop_front() {
            is_waiting[id as usize] = false;
            if id == to {
                continue; // paths end there
            }
            for (step, metric, next) in self.steps(id, from, to, flow) {
                let cost = costs[id as usize].saturating_add(metric);
                if cost < costs[next as usize] {
                    costs[next as usize] = cost;
                    steps[next as usize] = Some((id, step));
                    if !std::mem::replace(&mut is_waiting[next as usize], true) {
                        queue.push_back(next);
                    }
                }
            }
        }
        if costs[to as usize] == i64::MAX {
            return false;
        }
        let mut at = to;
        while let Some((previous, step)) = steps[at as usize] {
            match step {
                Step::Use { arc, hop, to } => drop(flow.insert(arc, (hop, to))),
                Step::TakeBack { arc } => drop(flow.remove(&arc)),
            }
            at = previous;
        }
        true
    }

    /// Returns the steps from a node, with their costs and the nodes that they lead to.
    fn steps(
        &self,
        id: NodeId,
        from: NodeId,
        to: NodeId,
        flow: &Flow,
    ) -> impl Iterator<Item = (Step, i64, NodeId)> {
        self.usable(id).filter_map(move |edge| {
            let cost = |metric: u64| i64::try_from(metric).unwrap_or(i64::MAX);
            let (arc, opposite) = ((id, edge.port()), (edge.to, edge.far_port()));
            if flow.contains_key(&opposite) {
                return Some((
                    Step::TakeBack { arc: opposite },
                    -cost(edge.back_metric()),
                    edge.to,
                ));
            }
            let may_pass = edge.to == to || !self.at(edge.to).is_drained();
            let is_free = !flow.contains_key(&arc) && edge.to != from && may_pass;
            let step = Step::Use { arc, hop: edge.hop(), to: edge.to };
            is_free.then(|| (step, cost(edge.metric()), edge.to))
        })
    }
}

/// Takes a path out of the flow.
fn take_path(from: NodeId, to: NodeId, flow: &mut Flow) -> Option<Path> {
    let mut hops = Vec::new();
    let mut at = from;
    while at != to {
        let arc = *flow.range((at, PortNo(0))..=(at, PortNo(u32::MAX))).next()?.0;
        let (hop, next) = flow.remove(&arc)?;
        hops.push(hop);
        at = next;
    }
    Some(Path::of(hops)).filter(|path| path.cost != UNREACHABLE && !path.hops.is_empty())
}

//! Computes a spanning tree, so that floods reach each switch once.
//!
//! The tree of each part of the network holds the shortest paths from the switch with the lowest datapath identifier. A
//! drained switch is a leaf, so no flood passes through it; one that would join two parts is a leaf of one of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use openflow::{Dpid, PortNo};

use super::graph::{Edge, Graph, NodeId};

/// The ports of each node at which links of the tree end, by port.
#[derive(Debug)]
pub(super) struct Tree {
    ports: Vec<Vec<PortNo>>,
}

impl Tree {
    pub(super) fn of(graph: &Graph) -> Self {
        let mut tree = Self { ports: vec![Vec::new(); graph.len()] };
        let mut is_reached = vec![false; graph.len()];
        let mut roots: Vec<NodeId> =
            graph.connected().filter(|id| !graph.at(*id).is_drained()).collect();
        roots.sort_by_key(|id| graph.at(*id).dpid);
        for root in roots {
            tree.grow(graph, root, &mut is_reached);
        }
        for ports in &mut tree.ports {
            ports.sort_unstable();
        }
        tree
    }

    /// Adds the part of the network that `root` reaches. Whatever is equal is decided by datapath identifiers and ports, not
    /// by the order in which the graph learned of them.
    fn grow(&mut self, graph: &Graph, root: NodeId, is_reached: &mut [bool]) {
        let key = |cost: u64, id: NodeId, edge: Option<(NodeId, Edge)>| {
            let (parent, port) = edge
                .map_or((Dpid(0), PortNo(0)), |(from, edge)| (graph.at(from).dpid, edge.port()));
            Reverse((cost, graph.at(id).dpid, parent, port, id))
        };
        let mut queue = BinaryHeap::from([key(0, root, None)]);
        while let Some(Reverse((cost, _, parent, port, id))) = queue.pop() {
            if std::mem::replace(&mut is_reached[id as usize], true) {
                continue;
            }
            if id != root {
                self.join(graph, parent, port);
            }
            if graph.at(id).is_drained() {
                continue;
            }
            for edge in graph.usable(id).filter(|edge| !is_reached[edge.to as usize]) {
                queue.push(key(cost + edge.metric(), edge.to, Some((id, *edge))));
            }
        }
    }

    /// Adds the link that begins at a port of a switch.
    fn join(&mut self, graph: &Graph, from: Dpid, port: PortNo) {
        let Some(from) = graph.id(from) else { return };
        let Some(edge) = graph.usable(from).find(|edge| edge.port() == port) else { return };
        self.ports[from as usize].push(port);
        self.ports[edge.to as usize].push(edge.far_port());
    }
}

impl Graph {
    /// Returns the ports of a switch that belong to the spanning tree, in order.
    pub fn tree_ports(&self, dpid: Dpid) -> Vec<PortNo> {
        self.id(dpid).map_or_else(Vec::new, |id| self.tree().ports[id as usize].clone())
    }

    /// Returns the ports of a switch through which a flood leaves, in order: those of the spanning tree, and those that are
    /// known to have no switch behind them. A flood does not leave through the port that it entered, and one that enters
    /// through any other port is to be dropped.
    pub fn flood_ports(&self, dpid: Dpid) -> Vec<PortNo> {
        let mut ports = self.tree_ports(dpid);
        let edges = self.ports(dpid).filter(|port| port.live && port.edge && !port.link);
        ports.extend(edges.map(|port| port.at.port));
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

//! Holds the records of the table as a graph, and updates it by changes.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use openflow::{Dpid, PortNo};

use super::tree::Tree;
use super::{Hop, search};
use crate::services::topology::{
    Endpoint, LinkDownRecord, LinkRecord, PortRecord, Record, Slot, SwitchRecord,
};

/// Number of a node in [`Graph`].
pub(super) type NodeId = u32;

/// The switches, ports and links of a network; see the module's documentation.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    index: HashMap<Dpid, NodeId>,
    /// Nodes without content, for reuse.
    free: Vec<NodeId>,
    links: usize,
    /// Links that were there, by the port where they began.
    down: BTreeMap<Endpoint, LinkDownRecord>,
    settled: bool,
    version: u64,
    /// Results for the present version.
    cache: RefCell<Cache>,
}

#[derive(Debug, Clone, Default)]
struct Cache {
    version: u64,
    distances: HashMap<NodeId, Rc<[u64]>>,
    tree: Option<Rc<Tree>>,
}

/// A switch with its ports and links, as far as the table has them.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) dpid: Dpid,
    record: Option<SwitchRecord>,
    ports: BTreeMap<PortNo, PortRecord>,
    /// The links that begin here, by port.
    pub(super) edges: Vec<Edge>,
    /// How many links end here.
    incoming: usize,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    record: LinkRecord,
    pub(super) to: NodeId,
    /// The cost of the other direction, if that is known.
    back_metric: Option<u32>,
}

impl Edge {
    pub(super) fn port(&self) -> PortNo {
        self.record.from.port
    }

    pub(super) fn far_port(&self) -> PortNo {
        self.record.to.port
    }

    pub(super) fn metric(&self) -> u64 {
        self.record.metric.max(1).into()
    }

    /// The cost of the other direction, for a link that paths may use.
    pub(super) fn back_metric(&self) -> u64 {
        self.back_metric.unwrap_or(u32::MAX).max(1).into()
    }

    pub(super) fn hop(&self) -> Hop {
        Hop { from: self.record.from, to: self.record.to, metric: self.record.metric.max(1) }
    }
}

impl Node {
    fn of(dpid: Dpid) -> Self {
        let (ports, edges) = (BTreeMap::new(), Vec::new());
        Self { dpid, record: None, ports, edges, incoming: 0 }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.record.is_some_and(|record| record.drained)
    }

    fn is_empty(&self) -> bool {
        self.record.is_none()
            && self.ports.is_empty()
            && self.edges.is_empty()
            && self.incoming == 0
    }

    fn place(&self, port: PortNo) -> Result<usize, usize> {
        self.edges.binary_search_by_key(&port, Edge::port)
    }
}

/// A record before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordChange {
    /// The earlier record of the slot, if it had one.
    pub before: Option<Record>,
    /// The present one, if there is one.
    pub after: Option<Record>,
}

impl Graph {
    /// Creates a graph of the records in these slots.
    pub fn of(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut graph = Self::default();
        for slot in slots {
            graph.apply(&Slot::default(), &slot);
        }
        graph
    }

    /// Follows a change of a slot, and returns the records; `None` if it is no change of a record that this SDK knows.
    pub fn apply(&mut self, before: &Slot, after: &Slot) -> Option<RecordChange> {
        let change = RecordChange { before: Record::decode(before), after: Record::decode(after) };
        if change.before == change.after {
            return None;
        }
        if let Some(before) = change.before {
            self.remove(&before);
        }
        if let Some(after) = change.after {
            self.insert(&after);
        }
        Some(change)
    }

    /// Returns this graph with a version above that of the one that it replaces.
    pub(super) fn replacing(mut self, earlier: &Self) -> Self {
        self.version = self.version.max(earlier.version) + 1;
        self
    }

    /// Whether no switch is connected.
    pub fn is_empty(&self) -> bool {
        self.switches().next().is_none()
    }

    /// Returns the number of the state: it grows with each change that can change a path, a flood or a port.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether the service has probed all ports that it knew soon after its start. Before, links can be missing.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns the connected switches, in no order.
    pub fn switches(&self) -> impl Iterator<Item = &SwitchRecord> {
        self.nodes.iter().filter_map(|node| node.record.as_ref())
    }

    /// Returns a connected switch.
    pub fn switch(&self, dpid: Dpid) -> Option<&SwitchRecord> {
        self.node(dpid)?.record.as_ref()
    }

    /// Whether a switch is drained; `false` if it is not connected.
    pub fn is_drained(&self, dpid: Dpid) -> bool {
        self.node(dpid).is_some_and(Node::is_drained)
    }

    /// Returns the ports of a switch, in order.
    pub fn ports(&self, dpid: Dpid) -> impl Iterator<Item = &PortRecord> {
        self.node(dpid).into_iter().flat_map(|node| node.ports.values())
    }

    /// Returns a port.
    pub fn port(&self, at: Endpoint) -> Option<&PortRecord> {
        self.node(at.dpid)?.ports.get(&at.port)
    }

    /// Returns the directions of links, in no order. Links whose opposite direction is not known are included.
    pub fn links(&self) -> impl Iterator<Item = &LinkRecord> {
        self.nodes.iter().flat_map(|node| node.edges.iter().map(|edge| &edge.record))
    }

    /// Returns the directions of links that were there and are down, by the port where they began.
    pub fn links_down(&self) -> impl Iterator<Item = &LinkDownRecord> {
        self.down.values()
    }

    /// Returns how many directions of links there are.
    pub fn link_count(&self) -> usize {
        self.links
    }

    /// Returns the link that begins at a port.
    pub fn link_from(&self, at: Endpoint) -> Option<&LinkRecord> {
        let node = self.node(at.dpid)?;
        node.place(at.port).ok().map(|place| &node.edges[place].record)
    }

    /// Whether both directions of the link that begins at a port are known and both switches are connected, so that paths
    /// use it.
    pub fn is_usable(&self, at: Endpoint) -> bool {
        let Some(id) = self.id(at.dpid) else { return false };
        self.usable(id).any(|edge| edge.port() == at.port)
    }

    /// Returns the node of a connected switch.
    pub(super) fn id(&self, dpid: Dpid) -> Option<NodeId> {
        let id = *self.index.get(&dpid)?;
        self.at(id).record.map(|_| id)
    }

    pub(super) fn at(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Returns the number of nodes, empty ones included.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[cfg(test)]
    pub(super) fn index_len(&self) -> usize {
        self.index.len()
    }

    /// Returns the nodes of connected switches.
    pub(super) fn connected(&self) -> impl Iterator<Item = NodeId> {
        let nodes = (0..).zip(&self.nodes);
        nodes.filter(|(_, node)| node.record.is_some()).map(|(id, _)| id)
    }

    /// Returns the links that paths may use from a connected switch, by port.
    pub(super) fn usable(&self, id: NodeId) -> impl Iterator<Item = &Edge> {
        let edges = self.at(id).edges.iter();
        edges.filter(move |edge| {
            edge.back_metric.is_some() && edge.to != id && self.at(edge.to).record.is_some()
        })
    }

    /// Returns the distance from each node to this one; [`search::UNREACHABLE`] if there is no path.
    pub(super) fn distances_to(&self, to: NodeId) -> Rc<[u64]> {
        let mut cache = self.cache();
        let distances = cache.distances.entry(to);
        Rc::clone(distances.or_insert_with(|| search::distances_to(self, to).into()))
    }

    /// Returns the spanning tree.
    pub(super) fn tree(&self) -> Rc<Tree> {
        Rc::clone(self.cache().tree.get_or_insert_with(|| Rc::new(Tree::of(self))))
    }

    fn cache(&self) -> std::cell::RefMut<'_, Cache> {
        let mut cache = self.cache.borrow_mut();
        if cache.version != self.version {
            *cache = Cache { version: self.version, ..Cache::default() };
        }
        cache
    }

    fn node(&self, dpid: Dpid) -> Option<&Node> {
        self.index.get(&dpid).map(|id| self.at(*id))
    }

    fn insert(&mut self, record: &Record) {
        match record {
            Record::Switch(it) => {
                let node = self.node_of(it.dpid);
                self.nodes[node as usize].record = Some(*it);
            }
            Record::Port(it) => {
                let node = self.node_of(it.at.dpid);
                self.nodes[node as usize].ports.insert(it.at.port, *it);
            }
            Record::Link(it) => self.insert_link(it),
            Record::Status { settled } => self.settled = *settled,
            Record::LinkDown(it) => {
                self.down.insert(it.from, *it);
                return; // no path uses it
            }
        }
        self.version += 1;
    }

    fn remove(&mut self, record: &Record) {
        let dpid = match record {
            Record::Switch(it) => {
                let node = self.node_of(it.dpid);
                self.nodes[node as usize].record.take_if(|present| present == it);
                it.dpid
            }
            Record::Port(it) => {
                let node = self.node_of(it.at.dpid);
                let ports = &mut self.nodes[node as usize].ports;
                if ports.get(&it.at.port) == Some(it) {
                    ports.remove(&it.at.port);
                }
                it.at.dpid
            }
            Record::Link(it) => {
                self.remove_link(it);
                it.from.dpid
            }
            Record::Status { .. } => {
                self.settled = false;
                return;
            }
            Record::LinkDown(it) => {
                if self.down.get(&it.from) == Some(it) {
                    self.down.remove(&it.from);
                }
                return;
            }
        };
        self.release(dpid);
        self.version += 1;
    }

    /// Returns the node of a datapath identifier, a new one if it has none.
    fn node_of(&mut self, dpid: Dpid) -> NodeId {
        if let Some(id) = self.index.get(&dpid) {
            return *id;
        }
        let node = Node::of(dpid);
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            id
        } else {
            self.nodes.push(node);
            NodeId::try_from(self.nodes.len() - 1).expect("a table has fewer slots")
        };
        self.index.insert(dpid, id);
        id
    }

    /// Frees the node of a datapath identifier if no record names it any more.
    fn release(&mut self, dpid: Dpid) {
        let Some(id) = self.index.get(&dpid).copied() else { return };
        if self.at(id).is_empty() {
            self.index.remove(&dpid);
            self.free.push(id);
        }
    }

    fn insert_link(&mut self, record: &LinkRecord) {
        if let Some(earlier) = self.link_from(record.from).copied() {
            self.remove_link(&earlier);
        }
        // Only now: to remove a link can free nodes.
        let (from, to) = (self.node_of(record.from.dpid), self.node_of(record.to.dpid));
        let opposite = self.opposite(record);
        let back_metric = opposite.map(|(node, place)| {
            let edge = &mut self.nodes[node].edges[place];
            edge.back_metric = Some(record.metric);
            edge.record.metric
        });
        let edge = Edge { record: *record, to, back_metric };
        let node = &mut self.nodes[from as usize];
        if let Err(place) = node.place(record.from.port) {
            node.edges.insert(place, edge);
        }
        self.nodes[to as usize].incoming += 1;
        self.links += 1;
    }

    fn remove_link(&mut self, record: &LinkRecord) {
        let from = self.node_of(record.from.dpid) as usize;
        let Ok(place) = self.nodes[from].place(record.from.port) else { return };
        if self.nodes[from].edges[place].record != *record {
            return;
        }
        if let Some((node, place)) = self.opposite(record) {
            self.nodes[node].edges[place].back_metric = None;
        }
        let edge = self.nodes[from].edges.remove(place);
        self.nodes[edge.to as usize].incoming -= 1;
        self.links -= 1;
        self.release(record.to.dpid);
    }

    /// Returns where the other direction of a link is, as node and place in its edges.
    fn opposite(&self, record: &LinkRecord) -> Option<(usize, usize)> {
        let id = *self.index.get(&record.to.dpid)?;
        let node = self.at(id);
        let place = node.place(record.to.port).ok()?;
        (node.edges[place].record.to == record.from).then_some((id as usize, place))
    }
}

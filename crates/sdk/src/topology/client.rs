//! Follows the table of the topology service.

use openflow::Dpid;

use super::graph::{Graph, RecordChange};
use crate::event::Event;
use crate::network::Network;
use crate::services::table::{Change, Table as _, TableEvent, TableWatch};
use crate::services::topology::{Record, Refused, Request, decode_answer};
use crate::services::{AskError, RequestId, Service};

/// The network as the topology service sees it.
///
/// ```
/// use rosemary_sdk::topology::{Topology, TopologyEvent};
/// use rosemary_sdk::{App, Dpid, Event, Network};
///
/// struct Paths {
///     topology: Topology,
/// }
///
/// impl App for Paths {
///     fn create() -> Self {
///         Self { topology: Topology::new() }
///     }
///
///     fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
///         if let Some(TopologyEvent::Changed(_)) = self.topology.on_event(&event, network) {
///             let path = self.topology.graph().path(Dpid(1), Dpid(2));
///             network.info(&format!("the path has {} hops", path.map_or(0, |it| it.hops.len())));
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Topology {
    watch: TableWatch,
    graph: Graph,
    /// The graph of a service that has started again, until it has found the links.
    next: Option<Graph>,
}

/// What happened to the topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyEvent {
    /// [`Topology::graph`] is another one: the application looks at it as a whole.
    Replaced,
    /// These records of [`Topology::graph`] changed.
    Changed(Vec<RecordChange>),
    /// The service has ended; the graph stays as it was, until the next service has found the links.
    Unavailable,
}

impl Default for Topology {
    fn default() -> Self {
        Self::new()
    }
}

impl Topology {
    /// Begins without any switch.
    pub fn new() -> Self {
        let watch = TableWatch::new(Service::Topology);
        Self { watch, graph: Graph::default(), next: None }
    }

    /// Follows an event; returns what it means for the graph, if anything.
    ///
    /// An application passes all events. After a restart of the service or of the kernel, the graph stays as it was until
    /// the service has probed all ports: paths do not vanish only because someone starts to look for them again.
    pub fn on_event(&mut self, event: &Event<'_>, network: &Network<'_>) -> Option<TopologyEvent> {
        match self.watch.on_event(event)? {
            TableEvent::Reread => {
                let table = self.watch.table(network)?;
                self.replace(Graph::of(table.records().map(|(_, record)| record)))
            }
            TableEvent::Changed(changes) => self.follow(&changes),
            TableEvent::Gone => Some(TopologyEvent::Unavailable),
        }
    }

    /// Returns the present graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether the service runs.
    pub fn is_available(&self) -> bool {
        self.watch.is_attached()
    }

    /// Requests the begin or the end of the drain of a switch. [`Event::Served`](crate::Event::Served) with this request is
    /// the answer, which [`drain_answer`](Self::drain_answer) reads. Needs the capability `topology.drain`.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn drain(
        &self,
        network: &mut Network<'_>,
        dpid: Dpid,
        on: bool,
    ) -> Result<RequestId, AskError> {
        network.ask_service(Service::Topology, &Request::Drain { dpid, on }.encode())
    }

    /// Reads the answer to [`drain`](Self::drain); `None` if it is malformed.
    pub fn drain_answer(body: &[u8]) -> Option<Result<(), Refused>> {
        decode_answer(body)
    }

    /// Records changed.
    fn follow(&mut self, changes: &[Change]) -> Option<TopologyEvent> {
        if self.next.is_none() && self.begins_again(changes) {
            self.next = Some(self.graph.clone());
        }
        let graph = self.next.as_mut().unwrap_or(&mut self.graph);
        let changes = changes.iter();
        let changes: Vec<RecordChange> =
            changes.filter_map(|change| graph.apply(&change.before, &change.after)).collect();
        match self.next.take() {
            Some(next) => self.replace(next),
            None if changes.is_empty() => None,
            None => Some(TopologyEvent::Changed(changes)),
        }
    }

    /// A whole table was read.
    fn replace(&mut self, graph: Graph) -> Option<TopologyEvent> {
        if self.is_worth_keeping() && !graph.is_settled() {
            self.next = Some(graph);
            return None;
        }
        (self.graph, self.next) = (graph.replacing(&self.graph), None);
        Some(TopologyEvent::Replaced)
    }

    /// Whether the service forgets the network and looks for it again.
    fn begins_again(&self, changes: &[Change]) -> bool {
        let begins = |change: &Change| {
            Record::decode(&change.after) == Some(Record::Status { settled: false })
        };
        self.is_worth_keeping() && changes.iter().any(begins)
    }

    /// Whether the present graph knows more than one of a service that still probes: otherwise that one counts from its first link.
    fn is_worth_keeping(&self) -> bool {
        self.graph.is_settled() && !self.graph.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use openflow::PortNo;

    use super::*;
    use crate::services::table::{EMPTY, Slot};
    use crate::services::topology::{Endpoint, LinkRecord, SwitchRecord};

    fn switch(dpid: u64) -> Slot {
        Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch: 1, ports: 1, drained: false })
            .encode()
    }

    fn link(from: u64, to: u64) -> Slot {
        let end = |dpid| Endpoint { dpid: Dpid(dpid), port: PortNo(1) };
        let (from, to) = (end(from), end(to));
        let (metric, latency_ns, found_ns, suspicious) = (1, 0, 0, false);
        Record::Link(LinkRecord { from, to, metric, latency_ns, found_ns, suspicious }).encode()
    }

    fn status(settled: bool) -> Slot {
        Record::Status { settled }.encode()
    }

    fn change(before: Slot, after: Slot) -> Change {
        Change { slot: 0, before, after }
    }

    /// A topology with a path from switch 1 to switch 2.
    fn settled() -> Topology {
        let mut topology = Topology::new();
        let table = [status(true), switch(1), switch(2), link(1, 2), link(2, 1)];
        assert_eq!(topology.replace(Graph::of(table)), Some(TopologyEvent::Replaced));
        topology
    }

    #[test]
    fn changes_are_followed() {
        let mut topology = settled();
        let version = topology.graph().version();
        let event = topology.follow(&[change(link(1, 2), EMPTY), change(EMPTY, EMPTY)]);
        let Some(TopologyEvent::Changed(changes)) = event else { panic!("{event:?}") };
        assert!(matches!(
            changes[..],
            [RecordChange { before: Some(Record::Link(_)), after: None }]
        ));
        assert!(topology.graph().version() > version);
        assert_eq!(topology.graph().path(Dpid(1), Dpid(2)), None);
    }

    #[test]
    fn paths_stay_until_the_next_service_has_settled() {
        let mut topology = settled();
        let version = topology.graph().version();
        assert_eq!(topology.replace(Graph::of([status(false), switch(1)])), None);
        assert!(topology.graph().path(Dpid(1), Dpid(2)).is_some());
        assert_eq!(topology.follow(&[change(EMPTY, switch(3))]), None);
        let event = topology.follow(&[change(status(false), status(true))]);
        assert_eq!(event, Some(TopologyEvent::Replaced));
        assert_eq!(topology.graph().path(Dpid(1), Dpid(2)), None);
        assert!(topology.graph().switch(Dpid(3)).is_some() && topology.graph().version() > version);
    }

    #[test]
    fn first_links_count_at_once() {
        let mut topology = Topology::new();
        let first = Graph::of([status(false), switch(1)]);
        assert_eq!(topology.replace(first), Some(TopologyEvent::Replaced));
        let again = [change(status(false), status(false)), change(EMPTY, switch(2))];
        assert!(matches!(topology.follow(&again), Some(TopologyEvent::Changed(_))));
        let found = [status(false), switch(1), switch(2), link(1, 2), link(2, 1)];
        assert_eq!(topology.replace(Graph::of(found)), Some(TopologyEvent::Replaced));
        assert!(topology.graph().path(Dpid(1), Dpid(2)).is_some());
    }

    #[test]
    fn paths_stay_while_the_service_begins_again() {
        let mut topology = settled();
        let forgotten = [switch(1), switch(2), link(1, 2), link(2, 1)].map(|it| change(it, EMPTY));
        let begin = [&[change(status(true), status(false))], &forgotten[..]].concat();
        assert_eq!(topology.follow(&begin), None);
        assert!(topology.graph().path(Dpid(1), Dpid(2)).is_some());
        let event = topology.follow(&[change(status(false), status(true))]);
        assert_eq!(event, Some(TopologyEvent::Replaced));
        assert!(topology.graph().is_empty());
    }

    #[test]
    fn version_grows_by_little_with_each_service_that_begins_again() {
        let mut topology = settled();
        for _ in 0..200 {
            let version = topology.graph().version();
            topology.follow(&[change(status(true), status(false))]);
            assert!(topology.follow(&[change(status(false), status(true))]).is_some());
            let grown = topology.graph().version() - version;
            assert!((1..10).contains(&grown), "{grown}");
        }
    }
}

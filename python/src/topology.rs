//! The client of the service `topology`: switches, ports, links and paths.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sdk::services::topology::{self as records, Record};
use sdk::topology::{self, Graph as RawGraph, RecordChange, TopologyEvent as RawEvent};
use sdk::{Dpid, PortNo};

use crate::matching::mac_bytes;
use crate::services::not_sent;
use crate::zone::Zone;

/// A port of a switch.
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    /// The switch's datapath id.
    dpid: u64,
    /// The number of its port.
    port: u32,
}

#[pymethods]
impl Endpoint {
    #[new]
    fn new(dpid: u64, port: u32) -> Self {
        Self { dpid, port }
    }

    fn __repr__(&self) -> String {
        format!("Endpoint(dpid={:#x}, port={})", self.dpid, self.port)
    }
}

impl From<records::Endpoint> for Endpoint {
    fn from(at: records::Endpoint) -> Self {
        Self { dpid: at.dpid.0, port: at.port.0 }
    }
}

impl From<Endpoint> for records::Endpoint {
    fn from(at: Endpoint) -> Self {
        Self { dpid: Dpid(at.dpid), port: PortNo(at.port) }
    }
}

/// A connected switch.
#[pyclass(frozen, get_all, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwitchRecord {
    /// Its datapath id.
    dpid: u64,
    /// The number of its connection.
    epoch: u32,
    /// How many ports it has that can have a link.
    ports: u32,
    /// Whether an operator or an app wants no traffic through it, except to and from its own hosts.
    drained: bool,
}

#[pymethods]
impl SwitchRecord {
    #[new]
    #[pyo3(signature = (dpid, epoch = 0, ports = 0, drained = false))]
    fn new(dpid: u64, epoch: u32, ports: u32, drained: bool) -> Self {
        Self { dpid, epoch, ports, drained }
    }

    fn __repr__(&self) -> String {
        format!("SwitchRecord(dpid={:#x}, drained={})", self.dpid, python(self.drained))
    }
}

/// A port of a connected switch.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the record")]
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct PortRecord {
    /// The switch and the number.
    at: Endpoint,
    /// Its address.
    hw_addr: Py<PyBytes>,
    /// Its present speed in kbit/s; 0 if the switch does not tell it.
    speed_kbps: u64,
    /// Its name.
    name: Py<PyBytes>,
    /// Whether packets can leave through it.
    live: bool,
    /// Whether no switch is behind it.
    edge: bool,
    /// Whether a link enters or leaves there.
    link: bool,
    /// Whether a bridge without OpenFlow joins it with other ports. If it is no edge and has no link, another port of the
    /// bridge is used in its place.
    shared: bool,
}

#[pymethods]
impl PortRecord {
    #[new]
    #[pyo3(signature = (at, hw_addr, speed_kbps, name, live, edge, link, shared = false))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the record, named in Python")]
    #[expect(clippy::fn_params_excessive_bools, reason = "each is a flag of the record")]
    fn new(
        at: Endpoint,
        hw_addr: Py<PyBytes>,
        speed_kbps: u64,
        name: Py<PyBytes>,
        live: bool,
        edge: bool,
        link: bool,
        shared: bool,
    ) -> Self {
        Self { at, hw_addr, speed_kbps, name, live, edge, link, shared }
    }

    fn __repr__(&self) -> String {
        format!("PortRecord({})", self.at.__repr__())
    }
}

/// One direction of a link between two switches.
#[pyclass(frozen, get_all, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkRecord {
    /// The port through which packets enter the link.
    from_: Endpoint,
    /// The port at which they arrive.
    to: Endpoint,
    /// The cost of its use, at least 1.
    metric: u32,
    /// Estimated time of a packet on the link, in nanoseconds; 0 if unknown.
    latency_ns: u64,
    /// When it was found, in the service's time, in nanoseconds.
    found_ns: u64,
    /// Whether its latency is that of a relay rather than of a cable.
    suspicious: bool,
}

#[pymethods]
impl LinkRecord {
    #[new]
    #[pyo3(signature = (from_, to, metric = 1, latency_ns = 0, found_ns = 0, suspicious = false))]
    fn new(
        from_: Endpoint,
        to: Endpoint,
        metric: u32,
        latency_ns: u64,
        found_ns: u64,
        suspicious: bool,
    ) -> Self {
        Self { from_, to, metric, latency_ns, found_ns, suspicious }
    }

    fn __repr__(&self) -> String {
        format!("LinkRecord({}, {})", self.from_.__repr__(), self.to.__repr__())
    }
}

/// One direction of a link that was there and is down.
#[pyclass(frozen, get_all, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkDownRecord {
    /// The port through which packets entered the link.
    from_: Endpoint,
    /// The port at which they arrived.
    to: Endpoint,
    /// "port down", "port removed", "switch not connected" or "no probe crosses it".
    why: String,
    /// The port that the reason is about: one of the two.
    cause: Endpoint,
    /// Since when it is down, in the service's time, in nanoseconds.
    since_ns: u64,
}

#[pymethods]
impl LinkDownRecord {
    #[new]
    #[pyo3(signature = (from_, to, why, cause, since_ns = 0))]
    fn new(from_: Endpoint, to: Endpoint, why: String, cause: Endpoint, since_ns: u64) -> Self {
        Self { from_, to, why, cause, since_ns }
    }

    fn __repr__(&self) -> String {
        format!("LinkDownRecord({}, {}, {:?})", self.from_.__repr__(), self.to.__repr__(), self.why)
    }
}

/// A link in the direction in which a path uses it.
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    /// The port through which packets leave a switch.
    from_: Endpoint,
    /// The port through which they enter the next.
    to: Endpoint,
    /// The cost of the link, at least 1.
    metric: u32,
}

#[pymethods]
impl Hop {
    #[new]
    #[pyo3(signature = (from_, to, metric = 1))]
    fn new(from_: Endpoint, to: Endpoint, metric: u32) -> Self {
        Self { from_, to, metric }
    }

    fn __repr__(&self) -> String {
        format!("Hop({}, {})", self.from_.__repr__(), self.to.__repr__())
    }
}

/// A path between two switches.
#[pyclass(frozen, get_all, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The sum of the metrics.
    cost: u64,
    /// The links in order; none from a switch to itself.
    hops: Vec<Hop>,
}

#[pymethods]
impl Path {
    #[new]
    fn new(cost: u64, hops: Vec<Hop>) -> Self {
        Self { cost, hops }
    }

    fn __repr__(&self) -> String {
        format!("Path(cost={}, {} hops)", self.cost, self.hops.len())
    }
}

impl From<topology::Hop> for Hop {
    fn from(hop: topology::Hop) -> Self {
        Self { from_: hop.from.into(), to: hop.to.into(), metric: hop.metric }
    }
}

impl From<topology::Path> for Path {
    fn from(path: topology::Path) -> Self {
        Self { cost: path.cost, hops: path.hops.into_iter().map(Hop::from).collect() }
    }
}

impl From<&records::SwitchRecord> for SwitchRecord {
    fn from(it: &records::SwitchRecord) -> Self {
        Self { dpid: it.dpid.0, epoch: it.epoch, ports: it.ports, drained: it.drained }
    }
}

impl From<&records::LinkRecord> for LinkRecord {
    fn from(it: &records::LinkRecord) -> Self {
        Self {
            from_: it.from.into(),
            to: it.to.into(),
            metric: it.metric,
            latency_ns: it.latency_ns,
            found_ns: it.found_ns,
            suspicious: it.suspicious,
        }
    }
}

impl From<&records::LinkDownRecord> for LinkDownRecord {
    fn from(it: &records::LinkDownRecord) -> Self {
        Self {
            from_: it.from.into(),
            to: it.to.into(),
            why: it.why.to_string(),
            cause: it.cause().into(),
            since_ns: it.since_ns,
        }
    }
}

fn port_record(py: Python<'_>, it: &records::PortRecord) -> PortRecord {
    PortRecord {
        at: it.at.into(),
        hw_addr: mac_bytes(py, it.hw_addr),
        speed_kbps: it.speed_kbps,
        name: PyBytes::new(py, it.name()).unbind(),
        live: it.live,
        edge: it.edge,
        link: it.link,
        shared: it.shared,
    }
}

/// A record before and after a change.
type Change = (Option<Py<PyAny>>, Option<Py<PyAny>>);

/// The meaning of an event for the topology.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct TopologyEvent {
    /// "replaced": the graph is another one. "changed": see `changes`. "unavailable": the service has ended; the graph stays.
    kind: String,
    /// The records before and after each change; `None` for a record that was not there.
    changes: Vec<Change>,
}

#[pymethods]
impl TopologyEvent {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (kind, changes = Vec::new()))]
    fn new(kind: String, changes: Vec<Change>) -> Self {
        Self { kind, changes }
    }

    fn __repr__(&self) -> String {
        format!("TopologyEvent({:?}, {} changes)", self.kind, self.changes.len())
    }
}

impl TopologyEvent {
    fn of(py: Python<'_>, event: RawEvent) -> PyResult<Self> {
        let record = |record: Option<Record>| -> PyResult<Option<Py<PyAny>>> {
            Ok(match record {
                Some(Record::Switch(it)) => Some(Py::new(py, SwitchRecord::from(&it))?.into_any()),
                Some(Record::Port(it)) => Some(Py::new(py, port_record(py, &it))?.into_any()),
                Some(Record::Link(it)) => Some(Py::new(py, LinkRecord::from(&it))?.into_any()),
                Some(Record::LinkDown(it)) => {
                    Some(Py::new(py, LinkDownRecord::from(&it))?.into_any())
                }
                Some(Record::Status { .. }) | None => None,
            })
        };
        let (kind, changes) = match event {
            RawEvent::Replaced => ("replaced", Vec::new()),
            RawEvent::Unavailable => ("unavailable", Vec::new()),
            RawEvent::Changed(changes) => ("changed", changes),
        };
        let pair =
            |change: RecordChange| Ok::<_, PyErr>((record(change.before)?, record(change.after)?));
        let changes = changes.into_iter().map(pair).collect::<PyResult<_>>()?;
        Ok(Self { kind: kind.to_owned(), changes })
    }
}

/// The network as the topology service sees it. The app names `topology` in its `services`.
#[pyclass(unsendable, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Topology(topology::Topology);

#[pymethods]
impl Topology {
    /// Begins without any switch.
    #[new]
    fn new() -> Self {
        Self(topology::Topology::new())
    }

    /// Follows an event; returns what it means for the graph, if anything. `App.follow` has it called for every event.
    fn on_event(
        &mut self,
        event: &Bound<'_, PyAny>,
        network: &Bound<'_, Zone>,
    ) -> PyResult<Option<TopologyEvent>> {
        let topology = &mut self.0;
        let found =
            network.get().with_event(event, |event, network| topology.on_event(event, network))?;
        found.flatten().map(|it| TopologyEvent::of(event.py(), it)).transpose()
    }

    /// Returns the present graph: it follows the topology.
    fn graph(slf: Py<Self>) -> Graph {
        Graph(slf)
    }

    /// Whether the service runs.
    fn is_available(&self) -> bool {
        self.0.is_available()
    }

    /// Requests the begin or the end of the drain of a switch. Returns the request's number; a `DrainEvent` with it is the
    /// answer. Needs the capability `topology.drain`.
    fn drain(&self, network: &Bound<'_, Zone>, dpid: u64, on: bool) -> PyResult<u64> {
        let asked = network.get().with_network(|network| self.0.drain(network, Dpid(dpid), on))?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    fn __repr__(&self) -> String {
        format!("Topology({} switches)", self.0.graph().switches().count())
    }
}

/// The switches, ports and links of the network.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Graph(Py<Topology>);

impl Graph {
    fn with<T>(&self, py: Python<'_>, with: impl FnOnce(&RawGraph) -> T) -> T {
        with(self.0.borrow(py).0.graph())
    }
}

#[pymethods]
impl Graph {
    /// The number of the state: it grows with each change that can change a path, a flood or a port.
    fn version(&self, py: Python<'_>) -> u64 {
        self.with(py, RawGraph::version)
    }

    /// Whether the service has probed all ports that it knew soon after its start. Before, links can be missing.
    fn is_settled(&self, py: Python<'_>) -> bool {
        self.with(py, RawGraph::is_settled)
    }

    /// The connected switches, in no order.
    fn switches(&self, py: Python<'_>) -> Vec<SwitchRecord> {
        self.with(py, |graph| graph.switches().map(SwitchRecord::from).collect())
    }

    /// A connected switch.
    fn switch(&self, py: Python<'_>, dpid: u64) -> Option<SwitchRecord> {
        self.with(py, |graph| graph.switch(Dpid(dpid)).map(SwitchRecord::from))
    }

    /// Whether a switch is drained.
    fn is_drained(&self, py: Python<'_>, dpid: u64) -> bool {
        self.with(py, |graph| graph.is_drained(Dpid(dpid)))
    }

    /// The ports of a switch, in order.
    fn ports(&self, py: Python<'_>, dpid: u64) -> Vec<PortRecord> {
        self.with(py, |graph| graph.ports(Dpid(dpid)).map(|it| port_record(py, it)).collect())
    }

    /// A port.
    fn port(&self, py: Python<'_>, at: Endpoint) -> Option<PortRecord> {
        self.with(py, |graph| graph.port(at.into()).map(|it| port_record(py, it)))
    }

    /// The directions of links, in no order. Links whose opposite direction is not known are included.
    fn links(&self, py: Python<'_>) -> Vec<LinkRecord> {
        self.with(py, |graph| graph.links().map(LinkRecord::from).collect())
    }

    /// The directions of links that were there and are down, by the port where they began.
    fn links_down(&self, py: Python<'_>) -> Vec<LinkDownRecord> {
        self.with(py, |graph| graph.links_down().map(LinkDownRecord::from).collect())
    }

    /// The link that begins at a port.
    fn link_from(&self, py: Python<'_>, at: Endpoint) -> Option<LinkRecord> {
        self.with(py, |graph| graph.link_from(at.into()).map(LinkRecord::from))
    }

    /// Whether both directions of the link that begins at a port are known, so that paths use it.
    fn is_usable(&self, py: Python<'_>, at: Endpoint) -> bool {
        self.with(py, |graph| graph.is_usable(at.into()))
    }

    /// A path of the least cost; `None` if there is none or a switch is not connected.
    fn path(&self, py: Python<'_>, from_: u64, to: u64) -> Option<Path> {
        self.with(py, |graph| graph.path(Dpid(from_), Dpid(to)).map(Path::from))
    }

    /// The cost of the best path; `None` if there is none or a switch is not connected.
    fn distance(&self, py: Python<'_>, from_: u64, to: u64) -> Option<u64> {
        self.with(py, |graph| graph.distance(Dpid(from_), Dpid(to)))
    }

    /// Up to `count` paths in the order of their cost.
    fn paths(&self, py: Python<'_>, from_: u64, to: u64, count: usize) -> Vec<Path> {
        self.with(py, |graph| {
            graph.paths(Dpid(from_), Dpid(to), count).into_iter().map(Path::from).collect()
        })
    }

    /// Up to `count` paths that share no link, the cheapest first.
    fn disjoint_paths(&self, py: Python<'_>, from_: u64, to: u64, count: usize) -> Vec<Path> {
        self.with(py, |graph| {
            let paths = graph.disjoint_paths(Dpid(from_), Dpid(to), count);
            paths.into_iter().map(Path::from).collect()
        })
    }

    /// The first hops of all paths of the least cost, by port.
    fn next_hops(&self, py: Python<'_>, at: u64, to: u64) -> Vec<Hop> {
        self.with(py, |graph| {
            graph.next_hops(Dpid(at), Dpid(to)).into_iter().map(Hop::from).collect()
        })
    }

    /// The ports of a switch that belong to the spanning tree, in order.
    fn tree_ports(&self, py: Python<'_>, dpid: u64) -> Vec<u32> {
        self.with(py, |graph| graph.tree_ports(Dpid(dpid)).into_iter().map(|it| it.0).collect())
    }

    /// The ports of a switch through which a flood leaves, in order.
    fn flood_ports(&self, py: Python<'_>, dpid: u64) -> Vec<u32> {
        self.with(py, |graph| graph.flood_ports(Dpid(dpid)).into_iter().map(|it| it.0).collect())
    }
}

/// Writes a truth value as Python does.
fn python(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Endpoint>()?;
    module.add_class::<SwitchRecord>()?;
    module.add_class::<PortRecord>()?;
    module.add_class::<LinkRecord>()?;
    module.add_class::<LinkDownRecord>()?;
    module.add_class::<Hop>()?;
    module.add_class::<Path>()?;
    module.add_class::<TopologyEvent>()?;
    module.add_class::<Topology>()?;
    module.add_class::<Graph>()
}

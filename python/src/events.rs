//! The classes of events.
//!
//! Events about a switch have its `dpid`, the `epoch` of its connection and its `version`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use sdk::abi::{RECORD_HEAD, Record, Refusal};
use sdk::{Event, FlowRemoved as RawFlowRemoved, PacketIn as RawPacketIn, PortChange};
use zone::run::WholeRecord;

use crate::http::HttpRequest;
use crate::matching::mac_bytes;
use crate::services::{ServiceUp, TableNews};
use crate::storage::StorageEvent;

/// A connected switch.
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Switch {
    /// Its datapath id.
    pub(crate) dpid: u64,
    /// The number of its connection.
    pub(crate) epoch: u32,
    /// Its version of `OpenFlow` on the wire: 1 or 4.
    pub(crate) version: u8,
}

#[pymethods]
impl Switch {
    #[new]
    fn new(dpid: u64, epoch: u32, version: u8) -> Self {
        Self { dpid, epoch, version }
    }

    fn __repr__(&self) -> String {
        format!("Switch(dpid={:#x}, epoch={}, version={})", self.dpid, self.epoch, self.version)
    }
}

impl From<sdk::Switch> for Switch {
    fn from(switch: sdk::Switch) -> Self {
        Self { dpid: switch.dpid.0, epoch: switch.epoch, version: switch.version.wire() }
    }
}

/// Makes the class of an event about a switch.
macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $kind:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, module = "rosemary")]
        #[derive(Debug)]
        pub(crate) struct $name {
            /// The switch.
            switch: Switch,
            $($(#[$field_doc])* $field: $type,)*
        }

        #[pymethods]
        impl $name {
            #[classattr]
            #[allow(non_upper_case_globals, reason = "the name in Python")]
            const kind: &'static str = $kind;

            #[new]
            #[pyo3(signature = (*, dpid, epoch = 0, version = 4, $($field),*))]
            #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python, for tests of apps")]
            fn new(dpid: u64, epoch: u32, version: u8, $($field: $type),*) -> Self {
                Self { switch: Switch { dpid, epoch, version }, $($field),* }
            }

            #[getter]
            fn dpid(&self) -> u64 {
                self.switch.dpid
            }

            #[getter]
            fn epoch(&self) -> u32 {
                self.switch.epoch
            }

            #[getter]
            fn version(&self) -> u8 {
                self.switch.version
            }

            fn __repr__(&self) -> String {
                format!("{}(dpid={:#x})", stringify!($name), self.switch.dpid)
            }
        }
    };
}

/// Makes the class of an event about no switch.
macro_rules! plain_event {
    ($(#[$doc:meta])* $name:ident, $kind:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, module = "rosemary")]
        #[derive(Debug)]
        pub(crate) struct $name {
            $($(#[$field_doc])* $field: $type,)*
        }

        #[pymethods]
        impl $name {
            #[classattr]
            #[allow(non_upper_case_globals, reason = "the name in Python")]
            const kind: &'static str = $kind;

            #[new]
            #[pyo3(signature = ($($field),*))]
            pub(crate) fn new($($field: $type),*) -> Self {
                Self { $($field),* }
            }

            fn __repr__(&self) -> String {
                concat!(stringify!($name), "()").to_owned()
            }
        }
    };
}

plain_event! {
    /// A snapshot begins: the app forgets the switches that it knew.
    SnapshotBegin, "snapshot-begin" {}
}
plain_event! {
    /// The snapshot is complete.
    SnapshotEnd, "snapshot-end" {}
}
plain_event! {
    /// This number of replies, errors and flow-removed messages were lost.
    Lost, "lost" {
        /// The number.
        count: u64,
    }
}
plain_event! {
    /// The app exceeds a soft limit or has reached a hard one.
    Alert, "alert" {
        /// The limit's name.
        limit: String,
        /// The amount in use.
        used: u64,
        /// The soft limit.
        soft: u64,
        /// The hard limit.
        hard: u64,
    }
}
plain_event! {
    /// A watched descriptor is ready.
    Ready, "ready" {
        /// Its number.
        fd: i32,
        /// Its events, as poll(2) names them.
        events: u16,
    }
}
event! {
    /// A switch is connected; its ports follow.
    SwitchUp, "switch-up" {
        /// Its features reply.
        features: Py<PyBytes>,
    }
}
event! {
    /// A switch has disconnected.
    SwitchDown, "switch-down" {}
}
event! {
    /// A port was added, changed or deleted.
    Port, "port" {
        /// 0 added, 1 deleted, 2 changed.
        change: u8,
        /// Its number, as in `OpenFlow` 1.3.
        port_no: u32,
        /// Its hardware address.
        hw_addr: Py<PyBytes>,
        /// Its name.
        name: Py<PyBytes>,
        /// `OFPPC_*` bits.
        config: u32,
        /// `OFPPS_*` bits.
        state: u32,
        /// Its speed in kbit/s.
        curr_speed: u32,
    }
}
event! {
    /// A switch answered a request of the app.
    Reply, "reply" {
        /// The request's transaction id.
        xid: u32,
        /// The type on the wire.
        r#type: u8,
        /// The `OpenFlow` message.
        message: Py<PyBytes>,
    }
}
event! {
    /// A switch answered a message of the app with an error.
    Error, "error" {
        /// The message's transaction id.
        xid: u32,
        /// The error's type.
        r#type: u16,
        /// The error's code.
        code: u16,
        /// The `OpenFlow` message.
        message: Py<PyBytes>,
    }
}
event! {
    /// A switch removed a flow of the app.
    FlowRemoved, "flow-removed" {
        /// Its cookie.
        cookie: u64,
        /// `OFPRR_*`.
        reason: u8,
        /// Its table.
        table_id: u8,
        /// The `OpenFlow` message.
        message: Py<PyBytes>,
    }
}
event! {
    /// The kernel refused a message of the app.
    Refused, "refused" {
        /// The message's transaction id.
        xid: u32,
        /// The reason, for people.
        why: String,
        /// The reason's number.
        reason: u8,
        /// The first bytes of the message.
        message: Py<PyBytes>,
        /// The line of the configuration that would admit it.
        remedy: Option<String>,
    }
}
event! {
    /// The kernel was restarted before the app handled the reply.
    RequestLost, "request-lost" {
        /// The request's transaction id.
        xid: u32,
    }
}
event! {
    /// The switch has lost flows; the app adds its own again.
    FlowsMissing, "flows-missing" {}
}
event! {
    /// Flows of the app that the switch has.
    FlowsKept, "flows-kept" {
        /// The `OpenFlow` message, a multipart reply with flow statistics.
        message: Py<PyBytes>,
        /// In the last part: whether all flows were delivered.
        is_complete: bool,
    }
}

/// A packet that a switch sent to the controller.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct PacketIn {
    /// The switch.
    #[pyo3(get)]
    pub(crate) switch: Switch,
    /// The port that it came in through.
    #[pyo3(get)]
    pub(crate) in_port: u32,
    /// The buffer in which the switch keeps it, if it does.
    #[pyo3(get)]
    pub(crate) buffer_id: Option<u32>,
    /// `OFPR_*`.
    #[pyo3(get)]
    reason: u8,
    /// The table that sent it.
    #[pyo3(get)]
    table_id: u8,
    /// The cookie of the flow that sent it.
    #[pyo3(get)]
    cookie: u64,
    /// The size of the packet at the switch.
    #[pyo3(get)]
    total_len: u16,
    /// Whether an earlier instance of the app may have handled it.
    #[pyo3(get)]
    repeated: bool,
    /// The `OpenFlow` message.
    message: Box<[u8]>,
    /// Where the packet lies in it.
    data: (usize, usize),
}

impl PacketIn {
    fn of(packet_in: &RawPacketIn<'_>) -> Self {
        let start = packet_in.data.as_ptr().addr() - packet_in.message.as_ptr().addr();
        Self {
            switch: packet_in.switch.into(),
            in_port: packet_in.in_port.0,
            buffer_id: packet_in.buffer_id,
            reason: packet_in.reason,
            table_id: packet_in.table_id,
            cookie: packet_in.cookie,
            total_len: packet_in.total_len,
            repeated: packet_in.repeated,
            message: packet_in.message.into(),
            data: (start, start + packet_in.data.len()),
        }
    }

    /// The packet's bytes.
    pub(crate) fn packet(&self) -> &[u8] {
        self.message.get(self.data.0..self.data.1).unwrap_or_default()
    }
}

#[pymethods]
impl PacketIn {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "packet-in";

    /// Makes one for a test of an app. `message` is the raw message, if the app reads it.
    #[new]
    #[pyo3(signature = (*, dpid, in_port, data, epoch = 0, version = 4, buffer_id = None, reason = 0, table_id = 0,
                        cookie = u64::MAX, total_len = None, message = None, repeated = false))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        dpid: u64,
        in_port: u32,
        data: &[u8],
        epoch: u32,
        version: u8,
        buffer_id: Option<u32>,
        reason: u8,
        table_id: u8,
        cookie: u64,
        total_len: Option<u16>,
        message: Option<&[u8]>,
        repeated: bool,
    ) -> Self {
        let mut all = message.unwrap_or_default().to_vec();
        let start = if all.ends_with(data) { all.len() - data.len() } else { all.len() };
        if start == all.len() {
            all.extend_from_slice(data);
        }
        Self {
            switch: Switch { dpid, epoch, version },
            in_port,
            buffer_id,
            reason,
            table_id,
            cookie,
            total_len: total_len.unwrap_or_else(|| data.len().try_into().unwrap_or(u16::MAX)),
            repeated,
            data: (start, start + data.len()),
            message: all.into(),
        }
    }

    #[getter]
    fn dpid(&self) -> u64 {
        self.switch.dpid
    }

    #[getter]
    fn epoch(&self) -> u32 {
        self.switch.epoch
    }

    #[getter]
    fn version(&self) -> u8 {
        self.switch.version
    }

    /// The packet from its Ethernet header on, or only its beginning.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.packet())
    }

    /// The `OpenFlow` message as the switch sent it.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.message)
    }

    /// The destination's Ethernet address, 6 bytes.
    #[getter]
    fn eth_dst<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.packet().get(..6).unwrap_or_default())
    }

    /// The source's Ethernet address, 6 bytes.
    #[getter]
    fn eth_src<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.packet().get(6..12).unwrap_or_default())
    }

    /// The type of the Ethernet frame, 0 if it is too short.
    #[getter]
    fn eth_type(&self) -> u16 {
        self.packet().get(12..14).map_or(0, |it| u16::from(it[0]) << 8 | u16::from(it[1]))
    }

    /// Whether `data` is the whole packet.
    #[getter]
    fn is_whole(&self) -> bool {
        self.packet().len() >= usize::from(self.total_len)
    }

    fn __repr__(&self) -> String {
        format!("PacketIn(dpid={:#x}, in_port={})", self.switch.dpid, self.in_port)
    }
}

/// Makes a list of events. `None` stands for an event that this SDK does not know, so that numbers stay those of records.
pub(crate) fn list<'py>(
    py: Python<'py>,
    records: &[WholeRecord<'_>],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for record in records {
        list.append(event(py, record.bytes())?)?;
    }
    Ok(list)
}

/// Makes the event of a record.
fn event(py: Python<'_>, record: &[u8]) -> PyResult<Py<PyAny>> {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
    let Some(event) = Event::of_bytes(record) else { return Ok(py.None()) };
    Ok(match event {
        Event::PacketIn(packet_in) => Py::new(py, PacketIn::of(&packet_in))?.into_any(),
        Event::SnapshotBegin => Py::new(py, SnapshotBegin {})?.into_any(),
        Event::SnapshotEnd => Py::new(py, SnapshotEnd {})?.into_any(),
        Event::SwitchUp(switch) => {
            let features = bytes(body(record));
            Py::new(py, SwitchUp { switch: switch.into(), features })?.into_any()
        }
        Event::SwitchDown(switch) => Py::new(py, SwitchDown { switch: switch.into() })?.into_any(),
        Event::Port { switch, change, port } => {
            let change = match change {
                PortChange::Added => 0,
                PortChange::Deleted => 1,
                PortChange::Modified => 2,
            };
            let name: &[u8] = &port.name;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let port = Port {
                switch: switch.into(),
                change,
                port_no: port.port_no.0,
                hw_addr: mac_bytes(py, port.hw_addr),
                name: bytes(name),
                config: port.config,
                state: port.state,
                curr_speed: port.curr_speed,
            };
            Py::new(py, port)?.into_any()
        }
        Event::Refused { switch, why, message, remedy } => {
            let reason = record_head(record).map_or(0, |head| head.reason);
            let why =
                why.map_or_else(|| "for an unknown reason".into(), |it: Refusal| it.to_string());
            let xid = sdk::Xid::of(message).map_or(0, |xid| xid.0);
            let (message, remedy) = (bytes(message), remedy.map(ToOwned::to_owned));
            let refused = Refused { switch: switch.into(), xid, why, reason, message, remedy };
            Py::new(py, refused)?.into_any()
        }
        Event::Reply(reply) => Py::new(
            py,
            Reply {
                switch: reply.switch.into(),
                xid: reply.xid.0,
                r#type: reply.message.get(1).copied().unwrap_or_default(),
                message: bytes(reply.message),
            },
        )?
        .into_any(),
        Event::Error(error) => {
            let two = |at: usize| {
                error
                    .message
                    .get(at..at + 2)
                    .map_or(0, |it| u16::from(it[0]) << 8 | u16::from(it[1]))
            };
            let (r#type, code) = (two(8), two(10));
            let switch = error.switch.into();
            let message = bytes(error.message);
            Py::new(py, Error { switch, xid: error.xid.0, r#type, code, message })?.into_any()
        }
        Event::FlowRemoved(removed) => flow_removed(py, &removed)?,
        Event::FlowsMissing(switch) => {
            Py::new(py, FlowsMissing { switch: switch.into() })?.into_any()
        }
        Event::FlowsKept(kept) => {
            let message = bytes(kept.message);
            let (switch, is_complete) = (kept.switch.into(), kept.is_complete);
            Py::new(py, FlowsKept { switch, message, is_complete })?.into_any()
        }
        Event::RequestLost { switch, xid } => {
            Py::new(py, RequestLost { switch: switch.into(), xid: xid.0 })?.into_any()
        }
        Event::Lost(count) => Py::new(py, Lost { count })?.into_any(),
        Event::Alert(alert) => {
            let limit = alert.limit.map_or("a new kind of limit", sdk::Limit::name).to_owned();
            let (used, soft, hard) = (alert.value, alert.soft, alert.hard);
            Py::new(py, Alert { limit, used, soft, hard })?.into_any()
        }
        Event::ServiceUp(service) => {
            Py::new(py, ServiceUp { service: service.name().to_owned() })?.into_any()
        }
        Event::Table(news) => {
            Py::new(py, TableNews { service: news.service.name().to_owned() })?.into_any()
        }
        Event::Storage { request, answer } => {
            Py::new(py, StorageEvent::of(py, request, answer)?)?.into_any()
        }
        Event::Http(request) => Py::new(py, HttpRequest::of(py, &request))?.into_any(),
        _ => py.None(),
    })
}

fn flow_removed(py: Python<'_>, removed: &RawFlowRemoved<'_>) -> PyResult<Py<PyAny>> {
    let removed = FlowRemoved {
        switch: removed.switch.into(),
        cookie: removed.cookie,
        reason: removed.reason.wire(),
        table_id: removed.table_id,
        message: PyBytes::new(py, removed.message).unbind(),
    };
    Ok(Py::new(py, removed)?.into_any())
}

fn record_head(record: &[u8]) -> Option<Record> {
    record.first_chunk().map(Record::from_bytes)
}

/// The body of a record; the features of a switch.
fn body(record: &[u8]) -> &[u8] {
    record.get(RECORD_HEAD..).unwrap_or_default()
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Switch>()?;
    module.add_class::<SnapshotBegin>()?;
    module.add_class::<SnapshotEnd>()?;
    module.add_class::<SwitchUp>()?;
    module.add_class::<SwitchDown>()?;
    module.add_class::<Port>()?;
    module.add_class::<PacketIn>()?;
    module.add_class::<Reply>()?;
    module.add_class::<Error>()?;
    module.add_class::<FlowRemoved>()?;
    module.add_class::<Refused>()?;
    module.add_class::<RequestLost>()?;
    module.add_class::<FlowsMissing>()?;
    module.add_class::<FlowsKept>()?;
    module.add_class::<Lost>()?;
    module.add_class::<Alert>()?;
    module.add_class::<HttpRequest>()?;
    module.add_class::<Ready>()
}

//! The classes of events.
//!
//! Events about a switch have its `dpid`, the `epoch` of its connection and its `version`.

mod of_record;
mod packet_in;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub(crate) use of_record::list;
pub(crate) use packet_in::PacketIn;

use crate::http::HttpRequest;

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
            pub(crate) switch: Switch,
            $($(#[$field_doc])* pub(crate) $field: $type,)*
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
    /// The outcome of a change set of the app.
    Committed, "committed" {
        /// The number of the set, as `commit` returned it.
        commit: u32,
        /// "atomic" or "ordered" if the switch has applied the set, else "refused", "failed" or "unanswered".
        outcome: String,
        /// With "atomic": the number of changes that the switch applied before or after the atomic step.
        outside: u32,
        /// The change that was refused, counted from 0; `None` if it is the set as a whole.
        index: Option<u32>,
        /// Why the set was not applied, for people.
        why: Option<String>,
        /// The line of the configuration that would admit the refused change.
        remedy: Option<String>,
        /// With "failed": the type and the code of the switch's error.
        error: Option<(u16, u16)>,
        /// Whether changes of a set that was not applied as a whole may have been applied.
        is_partial: bool,
    }
}
event! {
    /// The request is not answered any more.
    RequestLost, "request-lost" {
        /// The request's transaction id.
        xid: u32,
        /// The reason, for people.
        why: String,
    }
}
event! {
    /// A switch without packet-ins has learned or forgotten a host by itself.
    LearnedHost, "host" {
        /// The port behind which the host is; `LOCAL` if the switch knows only that the host is its own.
        port: u32,
        /// Its Ethernet address.
        mac: Py<PyBytes>,
        /// Its VLAN; 0 for none, or if the switch does not state it.
        vlan: u16,
        /// Its IP address, if the switch knows it.
        ip: Option<String>,
        /// Whether the switch has forgotten the host.
        is_gone: bool,
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
    module.add_class::<Committed>()?;
    module.add_class::<RequestLost>()?;
    module.add_class::<LearnedHost>()?;
    module.add_class::<FlowsMissing>()?;
    module.add_class::<FlowsKept>()?;
    module.add_class::<Lost>()?;
    module.add_class::<Alert>()?;
    module.add_class::<HttpRequest>()?;
    module.add_class::<Ready>()
}

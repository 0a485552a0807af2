//! Makes the events of the records of a batch.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use sdk::abi::{RECORD_HEAD, Record, Refusal};
use sdk::services::{RequestId, Service, Unavailable};
use sdk::{Event, FlowRemoved as RawFlowRemoved, PortChange};
use zone::run::WholeRecord;

use super::{
    Alert, Committed, Error, FlowRemoved, FlowsKept, FlowsMissing, LearnedHost, Lost, PacketIn,
    Port, Refused, Reply, RequestLost, SnapshotBegin, SnapshotEnd, SwitchDown, SwitchUp,
};
use crate::apps::AppsEvent;
use crate::broker::BrokerEvent;
use crate::drain::DrainEvent;
use crate::http::HttpRequest;
use crate::matching::mac_bytes;
use crate::ovsdb::OvsdbEvent;
use crate::services::{ServiceUp, TableNews};
use crate::storage::StorageEvent;

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
        Event::Host(host) => learned_host(py, &host)?,
        Event::Committed(committed) => Py::new(py, Committed::of(&committed))?.into_any(),
        Event::RequestLost { switch, xid, why } => {
            let why = why.to_string();
            Py::new(py, RequestLost { switch: switch.into(), xid: xid.0, why })?.into_any()
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
        Event::Broker { request, answer } => {
            Py::new(py, BrokerEvent::of(request, answer))?.into_any()
        }
        Event::Served { service, request, answer } => served(py, service, request, answer)?,
        Event::Http(request) => Py::new(py, HttpRequest::of(py, &request))?.into_any(),
        _ => py.None(),
    })
}

/// Makes the event of a host that a device has learned.
fn learned_host(py: Python<'_>, host: &sdk::LearnedHost) -> PyResult<Py<PyAny>> {
    let host = LearnedHost {
        switch: host.switch.into(),
        port: host.port.0,
        mac: mac_bytes(py, host.mac),
        vlan: host.vlan,
        ip: host.ip.map(|ip| ip.to_string()),
        is_gone: host.is_gone,
    };
    Ok(Py::new(py, host)?.into_any())
}

/// Makes the event of an answer of a service that an app or the monitor provides.
fn served(
    py: Python<'_>,
    service: Service,
    request: RequestId,
    answer: Result<&[u8], Unavailable>,
) -> PyResult<Py<PyAny>> {
    let event = match service {
        Service::Apps => match AppsEvent::of(py, request, answer) {
            Some(event) => Py::new(py, event)?.into_any(),
            None => py.None(),
        },
        Service::Ovsdb => match OvsdbEvent::of(py, request, answer) {
            Some(event) => Py::new(py, event)?.into_any(),
            None => py.None(),
        },
        Service::Topology => match DrainEvent::of(request, answer) {
            Some(event) => Py::new(py, event)?.into_any(),
            None => py.None(),
        },
        _ => py.None(),
    };
    Ok(event)
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

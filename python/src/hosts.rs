//! The client of the service `hosts`: where each host is, and its addresses.

use std::net::IpAddr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sdk::services::hosts::{self as raw, HostsEvent as RawEvent, Record, UNTAGGED};

use crate::matching::mac_bytes;
use crate::services::{mac, unavailable};
use crate::zone::Zone;

/// A host: an Ethernet address in a VLAN.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Host {
    /// Its Ethernet address.
    mac: Py<PyBytes>,
    /// Its VLAN; 0 for none.
    vlan: u16,
    /// The switch that it is attached to.
    dpid: u64,
    /// The port of that switch.
    port: u32,
    /// Whether packets with this address came in at another port, too, and the service has not decided yet.
    is_contested: bool,
    /// Whether an earlier process of the service saw it there, and no packet has confirmed it since.
    is_doubted: bool,
    /// When it was first seen, in seconds of `network.now()`.
    first_seen_s: u64,
    /// When it was last seen, in seconds of `network.now()`, to a minute.
    last_seen_s: u64,
}

#[pymethods]
impl Host {
    #[new]
    #[pyo3(signature = (mac, dpid, port, vlan = 0, is_contested = false, first_seen_s = 0, last_seen_s = 0, is_doubted = false))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the class")]
    fn new(
        mac: Py<PyBytes>,
        dpid: u64,
        port: u32,
        vlan: u16,
        is_contested: bool,
        first_seen_s: u64,
        last_seen_s: u64,
        is_doubted: bool,
    ) -> Self {
        Self { mac, vlan, dpid, port, is_contested, is_doubted, first_seen_s, last_seen_s }
    }

    fn __repr__(&self) -> String {
        format!("Host(dpid={:#x}, port={}, vlan={})", self.dpid, self.port, self.vlan)
    }
}

/// An IP address of a host.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Address {
    /// The address, as text.
    ip: String,
    /// Its VLAN; 0 for none.
    vlan: u16,
    /// The Ethernet address of its host.
    mac: Py<PyBytes>,
    /// When it was last seen, in seconds of `network.now()`, to a minute.
    last_seen_s: u64,
}

#[pymethods]
impl Address {
    #[new]
    #[pyo3(signature = (ip, mac, vlan = 0, last_seen_s = 0))]
    fn new(ip: String, mac: Py<PyBytes>, vlan: u16, last_seen_s: u64) -> Self {
        Self { ip, vlan, mac, last_seen_s }
    }

    fn __repr__(&self) -> String {
        format!("Address({:?}, vlan={})", self.ip, self.vlan)
    }
}

fn host(py: Python<'_>, it: &raw::Host) -> Host {
    Host {
        mac: mac_bytes(py, it.mac),
        vlan: it.vlan,
        dpid: it.dpid.0,
        port: it.port.0,
        is_contested: it.is_contested,
        is_doubted: it.is_doubted,
        first_seen_s: it.first_seen_s,
        last_seen_s: it.last_seen_s,
    }
}

fn record(py: Python<'_>, it: Record) -> PyResult<Py<PyAny>> {
    Ok(match it {
        Record::Host(it) => Py::new(py, host(py, &it))?.into_any(),
        Record::Address(it) => {
            let (ip, mac) = (it.ip.to_string(), mac_bytes(py, it.mac));
            Py::new(py, Address { ip, vlan: it.vlan, mac, last_seen_s: it.last_seen_s })?.into_any()
        }
    })
}

/// A change of a host or an address.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct HostChange {
    /// "appeared", "changed" or "gone"; of addresses "address-appeared", "address-moved" or "address-gone".
    kind: String,
    /// The former record, if there was one.
    before: Option<Py<PyAny>>,
    /// The present record, if there is one.
    now: Option<Py<PyAny>>,
}

#[pymethods]
impl HostChange {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (kind, before = None, now = None))]
    fn new(kind: String, before: Option<Py<PyAny>>, now: Option<Py<PyAny>>) -> Self {
        Self { kind, before, now }
    }

    fn __repr__(&self) -> String {
        format!("HostChange({:?})", self.kind)
    }
}

impl HostChange {
    fn of(py: Python<'_>, change: raw::HostChange) -> PyResult<Self> {
        use raw::HostChange as Raw;
        let (kind, before, now) = match change {
            Raw::Appeared(it) => ("appeared", None, Some(Record::Host(it))),
            Raw::Changed { before, now } => {
                ("changed", Some(Record::Host(before)), Some(Record::Host(now)))
            }
            Raw::Gone(it) => ("gone", Some(Record::Host(it)), None),
            Raw::AddressAppeared(it) => ("address-appeared", None, Some(Record::Address(it))),
            Raw::AddressMoved { before, now } => {
                ("address-moved", Some(Record::Address(before)), Some(Record::Address(now)))
            }
            Raw::AddressGone(it) => ("address-gone", Some(Record::Address(it)), None),
        };
        let made = |it: Option<Record>| it.map(|it| record(py, it)).transpose();
        Ok(Self { kind: kind.to_owned(), before: made(before)?, now: made(now)? })
    }
}

/// The meaning of an event for the hosts.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct HostsEvent {
    /// "reread": the table is new, or changes were lost. "changed": see `changes`. "gone": the service has ended.
    kind: String,
    /// The changes.
    changes: Vec<Py<HostChange>>,
}

#[pymethods]
impl HostsEvent {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (kind, changes = Vec::new()))]
    fn new(kind: String, changes: Vec<Py<HostChange>>) -> Self {
        Self { kind, changes }
    }

    fn __repr__(&self) -> String {
        format!("HostsEvent({:?}, {} changes)", self.kind, self.changes.len())
    }
}

/// Follows the service `hosts`, which the app names in its `services`.
#[pyclass(unsendable, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Hosts(raw::Hosts);

#[pymethods]
impl Hosts {
    #[new]
    fn new() -> Self {
        Self(raw::Hosts::new())
    }

    /// Handles an event; returns `None` if it is about something else. `App.follow` has it called for every event.
    fn on_event(
        &mut self,
        event: &Bound<'_, PyAny>,
        network: &Bound<'_, Zone>,
    ) -> PyResult<Option<HostsEvent>> {
        let (py, hosts) = (event.py(), &mut self.0);
        let found = network.get().with_event(event, |event, _| hosts.on_event(event))?;
        let Some(found) = found.flatten() else { return Ok(None) };
        let (kind, changes) = match found {
            RawEvent::Reread => ("reread", Vec::new()),
            RawEvent::Gone => ("gone", Vec::new()),
            RawEvent::Changed(changes) => ("changed", changes),
        };
        if kind == "changed" && changes.is_empty() {
            // Only the times of the last packets changed.
            return Ok(None);
        }
        let change = |change| Py::new(py, HostChange::of(py, change)?);
        let changes = changes.into_iter().map(change).collect::<PyResult<_>>()?;
        Ok(Some(HostsEvent { kind: kind.to_owned(), changes }))
    }

    /// Whether the service is there.
    fn is_available(&self) -> bool {
        self.0.is_available()
    }

    /// Finds a host by its Ethernet address, 6 bytes or text. Raises `Unavailable` without the service.
    #[pyo3(signature = (network, mac, vlan = UNTAGGED))]
    fn by_mac(
        &self,
        network: &Bound<'_, Zone>,
        mac: &Bound<'_, PyAny>,
        vlan: u16,
    ) -> PyResult<Option<Host>> {
        let (py, mac) = (network.py(), self::mac(mac)?);
        self.check()?;
        let found = network.get().with_network(|network| self.0.by_mac(network, mac, vlan))?;
        Ok(found.map(|it| host(py, &it)))
    }

    /// Finds the host that has an IP address. Raises `Unavailable` without the service.
    #[pyo3(signature = (network, ip, vlan = UNTAGGED))]
    fn by_ip(&self, network: &Bound<'_, Zone>, ip: &str, vlan: u16) -> PyResult<Option<Host>> {
        let py = network.py();
        let ip: IpAddr =
            ip.parse().map_err(|_| PyValueError::new_err(format!("{ip:?} is no IP address")))?;
        self.check()?;
        let found = network.get().with_network(|network| self.0.by_ip(network, ip, vlan))?;
        Ok(found.map(|it| host(py, &it)))
    }

    /// Returns all hosts and addresses, in no order. It reads the whole table. Raises `Unavailable` without the service.
    fn records(&self, network: &Bound<'_, Zone>) -> PyResult<Vec<Py<PyAny>>> {
        self.check()?;
        let records = network.get().with_network(|network| self.0.records(network))?;
        records.into_iter().map(|it| record(network.py(), it)).collect()
    }
}

impl Hosts {
    fn check(&self) -> PyResult<()> {
        if self.0.is_available() { Ok(()) } else { Err(unavailable("hosts")) }
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Host>()?;
    module.add_class::<Address>()?;
    module.add_class::<HostChange>()?;
    module.add_class::<HostsEvent>()?;
    module.add_class::<Hosts>()
}

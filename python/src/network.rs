//! The messages of the SDK: flow-mods, packet-outs, groups, meters, requests. `Zone` has them as methods.
//!
//! Each is encoded in the version of its switch, directly in the ring. Priorities, groups and meters count from the app's
//! first (`sdk/src/own.rs`).

use openflow::{
    EncodeError, FlowStatsRequest, GroupMod, Kind, MultipartRequest, PacketOut, PortNo, Version,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sdk::abi::host::Host as _;
use sdk::own::Own;
use zone::host::ZoneHost;

use crate::action::{Action, actions};
use crate::changes;
use crate::events::{PacketIn, Switch};
use crate::flow::{Bucket, FlowMod, value_error};
use crate::matching::Match;
use crate::meter::{self, MeterBand, usual_flags};
use crate::zone::{Zone, full};

/// Bytes first reserved for a message; most need less.
const USUAL_MESSAGE: usize = 512;

/// The longest message.
const LONGEST_MESSAGE: usize = u16::MAX as usize;

pub(crate) fn own(host: &ZoneHost) -> Own {
    let numbers = host.numbers();
    Own { priorities: numbers.band, groups: numbers.groups, meters: numbers.meters }
}

pub(crate) fn version_of(switch: Switch) -> PyResult<Version> {
    Version::from_wire(switch.version).map_err(|it| value_error(&it))
}

/// The commands for groups and meters.
pub(crate) const COMMANDS: &str = "\"add\", \"modify\" or \"delete\"";

/// The error for a word that is none of `words`.
pub(crate) fn unknown_word(given: &str, what: &str, words: &str) -> PyErr {
    PyValueError::new_err(format!("{given:?} is no {what}; use {words}"))
}

/// Encodes a message in the ring and returns its transaction id.
fn send(
    host: &mut ZoneHost,
    last_xid: &mut u32,
    to: Switch,
    size: usize,
    encode: impl Fn(u32, &mut [u8]) -> Result<usize, EncodeError>,
) -> PyResult<u32> {
    let xid = last_xid.wrapping_add(1);
    let mut size = size.min(LONGEST_MESSAGE);
    loop {
        let room = host.reserve(size).ok_or_else(full)?;
        match encode(xid, room) {
            Ok(written) => {
                if !host.commit(to.dpid, to.epoch, written, 0) {
                    return Err(full());
                }
                *last_xid = xid;
                return Ok(xid);
            }
            Err(EncodeError::NoRoom { .. }) if size < LONGEST_MESSAGE => size = LONGEST_MESSAGE,
            Err(error) => return Err(value_error(&error)),
        }
    }
}

#[pymethods]
impl Zone {
    /// Sends a flow-mod. Returns its transaction id.
    fn flow_mod(&self, to: Switch, flow_mod: PyRef<'_, FlowMod>) -> PyResult<u32> {
        let version = version_of(to)?;
        self.sending(|host, xid| {
            let own = own(host);
            let priority = own.priority(flow_mod.priority).map_err(|it| value_error(&it))?;
            let wire = flow_mod.wire();
            if !Own::has_other_numbers(&wire) {
                return send(host, xid, to, USUAL_MESSAGE, |xid, room| {
                    wire.encode_with_priority(priority, version, xid, room)
                });
            }
            let mut sent = Ok(0);
            own.flow_mod(&wire, |wire| {
                sent = send(host, xid, to, USUAL_MESSAGE, |xid, room| {
                    wire.encode_with_priority(priority, version, xid, room)
                });
                Ok(())
            })
            .map_err(|it| value_error(&it))?;
            sent
        })
    }

    /// Applies actions to the packet of a packet-in: to the switch's copy if the switch kept one.
    fn packet_out_for(
        &self,
        packet_in: PyRef<'_, PacketIn>,
        given: Vec<PyRef<'_, Action>>,
    ) -> PyResult<u32> {
        let (port, actions) = (PortNo(packet_in.in_port).to_answer(), actions(&given));
        let packet_out = match packet_in.buffer_id {
            Some(buffer_id) => PacketOut::buffered(port, &actions, buffer_id),
            None if packet_in.is_whole() => PacketOut::new(port, &actions, packet_in.packet()),
            None => {
                let why = "the switch sent only a part of the packet, which cannot be sent on";
                return Err(value_error(&why));
            }
        };
        self.send_packet_out(packet_in.switch, packet_out)
    }

    /// Sends a packet with actions. Returns the transaction id.
    #[pyo3(signature = (to, actions, data, in_port = None))]
    fn packet_out(
        &self,
        to: Switch,
        actions: Vec<PyRef<'_, Action>>,
        data: &[u8],
        in_port: Option<u32>,
    ) -> PyResult<u32> {
        let port = in_port.map_or(PortNo::CONTROLLER, PortNo);
        let actions = self::actions(&actions);
        self.send_packet_out(to, PacketOut::new(port, &actions, data))
    }

    /// Adds, modifies or deletes a group: `command` is "add", "modify" or "delete", `group_type` "all", "select", "indirect"
    /// or "fast-failover".
    #[pyo3(signature = (to, command, group_id, buckets = Vec::new(), group_type = "all"))]
    fn group_mod(
        &self,
        to: Switch,
        command: &str,
        group_id: u32,
        buckets: Vec<PyRef<'_, Bucket>>,
        group_type: &str,
    ) -> PyResult<u32> {
        let group_mod = changes::group_mod(command, group_id, &buckets, group_type)?;
        let version = version_of(to)?;
        self.sending(|host, xid| {
            let group_mod = own(host).group_mod(&group_mod).map_err(|it| value_error(&it))?;
            send(host, xid, to, USUAL_MESSAGE, |xid, room| group_mod.encode(version, xid, room))
        })
    }

    /// Adds, modifies or deletes a meter: `command` is "add", "modify" or "delete", and `flags` are "kbps" or "pktps", "burst" and
    /// "stats". Only `OpenFlow` 1.3 has meters.
    #[pyo3(signature = (to, command, meter_id, bands = Vec::new(), flags = usual_flags()))]
    fn meter_mod(
        &self,
        to: Switch,
        command: &str,
        meter_id: u32,
        bands: Vec<PyRef<'_, MeterBand>>,
        flags: Vec<String>,
    ) -> PyResult<u32> {
        let mut meter_mod = meter::meter_mod(command, meter_id, &bands, &flags)?;
        let version = version_of(to)?;
        self.sending(|host, xid| {
            meter_mod.meter_id = own(host).meter(meter_id).map_err(|it| value_error(&it))?;
            send(host, xid, to, USUAL_MESSAGE, |xid, room| meter_mod.encode(version, xid, room))
        })
    }

    /// Requests a reply that the switch sends when it has processed all earlier messages.
    fn barrier(&self, to: Switch) -> PyResult<u32> {
        let version = version_of(to)?;
        self.sending(|host, xid| {
            send(host, xid, to, 64, |xid, room| {
                Kind::BarrierRequest.encode_empty(version, xid, room)
            })
        })
    }

    /// Requests statistics: "desc", "flow", "aggregate", "table", "port", "group", "group-desc" or "port-desc". The reply
    /// comes as `Reply` events.
    #[pyo3(signature = (to, what, matching = None, port = None))]
    fn request(
        &self,
        to: Switch,
        what: &str,
        matching: Option<PyRef<'_, Match>>,
        port: Option<u32>,
    ) -> PyResult<u32> {
        let flows = || {
            let matching = matching.as_ref().map(|it| it.0.clone()).unwrap_or_default();
            FlowStatsRequest::new(matching)
        };
        let request = match what {
            "desc" => MultipartRequest::Desc,
            "flow" => MultipartRequest::Flow(flows()),
            "aggregate" => MultipartRequest::Aggregate(flows()),
            "table" => MultipartRequest::Table,
            "port" => MultipartRequest::PortStats(port.map_or(PortNo::ANY, PortNo)),
            "group" => MultipartRequest::Group(GroupMod::ALL_GROUPS),
            "group-desc" => MultipartRequest::GroupDesc,
            "port-desc" => MultipartRequest::PortDesc,
            other => {
                let words = "\"desc\", \"flow\", \"aggregate\", \"table\", \"port\", \"group\", \"group-desc\" or \"port-desc\"";
                return Err(unknown_word(other, "statistic", words));
            }
        };
        let version = version_of(to)?;
        self.sending(|host, xid| {
            let request = own(host).request(&request).map_err(|it| value_error(&it))?;
            send(host, xid, to, USUAL_MESSAGE, |xid, room| request.encode(version, xid, room))
        })
    }

    /// Converts a priority in a switch's message to the app's own; `None` if it is outside of the app's band.
    fn own_priority(&self, on_switch: u16) -> Option<u16> {
        let (lowest, highest) = self.band();
        on_switch.checked_sub(lowest).filter(|_| on_switch <= highest)
    }
}

impl Zone {
    fn send_packet_out(&self, to: Switch, packet_out: PacketOut<'_>) -> PyResult<u32> {
        let version = version_of(to)?;
        let size = packet_out.data.len() + USUAL_MESSAGE;
        self.sending(|host, xid| {
            let own = own(host).actions(packet_out.actions).map_err(|it| value_error(&it))?;
            let mut packet_out = packet_out;
            if let Some(own) = &own {
                packet_out.actions = own.into();
            }
            send(host, xid, to, size, |xid, room| packet_out.encode(version, xid, room))
        })
    }
}

//! `Nicira`: the actions of Open vSwitch, for apps with the capability `experimenter:nicira`.
//!
//! A field is text: `"reg0"` or `"NXM_NX_REG0"`, and bits of it are `"reg0[0..15]"` or `"reg0[3]"`.

use std::net::IpAddr;

use openflow::nicira::{
    Bundle, BundleAlgorithm, Controller2, Ct, CtZone, FieldId, HashFields, Multipath,
    MultipathAlgorithm, Nat, NatRange, NiciraAction, SAME_TABLE, Subfield,
};
use openflow::{PortNo, Version};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::action::{Action, actions};
use crate::matching;

/// The actions of Open vSwitch, as `Nicira.resubmit_table(10)` or `Nicira.load("reg0", 5)`.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Nicira;

/// Checks an action, so that a value that does not fit is an error of the call. It must fit in one of the versions of switches.
fn action(action: NiciraAction) -> PyResult<Action> {
    let tries = Version::BY_PREFERENCE.iter().map(|version| action.encode(*version));
    match tries.reduce(Result::or) {
        Some(Err(error)) => Err(PyValueError::new_err(error.to_string())),
        _ => Ok(Action(action.into())),
    }
}

fn wrong(text: &str, what: &str) -> PyErr {
    PyValueError::new_err(format!("{text:?} is no {what}"))
}

/// Reads the name of a field.
fn field(name: &str) -> PyResult<FieldId> {
    FieldId::by_name(name).ok_or_else(|| wrong(name, "field of Open vSwitch"))
}

/// Reads a field, or bits of it.
fn bits(text: &str) -> PyResult<Subfield> {
    let wrong = || wrong(text, "field or bits of a field, such as reg0 or reg0[0..15]");
    let Some((name, range)) = text.split_once('[') else { return Ok(field(text)?.into()) };
    let field = field(name)?;
    let range = range.strip_suffix(']').ok_or_else(wrong)?;
    if range.is_empty() {
        return Ok(field.into());
    }
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    let n_bits = last.checked_sub(first).and_then(|it| it.checked_add(1)).ok_or_else(wrong)?;
    Ok(Subfield::part(field, first, n_bits))
}

/// Reads addresses and ports: `10.0.0.1`, `10.0.0.1-10.0.0.9:1000-2000`, `[fe80::1]-[fe80::2]:80`, or nothing.
fn range(text: &str) -> PyResult<Option<NatRange>> {
    let wrong = || wrong(text, "range of addresses and ports");
    if text.is_empty() {
        return Ok(None);
    }
    let is_v6 = text.contains('[') || text.matches(':').count() > 1;
    let (addresses, ports) = match (text.rfind("]:"), is_v6) {
        (Some(at), true) => (&text[..=at], Some(&text[at + 2..])),
        (None, true) => (text, None),
        (_, false) => text.split_once(':').map_or((text, None), |(a, p)| (a, Some(p))),
    };
    let pair = |text: &str| match text.split_once('-') {
        Some((min, max)) => (min.to_owned(), Some(max.to_owned())),
        None => (text.to_owned(), None),
    };
    let address = |text: &str| -> PyResult<IpAddr> {
        let text = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(wrong)?,
            None => text,
        };
        text.parse().map_err(|_| wrong())
    };
    let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let (min, max) = pair(addresses);
    let (min_port, max_port) = match ports.map(pair) {
        Some((min, max)) => (Some(port(&min)?), max.as_deref().map(port).transpose()?),
        None => (None, None),
    };
    let max = max.as_deref().map(address).transpose()?;
    Ok(Some(NatRange { min: address(&min)?, max, min_port, max_port }))
}

fn hash_fields(name: &str) -> PyResult<HashFields> {
    HashFields::by_name(name).ok_or_else(|| wrong(name, "choice of fields to hash"))
}

#[pymethods]
impl Nicira {
    /// Looks the packet up again in the present table, as from this port.
    #[staticmethod]
    fn resubmit(in_port: u32) -> PyResult<Action> {
        action(NiciraAction::Resubmit { in_port: PortNo(in_port) })
    }

    /// Looks the packet up in a table, and continues behind the actions found there.
    #[staticmethod]
    #[pyo3(signature = (table = SAME_TABLE, in_port = PortNo::IN_PORT.0, ct = false))]
    fn resubmit_table(table: u8, in_port: u32, ct: bool) -> PyResult<Action> {
        action(NiciraAction::ResubmitTable { in_port: PortNo(in_port), table, ct })
    }

    /// Sets the tunnel id, 32 bits.
    #[staticmethod]
    fn set_tunnel(tunnel_id: u32) -> PyResult<Action> {
        action(NiciraAction::SetTunnel(tunnel_id))
    }

    /// Sets the tunnel id, 64 bits.
    #[staticmethod]
    fn set_tunnel64(tunnel_id: u64) -> PyResult<Action> {
        action(NiciraAction::SetTunnel64(tunnel_id))
    }

    /// Gives outputs the queue that they had at first.
    #[staticmethod]
    fn pop_queue() -> PyResult<Action> {
        action(NiciraAction::PopQueue)
    }

    /// Copies bits of a field to another.
    #[staticmethod]
    #[pyo3(name = "move")]
    fn copy(source: &str, to: &str) -> PyResult<Action> {
        action(NiciraAction::Move { from: bits(source)?, to: bits(to)? })
    }

    /// Writes a number into at most 64 bits of a field.
    #[staticmethod]
    fn load(to: &str, value: u64) -> PyResult<Action> {
        action(NiciraAction::Load { to: bits(to)?, value })
    }

    /// Writes a field, or the bits of it that a mask has: one keyword argument, as in `Match`.
    #[staticmethod]
    #[pyo3(signature = (**fields))]
    fn load_field(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Action> {
        let mut fields = fields.into_iter().flatten();
        match (fields.next(), fields.next()) {
            (Some((name, value)), None) => {
                let field = matching::field(&name.extract::<String>()?, &value)?;
                action(NiciraAction::LoadField(field))
            }
            _ => Err(PyValueError::new_err("an action writes one field")),
        }
    }

    /// Does nothing; zeros are added up to a multiple of 8 and 6 bytes.
    #[staticmethod]
    fn note(data: Vec<u8>) -> PyResult<Action> {
        let mut data = data;
        data.resize((data.len() + 2).next_multiple_of(8) - 2, 0);
        action(NiciraAction::Note(data.into()))
    }

    /// Writes the number of a link, 0 to `max_link`, chosen by a hash, into a field.
    #[staticmethod]
    #[pyo3(signature = (to, max_link, fields = "symmetric_l4", basis = 0, algorithm = "modulo_n", arg = 0))]
    fn multipath(
        to: &str,
        max_link: u16,
        fields: &str,
        basis: u16,
        algorithm: &str,
        arg: u32,
    ) -> PyResult<Action> {
        let algorithm = MultipathAlgorithm::by_name(algorithm)
            .ok_or_else(|| wrong(algorithm, "algorithm of multipath"))?;
        let (fields, to) = (hash_fields(fields)?, bits(to)?);
        action(NiciraAction::Multipath(Multipath { fields, basis, algorithm, max_link, arg, to }))
    }

    /// Outputs to one of several ports, or writes its number into a field.
    #[staticmethod]
    #[pyo3(signature = (members, fields = "symmetric_l4", basis = 0, algorithm = "active_backup", to = None))]
    fn bundle(
        members: Vec<u32>,
        fields: &str,
        basis: u16,
        algorithm: &str,
        to: Option<&str>,
    ) -> PyResult<Action> {
        let algorithm = BundleAlgorithm::by_name(algorithm)
            .ok_or_else(|| wrong(algorithm, "algorithm of bundle"))?;
        let (fields, to) = (hash_fields(fields)?, to.map(bits).transpose()?);
        let members = members.into_iter().map(PortNo).collect();
        action(NiciraAction::Bundle(Bundle { fields, basis, algorithm, members, to }))
    }

    /// Outputs to the port whose number a field has.
    #[staticmethod]
    #[pyo3(signature = (source, max_len = 0xffff))]
    fn output_reg(source: &str, max_len: u16) -> PyResult<Action> {
        action(NiciraAction::OutputReg { from: bits(source)?, max_len })
    }

    /// Ends the processing of the packet.
    #[staticmethod]
    fn exit() -> PyResult<Action> {
        action(NiciraAction::Exit)
    }

    /// Decrements the TTL, and sends packets whose TTL is over to the controllers with these ids.
    #[staticmethod]
    fn dec_ttl_controllers(controller_ids: Vec<u16>) -> PyResult<Action> {
        action(NiciraAction::DecTtlControllers(controller_ids))
    }

    /// Shortens the timeouts of this flow when a TCP connection ends, in seconds.
    #[staticmethod]
    #[pyo3(signature = (idle = 0, hard = 0))]
    fn fin_timeout(idle: u16, hard: u16) -> PyResult<Action> {
        action(NiciraAction::FinTimeout { idle, hard })
    }

    /// Sends the packet to the controller with an id.
    #[staticmethod]
    #[pyo3(signature = (max_len = 0xffff, controller_id = 0, reason = 1))]
    fn controller(max_len: u16, controller_id: u16, reason: u8) -> PyResult<Action> {
        action(NiciraAction::Controller { max_len, controller_id, reason })
    }

    /// Sends the packet to the controller, with data of the flow's.
    #[staticmethod]
    #[pyo3(signature = (userdata, max_len = 0xffff, controller_id = 0, reason = 1, pause = false, meter = None))]
    fn controller2(
        userdata: Vec<u8>,
        max_len: u16,
        controller_id: u16,
        reason: u8,
        pause: bool,
        meter: Option<u32>,
    ) -> PyResult<Action> {
        let userdata = userdata.into();
        let it = Controller2 { max_len, controller_id, reason, userdata, pause, meter };
        action(NiciraAction::Controller2(it))
    }

    /// Writes the bits of the metadata that the mask has.
    #[staticmethod]
    #[pyo3(signature = (value, mask = u64::MAX))]
    fn write_metadata(value: u64, mask: u64) -> PyResult<Action> {
        action(NiciraAction::WriteMetadata { value, mask })
    }

    /// Pushes bits of a field on the stack of the packet.
    #[staticmethod]
    fn push(source: &str) -> PyResult<Action> {
        action(NiciraAction::Push(bits(source)?))
    }

    /// Pops bits from the stack of the packet into a field.
    #[staticmethod]
    fn pop(to: &str) -> PyResult<Action> {
        action(NiciraAction::Pop(bits(to)?))
    }

    /// Makes the flow one dimension, from 0 on, of a conjunctive match.
    #[staticmethod]
    #[pyo3(signature = (conj_id, clause, n_clauses))]
    fn conjunction(conj_id: u32, clause: u8, n_clauses: u8) -> PyResult<Action> {
        action(NiciraAction::Conjunction { clause, n_clauses, id: conj_id })
    }

    /// Sends the packet through connection tracking. The zone is a number, or 16 bits of a field.
    #[staticmethod]
    #[pyo3(
        name = "ct",
        signature = (commit = false, force = false, zone = None, table = None, alg = 0, actions = Vec::new())
    )]
    fn track(
        commit: bool,
        force: bool,
        zone: Option<&Bound<'_, PyAny>>,
        table: Option<u8>,
        alg: u16,
        actions: Vec<PyRef<'_, Action>>,
    ) -> PyResult<Action> {
        let zone = match zone {
            None => CtZone::default(),
            Some(zone) => match zone.extract::<String>() {
                Ok(text) => CtZone::Field(bits(&text)?),
                Err(_) => CtZone::Number(crate::number::number("zone", zone)?),
            },
        };
        let actions = crate::action::actions(&actions);
        action(NiciraAction::Ct(Ct { commit, force, zone, table, alg, actions }))
    }

    /// Translates addresses and ports, in `ct` only: `src` or `dst` is `"10.0.0.1-10.0.0.9:1000-2000"`, or `""` for the
    /// switch's choice. Without both, the packet is translated as its connection is.
    #[staticmethod]
    #[pyo3(signature = (src = None, dst = None, persistent = false, hash = false, random = false))]
    fn nat(
        src: Option<&str>,
        dst: Option<&str>,
        persistent: bool,
        hash: bool,
        random: bool,
    ) -> PyResult<Action> {
        let range = range(src.or(dst).unwrap_or_default())?;
        let (src, dst) = (src.is_some(), dst.is_some());
        action(NiciraAction::Nat(Nat { src, dst, persistent, hash, random, range }))
    }

    /// Removes the state of connection tracking from the packet.
    #[staticmethod]
    fn ct_clear() -> PyResult<Action> {
        action(NiciraAction::CtClear)
    }

    /// Outputs the first bytes of the packet, at least 14, to a port.
    #[staticmethod]
    fn output_trunc(port: u32, max_len: u32) -> PyResult<Action> {
        action(NiciraAction::OutputTrunc { port: PortNo(port), max_len })
    }

    /// Applies actions to a copy of the packet.
    #[staticmethod]
    #[pyo3(name = "clone")]
    fn on_copy(actions: Vec<PyRef<'_, Action>>) -> PyResult<Action> {
        action(NiciraAction::Clone(self::actions(&actions)))
    }

    /// Decrements the TTL of the network service header.
    #[staticmethod]
    fn dec_nsh_ttl() -> PyResult<Action> {
        action(NiciraAction::DecNshTtl)
    }

    /// Writes a bit: whether the packet is longer than this.
    #[staticmethod]
    fn check_pkt_larger(pkt_len: u16, to: &str) -> PyResult<Action> {
        action(NiciraAction::CheckPktLarger { pkt_len, to: bits(to)? })
    }

    /// Removes a field of tunnel metadata.
    #[staticmethod]
    fn delete_field(name: &str) -> PyResult<Action> {
        action(NiciraAction::DeleteField(field(name)?))
    }
}

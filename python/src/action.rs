//! `Action`: what a switch does with a packet.

use openflow::PortNo;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::matching::field;
use crate::number;

/// An action on a packet, as `Action.output(2)` or `Action.set_field(eth_dst="02:00:00:00:00:01")`.
#[pyclass(frozen, eq, hash, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Action(pub(crate) openflow::Action);

#[pymethods]
impl Action {
    /// Outputs the packet to a port; `max_len` counts for the controller only.
    #[staticmethod]
    #[pyo3(signature = (port, max_len = 0xffff))]
    fn output(
        #[pyo3(from_py_with = number::port)] port: u32,
        #[pyo3(from_py_with = number::max_len)] max_len: u16,
    ) -> Self {
        Self(openflow::Action::Output { port: PortNo(port), max_len })
    }

    /// Outputs the packet to a queue of a port. `OpenFlow` 1.0 only.
    #[staticmethod]
    fn enqueue(
        #[pyo3(from_py_with = number::port)] port: u32,
        #[pyo3(from_py_with = number::queue_id)] queue_id: u32,
    ) -> Self {
        Self(openflow::Action::Enqueue { port: PortNo(port), queue_id })
    }

    /// Sets a header field: one keyword argument, as in `Match`.
    #[staticmethod]
    #[pyo3(signature = (**fields))]
    fn set_field(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut fields = fields.into_iter().flatten();
        match (fields.next(), fields.next()) {
            (Some((name, value)), None) => {
                Ok(Self(openflow::Action::SetField(field(&name.extract::<String>()?, &value)?)))
            }
            _ => Err(PyValueError::new_err("an action sets one field")),
        }
    }

    /// Pushes a VLAN tag.
    #[staticmethod]
    #[pyo3(signature = (eth_type = 0x8100))]
    fn push_vlan(#[pyo3(from_py_with = number::eth_type)] eth_type: u16) -> Self {
        Self(openflow::Action::PushVlan(eth_type))
    }

    /// Pops the outer VLAN tag.
    #[staticmethod]
    fn pop_vlan() -> Self {
        Self(openflow::Action::PopVlan)
    }

    /// Pushes an MPLS label.
    #[staticmethod]
    #[pyo3(signature = (eth_type = 0x8847))]
    fn push_mpls(#[pyo3(from_py_with = number::eth_type)] eth_type: u16) -> Self {
        Self(openflow::Action::PushMpls(eth_type))
    }

    /// Pops the outer MPLS label; the argument is the ethertype below it.
    #[staticmethod]
    fn pop_mpls(#[pyo3(from_py_with = number::eth_type)] eth_type: u16) -> Self {
        Self(openflow::Action::PopMpls(eth_type))
    }

    /// Sets the queue that outputs use.
    #[staticmethod]
    fn set_queue(#[pyo3(from_py_with = number::queue_id)] queue_id: u32) -> Self {
        Self(openflow::Action::SetQueue(queue_id))
    }

    /// Processes the packet with a group of the app.
    #[staticmethod]
    fn group(#[pyo3(from_py_with = number::group_id)] group_id: u32) -> Self {
        Self(openflow::Action::Group(group_id))
    }

    /// Sets the IP TTL or hop limit.
    #[staticmethod]
    fn set_nw_ttl(#[pyo3(from_py_with = number::ttl)] ttl: u8) -> Self {
        Self(openflow::Action::SetNwTtl(ttl))
    }

    /// Decrements the IP TTL or hop limit.
    #[staticmethod]
    fn dec_nw_ttl() -> Self {
        Self(openflow::Action::DecNwTtl)
    }

    fn __repr__(&self) -> String {
        format!("Action.{:?}", self.0)
    }
}

/// Copies actions out of Python's objects.
pub(crate) fn actions(given: &[PyRef<'_, Action>]) -> Vec<openflow::Action> {
    given.iter().map(|action| action.0.clone()).collect()
}

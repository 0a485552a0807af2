//! `PacketIn`: a packet that a switch sent to the controller.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sdk::PacketIn as RawPacketIn;

use super::Switch;

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
    pub(super) fn of(packet_in: &RawPacketIn<'_>) -> Self {
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
    pub(crate) fn is_whole(&self) -> bool {
        self.packet().len() >= usize::from(self.total_len)
    }

    fn __repr__(&self) -> String {
        format!("PacketIn(dpid={:#x}, in_port={})", self.switch.dpid, self.in_port)
    }
}

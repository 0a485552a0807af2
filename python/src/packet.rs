//! Reads packets, with the parser of the Rust SDK: `Packet.parse(event.data)`.

use openflow::MacAddr;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sdk::packet;

use crate::matching::mac_bytes;
use crate::services::mac;

/// A packet from its Ethernet header on. A part that is missing or malformed is `None`.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Packet {
    /// Its destination, 6 bytes.
    eth_dst: Py<PyBytes>,
    /// Its source, 6 bytes.
    eth_src: Py<PyBytes>,
    /// The VLAN identifier of its outermost tag.
    vlan: Option<u16>,
    /// The type of what is behind VLAN tags and SNAP.
    eth_type: u16,
    /// The bytes behind that type.
    payload: Py<PyBytes>,
    /// The source address of IPv4 or IPv6.
    ip_src: Option<String>,
    /// The destination address of IPv4 or IPv6.
    ip_dst: Option<String>,
    /// The protocol behind the headers of IP.
    ip_proto: Option<u8>,
    /// The source port of TCP, UDP or SCTP.
    src_port: Option<u16>,
    /// The destination port of TCP, UDP or SCTP.
    dst_port: Option<u16>,
    /// The bytes behind the header of TCP or UDP.
    data: Option<Py<PyBytes>>,
    /// The ARP packet for Ethernet and IPv4, or `None`.
    arp: Option<Arp>,
}

#[pymethods]
impl Packet {
    /// Reads a packet; `None` if it is shorter than an Ethernet header.
    #[staticmethod]
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the crate of these types is no dependency here"
    )]
    fn parse(py: Python<'_>, frame: &[u8]) -> Option<Self> {
        let packet = packet::Packet::parse(frame)?;
        let ports = packet.ports();
        let data = packet.tcp().map(|tcp| tcp.payload());
        let data = data.or_else(|| packet.udp().map(|udp| udp.payload()));
        Some(Self {
            eth_dst: mac_bytes(py, packet.eth_dst),
            eth_src: mac_bytes(py, packet.eth_src),
            vlan: packet.vlan,
            eth_type: packet.ethertype,
            payload: PyBytes::new(py, packet.payload).unbind(),
            ip_src: packet.src_ip().map(|ip| ip.to_string()),
            ip_dst: packet.dst_ip().map(|ip| ip.to_string()),
            ip_proto: packet.protocol(),
            src_port: ports.map(|(src, _)| src),
            dst_port: ports.map(|(_, dst)| dst),
            data: data.map(|data| PyBytes::new(py, data).unbind()),
            arp: packet.arp().map(Arp),
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let address = |mac: &Py<PyBytes>| {
            mac.bind(py)
                .as_bytes()
                .first_chunk()
                .map_or_else(String::new, |it| MacAddr(*it).to_string())
        };
        let (src, dst) = (address(&self.eth_src), address(&self.eth_dst));
        let ip = self.ip_src.iter().zip(&self.ip_dst).map(|(src, dst)| format!(" {src} > {dst}"));
        format!("<Packet {src} > {dst} {:#06x}{}>", self.eth_type, ip.collect::<String>())
    }
}

/// An ARP packet for Ethernet and IPv4.
#[pyclass(frozen, eq, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arp(packet::Arp);

#[pymethods]
impl Arp {
    /// 1 for a request, 2 for a reply.
    #[getter]
    fn operation(&self) -> u16 {
        self.0.operation
    }

    /// Address of the sender, 6 bytes.
    #[getter]
    fn sender_mac(&self, py: Python<'_>) -> Py<PyBytes> {
        mac_bytes(py, self.0.sender_mac)
    }

    /// IPv4 address of the sender.
    #[getter]
    fn sender_ip(&self) -> String {
        self.0.sender_ip.to_string()
    }

    /// Address of the target, 6 bytes; zeros in a request.
    #[getter]
    fn target_mac(&self, py: Python<'_>) -> Py<PyBytes> {
        mac_bytes(py, self.0.target_mac)
    }

    /// IPv4 address of the target.
    #[getter]
    fn target_ip(&self) -> String {
        self.0.target_ip.to_string()
    }

    /// Builds the frame with which the owner of `mac` answers this request.
    #[pyo3(signature = (mac))]
    fn reply(&self, py: Python<'_>, mac: &Bound<'_, PyAny>) -> PyResult<Py<PyBytes>> {
        Ok(PyBytes::new(py, &self.0.reply(self::mac(mac)?)).unbind())
    }

    fn __repr__(&self) -> String {
        let packet::Arp { operation, sender_mac, sender_ip, target_ip, .. } = self.0;
        format!("<Arp operation {operation}: sender {sender_ip} {sender_mac}, target {target_ip}>")
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Packet>()?;
    module.add_class::<Arp>()
}

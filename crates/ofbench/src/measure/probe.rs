//! The frames of the measured traffic, and the flows that they belong to.
//!
//! ```text
//! Ethernet (14) | IPv4 (20) | UDP (8) | "ofbm" | run (4) | flow (4) | sequence (4) | zeros
//! ```
//!
//! A flow is a number: the last three bytes of its IPv4 destination in 10.0.0.0/8. The number of the run keeps frames of
//! another run apart.

use std::net::Ipv4Addr;

use openflow::{Field, MacAddr, Masked, Match, PortNo};

/// Least size of a frame without its checksum, in bytes.
pub(super) const MIN_FRAME: usize = 60;

/// Largest size of a frame, in bytes.
pub(super) const MAX_FRAME: usize = 1500;

/// Number of flows that can be told apart.
pub(super) const FLOWS: u32 = 1 << 24;

const MAGIC: &[u8; 4] = b"ofbm";
const IP: usize = 14;
const UDP: usize = IP + 20;
const PAYLOAD: usize = UDP + 8;
const IPV4: u16 = 0x0800;
const UDP_NUMBER: u8 = 17;
const SOURCE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PORTS: [u16; 2] = [6633, 9];

/// A frame of the measured traffic, identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    /// Its flow.
    pub(super) flow: u32,
    /// Its number within the flow.
    pub(super) sequence: u32,
}

/// Makes and recognises the frames of a run in one direction.
#[derive(Debug, Clone)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    source: MacAddr,
    destination: MacAddr,
    run: u32,
}

impl Frames {
    /// Creates the frames of a run from one station to another; `size` is limited to the possible sizes.
    pub(super) fn new(run: u32, source: MacAddr, destination: MacAddr, size: usize) -> Self {
        let size = size.clamp(MIN_FRAME, MAX_FRAME);
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(destination.0);
        bytes.extend(source.0);
        bytes.extend(IPV4.to_be_bytes());
        let length = |from: usize| u16::try_from(size - from).unwrap_or(u16::MAX).to_be_bytes();
        bytes.extend([0x45, 0]);
        bytes.extend(length(IP));
        bytes.extend([0, 0, 0x40, 0, 64, UDP_NUMBER, 0, 0]);
        bytes.extend(SOURCE.octets());
        bytes.extend([0; 4]);
        bytes.extend(PORTS.iter().flat_map(|port| port.to_be_bytes()));
        bytes.extend(length(UDP));
        bytes.extend([0, 0]); // IPv4 allows a UDP datagram without a checksum
        bytes.extend(MAGIC);
        bytes.extend(run.to_be_bytes());
        bytes.resize(size, 0);
        Self { bytes, source, destination, run }
    }

    /// Returns the frame of a probe.
    pub(super) fn frame(&mut self, probe: Probe) -> &[u8] {
        let bytes = &mut self.bytes;
        bytes[IP + 16..IP + 20].copy_from_slice(&address(probe.flow).octets());
        bytes[IP + 10..IP + 12].copy_from_slice(&[0, 0]);
        let sum = checksum(&bytes[IP..UDP]);
        bytes[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        bytes[PAYLOAD + 8..PAYLOAD + 12].copy_from_slice(&probe.flow.to_be_bytes());
        bytes[PAYLOAD + 12..PAYLOAD + 16].copy_from_slice(&probe.sequence.to_be_bytes());
        bytes
    }

    /// Identifies a probe by its frame or the beginning of its frame; `None` for other frames.
    pub(super) fn recognise(&self, frame: &[u8]) -> Option<Probe> {
        let (head, payload) = frame.split_at_checked(PAYLOAD)?;
        let rest = payload.strip_prefix(MAGIC)?;
        let number = |at: usize| rest.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let is_ours = head.get(..6)? == self.destination.0 && number(0)? == self.run;
        is_ours.then_some(Probe { flow: number(4)?, sequence: number(8)? })
    }

    /// Returns the match of exactly one flow in this direction, with every field of a probe.
    pub(super) fn exact(&self, in_port: PortNo, flow: u32) -> Match {
        Match::new()
            .in_port(in_port)
            .eth_src(self.source)
            .eth_dst(self.destination)
            .eth_type(IPV4)
            .ip_proto(UDP_NUMBER)
            .ipv4_src(SOURCE)
            .ipv4_dst(address(flow))
            .udp_src(PORTS[0])
            .udp_dst(PORTS[1])
    }
}

/// Returns the match of the `2^free` flows whose numbers differ from `flow` in the last `free` bits at most.
pub(super) fn wildcard(flow: u32, free: u32) -> Match {
    let mask = Ipv4Addr::from(u32::MAX.checked_shl(free).unwrap_or(0));
    let first = Ipv4Addr::from(u32::from(address(flow)) & u32::from(mask));
    Match::new().eth_type(IPV4).with(&Field::Ipv4Dst(Masked::new(first, mask)))
}

fn address(flow: u32) -> Ipv4Addr {
    let [_, a, b, c] = flow.to_be_bytes();
    Ipv4Addr::new(10, a, b, c)
}

/// Computes the checksum of an IPv4 header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        Frames::new(7, MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]), 64)
    }

    #[test]
    fn frames_are_valid_and_recognised() {
        let probe = Probe { flow: 0x01_0203, sequence: 9 };
        let mut frames = frames();
        let frame = frames.frame(probe).to_vec();
        assert_eq!(frame.len(), 64);
        assert_eq!(checksum(&frame[IP..UDP]), 0, "the checksum of a header with its checksum is 0");
        assert_eq!(frame[IP + 16..IP + 20], [10, 1, 2, 3]);
        let packet = openflow::ip::IpPacket::read_v4(&frame[IP..]).unwrap();
        assert_eq!(packet.ports(), Some((PORTS[0], PORTS[1])));
        assert_eq!(frames.recognise(&frame), Some(probe));
        assert_eq!(frames.recognise(&frame[..PAYLOAD + 16]), Some(probe));
    }

    #[test]
    fn other_frames_are_not_recognised() {
        let mut ours = frames();
        let frame = ours.frame(Probe { flow: 1, sequence: 2 }).to_vec();
        for size in 0..PAYLOAD + 16 {
            assert_eq!(ours.recognise(&frame[..size]), None, "{size} bytes");
        }
        let other = Frames::new(8, MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]), 64);
        let back = Frames::new(7, MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), 64);
        assert_eq!(other.recognise(&frame), None, "of another run");
        assert_eq!(back.recognise(&frame), None, "in the other direction");
    }

    #[test]
    fn wildcard_covers_a_power_of_two() {
        assert_eq!(wildcard(0x01_0205, 2), wildcard(0x01_0207, 2));
        assert_ne!(wildcard(0x01_0203, 2), wildcard(0x01_0204, 2));
    }
}

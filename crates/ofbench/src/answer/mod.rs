//! Decodes the fields of a controller's flow-mods and packet-outs that [`crate::checker`] checks.
//!
//! The generator decodes millions of these a second, so the common shape (one output, no masks) is
//! read at fixed offsets. Every other shape goes through the codec, which also produces the error
//! text.

mod v1_0;
mod v1_1;
mod v1_3;
mod v1_5;

use openflow::{Action, Actions, DecodeError, Field, FlowMod, PacketOut, PortNo, Version};

/// The checked fields of a flow-mod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowModFields {
    /// Whether the command is a delete; the other fields are then irrelevant.
    pub(crate) deletes: bool,
    /// [`NO_BUFFER`] if the flow-mod uses no buffer.
    pub(crate) buffer_id: u32,
    pub(crate) in_port: Option<u32>,
    /// The least significant byte is the first on the wire, as in [`crate::hosts::Pair`].
    pub(crate) eth_src: Option<u64>,
    pub(crate) eth_dst: Option<u64>,
    pub(crate) out: Egress,
}

/// The shape of nearly every answer: an add that matches in-port and both addresses, outputs to one
/// port and uses a buffer. It is decoded with as few branches as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommonFlowMod {
    pub(crate) buffer_id: u32,
    pub(crate) in_port: u32,
    pub(crate) eth_src: u64,
    pub(crate) eth_dst: u64,
    pub(crate) out_port: u32,
}

impl CommonFlowMod {
    /// Decodes a complete flow-mod of this shape. The connector checks whether the buffer id is valid.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
    pub(crate) fn read(version: Version, message: &[u8]) -> Option<Self> {
        match version {
            Version::V1_0 => v1_0::common_flow_mod(message),
            Version::V1_1 => v1_1::common_flow_mod(message),
            Version::V1_2 => v1_3::common_flow_mod::<3>(message),
            Version::V1_3 => v1_3::common_flow_mod::<4>(message),
            Version::V1_4 => v1_3::common_flow_mod::<5>(message),
            Version::V1_5 => v1_3::common_flow_mod::<6>(message),
        }
    }
}

/// The checked fields of a packet-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketOutFields<'a> {
    /// [`NO_BUFFER`] if the packet-out carries its frame.
    pub(crate) buffer_id: u32,
    pub(crate) in_port: u32,
    pub(crate) out: Egress,
    pub(crate) frame: &'a [u8],
}

/// Where a list of actions sends a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Egress {
    /// Drops it.
    Nowhere,
    /// Outputs it to one port.
    Port(u32),
    /// Floods it to every port except its in-port.
    Flood,
    /// Outputs it to several ports below 64, each a bit. A controller that knows which ports have
    /// hosts floods this way.
    Ports(u64),
    /// Sends it to the controller only.
    Controller,
    /// Sends it to a group, another table or other sets of ports.
    Several,
}

/// The `buffer_id` that stands for "no buffer" in every version.
pub(crate) const NO_BUFFER: u32 = u32::MAX;

impl FlowModFields {
    /// Decodes a complete flow-mod of the common shape.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
    pub(crate) fn decode_fast(version: Version, message: &[u8]) -> Option<Self> {
        match version {
            Version::V1_0 => v1_0::flow_mod(message),
            Version::V1_1 => v1_1::flow_mod(message),
            Version::V1_2 => v1_3::flow_mod::<3>(message),
            Version::V1_3 => v1_3::flow_mod::<4>(message),
            Version::V1_4 => v1_3::flow_mod::<5>(message),
            Version::V1_5 => v1_3::flow_mod::<6>(message),
        }
    }

    /// Decodes a complete flow-mod of any shape with the codec.
    ///
    /// # Errors
    /// [`DecodeError`] if the message is not a valid flow-mod.
    #[cold]
    pub(crate) fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let flow_mod = FlowMod::decode(message)?;
        let mut flow = Self {
            deletes: flow_mod.command.is_delete(),
            buffer_id: flow_mod.buffer_id.unwrap_or(NO_BUFFER),
            in_port: None,
            eth_src: None,
            eth_dst: None,
            out: Egress::of(flow_mod.instructions.apply),
        };
        if flow.out == Egress::Nowhere {
            flow.out = Egress::of(flow_mod.instructions.write);
        }
        if flow.out == Egress::Nowhere && flow_mod.instructions.goto_table.is_some() {
            flow.out = Egress::Several;
        }
        for field in flow_mod.match_.fields() {
            match field {
                Field::InPort(port) => flow.in_port = Some(port.0),
                // A masked address does not identify one host.
                Field::EthSrc(address) if address.mask.is_none() => {
                    flow.eth_src = Some(address_to_u64(address.value.0));
                }
                Field::EthDst(address) if address.mask.is_none() => {
                    flow.eth_dst = Some(address_to_u64(address.value.0));
                }
                _ => {}
            }
        }
        Ok(flow)
    }
}

impl<'a> PacketOutFields<'a> {
    /// Decodes a complete packet-out of the common shape.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
    pub(crate) fn decode_fast(version: Version, message: &'a [u8]) -> Option<Self> {
        match version {
            Version::V1_0 => v1_0::packet_out(message),
            Version::V1_5 => v1_5::packet_out(message),
            _ => v1_3::packet_out(message),
        }
    }

    /// Decodes a complete packet-out of any shape with the codec.
    ///
    /// # Errors
    /// [`DecodeError`] if the message is not a valid packet-out.
    #[cold]
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let packet_out = PacketOut::decode(message)?;
        Ok(Self {
            buffer_id: packet_out.buffer_id.unwrap_or(NO_BUFFER),
            in_port: packet_out.in_port.0,
            out: Egress::of(packet_out.actions),
            frame: packet_out.data,
        })
    }
}

impl Egress {
    /// Returns where a list of actions sends a packet. An additional output to the controller is
    /// ignored.
    fn of(actions: Actions<'_>) -> Self {
        let mut out = Self::Nowhere;
        for action in actions.iter() {
            let found = match action {
                Action::Output { port, .. } | Action::Enqueue { port, .. } => Self::to(port),
                Action::Group(_) => Self::Several,
                _ => continue,
            };
            out = match (out, found) {
                (Self::Nowhere | Self::Controller, found) => found,
                (out, Self::Controller) => out,
                (out, found) if out == found => out,
                (Self::Port(_) | Self::Ports(_), Self::Port(_)) => {
                    match (out.bits(), found.bits()) {
                        (Some(ports), Some(port)) => Self::Ports(ports | port),
                        _ => Self::Several,
                    }
                }
                _ => Self::Several,
            };
        }
        out
    }

    /// Returns a bit for each port; `None` for a port of 64 and more, and for everything else.
    fn bits(self) -> Option<u64> {
        match self {
            Self::Port(port) => 1_u64.checked_shl(port),
            Self::Ports(ports) => Some(ports),
            _ => None,
        }
    }

    /// Maps a port number, which may be reserved.
    #[inline]
    fn to(port: PortNo) -> Self {
        match port {
            PortNo::FLOOD | PortNo::ALL => Self::Flood,
            PortNo::CONTROLLER => Self::Controller,
            PortNo::TABLE | PortNo::NORMAL => Self::Several,
            port => Self::Port(port.0),
        }
    }
}

/// Converts an address to the form of [`crate::hosts::Pair`].
#[inline]
pub(crate) fn address_to_u64(address: [u8; 6]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&address);
    u64::from_le_bytes(bytes)
}

/// Reads the big-endian `u16` at `at`.
#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the `u64` at `at`; the first byte becomes the least significant.
#[inline]
fn le64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Mask of the lower six bytes.
const ADDRESS: u64 = (1 << 48) - 1;

/// Reads the big-endian `u32` at `at`.
#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use openflow::{FlowModCommand, MacAddr, Masked, Match};

    use super::*;

    const A: MacAddr = MacAddr([2, 1, 2, 3, 4, 5]);
    const B: MacAddr = MacAddr([2, 9, 8, 7, 6, 5]);

    /// Matches with and without a shape that is read at fixed offsets.
    fn matches() -> Vec<Match> {
        let pair = Match::new().in_port(PortNo(3)).eth_src(A).eth_dst(B);
        vec![
            Match::new(),
            Match::new().eth_dst(B),
            Match::new().in_port(PortNo(7)).eth_dst(A),
            pair.clone(),
            pair.clone().vlan_vid(7),
            pair.eth_type(0x800).ipv4_src([10, 0, 0, 1].into()).ip_proto(17).udp_src(9),
        ]
    }

    fn actions() -> Vec<Vec<Action>> {
        let output = |port| Action::output(port);
        vec![
            vec![],
            vec![output(PortNo(2))],
            vec![output(PortNo::FLOOD)],
            vec![output(PortNo::CONTROLLER)],
            vec![output(PortNo::IN_PORT)],
            vec![output(PortNo(2)), output(PortNo::CONTROLLER)],
            vec![output(PortNo(2)), output(PortNo(3))],
            vec![Action::SetField(Field::EthSrc(A.into())), output(PortNo(9))],
        ]
    }

    #[test]
    fn fast_flow_mod_decode_equals_codec() {
        for &version in Version::ALL {
            for (match_, actions) in
                matches().iter().flat_map(|m| actions().into_iter().map(move |a| (m.clone(), a)))
            {
                for command in [FlowModCommand::Add, FlowModCommand::DeleteStrict] {
                    let flow_mod = FlowMod::new(command, match_.clone())
                        .cookie(5)
                        .buffer_id(Some(77))
                        .apply(&actions);
                    let mut out = [0; 512];
                    let size = flow_mod.encode(version, 1, &mut out).unwrap();
                    let message = &out[..size];
                    let decoded = FlowModFields::decode(message).unwrap();
                    let fast = FlowModFields::decode_fast(version, message);
                    assert!(fast.is_none_or(|fast| fast == decoded), "{flow_mod:?}");
                    if let Some(usual) = CommonFlowMod::read(version, message) {
                        let same = FlowModFields {
                            deletes: false,
                            buffer_id: usual.buffer_id,
                            in_port: Some(usual.in_port),
                            eth_src: Some(usual.eth_src),
                            eth_dst: Some(usual.eth_dst),
                            out: Egress::to(PortNo(usual.out_port)),
                        };
                        assert_eq!(same, decoded, "{flow_mod:?}");
                    }
                    for len in 0..size {
                        assert_eq!(
                            FlowModFields::decode_fast(version, &message[..len]),
                            None,
                            "cut at {len}"
                        );
                        assert_eq!(CommonFlowMod::read(version, &message[..len]), None);
                    }
                }
            }
        }
    }

    #[test]
    fn fast_packet_out_decode_equals_codec() {
        for &version in Version::ALL {
            for actions in actions() {
                for buffer_id in [None, Some(3)] {
                    for in_port in [PortNo(1), PortNo::CONTROLLER] {
                        let data = if buffer_id.is_some() { &[][..] } else { b"a frame" };
                        let packet_out =
                            PacketOut { buffer_id, ..PacketOut::new(in_port, &actions, data) };
                        let mut out = [0; 256];
                        let size = packet_out.encode(version, 1, &mut out).unwrap();
                        let message = &out[..size];
                        let decoded = PacketOutFields::decode(message).unwrap();
                        let fast = PacketOutFields::decode_fast(version, message);
                        assert!(fast.is_none_or(|fast| fast == decoded), "{packet_out:?}");
                        for len in 0..size {
                            assert_eq!(
                                PacketOutFields::decode_fast(version, &message[..len]),
                                None
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn common_shapes_take_the_fast_path() {
        for &version in Version::ALL {
            let actions = [Action::output(PortNo(2))];
            let pair = Match::new().in_port(PortNo(3)).eth_src(A).eth_dst(B);
            let mut out = [0; 256];
            let size = FlowMod::add(pair).apply(&actions).encode(version, 1, &mut out).unwrap();
            assert!(FlowModFields::decode_fast(version, &out[..size]).is_some());
            assert!(CommonFlowMod::read(version, &out[..size]).is_some());
            let sent = PacketOut::buffered(PortNo(3), &actions, 9);
            let size = sent.encode(version, 1, &mut out).unwrap();
            assert!(PacketOutFields::decode_fast(version, &out[..size]).is_some());
        }
    }

    #[test]
    fn masked_address_matches_no_single_host() {
        let mask = MacAddr([0xff, 0xff, 0, 0, 0, 0]);
        let match_ = Match::new().with(&Field::EthDst(Masked::new(B, mask)));
        let mut out = [0; 256];
        let size = FlowMod::add(match_).encode(Version::V1_3, 1, &mut out).unwrap();
        assert_eq!(FlowModFields::decode_fast(Version::V1_3, &out[..size]), None);
        assert_eq!(FlowModFields::decode(&out[..size]).unwrap().eth_dst, None);
    }
}

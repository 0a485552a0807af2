//! What of a controller's flow-mod or packet-out says whether it fits its question.
//!
//! Read at fixed offsets, as these are read by the million: the shape that nearly every controller
//! sends, one output, no masks. What has another shape is read by the codec instead, which also
//! explains what does not fit.

mod v1_0;
mod v1_3;

use openflow::{Action, Actions, DecodeError, Field, FlowMod, PacketOut, PortNo, Version};

/// A flow-mod, as far as it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Whether it deletes entries: then nothing else counts.
    pub(crate) deletes: bool,
    /// [`NO_BUFFER`] is none.
    pub(crate) buffer_id: u32,
    pub(crate) in_port: Option<u32>,
    /// The first byte on the wire in the least significant, as in [`crate::hosts::Pair`].
    pub(crate) eth_src: Option<u64>,
    pub(crate) eth_dst: Option<u64>,
    pub(crate) out: Out,
}

/// A flow-mod that answers nearly every question, read with as few branches as may be: it adds an
/// entry that matches in-port and both addresses, outputs to one port, and uses a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsualFlow {
    pub(crate) buffer_id: u32,
    pub(crate) in_port: u32,
    pub(crate) eth_src: u64,
    pub(crate) eth_dst: u64,
    pub(crate) out_port: u32,
}

impl UsualFlow {
    /// Reads a whole flow-mod, if it is one of these. Whether a buffer is used is not looked at.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is read stays in registers only then")]
    pub(crate) fn read(version: Version, message: &[u8]) -> Option<Self> {
        match version {
            Version::V1_0 => v1_0::usual_flow(message),
            Version::V1_3 => v1_3::usual_flow(message),
        }
    }
}

/// A packet-out, as far as it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent<'a> {
    /// [`NO_BUFFER`] is none.
    pub(crate) buffer_id: u32,
    pub(crate) in_port: u32,
    pub(crate) out: Out,
    pub(crate) frame: &'a [u8],
}

/// Where packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    /// To nobody.
    Nowhere,
    /// To a port.
    Port(u32),
    /// To every port but the one it came from.
    Flood,
    /// To the controller alone.
    Controller,
    /// To several ports, or where an entry of the switch's decides.
    Several,
}

/// `buffer_id` of none, in every version.
pub(crate) const NO_BUFFER: u32 = u32::MAX;

impl Flow {
    /// Reads a whole flow-mod of the usual shape.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is read stays in registers only then")]
    pub(crate) fn quick(version: Version, message: &[u8]) -> Option<Self> {
        match version {
            Version::V1_0 => v1_0::flow_mod(message),
            Version::V1_3 => v1_3::flow_mod(message),
        }
    }

    /// Reads a whole flow-mod of any shape, by the codec.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    #[cold]
    pub(crate) fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let flow_mod = FlowMod::decode(message)?;
        let mut flow = Self {
            deletes: flow_mod.command.is_delete(),
            buffer_id: flow_mod.buffer_id.unwrap_or(NO_BUFFER),
            in_port: None,
            eth_src: None,
            eth_dst: None,
            out: Out::of(flow_mod.instructions.apply),
        };
        if flow.out == Out::Nowhere {
            flow.out = Out::of(flow_mod.instructions.write);
        }
        if flow.out == Out::Nowhere && flow_mod.instructions.goto_table.is_some() {
            flow.out = Out::Several;
        }
        for field in flow_mod.match_.fields() {
            match field {
                Field::InPort(port) => flow.in_port = Some(port.0),
                // Some bits of an address say nothing about one host.
                Field::EthSrc(address) if address.mask.is_none() => {
                    flow.eth_src = Some(number(address.value.0));
                }
                Field::EthDst(address) if address.mask.is_none() => {
                    flow.eth_dst = Some(number(address.value.0));
                }
                _ => {}
            }
        }
        Ok(flow)
    }
}

impl<'a> Sent<'a> {
    /// Reads a whole packet-out of the usual shape.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is read stays in registers only then")]
    pub(crate) fn quick(version: Version, message: &'a [u8]) -> Option<Self> {
        match version {
            Version::V1_0 => v1_0::packet_out(message),
            Version::V1_3 => v1_3::packet_out(message),
        }
    }

    /// Reads a whole packet-out of any shape, by the codec.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    #[cold]
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let packet_out = PacketOut::decode(message)?;
        Ok(Self {
            buffer_id: packet_out.buffer_id.unwrap_or(NO_BUFFER),
            in_port: packet_out.in_port.0,
            out: Out::of(packet_out.actions),
            frame: packet_out.data,
        })
    }
}

impl Out {
    /// Where a list of actions sends a packet. What goes to the controller besides is left out.
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
                _ => Self::Several,
            };
        }
        out
    }

    /// Where a port is.
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

/// An address as [`crate::hosts::Pair`] has it.
#[inline]
pub(crate) fn number(address: [u8; 6]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&address);
    u64::from_le_bytes(bytes)
}

/// The big-endian `u16` at `at`.
#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The bytes at `at`, the first in the least significant.
#[inline]
fn le64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The lower six bytes.
const ADDRESS: u64 = (1 << 48) - 1;

/// The big-endian `u32` at `at`.
#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use openflow::{FlowModCommand, MacAddr, Masked, Match};

    use super::*;

    const VERSIONS: [Version; 2] = [Version::V1_0, Version::V1_3];
    const A: MacAddr = MacAddr([2, 1, 2, 3, 4, 5]);
    const B: MacAddr = MacAddr([2, 9, 8, 7, 6, 5]);

    /// Matches of every shape that is read at fixed offsets, and others.
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
    fn flow_mod_read_at_offsets_is_what_the_codec_reads() {
        for version in VERSIONS {
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
                    let decoded = Flow::decode(message).unwrap();
                    let quick = Flow::quick(version, message);
                    assert!(quick.is_none_or(|quick| quick == decoded), "{flow_mod:?}");
                    if let Some(usual) = UsualFlow::read(version, message) {
                        let same = Flow {
                            deletes: false,
                            buffer_id: usual.buffer_id,
                            in_port: Some(usual.in_port),
                            eth_src: Some(usual.eth_src),
                            eth_dst: Some(usual.eth_dst),
                            out: Out::to(PortNo(usual.out_port)),
                        };
                        assert_eq!(same, decoded, "{flow_mod:?}");
                    }
                    for len in 0..size {
                        assert_eq!(Flow::quick(version, &message[..len]), None, "cut at {len}");
                        assert_eq!(UsualFlow::read(version, &message[..len]), None);
                    }
                }
            }
        }
    }

    #[test]
    fn packet_out_read_at_offsets_is_what_the_codec_reads() {
        for version in VERSIONS {
            for actions in actions() {
                for buffer_id in [None, Some(3)] {
                    for in_port in [PortNo(1), PortNo::CONTROLLER] {
                        let data = if buffer_id.is_some() { &[][..] } else { b"a frame" };
                        let packet_out =
                            PacketOut { buffer_id, ..PacketOut::new(in_port, &actions, data) };
                        let mut out = [0; 256];
                        let size = packet_out.encode(version, 1, &mut out).unwrap();
                        let message = &out[..size];
                        let decoded = Sent::decode(message).unwrap();
                        let quick = Sent::quick(version, message);
                        assert!(quick.is_none_or(|quick| quick == decoded), "{packet_out:?}");
                        for len in 0..size {
                            assert_eq!(Sent::quick(version, &message[..len]), None);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ordinary_shapes_are_not_left_to_the_codec() {
        for version in VERSIONS {
            let actions = [Action::output(PortNo(2))];
            let pair = Match::new().in_port(PortNo(3)).eth_src(A).eth_dst(B);
            let mut out = [0; 256];
            let size = FlowMod::add(pair).apply(&actions).encode(version, 1, &mut out).unwrap();
            assert!(Flow::quick(version, &out[..size]).is_some());
            assert!(UsualFlow::read(version, &out[..size]).is_some());
            let sent = PacketOut::buffered(PortNo(3), &actions, 9);
            let size = sent.encode(version, 1, &mut out).unwrap();
            assert!(Sent::quick(version, &out[..size]).is_some());
        }
    }

    #[test]
    fn masked_address_names_no_host() {
        let mask = MacAddr([0xff, 0xff, 0, 0, 0, 0]);
        let match_ = Match::new().with(&Field::EthDst(Masked::new(B, mask)));
        let mut out = [0; 256];
        let size = FlowMod::add(match_).encode(Version::V1_3, 1, &mut out).unwrap();
        assert_eq!(Flow::quick(Version::V1_3, &out[..size]), None);
        assert_eq!(Flow::decode(&out[..size]).unwrap().eth_dst, None);
    }
}

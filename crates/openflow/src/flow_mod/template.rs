//! A flow-mod that is encoded once and sent often, with fields that are filled in each time.

use super::{FlowMod, FlowModFlags, NO_BUFFER};
use crate::action::Action;
use crate::instruction::Instructions;
use crate::matching::Match;
use crate::v1_0::matching::wildcard;
use crate::write::put;
use crate::{EncodeError, MacAddr, PortNo, Version, v1_0};

/// The fields that are filled into a [`FlowModTemplate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blanks {
    /// In-port of the packets.
    pub in_port: PortNo,
    /// Destination of the packets.
    pub eth_dst: MacAddr,
    /// Source of the packets.
    pub eth_src: MacAddr,
    /// Id of a buffered packet that the new entry then processes.
    pub buffer_id: Option<u32>,
    /// Output port of the packets.
    pub output: PortNo,
}

/// A prebuilt flow-mod for pairs of hosts whose addresses and ports are left blank.
///
/// Filling in a template takes a fraction of the time of [`FlowMod::encode`], which handles every
/// field of a flow-mod.
///
/// ```
/// use rosemary_openflow::{Blanks, FlowMod, FlowModTemplate, MacAddr, Match, PortNo, Version};
///
/// let add = FlowMod::add(Match::new()).idle_timeout(60);
/// let template = FlowModTemplate::new(&add, Version::V1_0)?;
/// let mut buffer = [0; 128];
/// let blanks = Blanks {
///     in_port: PortNo(1),
///     eth_dst: MacAddr([2, 0, 0, 0, 0, 2]),
///     eth_src: MacAddr([2, 0, 0, 0, 0, 1]),
///     buffer_id: None,
///     output: PortNo(2),
/// };
/// let size = template.fill(&blanks, 7, &mut buffer)?;
/// assert_eq!(FlowMod::decode(&buffer[..size])?.match_.to_string(),
///     "in_port=1,eth_dst=02:00:00:00:00:02,eth_src=02:00:00:00:00:01");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FlowModTemplate(Message);

/// The encoded message with empty blanks.
#[derive(Debug, Clone)]
enum Message {
    V1_0([u8; 80]),
    V1_1([u8; 160]),
    /// The versions since 1.2, whose match is a list of fields.
    Oxm([u8; 104]),
}

impl FlowModTemplate {
    /// Creates a template from `flow_mod`. Its match, buffer and instructions are ignored: they are
    /// the blanks.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it.
    pub fn new(flow_mod: &FlowMod<'_>, version: Version) -> Result<Self, EncodeError> {
        let output = [Action::output(PortNo(1))];
        let flow_mod = pair(flow_mod, &output);
        let message = match version {
            Version::V1_0 => Message::V1_0(encode(&flow_mod, version)?),
            Version::V1_1 => Message::V1_1(encode(&flow_mod, version)?),
            _ => Message::Oxm(encode(&flow_mod, version)?),
        };
        Ok(Self(message))
    }

    /// Recognises an encoded flow-mod as an instance of a template, whatever its blanks hold;
    /// `None` for any other message. The command must be add. Priority, timeouts, cookie and flags
    /// are free, because a template's creator chooses them.
    pub fn of_message(message: &[u8]) -> Option<Self> {
        let has = |at: usize, expected: &[u8]| {
            message.get(at..).is_some_and(|rest| rest.starts_with(expected))
        };
        match message.first_chunk::<4>()? {
            // OpenFlow 1.0.2 §5.2.3, §5.3.3: OFPFC_ADD; every field but in-port, source and
            // destination is wildcarded.
            [1, 14, 0, 80] => {
                let mut whole: [u8; 80] = message.try_into().ok()?;
                let is = has(8, &V1_0_WILDCARDS) && has(56, &[0, 0]) && has(72, &[0, 0, 0, 8]);
                put(&mut whole, OUTPUT_1_0, 1_u16.to_be_bytes());
                is.then_some(Self(Message::V1_0(whole)))
            }
            // OpenFlow 1.1.0, A.2.3, A.2.4, A.3.4.1: everything from the match on, except the blanks, is as in other templates.
            [2, 14, 0, 160] => {
                let mut whole: [u8; 160] = message.try_into().ok()?;
                let output = [Action::output(PortNo(1))];
                put(&mut whole, OUTPUT_1_1, 1_u32.to_be_bytes());
                let pair =
                    encode::<160>(&pair(&FlowMod::add(Match::new()), &output), Version::V1_1)
                        .ok()?;
                let is = has(25, &[0])
                    && [48..52, 56..60, 66..72, 78..OUTPUT_1_1, OUTPUT_1_1 + 4..160]
                        .into_iter()
                        .all(|fixed| whole.get(fixed.clone()) == pair.get(fixed));
                is.then_some(Self(Message::V1_1(whole)))
            }
            // OpenFlow 1.3.5 §7.2.3, §7.2.4, §7.3.4.1: OFPFC_ADD; a match of three fields; one
            // apply-actions instruction.
            [3..=6, 14, 0, 104] => {
                let mut whole: [u8; 104] = message.try_into().ok()?;
                put(&mut whole, OUTPUT_OXM, 1_u32.to_be_bytes());
                let is = has(25, &[0])
                    && has(48, &[0, 1, 0, 32, 0x80, 0, 0, 4])
                    && has(60, &[0x80, 0, 6, 6])
                    && has(70, &[0x80, 0, 8, 6])
                    && has(80, &[0, 4, 0, 24])
                    && has(88, &[0, 0, 0, 16]);
                is.then_some(Self(Message::Oxm(whole)))
            }
            _ => None,
        }
    }

    /// Returns the flow-mod with empty blanks. Its output is port 1, even if the template was made
    /// from a message.
    #[inline]
    pub fn message(&self) -> &[u8] {
        match &self.0 {
            Message::V1_0(message) => message,
            Message::V1_1(message) => message,
            Message::Oxm(message) => message,
        }
    }

    /// Returns the flow-mod with empty blanks for changes of priority, timeouts, cookie and flags.
    #[inline]
    pub fn message_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Message::V1_0(message) => message,
            Message::V1_1(message) => message,
            Message::Oxm(message) => message,
        }
    }

    /// Returns the version of the encoding.
    #[inline]
    pub fn version(&self) -> Version {
        match &self.0 {
            Message::V1_0(_) => Version::V1_0,
            Message::V1_1(_) => Version::V1_1,
            Message::Oxm([3, ..]) => Version::V1_2,
            Message::Oxm([4, ..]) => Version::V1_3,
            Message::Oxm([5, ..]) => Version::V1_4,
            Message::Oxm(_) => Version::V1_5,
        }
    }

    /// Whether the flow-mod adds flows.
    #[inline]
    pub fn adds(&self) -> bool {
        match &self.0 {
            Message::V1_0(message) => message.get(56..58) == Some(&[0, 0]),
            Message::V1_1(message) => message.get(25) == Some(&0),
            Message::Oxm(message) => message.get(25) == Some(&0),
        }
    }

    /// Returns the last port of the contiguous range that starts at 0 and that the version can
    /// express. Reserved ports follow with gaps.
    pub fn last_port(&self) -> PortNo {
        match &self.0 {
            Message::V1_0(_) => PortNo(u32::from(v1_0::RESERVED_16) - 1),
            Message::V1_1(_) | Message::Oxm(_) => PortNo(u32::MAX),
        }
    }

    /// Whether the version can express these ports.
    pub fn has_ports(&self, blanks: &Blanks) -> bool {
        match &self.0 {
            Message::V1_0(_) => [blanks.in_port, blanks.output]
                .iter()
                .all(|port| v1_0::port_to_wire(*port).is_some()),
            Message::V1_1(_) | Message::Oxm(_) => true,
        }
    }

    /// Encodes the flow-mod with the blanks filled in; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express a port, [`EncodeError::NoRoom`]
    /// if `out` is too small.
    #[inline]
    pub fn fill(&self, blanks: &Blanks, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        match &self.0 {
            Message::V1_0(message) => fill_v1_0(blanks, xid, || copy(message, out)),
            Message::V1_1(message) => fill_v1_1(blanks, xid, || copy(message, out)),
            Message::Oxm(message) => fill_oxm(blanks, xid, || copy(message, out)),
        }
    }

    /// Appends a flow-mod for each of these blanks, with transaction ids counting up from `xid`.
    /// Stops before the first one whose port the version cannot express; returns how many were
    /// appended.
    #[inline]
    pub fn append_all(
        &self,
        blanks: impl IntoIterator<Item = Blanks>,
        xid: u32,
        out: &mut Vec<u8>,
    ) -> usize {
        let before = out.len();
        let each = blanks.into_iter().scan(xid, |next, blanks| {
            let xid = std::mem::replace(next, next.wrapping_add(1));
            Some((xid, blanks))
        });
        // One loop per version: inside it the message size is a constant.
        let size = self.message().len();
        match &self.0 {
            Message::V1_0(message) => {
                for (xid, blanks) in each {
                    if fill_v1_0(&blanks, xid, || extend(message, out)).is_err() {
                        break;
                    }
                }
            }
            Message::V1_1(message) => {
                for (xid, blanks) in each {
                    if fill_v1_1(&blanks, xid, || extend(message, out)).is_err() {
                        break;
                    }
                }
            }
            Message::Oxm(message) => {
                for (xid, blanks) in each {
                    if fill_oxm(&blanks, xid, || extend(message, out)).is_err() {
                        break;
                    }
                }
            }
        }
        (out.len() - before) / size
    }

    /// Appends the packet-out of `data` from the blanks' in-port to their output; their buffer is
    /// ignored.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express a port, [`EncodeError::TooLong`]
    /// if no message can hold `data`; nothing is appended then.
    #[inline]
    pub fn append_packet_out(
        &self,
        blanks: &Blanks,
        data: &[u8],
        xid: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match &self.0 {
            Message::V1_0(_) => {
                let in_port = v1_0::convert::port(blanks.in_port, "packet_out.in_port")?;
                let output = v1_0::convert::port(blanks.output, "action output")?;
                let mut head = PACKET_OUT_1_0;
                put(&mut head, 12, in_port.to_be_bytes());
                put(&mut head, 20, output.to_be_bytes());
                append_with(head, data, xid, out)
            }
            Message::Oxm([6, ..]) => {
                let mut head = PACKET_OUT_1_5;
                put(&mut head, 24, blanks.in_port.0.to_be_bytes());
                put(&mut head, 36, blanks.output.0.to_be_bytes());
                append_with(head, data, xid, out)
            }
            Message::V1_1(_) | Message::Oxm(_) => {
                let mut head = PACKET_OUT_1_3;
                put(&mut head, 0, [self.version().wire()]);
                put(&mut head, 12, blanks.in_port.0.to_be_bytes());
                put(&mut head, 28, blanks.output.0.to_be_bytes());
                append_with(head, data, xid, out)
            }
        }
    }
}

/// Encodes a flow-mod with the match and the action of a template; returns its size.
///
/// # Errors
/// [`EncodeError`] also where a flow-mod of another form could be encoded; `out` is then unchanged.
#[inline]
pub(super) fn encode_pair(
    flow_mod: &FlowMod<'_>,
    priority: u16,
    blanks: &Blanks,
    (version, xid): (Version, u32),
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let FlowMod { command, cookie, idle_timeout, hard_timeout, out_port, flags, .. } = *flow_mod;
    match version {
        Version::V1_0 => {
            let is_plain = flow_mod.importance == 0
                && flow_mod.table_id == 0
                && flow_mod.cookie_mask == 0
                && flow_mod.out_group == FlowMod::ANY_GROUP;
            if !is_plain {
                return Err(EncodeError::Unsupported { field: "flow_mod", version });
            }
            let out_port = v1_0::convert::port(out_port, "flow_mod.out_port")?;
            let flags = flags.to_v1_0()?;
            fill_v1_0(blanks, xid, || {
                let room = copy(&PAIR_1_0, out)?;
                put(room, 48, cookie.to_be_bytes());
                put(room, 56, [0, command.wire()]);
                put(room, 58, idle_timeout.to_be_bytes());
                put(room, 60, hard_timeout.to_be_bytes());
                put(room, 62, priority.to_be_bytes());
                put(room, 68, out_port.to_be_bytes());
                put(room, 70, flags.to_be_bytes());
                Ok(room)
            })
        }
        Version::V1_1 => Err(EncodeError::Unsupported { field: "flow_mod", version }),
        _ => {
            let (bits, _) = const { FlowModFlags::of_version::<4>() };
            let is_early =
                version < Version::V1_3 || version < Version::V1_4 && flow_mod.importance != 0;
            if is_early || flags.0 & !bits != 0 {
                return Err(EncodeError::Unsupported { field: "flow_mod", version });
            }
            fill_oxm(blanks, xid, || {
                let room = copy(&PAIR_OXM, out)?;
                put(room, 0, [version.wire()]);
                put(room, 8, cookie.to_be_bytes());
                put(room, 16, flow_mod.cookie_mask.to_be_bytes());
                put(room, 24, [flow_mod.table_id, command.wire()]);
                put(room, 26, idle_timeout.to_be_bytes());
                put(room, 28, hard_timeout.to_be_bytes());
                put(room, 30, priority.to_be_bytes());
                put(room, 36, out_port.0.to_be_bytes());
                put(room, 40, flow_mod.out_group.to_be_bytes());
                put(room, 44, flags.0.to_be_bytes());
                put(room, 46, flow_mod.importance.to_be_bytes()); // padding before OpenFlow 1.4
                Ok(room)
            })
        }
    }
}

/// A flow-mod with the match and the action of a template, whose other fields are empty (OpenFlow 1.0.2 §5.2.3, §5.3.3).
const PAIR_1_0: [u8; 80] = {
    let [a, b, c, d] = V1_0_WILDCARDS;
    let mut pair = [0; 80];
    let (head, action) = ([1, 14, 0, 80, 0, 0, 0, 0, a, b, c, d], [0, 0, 0, 8, 0, 0, 0xff, 0xff]);
    copy_into(&mut pair, 0, &head);
    copy_into(&mut pair, 72, &action);
    pair
};

/// The same in OpenFlow 1.3.5 §7.2.3, §7.2.4, §7.3.4.1, without the version.
const PAIR_OXM: [u8; 104] = {
    let mut pair = [0; 104];
    copy_into(&mut pair, 0, &[0, 14, 0, 104]);
    copy_into(&mut pair, 48, &[0, 1, 0, 32, 0x80, 0, 0, 4]);
    copy_into(&mut pair, 60, &[0x80, 0, 6, 6]);
    copy_into(&mut pair, 70, &[0x80, 0, 8, 6]);
    copy_into(&mut pair, 80, &[0, 4, 0, 24]);
    copy_into(&mut pair, 88, &[0, 0, 0, 16, 0, 0, 0, 0, 0xff, 0xff]);
    pair
};

/// Copies bytes into a constant.
#[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
const fn copy_into(to: &mut [u8], at: usize, bytes: &[u8]) {
    let mut number = 0;
    while number < bytes.len() {
        to[at + number] = bytes[number];
        number += 1;
    }
}

/// A packet-out without a buffer to one port (OpenFlow 1.0.2 §5.3.6). In-port, length, transaction
/// id and port are filled in.
#[rustfmt::skip]
const PACKET_OUT_1_0: [u8; 24] = [
    1, 13, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 8,
    0, 0, 0, 8, 0, 0, 0xff, 0xff,
];

/// The same in OpenFlow 1.3.5 §7.3.7.
#[rustfmt::skip]
const PACKET_OUT_1_3: [u8; 40] = [
    4, 13, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 16, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0,
];

/// The same in OpenFlow 1.5.1 §7.3.6: the in-port is in a match.
#[rustfmt::skip]
const PACKET_OUT_1_5: [u8; 48] = [
    6, 13, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 16, 0, 0,
    0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 16, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0,
];

#[inline]
fn append_with<const N: usize>(
    mut head: [u8; N],
    data: &[u8],
    xid: u32,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let (size, max) = (N.saturating_add(data.len()), u16::MAX);
    let Ok(length) = u16::try_from(size) else {
        return Err(EncodeError::TooLong { field: "message", size, max: max.into() });
    };
    put(&mut head, 2, length.to_be_bytes());
    put(&mut head, XID, xid.to_be_bytes());
    out.reserve(size);
    out.extend_from_slice(&head);
    out.extend_from_slice(data);
    Ok(())
}

/// OpenFlow 1.0.2 §5.2.3, §5.3.3.
#[inline]
fn fill_v1_0<'o>(
    blanks: &Blanks,
    xid: u32,
    copy: impl FnOnce() -> Result<&'o mut [u8; 80], EncodeError>,
) -> Result<usize, EncodeError> {
    let in_port = v1_0::convert::port(blanks.in_port, "match.in_port")?;
    let output = v1_0::convert::port(blanks.output, "action.output.port")?;
    let room = copy()?;
    put(room, XID, xid.to_be_bytes());
    put(room, 12, in_port.to_be_bytes());
    put(room, 14, blanks.eth_src.0);
    put(room, 20, blanks.eth_dst.0);
    put(room, 64, blanks.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
    put(room, OUTPUT_1_0, output.to_be_bytes());
    Ok(room.len())
}

/// OpenFlow 1.1.0, A.2.3, A.3.4.1.
#[inline]
fn fill_v1_1<'o>(
    blanks: &Blanks,
    xid: u32,
    copy: impl FnOnce() -> Result<&'o mut [u8; 160], EncodeError>,
) -> Result<usize, EncodeError> {
    let room = copy()?;
    put(room, XID, xid.to_be_bytes());
    put(room, 32, blanks.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
    put(room, 52, blanks.in_port.0.to_be_bytes());
    put(room, 60, blanks.eth_src.0);
    put(room, 72, blanks.eth_dst.0);
    put(room, OUTPUT_1_1, blanks.output.0.to_be_bytes());
    Ok(room.len())
}

/// OpenFlow 1.3.5 §7.2.3, §7.3.4.1: the three fields in ascending order.
#[inline]
fn fill_oxm<'o>(
    blanks: &Blanks,
    xid: u32,
    copy: impl FnOnce() -> Result<&'o mut [u8; 104], EncodeError>,
) -> Result<usize, EncodeError> {
    let room = copy()?;
    put(room, XID, xid.to_be_bytes());
    put(room, 32, blanks.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
    put(room, 56, blanks.in_port.0.to_be_bytes());
    put(room, 64, blanks.eth_dst.0);
    put(room, 74, blanks.eth_src.0);
    put(room, OUTPUT_OXM, blanks.output.0.to_be_bytes());
    Ok(room.len())
}

/// Offset of the transaction id in every message.
const XID: usize = 4;

/// Offset of the output port in a template.
const OUTPUT_1_0: usize = 76;
const OUTPUT_1_1: usize = 148;
const OUTPUT_OXM: usize = 92;

/// The wildcards of OpenFlow 1.0 (§5.2.3) except in-port, source and destination.
const V1_0_WILDCARDS: [u8; 4] =
    (wildcard::ALL & !(wildcard::IN_PORT | wildcard::DL_SRC | wildcard::DL_DST)).to_be_bytes();

/// Returns a flow-mod with the match and the action of a template, with empty blanks.
fn pair<'a>(flow_mod: &FlowMod<'_>, output: &'a [Action; 1]) -> FlowMod<'a> {
    let none = MacAddr([0; 6]);
    FlowMod {
        match_: Match::new().in_port(PortNo(1)).eth_dst(none).eth_src(none),
        instructions: Instructions { apply: output.into(), ..Instructions::default() },
        ..flow_mod.clone()
    }
}

fn encode<const N: usize>(
    flow_mod: &FlowMod<'_>,
    version: Version,
) -> Result<[u8; N], EncodeError> {
    let mut message = [0; N];
    let size = flow_mod.encode(version, 0, &mut message)?;
    if size != N {
        return Err(EncodeError::Unsupported { field: "flow_mod as a template", version });
    }
    Ok(message)
}

#[inline]
fn copy<'o, const N: usize>(
    message: &[u8; N],
    out: &'o mut [u8],
) -> Result<&'o mut [u8; N], EncodeError> {
    let size = out.len();
    let room = out.first_chunk_mut().ok_or(EncodeError::NoRoom { need: N, size })?;
    *room = *message;
    Ok(room)
}

#[inline]
fn extend<'o, const N: usize>(
    message: &[u8; N],
    out: &'o mut Vec<u8>,
) -> Result<&'o mut [u8; N], EncodeError> {
    out.extend_from_slice(message);
    let size = out.len();
    out.last_chunk_mut().ok_or(EncodeError::NoRoom { need: N, size })
}

#[cfg(test)]
mod tests;

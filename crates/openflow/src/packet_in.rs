//! The version-independent packet-in: the switch sends a packet to the controller.
//!
//! OpenFlow 1.3.5 §7.4.1, OpenFlow 1.0.2 §5.4.1, OpenFlow 1.1.0 and 1.2 §A.4.1. This is the hot path: in a reactive network every
//! new flow starts here. Decoding therefore borrows the packet and does not allocate.

use crate::flow_mod::NO_BUFFER;
use crate::header::{begin, open};
use crate::matching::{Field, Match};
use crate::oxm::{OPENFLOW_BASIC, Oxm};
use crate::wire::{List, Pad, WireFormat, read_apart};
use crate::{DecodeError, EncodeError, Kind, PortNo, Reader, Version, v1_0, v1_1, v1_2, v1_3};

/// Reason for a packet-in. OpenFlow 1.3.5 §7.4.1 (`ofp_packet_in_reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum PacketInReason {
    /// No entry matched, or only the table-miss entry.
    NoMatch,
    /// An action of an entry.
    Action,
    /// The TTL expired.
    InvalidTtl,
    /// Another number; some are constants of this type.
    Other(u8),
}

impl PacketInReason {
    /// An action of the action set. From OpenFlow 1.4 on.
    pub const ACTION_SET: Self = Self::Other(3);
    /// An action of a group. From OpenFlow 1.4 on.
    pub const GROUP: Self = Self::Other(4);
    /// An action of a packet-out. From OpenFlow 1.4 on.
    pub const PACKET_OUT: Self = Self::Other(5);

    /// Returns the reason with this number.
    #[inline]
    pub fn from_wire(found: u8) -> Self {
        match found {
            0 => Self::NoMatch,
            1 => Self::Action,
            2 => Self::InvalidTtl,
            other => Self::Other(other),
        }
    }

    /// Returns the reason's number.
    #[inline]
    pub fn wire(self) -> u8 {
        // Two steps compile to a selection; one `match` compiles to a jump table, which costs 2 ns per packet-in.
        let defined = match self {
            Self::NoMatch => 0,
            Self::Action => 1,
            Self::InvalidTtl => 2,
            Self::Other(_) => 3,
        };
        if let Self::Other(other) = self { other } else { defined }
    }
}

/// Pipeline fields of a packet: the match of its packet-in, or of its packet-out from OpenFlow 1.5 on; borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketInMatch<'a> {
    pub(crate) fields: List<'a, Oxm<'a>>,
}

impl PacketInMatch<'_> {
    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Iterates over the fields in wire order, including the in-port. Empty in OpenFlow 1.0 and 1.1.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.fields.iter().map(|oxm| Field::from_oxm(&oxm))
    }

    /// Converts the fields to a match.
    ///
    /// # Errors
    /// [`DecodeError::BadValue`] if a field is repeated.
    pub fn to_match(&self) -> Result<Match, DecodeError> {
        Match::from_oxms(self.fields, 24)
    }
}

/// A packet-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PacketIn<'a> {
    /// Id of the switch's buffer, if it buffered the packet.
    pub buffer_id: Option<u32>,
    /// Size of the packet at the switch, in bytes; `data` may be shorter.
    pub total_len: u16,
    /// Reason for the packet-in.
    pub reason: PacketInReason,
    /// Number of the table that sent it; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// Cookie of the entry that sent it; [`PacketIn::NO_COOKIE`] if there is none, as before OpenFlow
    /// 1.3.
    pub cookie: u64,
    /// In-port of the packet; [`PortNo::ANY`] if the switch did not include it.
    pub in_port: PortNo,
    /// Pipeline fields. If empty, encoding writes the in-port.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: PacketInMatch<'a>,
    /// The packet, starting with its Ethernet header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> PacketIn<'a> {
    /// The `cookie` of a packet-in without an entry.
    pub const NO_COOKIE: u64 = u64::MAX;

    /// Creates a packet-in for a whole, unbuffered packet that no entry matched.
    pub fn new(in_port: PortNo, data: &'a [u8]) -> Self {
        Self {
            buffer_id: None,
            total_len: u16::try_from(data.len()).unwrap_or(u16::MAX),
            reason: PacketInReason::NoMatch,
            table_id: 0,
            cookie: Self::NO_COOKIE,
            in_port,
            match_: PacketInMatch::default(),
            data,
        }
    }

    /// Decodes a whole packet-in of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one packet-in. The packet itself is not parsed.
    #[expect(
        clippy::inline_always,
        reason = "the result is built in the caller's registers instead of being copied"
    )]
    #[inline(always)]
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::PacketIn)?;
        match version {
            Version::V1_0 => {
                v1_0::PacketIn::read(&mut body, "packet_in").map(|wire| Self::from_v1_0(&wire))
            }
            Version::V1_1 => read_apart(&mut body, |body| {
                v1_1::PacketIn::read(body, "packet_in").map(|wire| Self::from_v1_1(&wire))
            }),
            Version::V1_2 => read_apart(&mut body, |body| {
                v1_2::PacketIn::read(body, "packet_in").map(|wire| Self::from_v1_2(&wire))
            }),
            Version::V1_3 | Version::V1_4 | Version::V1_5 => {
                match Self::with_in_port(body.peek()) {
                    Some(packet_in) => Ok(packet_in),
                    None => Self::read_v1_3(body),
                }
            }
        }
    }

    /// Reads the body of a packet-in of 1.3 or later whose match is the in-port alone, as switches send nearly all, at constant offsets.
    #[inline]
    fn with_in_port(body: &'a [u8]) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<16>()?;
        // OFPMT_OXM of 12 bytes, OpenFlow 1.3.5 §7.2.3.1, and OXM_OF_IN_PORT, §7.2.3.7.
        let [0, 1, 0, 12, fields @ ..] = rest else { return None };
        let (fields, data) = fields.split_first_chunk::<14>()?;
        let [0x80, 0, 0, 4, i0, i1, i2, i3, ..] = *fields else { return None };
        let [b0, b1, b2, b3, t0, t1, reason, table_id, ..] = *head;
        let buffer_id = u32::from_be_bytes([b0, b1, b2, b3]);
        Some(Self {
            buffer_id: (buffer_id != NO_BUFFER).then_some(buffer_id),
            total_len: u16::from_be_bytes([t0, t1]),
            reason: PacketInReason::from_wire(reason),
            table_id,
            cookie: u64::from_be_bytes(*head.last_chunk()?),
            in_port: PortNo(u32::from_be_bytes([i0, i1, i2, i3])),
            match_: PacketInMatch { fields: List::checked(fields.get(..8)?) },
            data,
        })
    }

    #[inline(never)]
    fn read_v1_3(mut body: Reader<'a>) -> Result<Self, DecodeError> {
        v1_3::PacketIn::read(&mut body, "packet_in").map(|wire| Self::from_v1_3(&wire))
    }

    #[inline]
    pub(crate) fn from_v1_0(wire: &v1_0::PacketIn<'a>) -> Self {
        Self {
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            total_len: wire.total_len,
            reason: PacketInReason::from_wire(wire.reason),
            table_id: 0,
            cookie: Self::NO_COOKIE,
            in_port: v1_0::port_from_wire(wire.in_port),
            match_: PacketInMatch::default(),
            data: wire.data,
        }
    }

    pub(crate) fn from_v1_1(wire: &v1_1::PacketIn<'a>) -> Self {
        Self {
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            total_len: wire.total_len,
            reason: PacketInReason::from_wire(wire.reason),
            table_id: wire.table_id,
            cookie: Self::NO_COOKIE,
            in_port: wire.in_port,
            match_: PacketInMatch::default(),
            data: wire.data,
        }
    }

    pub(crate) fn from_v1_2(wire: &v1_2::PacketIn<'a>) -> Self {
        let wire = v1_3::PacketIn {
            buffer_id: wire.buffer_id,
            total_len: wire.total_len,
            reason: wire.reason,
            table_id: wire.table_id,
            cookie: Self::NO_COOKIE,
            match_: wire.match_,
            pad: wire.pad,
            data: wire.data,
        };
        Self::from_v1_3(&wire)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::PacketIn<'a>) -> Self {
        Self {
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            total_len: wire.total_len,
            reason: PacketInReason::from_wire(wire.reason),
            table_id: wire.table_id,
            cookie: wire.cookie,
            in_port: in_port(wire.match_.fields),
            match_: PacketInMatch { fields: wire.match_.fields },
            data: wire.data,
        }
    }

    /// Encodes the packet-in in a version's format, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::PacketIn, version, xid, out)?;
        let buffer_id = self.buffer_id.unwrap_or(NO_BUFFER);
        let (total_len, data) = (self.total_len, self.data);
        if version == Version::V1_0 && self.table_id != 0 {
            return Err(EncodeError::Unsupported { field: "packet_in.table_id", version });
        }
        if !version.features().packet_in_cookie && self.cookie != Self::NO_COOKIE {
            return Err(EncodeError::Unsupported { field: "packet_in.cookie", version });
        }
        match version {
            Version::V1_0 => v1_0::PacketIn {
                buffer_id,
                total_len,
                in_port: v1_0::convert::port(self.in_port, "packet_in.in_port")?,
                reason: self.reason.wire(),
                pad: Pad::default(),
                data,
            }
            .write(&mut to),
            // The physical port behind a logical in-port is not kept.
            Version::V1_1 => v1_1::PacketIn {
                buffer_id,
                in_port: self.in_port,
                in_phy_port: self.in_port,
                total_len,
                reason: self.reason.wire(),
                table_id: self.table_id,
                data,
            }
            .write(&mut to),
            _ => {
                let in_port_bytes = self.in_port.0.to_be_bytes();
                let in_port = [in_port_oxm(&in_port_bytes)];
                let given = self.match_.fields;
                let fields = if given.is_empty() { List::from(&in_port) } else { given };
                let match_ = v1_3::Match { fields, ..v1_3::Match::default() };
                let (reason, table_id, pad) = (self.reason.wire(), self.table_id, Pad::default());
                if version == Version::V1_2 {
                    v1_2::PacketIn { buffer_id, total_len, reason, table_id, match_, pad, data }
                        .write(&mut to);
                } else {
                    v1_3::PacketIn {
                        buffer_id,
                        total_len,
                        reason,
                        table_id,
                        cookie: self.cookie,
                        match_,
                        pad,
                        data,
                    }
                    .write(&mut to);
                }
            }
        }
        to.finish()
    }
}

/// Returns the in-port as a field.
pub(crate) fn in_port_oxm(bytes: &[u8; 4]) -> Oxm<'_> {
    Oxm { class: OPENFLOW_BASIC, field: 0, has_mask: false, payload: bytes }
}

/// Finds the in-port among the fields; switches send it first.
pub(crate) fn in_port(fields: List<'_, Oxm<'_>>) -> PortNo {
    fields
        .iter()
        .find(|oxm| oxm.class == OPENFLOW_BASIC && oxm.field == 0 && !oxm.has_mask)
        .and_then(|oxm| oxm.payload.try_into().ok())
        .map_or(PortNo::ANY, |bytes| PortNo(u32::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four packet bytes from port 1, written by hand from the specification's figures.
    #[rustfmt::skip]
    const V1_3: [u8; 46] = [
        4, 10, 0, 46, 0, 0, 0, 0,
        0xff, 0xff, 0xff, 0xff, 0, 60, 1, 3, // no buffer, total_len 60, action, table 3
        0, 0, 0, 0, 0, 0, 0, 7, // cookie
        0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, // in_port=1, padded to 16
        0, 0, 0xca, 0xfe, 0xba, 0xbe,
    ];
    const V1_0: [u8; 22] =
        [1, 10, 0, 22, 0, 0, 0, 0, 0, 0, 1, 0, 0, 60, 0, 1, 0, 0, 0xca, 0xfe, 0xba, 0xbe];

    #[test]
    fn packet_in_decodes_every_field() {
        let packet_in = PacketIn::decode(&V1_3).unwrap();
        assert_eq!(packet_in.buffer_id, None);
        assert_eq!(packet_in.total_len, 60);
        assert_eq!(packet_in.reason, PacketInReason::Action);
        assert_eq!(packet_in.table_id, 3);
        assert_eq!(packet_in.cookie, 7);
        assert_eq!(packet_in.in_port, PortNo(1));
        assert_eq!(packet_in.match_.to_match(), Ok(Match::new().in_port(PortNo(1))));
        assert_eq!(packet_in.data, [0xca, 0xfe, 0xba, 0xbe]);

        let packet_in = PacketIn::decode(&V1_0).unwrap();
        assert_eq!(packet_in.buffer_id, Some(0x100));
        assert_eq!(packet_in.reason, PacketInReason::NoMatch);
        assert_eq!(packet_in.in_port, PortNo(1));
        assert_eq!(packet_in.cookie, PacketIn::NO_COOKIE);
        assert_eq!(packet_in.data, [0xca, 0xfe, 0xba, 0xbe]);
    }

    #[test]
    fn in_port_is_found_in_any_place() {
        let metadata = [0x80, 0, 2 << 1, 8, 0, 0, 0, 0, 0, 0, 0, 7];
        let in_port = [0x80, 0, 0, 4, 0, 0, 0, 9];
        for fields in [[&in_port[..], &metadata].concat(), [&metadata[..], &in_port].concat()] {
            let mut message = V1_3[..24].to_vec();
            message.extend([0, 1, 0, 24]);
            message.extend(fields);
            message.extend([0, 0, 0xca, 0xfe]);
            message[3] = u8::try_from(message.len()).unwrap();
            let packet_in = PacketIn::decode(&message).unwrap();
            assert_eq!((packet_in.in_port, packet_in.data), (PortNo(9), &[0xca, 0xfe][..]));
            assert_eq!(packet_in.match_.fields().count(), 2);
        }
        let mut message = V1_3[..24].to_vec();
        message.extend([0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0xca, 0xfe]);
        message[3] = u8::try_from(message.len()).unwrap();
        assert_eq!(PacketIn::decode(&message).unwrap().in_port, PortNo::ANY);
    }

    #[test]
    fn packet_in_reencodes_to_the_same_bytes() {
        for (version, bytes) in [(Version::V1_3, &V1_3[..]), (Version::V1_0, &V1_0[..])] {
            let mut packet_in = PacketIn::decode(bytes).unwrap();
            packet_in.match_ = PacketInMatch::default();
            let mut out = vec![0xaa; bytes.len()];
            assert_eq!(packet_in.encode(version, 0, &mut out), Ok(bytes.len()));
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn truncated_packet_in_is_an_error() {
        for whole in [&V1_3[..], &V1_0[..]] {
            for len in 0..whole.len() {
                let cut = PacketIn::decode(&whole[..len]);
                assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "at {len}: {cut:?}");
            }
        }
    }

    #[test]
    fn short_match_is_bad_length_with_offset() {
        let mut message = V1_3;
        message[27] = 3;
        let error = PacketIn::decode(&message).unwrap_err();
        assert_eq!(
            error.to_string(),
            "match.length at byte 26 is 3, expected at least its own 4-byte head"
        );
    }

    #[test]
    fn another_message_is_the_wrong_kind() {
        let error = PacketIn::decode(&[4, 2, 0, 8, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "header.type at byte 1 is 2 (version byte 0x04), expected packet_in"
        );
    }
}

//! The version-independent packet-out: the controller sends a packet through the switch.
//!
//! OpenFlow 1.3.5 §7.3.7, OpenFlow 1.0.2 §5.3.6, OpenFlow 1.5.1 §7.3.6.

use crate::action::{Action, Actions};
use crate::flow_mod::NO_BUFFER;
use crate::header::{begin, open};
use crate::instruction::{Lists, OfVersion};
use crate::oxm::{OPENFLOW_BASIC, Oxm};
use crate::packet_in::{PacketInMatch, in_port, in_port_oxm};
use crate::wire::{List, WireFormat, read_apart};
use crate::write::put;
use crate::{DecodeError, EncodeError, Kind, PortNo, Reader, Version, Writer, v1_0, v1_3, v1_5};

/// A packet-out.
///
/// ```
/// use rosemary_openflow::{Action, PacketOut, PortNo, Version};
///
/// let flood = [Action::output(PortNo::FLOOD)];
/// let packet_out = PacketOut::new(PortNo(1), &flood, b"an Ethernet frame");
/// let mut buffer = [0; 64];
/// let size = packet_out.encode(Version::V1_0, 7, &mut buffer)?;
/// assert_eq!(PacketOut::decode(&buffer[..size])?, packet_out);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PacketOut<'a> {
    /// Id of the buffered packet to send; `None` sends `data`.
    pub buffer_id: Option<u32>,
    /// In-port for the actions; [`PortNo::CONTROLLER`] or, in OpenFlow 1.0, [`PortNo::ANY`] if
    /// there is none.
    pub in_port: PortNo,
    /// Actions on the packet; an empty list drops it.
    pub actions: Actions<'a>,
    /// Pipeline fields of the packet, the in-port included. If empty, encoding writes the in-port. Empty before OpenFlow 1.5.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "PacketInMatch::is_empty"))]
    pub pipeline: PacketInMatch<'a>,
    /// The packet, starting with its Ethernet header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> PacketOut<'a> {
    /// Creates a packet-out that carries `data`.
    #[inline]
    pub fn new(in_port: PortNo, actions: &'a [Action], data: &'a [u8]) -> Self {
        let pipeline = PacketInMatch::default();
        Self { buffer_id: None, in_port, actions: actions.into(), pipeline, data }
    }

    /// Creates a packet-out of the packet buffered under `buffer_id`.
    #[inline]
    pub fn buffered(in_port: PortNo, actions: &'a [Action], buffer_id: u32) -> Self {
        Self { buffer_id: Some(buffer_id), ..Self::new(in_port, actions, &[]) }
    }

    /// Encodes the packet-out in a version's format; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::PacketOut, version, xid, out)?;
        let buffer_id = self.buffer_id.unwrap_or(NO_BUFFER);
        if version != Version::V1_5 && !self.pipeline.is_empty() {
            return Err(EncodeError::Unsupported { field: "packet_out.match", version });
        }
        let actions_len_at = match version {
            Version::V1_0 => {
                let in_port = v1_0::convert::port(self.in_port, "packet_out.in_port")?;
                if let Some(room) = to.array::<8>() {
                    put(room, 0, buffer_id.to_be_bytes());
                    put(room, 4, in_port.to_be_bytes());
                    put(room, 6, [0; 2]);
                }
                to.position() - 2
            }
            Version::V1_1 | Version::V1_2 | Version::V1_3 | Version::V1_4 => {
                if let Some(room) = to.array::<16>() {
                    put(room, 0, buffer_id.to_be_bytes());
                    put(room, 4, self.in_port.0.to_be_bytes());
                    put(room, 8, [0; 8]);
                }
                to.position() - 8
            }
            Version::V1_5 => {
                to.u32(buffer_id);
                to.zeros(4); // length of the actions, and the padding
                let actions_len_at = to.position() - 4;
                self.write_match(&mut to);
                actions_len_at
            }
        };
        let actions_at = to.position();
        self.actions.write(version, &mut to)?;
        to.patch_size(actions_len_at, actions_at);
        to.bytes(self.data);
        to.finish()
    }

    /// Decodes a whole packet-out of any version and validates every action.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one packet-out. The packet itself is not
    /// parsed.
    #[inline]
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::PacketOut)?;
        match version {
            Version::V1_0 => {
                v1_0::PacketOut::read(&mut body, "packet_out").map(|wire| Self::from_v1_0(&wire))
            }
            Version::V1_1 => read_apart(&mut body, Self::read_since_1_1::<2>),
            Version::V1_2 => read_apart(&mut body, Self::read_since_1_1::<3>),
            Version::V1_3 => Self::read_since_1_1::<4>(&mut body),
            Version::V1_4 => read_apart(&mut body, Self::read_since_1_1::<5>),
            Version::V1_5 => read_apart(&mut body, |body| {
                v1_5::PacketOut::read(body, "packet_out").map(|wire| Self::from_v1_5(&wire))
            }),
        }
    }

    /// Reads the body of the version byte `V`, which is OpenFlow 1.1 to 1.4.
    #[inline]
    fn read_since_1_1<const V: u8>(body: &mut Reader<'a>) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        v1_3::packet::PacketOut::<V>::read(body, "packet_out").map(|wire| Self::from_v1_3(&wire))
    }

    #[inline]
    pub(crate) fn from_v1_0(wire: &v1_0::PacketOut<'a>) -> Self {
        Self {
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            in_port: v1_0::port_from_wire(wire.in_port),
            actions: wire.actions.into(),
            pipeline: PacketInMatch::default(),
            data: wire.data,
        }
    }

    #[inline]
    pub(crate) fn from_v1_3<const V: u8>(wire: &v1_3::packet::PacketOut<'a, V>) -> Self
    where
        Lists: OfVersion<V>,
    {
        Self {
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            in_port: wire.in_port,
            actions: Lists::actions(wire.actions),
            pipeline: PacketInMatch::default(),
            data: wire.data,
        }
    }

    pub(crate) fn from_v1_5(wire: &v1_5::PacketOut<'a>) -> Self {
        let fields = wire.match_.fields;
        let is_in_port =
            |oxm: &Oxm<'_>| oxm.class == OPENFLOW_BASIC && (oxm.field, oxm.has_mask) == (0, false);
        let is_alone = fields.iter().count() == 1 && fields.iter().all(|oxm| is_in_port(&oxm));
        Self {
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            in_port: in_port(wire.match_.fields),
            actions: wire.actions.into(),
            pipeline: PacketInMatch { fields: if is_alone { List::default() } else { fields } },
            data: wire.data,
        }
    }

    /// Writes the match of OpenFlow 1.5: the pipeline fields, or else the in-port.
    fn write_match(&self, to: &mut Writer<'_>) {
        let in_port_bytes = self.in_port.0.to_be_bytes();
        let in_port = [in_port_oxm(&in_port_bytes)];
        let given = self.pipeline.fields;
        let fields = if given.is_empty() { List::from(&in_port) } else { given };
        v1_3::Match { fields, ..v1_3::Match::default() }.write(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outputs two bytes from port 1 to port 2, written by hand from the specification's figures.
    #[rustfmt::skip]
    const V1_3: [u8; 42] = [
        4, 13, 0, 42, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 16, 0, 0, 0, 2, 0xff, 0xff, 0, 0, 0, 0, 0, 0,
        0xca, 0xfe,
    ];
    #[rustfmt::skip]
    const V1_0: [u8; 26] = [
        1, 13, 0, 26, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 8,
        0, 0, 0, 8, 0, 2, 0xff, 0xff,
        0xca, 0xfe,
    ];

    #[test]
    fn packet_out_equals_the_bytes_written_by_hand() {
        let actions = [Action::output(PortNo(2))];
        let packet_out = PacketOut::new(PortNo(1), &actions, &[0xca, 0xfe]);
        for (version, bytes) in [(Version::V1_3, &V1_3[..]), (Version::V1_0, &V1_0[..])] {
            let mut out = vec![0xaa; bytes.len()];
            assert_eq!(packet_out.encode(version, 9, &mut out), Ok(bytes.len()));
            assert_eq!(out, bytes);
            assert_eq!(PacketOut::decode(bytes), Ok(packet_out));
        }
    }

    #[test]
    fn packet_out_cut_anywhere_is_truncated() {
        for whole in [&V1_3[..], &V1_0[..]] {
            for len in 0..whole.len() {
                let cut = PacketOut::decode(&whole[..len]);
                assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "at {len}: {cut:?}");
            }
        }
    }

    #[test]
    fn actions_longer_than_the_message_are_bad_length() {
        let mut message = V1_3;
        message[17] = 24;
        let error = PacketOut::decode(&message).unwrap_err();
        assert_eq!(
            error.to_string(),
            "packet_out.actions_len at byte 16 is 24, expected no more than the bytes left"
        );
    }
}

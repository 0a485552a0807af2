//! The header of every message, and the message types of all versions under common names.
//!
//! OpenFlow 1.3.5 §7.1, OpenFlow 1.0.2 §5.1:
//!
//! ```text
//!  0         1      2        4     8
//! +---------+------+--------+-----+----
//! | version | type | length | xid | body
//! +---------+------+--------+-----+----
//! ```

use crate::wire::read_apart;
use crate::{DecodeError, EncodeError, Reader, Version, Writer};
use core::fmt;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Header {
    /// The version byte: 1 is OpenFlow 1.0, 6 is 1.5. Any value is possible before the hello.
    pub version: u8,
    /// The message type, whose meaning depends on the version: see [`Kind::from_wire`].
    pub kind: u8,
    /// Size of the whole message in bytes, including the header; at least [`Header::SIZE`] once
    /// decoded.
    pub length: u16,
    /// Transaction id; a reply carries the request's.
    pub xid: u32,
}

impl Header {
    /// Size of a header, in bytes.
    pub const SIZE: usize = 8;

    /// Decodes the header at the start of `bytes`; the rest of the message may be missing.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if `bytes` is shorter than a header, [`DecodeError::BadLength`]
    /// if the length field is below the header's size. Any version and type byte is accepted.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Reader::new(bytes, 0);
        // One check for all fields; the compiler drops the check of each.
        let header = if bytes.left() < Self::SIZE {
            read_apart(&mut bytes, Self::read)?
        } else {
            Self::read(&mut bytes)?
        };
        if usize::from(header.length) < Self::SIZE {
            return Err(DecodeError::BadLength {
                field: "header.length",
                offset: 2,
                found: header.length.into(),
                expected: "at least the header's own 8 bytes",
            });
        }
        Ok(header)
    }

    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            version: from.u8("header.version")?,
            kind: from.u8("header.type")?,
            length: from.u16("header.length")?,
            xid: from.u32("header.xid")?,
        })
    }

    /// Writes the header unchanged to the start of `out`; returns [`Header::SIZE`].
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is shorter than a header.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let size = out.len();
        let room = out.first_chunk_mut().ok_or(EncodeError::NoRoom { need: Self::SIZE, size })?;
        let [l0, l1] = self.length.to_be_bytes();
        let [x0, x1, x2, x3] = self.xid.to_be_bytes();
        *room = [self.version, self.kind, l0, l1, x0, x1, x2, x3];
        Ok(Self::SIZE)
    }

    /// Decodes the header of exactly one complete message and returns a reader of its body.
    ///
    /// # Errors
    /// Like [`Header::decode`]; also if `bytes` does not end where the message ends.
    #[inline]
    pub fn split(bytes: &[u8]) -> Result<(Self, Reader<'_>), DecodeError> {
        let header = Self::decode(bytes)?;
        let size = usize::from(header.length);
        if bytes.len() != size {
            return Err(Self::other_size(bytes.len(), size));
        }
        let mut body = Reader::new(bytes, 0);
        body.take("header", Self::SIZE)?;
        Ok((header, body))
    }

    /// Returns the error for `have` bytes whose header has the length `size`.
    #[cold]
    fn other_size(have: usize, size: usize) -> DecodeError {
        if have < size {
            return DecodeError::Truncated { field: "message", offset: 0, need: size, have };
        }
        DecodeError::BadLength {
            field: "header.length",
            offset: 2,
            found: size,
            expected: "the size of the message",
        }
    }
}

/// Checks the version byte first: a message of an unsupported version is reported as such, even if
/// it has further faults.
#[inline]
pub(crate) fn check_version(bytes: &[u8]) -> Result<Version, DecodeError> {
    Version::from_wire(Reader::new(bytes, 0).u8("header.version")?)
}

/// Starts to decode a complete message of `kind`; returns version, header and body.
#[inline]
pub(crate) fn open(bytes: &[u8], kind: Kind) -> Result<(Version, Header, Reader<'_>), DecodeError> {
    let version = check_version(bytes)?;
    let (header, body) = Header::split(bytes)?;
    if kind.to_wire(version) != Some(header.kind) {
        return Err(DecodeError::WrongKind {
            version: header.version,
            found: header.kind,
            expected: kind.name(),
        });
    }
    Ok((version, header, body))
}

/// Starts to encode a message of `kind`.
///
/// # Errors
/// [`EncodeError::Unsupported`] if the version has no such message.
#[inline]
pub(crate) fn begin(
    kind: Kind,
    version: Version,
    xid: u32,
    out: &mut [u8],
) -> Result<Writer<'_>, EncodeError> {
    let wire =
        kind.to_wire(version).ok_or(EncodeError::Unsupported { field: kind.name(), version })?;
    Ok(Writer::message(out, version.wire(), wire, xid))
}

/// Defines [`Kind`] from a table: name, number, and the versions that have the number. OpenFlow 1.0 has numbers of its own.
macro_rules! kinds {
    ($(
        $(#[$meta:meta])*
        $kind:ident = $name:literal, $v1_0:expr, $number:literal in $first:literal ..= $last:literal;
    )*) => {
        /// A message type, under one name for all versions.
        ///
        /// OpenFlow 1.3.5 §7.1 (`ofp_type`), OpenFlow 1.0.2 §5.1, and the same paragraphs of the other versions. The statistics
        /// messages of 1.0 to 1.2 appear as multipart messages, and the vendor message of 1.0 as experimenter message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $( $(#[$meta])* $kind, )*
        }

        impl Kind {
            /// Every kind, in the order of the numbers of OpenFlow 1.1 and later.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// Returns the name in `snake_case`, as used in errors and logs.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// Returns the type byte of this kind, if the version has it.
            #[inline]
            pub const fn to_wire(self, version: Version) -> Option<u8> {
                match version {
                    Version::V1_0 => match self { $(Kind::$kind => $v1_0,)* },
                    later => match self {
                        $(Kind::$kind => match later.wire() {
                            $first..=$last => Some($number),
                            _ => None,
                        },)*
                    },
                }
            }
        }
    };
}

kinds! {
    /// Version negotiation, the first message from either side.
    Hello = "hello", Some(0), 0 in 2..=6;
    /// A request failed, or the connection is rejected.
    Error = "error", Some(1), 1 in 2..=6;
    /// Echo request.
    EchoRequest = "echo_request", Some(2), 2 in 2..=6;
    /// Echo reply.
    EchoReply = "echo_reply", Some(3), 3 in 2..=6;
    /// Experimenter-defined message; `VENDOR` in OpenFlow 1.0.
    Experimenter = "experimenter", Some(4), 4 in 2..=6;
    /// Features request.
    FeaturesRequest = "features_request", Some(5), 5 in 2..=6;
    /// Features reply: the switch's identity and capabilities.
    FeaturesReply = "features_reply", Some(6), 6 in 2..=6;
    /// Requests the switch's configuration.
    GetConfigRequest = "get_config_request", Some(7), 7 in 2..=6;
    /// The switch's configuration.
    GetConfigReply = "get_config_reply", Some(8), 8 in 2..=6;
    /// Sets the switch's configuration.
    SetConfig = "set_config", Some(9), 9 in 2..=6;
    /// Packet-in: a packet for the controller.
    PacketIn = "packet_in", Some(10), 10 in 2..=6;
    /// A flow entry was removed.
    FlowRemoved = "flow_removed", Some(11), 11 in 2..=6;
    /// A port was added, removed or changed.
    PortStatus = "port_status", Some(12), 12 in 2..=6;
    /// Packet-out: a packet from the controller.
    PacketOut = "packet_out", Some(13), 13 in 2..=6;
    /// Adds, changes or deletes flow entries.
    FlowMod = "flow_mod", Some(14), 14 in 2..=6;
    /// Adds, changes or deletes a group.
    GroupMod = "group_mod", None, 15 in 2..=6;
    /// Changes a port.
    PortMod = "port_mod", Some(15), 16 in 2..=6;
    /// Configures a flow table.
    TableMod = "table_mod", None, 17 in 2..=6;
    /// Requests statistics or descriptions; `STATS_REQUEST` before OpenFlow 1.3.
    MultipartRequest = "multipart_request", Some(16), 18 in 2..=6;
    /// Statistics or descriptions; `STATS_REPLY` before OpenFlow 1.3.
    MultipartReply = "multipart_reply", Some(17), 19 in 2..=6;
    /// Barrier request: complete all earlier messages first.
    BarrierRequest = "barrier_request", Some(18), 20 in 2..=6;
    /// Barrier reply: all earlier messages are complete.
    BarrierReply = "barrier_reply", Some(19), 21 in 2..=6;
    /// Requests a port's queues.
    QueueGetConfigRequest = "queue_get_config_request", Some(20), 22 in 2..=4;
    /// A port's queues.
    QueueGetConfigReply = "queue_get_config_reply", Some(21), 23 in 2..=4;
    /// Requests this controller's role, or a change of it.
    RoleRequest = "role_request", None, 24 in 3..=6;
    /// This controller's role.
    RoleReply = "role_reply", None, 25 in 3..=6;
    /// Requests the filter of asynchronous messages to this controller.
    GetAsyncRequest = "get_async_request", None, 26 in 4..=6;
    /// The filter of asynchronous messages to this controller.
    GetAsyncReply = "get_async_reply", None, 27 in 4..=6;
    /// Sets the filter of asynchronous messages to this controller.
    SetAsync = "set_async", None, 28 in 4..=6;
    /// Adds, changes or deletes a meter.
    MeterMod = "meter_mod", None, 29 in 4..=6;
    /// This controller's role changed without its request.
    RoleStatus = "role_status", None, 30 in 5..=6;
    /// A flow table changed, such as how much room is left.
    TableStatus = "table_status", None, 31 in 5..=6;
    /// Another controller's request to change a group or meter.
    RequestForward = "requestforward", None, 32 in 5..=6;
    /// Opens, closes, commits or discards a bundle, and the replies.
    BundleControl = "bundle_control", None, 33 in 5..=6;
    /// Adds a message to a bundle.
    BundleAdd = "bundle_add_message", None, 34 in 5..=6;
    /// State of a controller changed.
    ControllerStatus = "controller_status", None, 35 in 6..=6;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Kind {
    /// Returns the kind of a version's type byte.
    ///
    /// # Errors
    /// [`DecodeError::UnknownKind`] if the version has no such type.
    #[inline]
    pub fn from_wire(version: Version, found: u8) -> Result<Self, DecodeError> {
        /// More than the highest number of any version.
        const KINDS: usize = 36;
        const BY_VERSION: [[Option<Kind>; KINDS]; Version::COUNT] = [
            Kind::by_wire(Version::V1_0),
            Kind::by_wire(Version::V1_1),
            Kind::by_wire(Version::V1_2),
            Kind::by_wire(Version::V1_3),
            Kind::by_wire(Version::V1_4),
            Kind::by_wire(Version::V1_5),
        ];
        let kinds = BY_VERSION.get(version.index());
        let kind = kinds.and_then(|kinds| kinds.get(usize::from(found))).copied().flatten();
        kind.ok_or(DecodeError::UnknownKind { version, found })
    }

    /// Returns the kinds of a version, indexed by their number.
    #[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
    const fn by_wire<const N: usize>(version: Version) -> [Option<Kind>; N] {
        let mut kinds = [None; N];
        let mut at = 0;
        while at < Self::ALL.len() {
            if let Some(wire) = Self::ALL[at].to_wire(version) {
                kinds[wire as usize] = Some(Self::ALL[at]);
            }
            at += 1;
        }
        kinds
    }

    /// Encodes a message without a body, such as a features request; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version lacks the kind or the kind requires a body;
    /// [`EncodeError::NoRoom`] if `out` is shorter than a header.
    pub fn encode_empty(
        self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        match self {
            Self::Hello
            | Self::EchoRequest
            | Self::EchoReply
            | Self::FeaturesRequest
            | Self::GetConfigRequest
            | Self::BarrierRequest
            | Self::BarrierReply
            | Self::GetAsyncRequest => begin(self, version, xid, out)?.finish(),
            _ => Err(EncodeError::Unsupported {
                field: "a message of this kind without a body",
                version,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_decodes_every_field_and_writes_them_back() {
        let bytes = [4, 10, 0x12, 0x34, 0, 0, 0, 7];
        let header = Header::decode(&bytes).unwrap();
        assert_eq!(header, Header { version: 4, kind: 10, length: 0x1234, xid: 7 });
        let mut out = [0; 8];
        assert_eq!(header.write(&mut out), Ok(8));
        assert_eq!(out, bytes);
        assert_eq!(header.write(&mut out[..7]), Err(EncodeError::NoRoom { need: 8, size: 7 }));
    }

    #[test]
    fn header_shorter_than_itself_is_bad_length() {
        let error = Header::decode(&[1, 0, 0, 7, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "header.length at byte 2 is 7, expected at least the header's own 8 bytes"
        );
    }

    #[test]
    fn header_cut_anywhere_is_truncated() {
        let bytes = [4, 10, 0, 8, 0, 0, 0, 7];
        for len in 0..bytes.len() {
            assert!(matches!(Header::decode(&bytes[..len]), Err(DecodeError::Truncated { .. })));
        }
    }

    #[test]
    fn every_kind_round_trips_through_its_number() {
        for (&version, count) in Version::ALL.iter().zip([22, 24, 26, 30, 33, 34]) {
            let known: Vec<u8> =
                (0..=255).filter(|&n| Kind::from_wire(version, n).is_ok()).collect();
            assert_eq!(known.len(), count, "{version}");
            let kinds = Kind::ALL.iter().filter(|kind| kind.to_wire(version).is_some());
            assert_eq!(kinds.clone().count(), count, "{version}");
            for &kind in kinds {
                let wire = kind.to_wire(version).unwrap();
                assert_eq!(Kind::from_wire(version, wire), Ok(kind));
            }
        }
    }
}

//! Echo requests and replies. OpenFlow 1.3.5 §7.5.2, §7.5.3; OpenFlow 1.0.2 §5.5.2, §5.5.3.

use crate::header::{Header, check_version};
use crate::{DecodeError, EncodeError, Kind, Version, Writer};

/// An echo request or reply. The reply returns the request's payload unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Echo<'a> {
    /// Whether this is a reply.
    pub is_reply: bool,
    /// The transaction id; a reply has the request's.
    pub xid: u32,
    /// The payload.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> Echo<'a> {
    /// Decodes a whole echo request or reply of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one of these.
    #[inline]
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        check_version(message)?;
        let (header, mut body) = Header::split(message)?;
        let is_reply = match header.kind {
            2 => false,
            3 => true,
            found => {
                return Err(DecodeError::WrongKind {
                    version: header.version,
                    found,
                    expected: "echo_request or echo_reply",
                });
            }
        };
        Ok(Self { is_reply, xid: header.xid, data: body.rest() })
    }

    /// Encodes the echo in a version's format; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    #[inline]
    pub fn encode(&self, version: Version, out: &mut [u8]) -> Result<usize, EncodeError> {
        let kind = if self.is_reply { 3 } else { 2 };
        let mut to = Writer::message(out, version.wire(), kind, self.xid);
        to.bytes(self.data);
        to.finish()
    }
}

/// Writes the reply to a complete echo request, which differs only in its type; returns its size.
///
/// The request may have any version, because it may precede version negotiation.
///
/// # Errors
/// [`EncodeError::Unsupported`] if `request` is not an echo request, [`EncodeError::NoRoom`] if
/// `out` is too small.
#[inline]
pub fn echo_reply(request: &[u8], out: &mut [u8]) -> Result<usize, EncodeError> {
    let not_an_echo = EncodeError::Unsupported {
        field: "an echo reply to another message than an echo request",
        version: request
            .first()
            .and_then(|&version| Version::from_wire(version).ok())
            .unwrap_or(Version::V1_0),
    };
    match Header::split(request) {
        Ok((Header { kind: 2, .. }, _)) => {}
        _ => return Err(not_an_echo),
    }
    let (need, size) = (request.len(), out.len());
    let room = out.get_mut(..need).ok_or(EncodeError::NoRoom { need, size })?;
    room.copy_from_slice(request);
    if let (Some(kind), Some(reply)) = (room.get_mut(1), Kind::EchoReply.to_wire(Version::V1_3)) {
        *kind = reply;
    }
    Ok(need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_reply_is_the_request_with_another_type() {
        let request = [4, 2, 0, 10, 0, 0, 0, 7, 0xca, 0xfe];
        let mut out = [0; 10];
        assert_eq!(echo_reply(&request, &mut out), Ok(10));
        assert_eq!(out, [4, 3, 0, 10, 0, 0, 0, 7, 0xca, 0xfe]);
        assert_eq!(Echo::decode(&out), Ok(Echo { is_reply: true, xid: 7, data: &[0xca, 0xfe] }));
        assert_eq!(
            echo_reply(&request, &mut out[..9]),
            Err(EncodeError::NoRoom { need: 10, size: 9 })
        );
        assert_eq!(echo_reply(&[7, 2, 0, 8, 0, 0, 0, 7], &mut out), Ok(8), "any version");
        assert_eq!(out[..2], [7, 3]);
    }

    #[test]
    fn a_reply_or_another_message_gets_no_reply() {
        for bytes in [
            &[4, 3, 0, 8, 0, 0, 0, 7][..],
            &[4, 5, 0, 8, 0, 0, 0, 7],
            &[4, 2, 0, 9, 0, 0, 0, 7],
            &[4, 2],
        ] {
            assert!(echo_reply(bytes, &mut [0; 16]).is_err());
        }
    }
}

//! The version-independent requestforward message: a change of a group or meter that another controller requested. From OpenFlow
//! 1.4 on.
//!
//! OpenFlow 1.4.1 §7.4.6, 1.5.1 §7.4.5.

use crate::header::{begin, open};
use crate::wire::WireFormat;
use crate::{DecodeError, EncodeError, Header, Kind, Version, v1_4};

/// A requestforward message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RequestForward<'a> {
    /// The request with its header: a group-mod or meter-mod. Its content is not decoded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub request: &'a [u8],
}

impl<'a> RequestForward<'a> {
    /// Decodes a whole requestforward message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one requestforward message with one whole message inside.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, Kind::RequestForward)?;
        let wire = v1_4::RequestForward::read(&mut body, "requestforward")?;
        body.finish("requestforward")?;
        Ok(Self { request: wire.request })
    }

    /// Encodes the message for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.4, and if `request` is not one whole message; [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::RequestForward, version, xid, out)?;
        check_message(self.request, version, "requestforward of another message than a whole one")?;
        to.bytes(self.request);
        to.finish()
    }
}

/// Checks that bytes are one whole message by the length in their header.
///
/// # Errors
/// [`EncodeError::Unsupported`] with this field if they are not.
pub(crate) fn check_message(
    message: &[u8],
    version: Version,
    field: &'static str,
) -> Result<(), EncodeError> {
    match Header::split(message) {
        Ok(_) => Ok(()),
        Err(_) => Err(EncodeError::Unsupported { field, version }),
    }
}

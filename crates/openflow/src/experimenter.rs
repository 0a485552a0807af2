//! The version-independent experimenter message, called vendor message in OpenFlow 1.0.
//!
//! OpenFlow 1.3.5 §7.5 (`ofp_experimenter_header`), OpenFlow 1.0.2 §5.5.4.

use crate::header::{begin, open};
use crate::{DecodeError, EncodeError, Kind, Version};

/// The experimenter id of the Open Networking Foundation.
pub const ONF: u32 = 0x4f4e_4600;

/// An experimenter message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Experimenter<'a> {
    /// Experimenter id: a zero byte and an OUI, or a number assigned by the Open Networking
    /// Foundation.
    pub experimenter: u32,
    /// Data; from OpenFlow 1.1 on it starts with 4 bytes that are a type from 1.2 on.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> Experimenter<'a> {
    /// Decodes a whole experimenter message of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one experimenter message.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::Experimenter)?;
        let experimenter = body.u32("experimenter.experimenter")?;
        if version != Version::V1_0 {
            let mut data = body;
            data.u32("experimenter.exp_type")?;
        }
        Ok(Self { experimenter, data: body.rest() })
    }

    /// Encodes the message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if `data` lacks the type that the version requires,
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        if version != Version::V1_0 && self.data.len() < 4 {
            let field = "an experimenter message without a type";
            return Err(EncodeError::Unsupported { field, version });
        }
        let mut to = begin(Kind::Experimenter, version, xid, out)?;
        to.u32(self.experimenter);
        to.bytes(self.data);
        to.finish()
    }
}

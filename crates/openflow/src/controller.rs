//! The version-independent state of a switch's controller. From OpenFlow 1.5 on.
//!
//! OpenFlow 1.5.1 §7.3.5.21, §7.4.6.

use crate::header::{begin, open};
use crate::v1_5::controller::ControllerStatusProperty;
use crate::wire::{Pad, WireFormat};
use crate::{ControllerRole, DecodeError, EncodeError, Kind, Version, Writer, v1_4, v1_5};

/// State of a controller: a controller-status message, and an item of a multipart reply.
///
/// Experimenters' properties are out; [`v1_5::ControllerStatus`] has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ControllerStatus {
    /// Number of the controller at the switch.
    pub short_id: u16,
    /// Its role.
    pub role: ControllerRole,
    /// Reason of the message: `ofp_controller_status_reason`; 0 is a request.
    pub reason: u8,
    /// Whether its connection is up.
    pub is_up: bool,
    /// Its connection, such as `tls:192.0.2.1:6653`; empty if the switch did not include it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub uri: Vec<u8>,
}

impl ControllerStatus {
    /// Decodes a whole controller-status message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one controller-status message.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, Kind::ControllerStatus)?;
        let wire = v1_5::ControllerStatus::read(&mut body, "controller_status")?;
        body.finish("controller_status")?;
        Self::from_v1_5(&wire)
    }

    pub(crate) fn from_v1_5(wire: &v1_5::ControllerStatus<'_>) -> Result<Self, DecodeError> {
        let uri = wire.properties.iter().find_map(|property| match property.item {
            ControllerStatusProperty::Uri(uri) => Some(uri),
            _ => None,
        });
        Ok(Self {
            short_id: wire.short_id,
            role: ControllerRole::from_wire(wire.role, "controller_status.role")?,
            reason: wire.reason,
            is_up: wire.channel_status == 0,
            uri: uri.unwrap_or_default().into(),
        })
    }

    /// Encodes the message for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.5, [`EncodeError::NoRoom`] if `out` is too small,
    /// [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::ControllerStatus, version, xid, out)?;
        self.write(&mut to);
        to.finish()
    }

    /// Writes the state as an item of a multipart reply.
    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        let uri = [ControllerStatusProperty::Uri(&self.uri).into()];
        let properties =
            if self.uri.is_empty() { v1_4::property::Properties::default() } else { (&uri).into() };
        v1_5::ControllerStatus {
            short_id: self.short_id,
            role: self.role.wire(),
            reason: self.reason,
            channel_status: u8::from(!self.is_up),
            pad: Pad::default(),
            properties,
        }
        .write(to);
    }
}

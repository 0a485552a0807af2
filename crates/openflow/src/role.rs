//! The version-independent role of a controller, and its changes. Not in OpenFlow 1.0 and 1.1.
//!
//! OpenFlow 1.3.5 §6.3 (multiple controllers), §7.3.9; OpenFlow 1.4.1 §7.4.4; OpenFlow 1.5.1 §7.3.8.

use crate::header::{begin, open};
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, Header, Kind, Version, v1_3, v1_4, v1_5};

/// Role of a controller towards a switch (`ofp_controller_role`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum ControllerRole {
    /// No change: the request only queries the role.
    NoChange,
    /// Full access, shared with other controllers; the initial role.
    Equal,
    /// Exclusive full access.
    Master,
    /// Read-only access.
    Slave,
}

impl ControllerRole {
    /// Returns the role with this number; `field` is its name in errors.
    pub(crate) fn from_wire(found: u32, field: &'static str) -> Result<Self, DecodeError> {
        match found {
            0 => Ok(Self::NoChange),
            1 => Ok(Self::Equal),
            2 => Ok(Self::Master),
            3 => Ok(Self::Slave),
            found => Err(DecodeError::BadValue {
                field,
                offset: Header::SIZE,
                found: found.into(),
                expected: "0 (no change), 1 (equal), 2 (master) or 3 (slave)",
            }),
        }
    }

    /// Returns the role's number.
    pub(crate) fn wire(self) -> u32 {
        match self {
            Self::NoChange => 0,
            Self::Equal => 1,
            Self::Master => 2,
            Self::Slave => 3,
        }
    }
}

/// A role request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Role {
    /// The requested or current role.
    pub role: ControllerRole,
    /// Generation id of the master election; the switch rejects older ones.
    pub generation_id: u64,
    /// Number of the controller at the switch; `None` means no change. From OpenFlow 1.5 on.
    pub short_id: Option<u16>,
}

/// `short_id` of a request that does not change it (`OFPCID_UNDEFINED`, OpenFlow 1.5.1 §7.3.8).
const UNDEFINED: u16 = 0xffff;

impl Role {
    /// Decodes a whole role request.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one role request.
    pub fn decode_request(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_as(Kind::RoleRequest, message)
    }

    /// Decodes a whole role reply.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one role reply.
    pub fn decode_reply(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_as(Kind::RoleReply, message)
    }

    fn decode_as(kind: Kind, message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, kind)?;
        let role = if version == Version::V1_5 {
            Self::from_v1_5(&v1_5::Role::read(&mut body, "role_request")?)?
        } else {
            Self::from_v1_3(&v1_3::Role::read(&mut body, "role_request")?)?
        };
        body.finish("role_request")?;
        Ok(role)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::Role) -> Result<Self, DecodeError> {
        let role = ControllerRole::from_wire(wire.role, "role_request.role")?;
        Ok(Self { role, generation_id: wire.generation_id, short_id: None })
    }

    pub(crate) fn from_v1_5(wire: &v1_5::Role) -> Result<Self, DecodeError> {
        let role = ControllerRole::from_wire(wire.role, "role_request.role")?;
        let short_id = (wire.short_id != UNDEFINED).then_some(wire.short_id);
        Ok(Self { role, generation_id: wire.generation_id, short_id })
    }

    /// Encodes a role request for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0 and 1.1, and for a number of the controller before OpenFlow 1.5;
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode_request(
        &self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.encode_as(Kind::RoleRequest, version, xid, out)
    }

    /// Encodes a role reply for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0 and 1.1, and for a number of the controller before OpenFlow 1.5;
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode_reply(
        &self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.encode_as(Kind::RoleReply, version, xid, out)
    }

    fn encode_as(
        self,
        kind: Kind,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let Self { role, generation_id, short_id } = self;
        let role = role.wire();
        let mut to = begin(kind, version, xid, out)?;
        if version == Version::V1_5 {
            let (short_id, pad) = (short_id.unwrap_or(UNDEFINED), Pad::default());
            v1_5::Role { role, short_id, pad, generation_id }.write(&mut to);
        } else if short_id.is_some() {
            return Err(EncodeError::Unsupported { field: "role_request.short_id", version });
        } else {
            v1_3::Role { role, pad: Pad::default(), generation_id }.write(&mut to);
        }
        to.finish()
    }
}

/// Reason of a role-status message (`ofp_controller_role_reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum RoleReason {
    /// Another controller asked to be master.
    MasterRequest,
    /// The switch's configuration changed.
    Config,
    /// An experimenter's data changed.
    Experimenter,
    /// A number that the specification does not define.
    Other(u8),
}

impl RoleReason {
    /// Returns the reason with this number.
    pub fn from_wire(found: u8) -> Self {
        match found {
            0 => Self::MasterRequest,
            1 => Self::Config,
            2 => Self::Experimenter,
            other => Self::Other(other),
        }
    }

    /// Returns the reason's number.
    pub fn wire(self) -> u8 {
        match self {
            Self::MasterRequest => 0,
            Self::Config => 1,
            Self::Experimenter => 2,
            Self::Other(other) => other,
        }
    }
}

/// A role-status message: the controller's role changed without its request. From OpenFlow 1.4 on.
///
/// Experimenters' properties are out; [`v1_4::RoleStatus`] has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RoleStatus {
    /// The new role.
    pub role: ControllerRole,
    /// The reason.
    pub reason: RoleReason,
    /// Generation id of the master election.
    pub generation_id: u64,
}

impl RoleStatus {
    /// Decodes a whole role-status message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one role-status message.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, Kind::RoleStatus)?;
        let status = Self::from_v1_4(&v1_4::RoleStatus::read(&mut body, "role_status")?)?;
        body.finish("role_status")?;
        Ok(status)
    }

    pub(crate) fn from_v1_4(wire: &v1_4::RoleStatus<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            role: ControllerRole::from_wire(wire.role, "role_status.role")?,
            reason: RoleReason::from_wire(wire.reason),
            generation_id: wire.generation_id,
        })
    }

    /// Encodes the message for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.4, [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::RoleStatus, version, xid, out)?;
        v1_4::RoleStatus {
            role: self.role.wire(),
            reason: self.reason.wire(),
            pad: Pad::default(),
            generation_id: self.generation_id,
            properties: v1_4::property::Properties::default(),
        }
        .write(&mut to);
        to.finish()
    }
}

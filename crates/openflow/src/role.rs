//! The version-independent controller role and asynchronous configuration. Not in OpenFlow 1.0.
//! OpenFlow 1.3.5 §6.3 (multiple controllers), §7.3.9, §7.3.10.

use crate::header::{begin, open};
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, Header, Kind, Version, v1_3};

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

/// A role request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Role {
    /// The requested or current role.
    pub role: ControllerRole,
    /// Generation id of the master election; the switch rejects older ones.
    pub generation_id: u64,
}

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
        let (_, _, mut body) = open(message, kind)?;
        let wire = v1_3::Role::read(&mut body, "role_request")?;
        body.finish("role_request")?;
        Self::from_v1_3(&wire)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::Role) -> Result<Self, DecodeError> {
        let role = match wire.role {
            0 => ControllerRole::NoChange,
            1 => ControllerRole::Equal,
            2 => ControllerRole::Master,
            3 => ControllerRole::Slave,
            found => {
                return Err(DecodeError::BadValue {
                    field: "role_request.role",
                    offset: Header::SIZE,
                    found: found.into(),
                    expected: "0 (no change), 1 (equal), 2 (master) or 3 (slave)",
                });
            }
        };
        Ok(Self { role, generation_id: wire.generation_id })
    }

    /// Encodes a role request for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, [`EncodeError::NoRoom`] if `out` is too
    /// small.
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
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, [`EncodeError::NoRoom`] if `out` is too
    /// small.
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
        let role = match self.role {
            ControllerRole::NoChange => 0,
            ControllerRole::Equal => 1,
            ControllerRole::Master => 2,
            ControllerRole::Slave => 3,
        };
        let mut to = begin(kind, version, xid, out)?;
        v1_3::Role { role, pad: Pad::default(), generation_id: self.generation_id }.write(&mut to);
        to.finish()
    }
}

/// Filter of asynchronous messages to a controller. Bits select reasons; the first element applies
/// to master and equal, the second to slave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AsyncConfig {
    /// Packet-ins: bits of [`crate::PacketInReason::wire`].
    pub packet_in_mask: [u32; 2],
    /// Port-status messages: bits of `ofp_port_reason`.
    pub port_status_mask: [u32; 2],
    /// Flow-removed messages: bits of [`crate::FlowRemovedReason::wire`].
    pub flow_removed_mask: [u32; 2],
}

impl AsyncConfig {
    /// Decodes a whole set-async message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one set-async message.
    pub fn decode_set(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_as(Kind::SetAsync, message)
    }

    /// Decodes a whole get-async reply.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one get-async reply.
    pub fn decode_reply(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_as(Kind::GetAsyncReply, message)
    }

    fn decode_as(kind: Kind, message: &[u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, kind)?;
        let wire = v1_3::AsyncConfig::read(&mut body, "async_config")?;
        body.finish("async_config")?;
        Ok(Self {
            packet_in_mask: wire.packet_in_mask,
            port_status_mask: wire.port_status_mask,
            flow_removed_mask: wire.flow_removed_mask,
        })
    }

    /// Encodes a set-async message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, [`EncodeError::NoRoom`] if `out` is too
    /// small.
    pub fn encode_set(
        &self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.encode_as(Kind::SetAsync, version, xid, out)
    }

    /// Encodes a get-async reply for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, [`EncodeError::NoRoom`] if `out` is too
    /// small.
    pub fn encode_reply(
        &self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.encode_as(Kind::GetAsyncReply, version, xid, out)
    }

    fn encode_as(
        &self,
        kind: Kind,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let mut to = begin(kind, version, xid, out)?;
        v1_3::AsyncConfig {
            packet_in_mask: self.packet_in_mask,
            port_status_mask: self.port_status_mask,
            flow_removed_mask: self.flow_removed_mask,
        }
        .write(&mut to);
        to.finish()
    }
}

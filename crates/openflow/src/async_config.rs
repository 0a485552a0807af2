//! The version-independent filter of asynchronous messages. Not before OpenFlow 1.3.
//!
//! OpenFlow 1.3.5 §7.3.10 has three kinds of messages with a mask each for master and slave; from OpenFlow 1.4 on (1.4.1 and
//! 1.5.1 §7.3.10) each mask is a property of its own.

use crate::header::{begin, open};
use crate::v1_4::role::AsyncProperty;
use crate::wire::{List, Padded, WireFormat};
use crate::{DecodeError, EncodeError, Kind, Version, Writer, v1_3, v1_4, v1_5};

/// Which messages of a kind a controller gets: one bit per reason. The first element applies to master and equal, the second to
/// slave. `None` is a mask that the message does not have, so it does not change.
pub type AsyncMasks = [Option<u32>; 2];

/// Filter of asynchronous messages to a controller. Bits select reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AsyncConfig {
    /// Packet-ins: bits of [`crate::PacketInReason::wire`].
    pub packet_in: AsyncMasks,
    /// Port-status messages: bits of `ofp_port_reason`.
    pub port_status: AsyncMasks,
    /// Flow-removed messages: bits of [`crate::FlowRemovedReason::wire`].
    pub flow_removed: AsyncMasks,
    /// Role-status messages: bits of [`crate::RoleReason::wire`]. From OpenFlow 1.4 on, like the next two.
    pub role_status: AsyncMasks,
    /// Table-status messages: bits of `ofp_table_reason`.
    pub table_status: AsyncMasks,
    /// Requestforward messages: bits of `ofp_requestforward_reason`.
    pub request_forward: AsyncMasks,
    /// Statistics of flow entries: bits of `ofp_flow_stats_reason`. From OpenFlow 1.5 on, like the next.
    pub flow_stats: AsyncMasks,
    /// Controller-status messages: bits of `ofp_controller_status_reason`.
    pub controller_status: AsyncMasks,
}

/// Reads and writes the properties: the field of each kind, its two properties, and the first version byte that has them.
macro_rules! properties {
    ($($field:ident: $master:ident, $slave:ident, $first:literal;)*) => {
        impl AsyncConfig {
            /// Experimenters' properties are out; [`v1_4::AsyncConfig`] has them. A repeated property replaces the earlier.
            fn from_properties<'a, const V: u8>(
                properties: List<'a, Padded<AsyncProperty<'a, V>>>,
            ) -> Self {
                let mut config = Self::default();
                for property in properties {
                    match property.item {
                        $(
                            AsyncProperty::$master(mask) => config.$field[0] = Some(mask),
                            AsyncProperty::$slave(mask) => config.$field[1] = Some(mask),
                        )*
                        _ => {}
                    }
                }
                config
            }

            fn write_properties<const V: u8>(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
                $(
                    let [master, slave] = self.$field;
                    if V < $first && (master.is_some() || slave.is_some()) {
                        let field = concat!("async_config.", stringify!($field));
                        return Err(EncodeError::Unsupported { field, version: Version::of::<V>() });
                    }
                    if let Some(mask) = slave {
                        AsyncProperty::<V>::$slave(mask).write(to);
                    }
                    if let Some(mask) = master {
                        AsyncProperty::<V>::$master(mask).write(to);
                    }
                )*
                Ok(())
            }
        }
    };
}
properties! {
    packet_in: PacketInMaster, PacketInSlave, 5;
    port_status: PortStatusMaster, PortStatusSlave, 5;
    flow_removed: FlowRemovedMaster, FlowRemovedSlave, 5;
    role_status: RoleStatusMaster, RoleStatusSlave, 5;
    table_status: TableStatusMaster, TableStatusSlave, 5;
    request_forward: RequestForwardMaster, RequestForwardSlave, 5;
    flow_stats: FlowStatsMaster, FlowStatsSlave, 6;
    controller_status: ControllerStatusMaster, ControllerStatusSlave, 6;
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
        let (version, _, mut body) = open(message, kind)?;
        let body = &mut body;
        let config = match version {
            Version::V1_4 => Self::from_v1_4(&v1_4::AsyncConfig::read(body, "async_config")?),
            Version::V1_5 => Self::from_v1_4(&v1_5::AsyncConfig::read(body, "async_config")?),
            _ => Self::from_v1_3(&v1_3::AsyncConfig::read(body, "async_config")?),
        };
        body.finish("async_config")?;
        Ok(config)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::AsyncConfig) -> Self {
        Self {
            packet_in: wire.packet_in_mask.map(Some),
            port_status: wire.port_status_mask.map(Some),
            flow_removed: wire.flow_removed_mask.map(Some),
            ..Self::default()
        }
    }

    pub(crate) fn from_v1_4<const V: u8>(wire: &v1_4::role::AsyncConfig<'_, V>) -> Self {
        Self::from_properties(wire.properties)
    }

    /// Encodes a set-async message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.3, for kinds of messages that the version lacks, and in 1.3 without one of
    /// its masks; [`EncodeError::NoRoom`] if `out` is too small.
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
    /// Like [`AsyncConfig::encode_set`].
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
        match version {
            Version::V1_4 => self.write_properties::<5>(&mut to)?,
            Version::V1_5 => self.write_properties::<6>(&mut to)?,
            _ => self.to_v1_3()?.write(&mut to),
        }
        to.finish()
    }

    fn to_v1_3(self) -> Result<v1_3::AsyncConfig, EncodeError> {
        let unsupported = |field| EncodeError::Unsupported { field, version: Version::V1_3 };
        let Self { packet_in, port_status, flow_removed, .. } = self;
        if (Self { packet_in, port_status, flow_removed, ..Self::default() }) != self {
            return Err(unsupported("async_config for other messages"));
        }
        let both = |masks: AsyncMasks| match masks {
            [Some(master), Some(slave)] => Ok([master, slave]),
            _ => Err(unsupported("async_config without a mask")),
        };
        Ok(v1_3::AsyncConfig {
            packet_in_mask: both(packet_in)?,
            port_status_mask: both(port_status)?,
            flow_removed_mask: both(flow_removed)?,
        })
    }
}

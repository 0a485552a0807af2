//! The version-independent features reply and switch configuration.
//!
//! OpenFlow 1.3.5 §7.3.1, §7.3.2; OpenFlow 1.0.2 §5.3.1, §5.3.2; OpenFlow 1.1.0 and 1.2 §A.3.1, §A.3.2.

use crate::header::{begin, open};
use crate::port::bits;
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, Dpid, EncodeError, Kind, PortDesc, Version, v1_0, v1_1, v1_3};

bits! {
    /// Capabilities of a switch, with OpenFlow 1.3's bit numbers (`ofp_capabilities`).
    pub struct Capabilities(u32) {
        /// It keeps flow statistics.
        FLOW_STATS = 1 << 0;
        /// It keeps table statistics.
        TABLE_STATS = 1 << 1;
        /// It keeps port statistics.
        PORT_STATS = 1 << 2;
        /// It keeps group statistics. Not in OpenFlow 1.0.
        GROUP_STATS = 1 << 3;
        /// It can reassemble IP fragments.
        IP_REASM = 1 << 5;
        /// It keeps queue statistics.
        QUEUE_STATS = 1 << 6;
        /// It matches IP addresses in ARP. OpenFlow 1.0 and 1.1 only.
        ARP_MATCH_IP = 1 << 7;
        /// It blocks looping ports by itself. From OpenFlow 1.2 on.
        PORT_BLOCKED = 1 << 8;
        /// It supports bundles. From OpenFlow 1.4 on.
        BUNDLES = 1 << 9;
        /// It supports flow monitors. From OpenFlow 1.4 on.
        FLOW_MONITORING = 1 << 10;
        /// It supports spanning tree. OpenFlow 1.0 only, where it uses the bit of `GROUP_STATS`.
        STP = 1 << 31;
    }
}

impl Capabilities {
    /// The bit of [`Capabilities::STP`] in OpenFlow 1.0.
    const STP_1_0: u32 = 1 << 3;

    fn from_v1_0(bits: u32) -> Self {
        let stp = if bits & Self::STP_1_0 == 0 { 0 } else { Self::STP.0 };
        Self(bits & !(Self::STP_1_0 | Self::STP.0) | stp)
    }

    fn to_v1_0(self) -> u32 {
        let stp = if self.contains(Self::STP) { Self::STP_1_0 } else { 0 };
        self.0 & !(Self::STP.0 | Self::GROUP_STATS.0) | stp
    }
}

/// A features reply: identity and capabilities of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Features {
    /// Datapath id.
    pub dpid: Dpid,
    /// Number of packets that it can buffer.
    pub n_buffers: u32,
    /// Number of flow tables.
    pub n_tables: u8,
    /// Number of the connection; 0 is the main one and the only one before OpenFlow 1.3.
    pub auxiliary_id: u8,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Supported actions: one bit per type. OpenFlow 1.0 only, otherwise 0.
    pub actions: u32,
    /// Its ports. Before OpenFlow 1.3 only, otherwise empty: see [`crate::port_desc_request`].
    pub ports: Vec<PortDesc>,
}

impl Features {
    /// Decodes a whole features reply of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one features reply.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::FeaturesReply)?;
        let features = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::Features::read(&mut body, "switch_features")?),
            Version::V1_1 | Version::V1_2 => {
                Self::from_v1_1(&v1_1::Features::read(&mut body, "switch_features")?)
            }
            _ => Self::from_v1_3(&v1_3::Features::read(&mut body, "switch_features")?),
        };
        body.finish("switch_features")?;
        Ok(features)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::Features<'_>) -> Self {
        Self {
            dpid: Dpid(wire.datapath_id),
            n_buffers: wire.n_buffers,
            n_tables: wire.n_tables,
            auxiliary_id: 0,
            capabilities: Capabilities::from_v1_0(wire.capabilities),
            actions: wire.actions,
            ports: wire.ports.iter().map(|port| PortDesc::from_v1_0(&port)).collect(),
        }
    }

    pub(crate) fn from_v1_1(wire: &v1_1::Features<'_>) -> Self {
        Self {
            dpid: Dpid(wire.datapath_id),
            n_buffers: wire.n_buffers,
            n_tables: wire.n_tables,
            auxiliary_id: 0,
            capabilities: Capabilities(wire.capabilities & !Capabilities::STP.0),
            actions: 0,
            ports: wire.ports.iter().map(|port| PortDesc::from_v1_3(&port)).collect(),
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::Features) -> Self {
        Self {
            dpid: Dpid(wire.datapath_id),
            n_buffers: wire.n_buffers,
            n_tables: wire.n_tables,
            auxiliary_id: wire.auxiliary_id,
            // OpenFlow 1.3 defines no meaning for the bit that represents 1.0's spanning tree here.
            capabilities: Capabilities(wire.capabilities & !Capabilities::STP.0),
            actions: 0,
            ports: Vec::new(),
        }
    }

    /// Encodes the reply in a version's format, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] for ports and actions in a version whose reply has none, and for an
    /// auxiliary connection before OpenFlow 1.3; [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version });
        let mut to = begin(Kind::FeaturesReply, version, xid, out)?;
        match version {
            Version::V1_0 => {
                if self.auxiliary_id != 0 {
                    return unsupported("switch_features.auxiliary_id");
                }
                let wire = v1_0::Features {
                    datapath_id: self.dpid.0,
                    n_buffers: self.n_buffers,
                    n_tables: self.n_tables,
                    pad: Pad::default(),
                    capabilities: self.capabilities.to_v1_0(),
                    actions: self.actions,
                    ports: (&[]).into(),
                };
                wire.write(&mut to);
                for port in &self.ports {
                    port.to_v1_0()?.write(&mut to);
                }
            }
            Version::V1_1 | Version::V1_2 => {
                if self.auxiliary_id != 0 {
                    return unsupported("switch_features.auxiliary_id");
                }
                if self.actions != 0 {
                    return unsupported("switch_features.actions");
                }
                let wire = v1_1::Features {
                    datapath_id: self.dpid.0,
                    n_buffers: self.n_buffers,
                    n_tables: self.n_tables,
                    pad: Pad::default(),
                    capabilities: self.capabilities.0,
                    reserved: 0,
                    ports: (&[]).into(),
                };
                wire.write(&mut to);
                for port in &self.ports {
                    port.to_v1_3().write(&mut to);
                }
            }
            Version::V1_3 | Version::V1_4 | Version::V1_5 => {
                if !self.ports.is_empty() {
                    return unsupported("switch_features.ports");
                }
                if self.actions != 0 {
                    return unsupported("switch_features.actions");
                }
                let wire = v1_3::Features {
                    datapath_id: self.dpid.0,
                    n_buffers: self.n_buffers,
                    n_tables: self.n_tables,
                    auxiliary_id: self.auxiliary_id,
                    pad: Pad::default(),
                    capabilities: self.capabilities.0,
                    reserved: 0,
                };
                wire.write(&mut to);
            }
        }
        to.finish()
    }
}

/// Switch configuration for messages to the controller: get-config reply and set-config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SwitchConfig {
    /// Handling of IP fragments: `ofp_config_flags`; 0 means no special handling.
    pub flags: u16,
    /// Maximum number of packet bytes in a packet-in; 0xffff means all, unbuffered (OpenFlow 1.3).
    pub miss_send_len: u16,
}

impl SwitchConfig {
    /// Whole packets to the controller (`OFPCML_NO_BUFFER`, OpenFlow 1.3.5 §7.3.2), and no special handling of fragments.
    pub const WHOLE_PACKETS: Self = Self { flags: 0, miss_send_len: 0xffff };

    /// Decodes a whole get-config reply of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one get-config reply.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_as(Kind::GetConfigReply, message)
    }

    /// Decodes a whole set-config of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one set-config.
    pub fn decode_set(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_as(Kind::SetConfig, message)
    }

    fn decode_as(kind: Kind, message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, kind)?;
        let (flags, miss_send_len) = if version == Version::V1_0 {
            let wire = v1_0::SwitchConfig::read(&mut body, "switch_config")?;
            (wire.flags, wire.miss_send_len)
        } else {
            let wire = v1_3::SwitchConfig::read(&mut body, "switch_config")?;
            (wire.flags, wire.miss_send_len)
        };
        body.finish("switch_config")?;
        Ok(Self { flags, miss_send_len })
    }

    /// Encodes a set-config; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode_set(
        &self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.encode_as(Kind::SetConfig, version, xid, out)
    }

    /// Encodes a get-config reply, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode_reply(
        &self,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.encode_as(Kind::GetConfigReply, version, xid, out)
    }

    fn encode_as(
        self,
        kind: Kind,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let mut to = begin(kind, version, xid, out)?;
        to.u16(self.flags);
        to.u16(self.miss_send_len);
        to.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MacAddr, PortNo};

    #[test]
    fn features_reply_round_trips() {
        let port = PortDesc::new(PortNo(1), MacAddr([2, 0, 0, 0, 0, 1]), "eth1");
        let new = Features {
            dpid: Dpid(0x1234),
            n_buffers: 256,
            n_tables: 254,
            auxiliary_id: 1,
            capabilities: Capabilities::FLOW_STATS | Capabilities::GROUP_STATS,
            actions: 0,
            ports: Vec::new(),
        };
        let old = Features {
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS | Capabilities::STP,
            actions: 0xfff,
            ports: vec![port, port],
            ..new.clone()
        };
        for (version, features, fixed) in [(Version::V1_3, new, 32), (Version::V1_0, old, 128)] {
            let mut out = [0; 200];
            assert_eq!(features.encode(version, 1, &mut out), Ok(fixed));
            assert_eq!(Features::decode(&out[..fixed]), Ok(features));
            for len in 0..fixed {
                assert!(Features::decode(&out[..len]).is_err());
            }
        }
    }

    #[test]
    fn set_config_is_twelve_bytes() {
        let config = SwitchConfig { flags: 0, miss_send_len: 0xffff };
        let mut out = [0; 12];
        assert_eq!(config.encode_set(Version::V1_3, 2, &mut out), Ok(12));
        assert_eq!(out, [4, 9, 0, 12, 0, 0, 0, 2, 0, 0, 0xff, 0xff]);
        assert_eq!(SwitchConfig::decode_set(&out), Ok(config));
        assert!(SwitchConfig::decode(&out).is_err());
    }
}

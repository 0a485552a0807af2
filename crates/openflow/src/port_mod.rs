//! The version-independent port-mod, which configures a port.
//!
//! OpenFlow 1.3.5 §7.3.4.3; OpenFlow 1.0.2 §5.3.3; OpenFlow 1.4.1 §7.3.4.3.

use crate::header::{begin, open};
use crate::port::{PortConfig, PortFeatures};
use crate::v1_4::port::PortModProperty;
use crate::wire::{List, Pad, WireFormat};
use crate::{DecodeError, EncodeError, Kind, MacAddr, PortNo, Version, v1_0, v1_3, v1_4};

/// A port-mod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PortMod {
    /// Port number.
    pub port_no: PortNo,
    /// Its Ethernet address, which must equal the one in the port description.
    pub hw_addr: MacAddr,
    /// Configuration bits to set.
    pub config: PortConfig,
    /// Mask of `config`.
    pub mask: PortConfig,
    /// Features to advertise; 0 means no change.
    pub advertise: PortFeatures,
}

impl PortMod {
    /// Decodes a whole port-mod of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one port-mod.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::PortMod)?;
        let port_mod = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::PortMod::read(&mut body, "port_mod")?),
            Version::V1_1 | Version::V1_2 | Version::V1_3 => {
                Self::from_v1_3(&v1_3::PortMod::read(&mut body, "port_mod")?)
            }
            Version::V1_4 | Version::V1_5 => {
                Self::from_v1_4(&v1_4::PortMod::read(&mut body, "port_mod")?)
            }
        };
        body.finish("port_mod")?;
        Ok(port_mod)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::PortMod) -> Self {
        Self {
            port_no: v1_0::port_from_wire(wire.port_no),
            hw_addr: wire.hw_addr,
            config: PortConfig(wire.config),
            mask: PortConfig(wire.mask),
            advertise: PortFeatures::from_v1_0(wire.advertise),
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::PortMod) -> Self {
        Self {
            port_no: wire.port_no,
            hw_addr: wire.hw_addr,
            config: PortConfig(wire.config),
            mask: PortConfig(wire.mask),
            advertise: PortFeatures(wire.advertise),
        }
    }

    /// Properties except that of Ethernet are out; [`v1_4::PortMod`] has them.
    pub(crate) fn from_v1_4(wire: &v1_4::PortMod<'_>) -> Self {
        let advertise = wire.properties.iter().find_map(|property| match property.item {
            PortModProperty::Ethernet(advertise) => Some(advertise),
            _ => None,
        });
        Self {
            port_no: wire.port_no,
            hw_addr: wire.hw_addr,
            config: PortConfig(wire.config),
            mask: PortConfig(wire.mask),
            advertise: PortFeatures(advertise.unwrap_or(0)),
        }
    }

    /// Encodes the port-mod for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let advertise = match version {
            Version::V1_0 => self.advertise.to_v1_0("port_mod.advertise")?,
            _ => self.advertise.0,
        };
        let bits = [self.config.0, self.mask.0, advertise];
        Self::encode_bits((self.port_no, self.hw_addr), bits, version, xid, out)
    }

    /// Encodes a port-mod whose configuration, mask and features are given as the version numbers their bits; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version has no such port, [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode_bits(
        (port_no, hw_addr): (PortNo, MacAddr),
        [config, mask, advertise]: [u32; 3],
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::PortMod, version, xid, out)?;
        match version {
            Version::V1_0 => v1_0::PortMod {
                port_no: v1_0::convert::port(port_no, "port_mod.port_no")?,
                hw_addr,
                config,
                mask,
                advertise,
                pad: Pad::default(),
            }
            .write(&mut to),
            Version::V1_4 | Version::V1_5 => {
                let ethernet = [PortModProperty::Ethernet(advertise).into()];
                // Without the property, the features do not change.
                let properties = if advertise == 0 { List::default() } else { (&ethernet).into() };
                v1_4::PortMod {
                    port_no,
                    pad: Pad::default(),
                    hw_addr,
                    pad2: Pad::default(),
                    config,
                    mask,
                    properties,
                }
                .write(&mut to);
            }
            Version::V1_1 | Version::V1_2 | Version::V1_3 => v1_3::PortMod {
                port_no,
                pad: Pad::default(),
                hw_addr,
                pad2: Pad::default(),
                config,
                mask,
                advertise,
                pad3: Pad::default(),
            }
            .write(&mut to),
        }
        to.finish()
    }
}

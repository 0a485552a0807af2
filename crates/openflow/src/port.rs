//! The version-independent port: its description and its status changes.
//!
//! OpenFlow 1.3.5 §7.2.1, §7.3.5.7, §7.4.3; OpenFlow 1.0.2 §5.2.1, §5.4.3; OpenFlow 1.4.1 §7.2.1, §7.3.5.7, §7.4.3.

use crate::header::{begin, open};
use crate::text::Text;
use crate::v1_4::port::{EthernetPort, PortProperty};
use crate::wire::{List, Pad, WireFormat};
use crate::{
    DecodeError, EncodeError, Header, Kind, MacAddr, PortNo, Version, Writer, v1_0, v1_3, v1_4,
    v1_5,
};

/// A port's name.
pub type PortName = Text<16>;

macro_rules! bits {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident($int:ty) { $( $(#[$bit_meta:meta])* $bit:ident = $value:expr; )* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $name(pub $int);

        impl $name {
            $( $(#[$bit_meta])* pub const $bit: Self = Self($value); )*

            /// Whether all of `bits` are set.
            pub fn contains(self, bits: Self) -> bool {
                self.0 & bits.0 == bits.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    )*};
}
pub(crate) use bits;

bits! {
    /// Port configuration by the controller (`ofp_port_config`).
    pub struct PortConfig(u32) {
        /// The port is down.
        PORT_DOWN = 1 << 0;
        /// It does not take part in spanning tree. OpenFlow 1.0 only.
        NO_STP = 1 << 1;
        /// It drops what it receives.
        NO_RECV = 1 << 2;
        /// It drops spanning tree packets it receives. OpenFlow 1.0 only.
        NO_RECV_STP = 1 << 3;
        /// It is excluded from flooding. OpenFlow 1.0 only.
        NO_FLOOD = 1 << 4;
        /// It drops packets that are forwarded to it.
        NO_FWD = 1 << 5;
        /// Its packets do not cause packet-ins.
        NO_PACKET_IN = 1 << 6;
    }

    /// Port state reported by the switch (`ofp_port_state`).
    pub struct PortState(u32) {
        /// There is no link.
        LINK_DOWN = 1 << 0;
        /// A protocol outside OpenFlow, such as spanning tree, blocks it. Not in OpenFlow 1.0.
        BLOCKED = 1 << 1;
        /// A fast-failover group may use it. Not in OpenFlow 1.0.
        LIVE = 1 << 2;
        /// The two bits of the spanning tree's state. OpenFlow 1.0 only.
        STP_MASK = 3 << 8;
    }

    /// Port features, with OpenFlow 1.3's bit numbers (`ofp_port_features`).
    pub struct PortFeatures(u32) {
        /// 10 Mbit/s half-duplex.
        RATE_10MB_HD = 1 << 0;
        /// 10 Mbit/s full-duplex.
        RATE_10MB_FD = 1 << 1;
        /// 100 Mbit/s half-duplex.
        RATE_100MB_HD = 1 << 2;
        /// 100 Mbit/s full-duplex.
        RATE_100MB_FD = 1 << 3;
        /// 1 Gbit/s half-duplex.
        RATE_1GB_HD = 1 << 4;
        /// 1 Gbit/s full-duplex.
        RATE_1GB_FD = 1 << 5;
        /// 10 Gbit/s full-duplex.
        RATE_10GB_FD = 1 << 6;
        /// 40 Gbit/s full-duplex. Not in OpenFlow 1.0, nor are the next three.
        RATE_40GB_FD = 1 << 7;
        /// 100 Gbit/s full-duplex.
        RATE_100GB_FD = 1 << 8;
        /// 1 Tbit/s full-duplex.
        RATE_1TB_FD = 1 << 9;
        /// Another rate.
        RATE_OTHER = 1 << 10;
        /// Copper.
        COPPER = 1 << 11;
        /// Fibre.
        FIBER = 1 << 12;
        /// Auto-negotiation.
        AUTONEG = 1 << 13;
        /// Pause.
        PAUSE = 1 << 14;
        /// Asymmetric pause.
        PAUSE_ASYM = 1 << 15;
    }
}

impl PortFeatures {
    /// The rates with the same bits in all versions.
    const SHARED: u32 = 0x7f;
    /// How far copper and the following bits are shifted up from OpenFlow 1.0.
    const MEDIA_SHIFT: u32 = 4;
    /// Copper and the following bits in OpenFlow 1.0.
    const MEDIA_1_0: u32 = 0xf80;

    pub(crate) fn from_v1_0(bits: u32) -> Self {
        Self(bits & Self::SHARED | (bits & Self::MEDIA_1_0) << Self::MEDIA_SHIFT)
    }

    /// Converts to the bits of OpenFlow 1.0.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`], naming `field`, if it lacks one of them.
    pub(crate) fn to_v1_0(self, field: &'static str) -> Result<u32, EncodeError> {
        let bits = self.0 & Self::SHARED | self.0 >> Self::MEDIA_SHIFT & Self::MEDIA_1_0;
        if Self::from_v1_0(bits) != self {
            return Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        }
        Ok(bits)
    }
}

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PortDesc {
    /// Its number.
    pub port_no: PortNo,
    /// Its Ethernet address.
    pub hw_addr: MacAddr,
    /// Its name.
    pub name: PortName,
    /// Configuration by the controller.
    pub config: PortConfig,
    /// State reported by the switch.
    pub state: PortState,
    /// Current features.
    pub curr: PortFeatures,
    /// Advertised features.
    pub advertised: PortFeatures,
    /// Supported features.
    pub supported: PortFeatures,
    /// Features advertised by the peer.
    pub peer: PortFeatures,
    /// Current speed of the link, in kbit/s; 0 in OpenFlow 1.0.
    pub curr_speed: u32,
    /// Maximum speed of the port, in kbit/s; 0 in OpenFlow 1.0.
    pub max_speed: u32,
}

impl PortDesc {
    /// Creates a port that is up and whose link is unknown.
    pub fn new(port_no: PortNo, hw_addr: MacAddr, name: &str) -> Self {
        Self {
            port_no,
            hw_addr,
            name: PortName::new(name),
            config: PortConfig::default(),
            state: PortState::default(),
            curr: PortFeatures::default(),
            advertised: PortFeatures::default(),
            supported: PortFeatures::default(),
            peer: PortFeatures::default(),
            curr_speed: 0,
            max_speed: 0,
        }
    }

    /// Whether packets can pass: the port is not administratively down and has a link.
    pub fn is_up(&self) -> bool {
        !self.config.contains(PortConfig::PORT_DOWN) && !self.state.contains(PortState::LINK_DOWN)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::PhyPort) -> Self {
        Self {
            port_no: v1_0::port_from_wire(wire.port_no),
            hw_addr: wire.hw_addr,
            name: wire.name,
            config: PortConfig(wire.config),
            state: PortState(wire.state),
            curr: PortFeatures::from_v1_0(wire.curr),
            advertised: PortFeatures::from_v1_0(wire.advertised),
            supported: PortFeatures::from_v1_0(wire.supported),
            peer: PortFeatures::from_v1_0(wire.peer),
            curr_speed: 0,
            max_speed: 0,
        }
    }

    pub(crate) fn to_v1_0(self) -> Result<v1_0::PhyPort, EncodeError> {
        if (self.curr_speed, self.max_speed) != (0, 0) {
            let field = "port.curr_speed, port.max_speed";
            return Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        }
        Ok(v1_0::PhyPort {
            port_no: v1_0::convert::port(self.port_no, "port.port_no")?,
            hw_addr: self.hw_addr,
            name: self.name,
            config: self.config.0,
            state: self.state.0,
            curr: self.curr.to_v1_0("port.curr")?,
            advertised: self.advertised.to_v1_0("port.advertised")?,
            supported: self.supported.to_v1_0("port.supported")?,
            peer: self.peer.to_v1_0("port.peer")?,
        })
    }

    pub(crate) fn from_v1_3(wire: &v1_3::Port) -> Self {
        Self {
            port_no: wire.port_no,
            hw_addr: wire.hw_addr,
            name: wire.name,
            config: PortConfig(wire.config),
            state: PortState(wire.state),
            curr: PortFeatures(wire.curr),
            advertised: PortFeatures(wire.advertised),
            supported: PortFeatures(wire.supported),
            peer: PortFeatures(wire.peer),
            curr_speed: wire.curr_speed,
            max_speed: wire.max_speed,
        }
    }

    /// Converts a port of OpenFlow 1.4 or later. Without the property of Ethernet, its features and speeds are 0. Other properties
    /// are out; [`v1_4::Port`] has them.
    pub(crate) fn from_v1_4<const V: u8>(wire: &v1_4::port::Port<'_, V>) -> Self {
        let ethernet = wire.properties.iter().find_map(|property| match property.item {
            PortProperty::Ethernet(ethernet) => Some(ethernet),
            _ => None,
        });
        let bits = |of: fn(EthernetPort) -> u32| PortFeatures(ethernet.map_or(0, of));
        Self {
            port_no: wire.port_no,
            hw_addr: wire.hw_addr,
            name: wire.name,
            config: PortConfig(wire.config),
            state: PortState(wire.state),
            curr: bits(|it| it.curr),
            advertised: bits(|it| it.advertised),
            supported: bits(|it| it.supported),
            peer: bits(|it| it.peer),
            curr_speed: ethernet.map_or(0, |it| it.curr_speed),
            max_speed: ethernet.map_or(0, |it| it.max_speed),
        }
    }

    /// Writes the port for OpenFlow 1.4 and later, with the property of Ethernet.
    pub(crate) fn write_v1_4(self, to: &mut Writer<'_>) {
        let ethernet = PortProperty::Ethernet(EthernetPort {
            pad: Pad::default(),
            curr: self.curr.0,
            advertised: self.advertised.0,
            supported: self.supported.0,
            peer: self.peer.0,
            curr_speed: self.curr_speed,
            max_speed: self.max_speed,
        });
        let properties = [ethernet.into()];
        let port: v1_4::Port<'_> = v1_4::port::Port {
            port_no: self.port_no,
            pad: Pad::default(),
            hw_addr: self.hw_addr,
            pad2: Pad::default(),
            name: self.name,
            config: self.config.0,
            state: self.state.0,
            properties: (&properties).into(),
        };
        port.write(to);
    }

    pub(crate) fn to_v1_3(self) -> v1_3::Port {
        v1_3::Port {
            port_no: self.port_no,
            pad: Pad::default(),
            hw_addr: self.hw_addr,
            pad2: Pad::default(),
            name: self.name,
            config: self.config.0,
            state: self.state.0,
            curr: self.curr.0,
            advertised: self.advertised.0,
            supported: self.supported.0,
            peer: self.peer.0,
            curr_speed: self.curr_speed,
            max_speed: self.max_speed,
        }
    }
}

/// Reason of a port-status message (`ofp_port_reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum PortReason {
    /// The port was added.
    Add,
    /// The port was removed.
    Delete,
    /// The port was changed.
    Modify,
}

impl PortReason {
    fn from_wire(found: u8) -> Result<Self, DecodeError> {
        match found {
            0 => Ok(Self::Add),
            1 => Ok(Self::Delete),
            2 => Ok(Self::Modify),
            _ => Err(DecodeError::BadValue {
                field: "port_status.reason",
                offset: 8,
                found: found.into(),
                expected: "0 (add), 1 (delete) or 2 (modify)",
            }),
        }
    }

    fn wire(self) -> u8 {
        match self {
            Self::Add => 0,
            Self::Delete => 1,
            Self::Modify => 2,
        }
    }
}

/// A port-status message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PortStatus {
    /// The reason.
    pub reason: PortReason,
    /// Description of the port after the change.
    pub desc: PortDesc,
}

impl PortStatus {
    /// Decodes a whole port-status message of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one port-status message.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::PortStatus)?;
        let status = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::PortStatus::read(&mut body, "port_status")?),
            Version::V1_4 => Self::from_v1_4(&v1_4::PortStatus::read(&mut body, "port_status")?),
            Version::V1_5 => Self::from_v1_4(&v1_5::PortStatus::read(&mut body, "port_status")?),
            _ => Self::from_v1_3(&v1_3::PortStatus::read(&mut body, "port_status")?),
        }?;
        body.finish("port_status")?;
        Ok(status)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::PortStatus) -> Result<Self, DecodeError> {
        let reason = PortReason::from_wire(wire.reason)?;
        Ok(Self { reason, desc: PortDesc::from_v1_0(&wire.desc) })
    }

    pub(crate) fn from_v1_3(wire: &v1_3::PortStatus) -> Result<Self, DecodeError> {
        let reason = PortReason::from_wire(wire.reason)?;
        Ok(Self { reason, desc: PortDesc::from_v1_3(&wire.desc) })
    }

    pub(crate) fn from_v1_4<const V: u8>(
        wire: &v1_4::port::PortStatus<'_, V>,
    ) -> Result<Self, DecodeError> {
        let reason = PortReason::from_wire(wire.reason)?;
        Ok(Self { reason, desc: PortDesc::from_v1_4(&wire.desc) })
    }

    /// Encodes the message for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version has no such port number,
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::PortStatus, version, xid, out)?;
        let (reason, pad) = (self.reason.wire(), Pad::default());
        match version {
            Version::V1_0 => {
                v1_0::PortStatus { reason, pad, desc: self.desc.to_v1_0()? }.write(&mut to);
            }
            Version::V1_4 | Version::V1_5 => {
                to.u8(reason);
                to.zeros(7);
                self.desc.write_v1_4(&mut to);
            }
            _ => v1_3::PortStatus { reason, pad, desc: self.desc.to_v1_3() }.write(&mut to),
        }
        to.finish()
    }
}

/// `OFPMP_PORT_DESC`, OpenFlow 1.3.5 §7.3.5.7.
const PORT_DESC: u16 = 13;
/// Name of the list of ports in errors.
const REPLY_BODY: &str = "multipart_reply.body";

/// `OFPMPF_REPLY_MORE`: another reply with the same xid follows. OpenFlow 1.3.5 §7.3.5.
const REPLY_MORE: u16 = 1;

/// Encodes a request for the descriptions of all ports; returns its size. Not before OpenFlow 1.3,
/// where the features reply has them.
///
/// # Errors
/// [`EncodeError::Unsupported`] before OpenFlow 1.3, [`EncodeError::NoRoom`] if `out` is too small.
pub fn port_desc_request(version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
    let mut to = begin_port_desc(Kind::MultipartRequest, version, xid, out)?;
    to.zeros(6); // flags, and the padding
    if version == Version::V1_5 {
        to.u32(PortNo::ANY.0);
        to.zeros(4);
    }
    to.finish()
}

fn begin_port_desc(
    kind: Kind,
    version: Version,
    xid: u32,
    out: &mut [u8],
) -> Result<Writer<'_>, EncodeError> {
    if !version.features().port_desc {
        return Err(EncodeError::Unsupported { field: "multipart port_desc", version });
    }
    let mut to = begin(kind, version, xid, out)?;
    to.u16(PORT_DESC);
    Ok(to)
}

/// One part of the reply to [`port_desc_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortDescReply;

impl PortDescReply {
    /// Decodes one complete multipart reply with port descriptions: the ports, and whether more
    /// replies follow.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one such reply.
    pub fn decode(message: &[u8]) -> Result<(Vec<PortDesc>, bool), DecodeError> {
        let (version, _, mut body) = open(message, Kind::MultipartReply)?;
        let wrong = |found| DecodeError::BadValue {
            field: "multipart_reply.type",
            offset: Header::SIZE,
            found,
            expected: "13 (port descriptions) in OpenFlow 1.3 or later",
        };
        let kind = body.u16("multipart_reply.type")?;
        if !version.features().port_desc || kind != PORT_DESC {
            return Err(wrong(kind.into()));
        }
        let flags = body.u16("multipart_reply.flags")?;
        body.take("multipart_reply.pad", 4)?;
        let ports = match version {
            Version::V1_4 => {
                let ports: List<'_, v1_4::Port<'_>> = List::read(&mut body, REPLY_BODY)?;
                ports.iter().map(|port| PortDesc::from_v1_4(&port)).collect()
            }
            Version::V1_5 => {
                let ports: List<'_, v1_5::Port<'_>> = List::read(&mut body, REPLY_BODY)?;
                ports.iter().map(|port| PortDesc::from_v1_4(&port)).collect()
            }
            _ => {
                let ports: List<'_, v1_3::Port> = List::read(&mut body, REPLY_BODY)?;
                ports.iter().map(|port| PortDesc::from_v1_3(&port)).collect()
            }
        };
        Ok((ports, flags & REPLY_MORE != 0))
    }

    /// Encodes one such reply, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.3, [`EncodeError::NoRoom`] if `out` is too
    /// small, [`EncodeError::TooLong`] for more than 1023 ports (from OpenFlow 1.4 on, 909).
    pub fn encode(
        ports: &[PortDesc],
        more: bool,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let mut to = begin_port_desc(Kind::MultipartReply, version, xid, out)?;
        to.u16(u16::from(more) * REPLY_MORE);
        to.zeros(4);
        for port in ports {
            if version == Version::V1_3 {
                port.to_v1_3().write(&mut to);
            } else {
                port.write_v1_4(&mut to);
            }
        }
        to.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> PortDesc {
        PortDesc {
            config: PortConfig::NO_FWD,
            state: PortState::LINK_DOWN,
            curr: PortFeatures::RATE_10GB_FD | PortFeatures::COPPER | PortFeatures::PAUSE_ASYM,
            ..PortDesc::new(PortNo::LOCAL, MacAddr([2, 0, 0, 0, 0, 9]), "br0")
        }
    }

    #[test]
    fn port_status_round_trips_in_both_versions() {
        for (version, size) in [(Version::V1_0, 64), (Version::V1_3, 80)] {
            let status = PortStatus { reason: PortReason::Delete, desc: port() };
            let mut out = [0; 80];
            assert_eq!(status.encode(version, 3, &mut out), Ok(size));
            assert_eq!(PortStatus::decode(&out[..size]), Ok(status));
            for len in 0..size {
                assert!(PortStatus::decode(&out[..len]).is_err());
            }
        }
    }

    #[test]
    fn feature_bits_of_1_0_are_shifted_in_1_3() {
        let copper_1_0 = 1 << 7;
        assert_eq!(PortFeatures::from_v1_0(copper_1_0), PortFeatures::COPPER);
        for bits in 0..0x1000 {
            assert_eq!(PortFeatures::from_v1_0(bits).to_v1_0("curr"), Ok(bits));
        }
        for new in [PortFeatures::RATE_40GB_FD, PortFeatures::RATE_OTHER] {
            assert!(new.to_v1_0("curr").is_err());
        }
    }

    #[test]
    fn port_desc_reply_lists_ports_and_says_whether_more_follow() {
        let ports =
            [port(), PortDesc::new(PortNo(1), MacAddr::default(), "a-name-that-is-too-long")];
        let mut out = [0; 200];
        let size = PortDescReply::encode(&ports, true, Version::V1_3, 5, &mut out).unwrap();
        assert_eq!(size, 16 + 2 * 64);
        let (decoded, more) = PortDescReply::decode(&out[..size]).unwrap();
        assert!(more);
        assert_eq!(decoded, ports);
        assert_eq!(decoded[1].name.as_str(), "a-name-that-is-");
        assert!(decoded[1].is_up());
        assert!(!decoded[0].is_up());
    }

    #[test]
    fn name_of_hostile_bytes_prints_escaped() {
        let name = Text(*b"e\x1b[2J\xff\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(name.to_string(), "e\\x1b[2J\\xff");
        assert_eq!(name.as_str(), "e\x1b[2J");
    }
}

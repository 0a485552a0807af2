//! The version-independent meter-mod: adds, changes, deletes meters. Not in OpenFlow 1.0.
//!
//! OpenFlow 1.3.5 §5.7 (definition of meters), §7.3.4.4 (the message).

use crate::header::{begin, open};
use crate::port::bits;
use crate::tlv::write_aligned;
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, Header, Kind, Version, Writer, v1_3};

/// Command of a meter-mod (`ofp_meter_mod_command`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum MeterModCommand {
    /// Adds a meter.
    Add,
    /// Replaces a meter.
    Modify,
    /// Deletes a meter and the flow entries that use it.
    Delete,
}

impl MeterModCommand {
    /// The command's number.
    pub fn wire(self) -> u16 {
        match self {
            Self::Add => 0,
            Self::Modify => 1,
            Self::Delete => 2,
        }
    }

    fn from_wire(found: u16) -> Result<Self, DecodeError> {
        match found {
            0 => Ok(Self::Add),
            1 => Ok(Self::Modify),
            2 => Ok(Self::Delete),
            _ => Err(DecodeError::BadValue {
                field: "meter_mod.command",
                offset: Header::SIZE,
                found: found.into(),
                expected: "0 (add), 1 (modify) or 2 (delete)",
            }),
        }
    }
}

bits! {
    /// Meter flags (`ofp_meter_flags`).
    pub struct MeterFlags(u16) {
        /// Rates are in kbit/s.
        KBPS = 1 << 0;
        /// Rates are in packets per second.
        PKTPS = 1 << 1;
        /// Burst sizes apply.
        BURST = 1 << 2;
        /// The switch keeps statistics.
        STATS = 1 << 3;
    }
}

/// A meter band: the treatment of packets above a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum MeterBand {
    /// Drops the packet.
    Drop {
        /// Rate above which the band applies, in kbit/s or packets per second.
        rate: u32,
        /// Burst size, in kbit or packets.
        burst_size: u32,
    },
    /// Raises the packet's drop precedence.
    DscpRemark {
        /// Rate above which the band applies, in kbit/s or packets per second.
        rate: u32,
        /// Burst size, in kbit or packets.
        burst_size: u32,
        /// Number of precedence levels.
        prec_level: u8,
    },
    /// Experimenter-defined.
    Experimenter {
        /// Rate above which the band applies, in kbit/s or packets per second.
        rate: u32,
        /// Burst size, in kbit or packets.
        burst_size: u32,
        /// Experimenter id.
        experimenter: u32,
        /// Data; encoding pads the band with zeros to a multiple of 8 bytes.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        data: Box<[u8]>,
    },
    /// A type that the version does not define, as raw bytes.
    Unknown {
        /// The type.
        kind: u16,
        /// The bytes after the element's header.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        body: Box<[u8]>,
    },
}

impl MeterBand {
    pub(crate) fn from_v1_3(wire: &v1_3::MeterBand<'_>) -> Self {
        match *wire {
            v1_3::MeterBand::Drop(band) => {
                Self::Drop { rate: band.rate, burst_size: band.burst_size }
            }
            v1_3::MeterBand::DscpRemark(band) => Self::DscpRemark {
                rate: band.rate,
                burst_size: band.burst_size,
                prec_level: band.prec_level,
            },
            v1_3::MeterBand::Experimenter(band) => Self::Experimenter {
                rate: band.rate,
                burst_size: band.burst_size,
                experimenter: band.experimenter,
                data: band.data.into(),
            },
            v1_3::MeterBand::Unknown { kind, body } => Self::Unknown { kind, body: body.into() },
        }
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        use v1_3::MeterBand as Wired;
        use v1_3::meter;
        let wired = match *self {
            Self::Drop { rate, burst_size } => {
                Wired::Drop(meter::Drop { rate, burst_size, pad: Pad::default() })
            }
            Self::DscpRemark { rate, burst_size, prec_level } => {
                let pad = Pad::default();
                Wired::DscpRemark(meter::DscpRemark { rate, burst_size, prec_level, pad })
            }
            Self::Experimenter { rate, burst_size, experimenter, ref data } => {
                Wired::Experimenter(meter::Experimenter { rate, burst_size, experimenter, data })
            }
            Self::Unknown { kind, ref body } => Wired::Unknown { kind, body },
        };
        write_aligned(&wired, to)
    }
}

/// A meter-mod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MeterMod {
    /// The command.
    pub command: MeterModCommand,
    /// Flags: how the meter counts.
    pub flags: MeterFlags,
    /// Meter number; [`MeterMod::ALL_METERS`] in a delete means every meter.
    pub meter_id: u32,
    /// Its bands.
    pub bands: Vec<MeterBand>,
}

impl MeterMod {
    /// The highest meter number (`OFPM_MAX`).
    pub const MAX_METER: u32 = 0xffff_0000;
    /// `meter_id` of a delete of every meter (`OFPM_ALL`).
    pub const ALL_METERS: u32 = 0xffff_ffff;

    /// Decodes a whole meter-mod.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one meter-mod.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, Kind::MeterMod)?;
        let meter_mod = Self::from_v1_3(&v1_3::MeterMod::read(&mut body, "meter_mod")?)?;
        body.finish("meter_mod")?;
        Ok(meter_mod)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::MeterMod<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            command: MeterModCommand::from_wire(wire.command)?,
            flags: MeterFlags(wire.flags),
            meter_id: wire.meter_id,
            bands: wire.bands.iter().map(|band| MeterBand::from_v1_3(&band)).collect(),
        })
    }

    /// Encodes the meter-mod for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, [`EncodeError::NoRoom`] if `out` is too
    /// small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::MeterMod, version, xid, out)?;
        to.u16(self.command.wire());
        to.u16(self.flags.0);
        to.u32(self.meter_id);
        self.bands.iter().try_for_each(|band| band.write_v1_3(&mut to))?;
        to.finish()
    }
}

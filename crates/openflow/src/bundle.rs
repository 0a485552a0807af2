//! The version-independent messages of bundles: messages that a switch applies together. From OpenFlow 1.4 on.
//!
//! OpenFlow 1.4.1 §6.8, §7.3.9; scheduled bundles: OpenFlow 1.5.1 §6.10.7, §7.3.9.4.

use crate::forward::check_message;
use crate::header::{begin, open};
use crate::port::bits;
use crate::v1_4::bundle::BundleProperty;
use crate::v1_5::bundle::{ScheduledTime, Time};
use crate::wire::{Align8, List, Pad, Padded, WireFormat};
use crate::{DecodeError, EncodeError, Header, Kind, Version, Writer, v1_4, v1_5};
use core::time::Duration;

bits! {
    /// Guarantees of a switch about a bundle (`ofp_bundle_flags`).
    pub struct BundleFlags(u16) {
        /// Either all messages are applied, or none.
        ATOMIC = 1 << 0;
        /// The messages are applied in the order in which they were added.
        ORDERED = 1 << 1;
        /// The bundle is applied at a time that the commit has. From OpenFlow 1.5 on.
        TIME = 1 << 2;
    }
}

/// The command of a bundle-control message (`ofp_bundle_ctrl_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum BundleCommand {
    /// Opens a bundle.
    OpenRequest,
    /// The bundle is open.
    OpenReply,
    /// Closes a bundle: no further message follows.
    CloseRequest,
    /// The bundle is closed.
    CloseReply,
    /// Applies a bundle.
    CommitRequest,
    /// The bundle was applied.
    CommitReply,
    /// Discards a bundle.
    DiscardRequest,
    /// The bundle was discarded.
    DiscardReply,
}

impl BundleCommand {
    /// Every command, indexed by its number.
    const ALL: [Self; 8] = [
        Self::OpenRequest,
        Self::OpenReply,
        Self::CloseRequest,
        Self::CloseReply,
        Self::CommitRequest,
        Self::CommitReply,
        Self::DiscardRequest,
        Self::DiscardReply,
    ];

    /// Returns the command's number.
    pub fn wire(self) -> u16 {
        self as u16
    }

    fn from_wire(found: u16) -> Result<Self, DecodeError> {
        Self::ALL.get(usize::from(found)).copied().ok_or(DecodeError::BadValue {
            field: "bundle_ctrl.type",
            offset: Header::SIZE + 4,
            found: found.into(),
            expected: "0 (open request) to 7 (discard reply)",
        })
    }
}

/// A bundle-control message. Experimenters' properties are out; [`v1_4::BundleControl`] has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BundleControl {
    /// Id of the bundle, chosen by the controller.
    pub bundle_id: u32,
    /// The command.
    pub command: BundleCommand,
    /// Flags, the same in every message about the bundle.
    pub flags: BundleFlags,
    /// Time at which the switch applies the bundle, since the epoch of TAI. From OpenFlow 1.5 on.
    pub time: Option<Duration>,
}

impl BundleControl {
    /// Decodes a whole bundle-control message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one bundle-control message.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::BundleControl)?;
        let body = &mut body;
        let control = match version {
            Version::V1_5 => Self::from_v1_4(&v1_5::BundleControl::read(body, "bundle_ctrl")?),
            _ => Self::from_v1_4(&v1_4::BundleControl::read(body, "bundle_ctrl")?),
        }?;
        body.finish("bundle_ctrl")?;
        Ok(control)
    }

    pub(crate) fn from_v1_4<const V: u8>(
        wire: &v1_4::bundle::BundleControl<'_, V>,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            bundle_id: wire.bundle_id,
            command: BundleCommand::from_wire(wire.kind)?,
            flags: BundleFlags(wire.flags),
            time: time(wire.properties),
        })
    }

    /// Encodes the message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.4, and for a time before OpenFlow 1.5; [`EncodeError::NoRoom`] if `out` is
    /// too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::BundleControl, version, xid, out)?;
        to.u32(self.bundle_id);
        to.u16(self.command.wire());
        to.u16(self.flags.0);
        write_time(self.time, version, &mut to)?;
        to.finish()
    }
}

/// A message that adds another one to a bundle. Experimenters' properties are out; [`v1_4::BundleAdd`] has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BundleAdd<'a> {
    /// Id of the bundle, chosen by the controller.
    pub bundle_id: u32,
    /// Flags, the same in every message about the bundle.
    pub flags: BundleFlags,
    /// The added message with its header, whose transaction id is that of this message. Its content is not decoded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub message: &'a [u8],
    /// Time at which the switch applies the bundle, since the epoch of TAI. From OpenFlow 1.5 on.
    pub time: Option<Duration>,
}

impl<'a> BundleAdd<'a> {
    /// Decodes a whole message that adds another one to a bundle.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one such message with one whole message inside.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::BundleAdd)?;
        let body = &mut body;
        let add = match version {
            Version::V1_5 => Self::from_v1_4(&v1_5::BundleAdd::read(body, "bundle_add")?),
            _ => Self::from_v1_4(&v1_4::BundleAdd::read(body, "bundle_add")?),
        };
        body.finish("bundle_add")?;
        Ok(add)
    }

    pub(crate) fn from_v1_4<const V: u8>(wire: &v1_4::bundle::BundleAdd<'a, V>) -> Self {
        Self {
            bundle_id: wire.bundle_id,
            flags: BundleFlags(wire.flags),
            message: wire.message,
            time: time(wire.properties),
        }
    }

    /// Encodes the message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.4, for a time before OpenFlow 1.5, and if `message` is not one whole message;
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::BundleAdd, version, xid, out)?;
        check_message(self.message, version, "a bundle of another message than a whole one")?;
        to.u32(self.bundle_id);
        to.zeros(2);
        to.u16(self.flags.0);
        to.bytes(self.message);
        if self.time.is_some() {
            Align8::default().write(&mut to, self.message.len());
        }
        write_time(self.time, version, &mut to)?;
        to.finish()
    }
}

/// Returns the time of the last property that has one.
fn time<'a, const V: u8>(properties: List<'a, Padded<BundleProperty<'a, V>>>) -> Option<Duration> {
    let times = properties.iter().filter_map(|property| match property.item {
        BundleProperty::Time(ScheduledTime {
            scheduled_time: Time { seconds, nanoseconds, .. },
            ..
        }) => Some(Duration::new(seconds, nanoseconds.min(999_999_999))),
        _ => None,
    });
    times.last()
}

/// Writes a time as a property.
fn write_time(
    time: Option<Duration>,
    version: Version,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    let Some(time) = time else { return Ok(()) };
    if version != Version::V1_5 {
        return Err(EncodeError::Unsupported { field: "the time of a bundle", version });
    }
    let pad = Pad::default();
    let scheduled_time = Time { seconds: time.as_secs(), nanoseconds: time.subsec_nanos(), pad };
    BundleProperty::<6>::Time(ScheduledTime { pad, scheduled_time }).write(to);
    Ok(())
}

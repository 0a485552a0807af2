//! The version-independent messages of bundles: messages that a switch applies together. From OpenFlow 1.3 on.
//!
//! OpenFlow 1.4.1 §6.8, §7.3.9; scheduled bundles: OpenFlow 1.5.1 §6.10.7, §7.3.9.4.
//!
//! OpenFlow 1.3 has bundles as an extension of the ONF (EXT-230). There the same bodies follow an experimenter's head:
//!
//! ```text
//!  0        8            12     16
//! +--------+------------+------+----------
//! | header | 0x4f4e4600 | type | body ...      type 2300: control, 2301: add
//! +--------+------------+------+----------
//! ```
//!
//! A switch without the extension answers with the error of an unknown experimenter.

use crate::experimenter::ONF;
use crate::forward::check_message;
use crate::header::{begin, check_version, open};
use crate::port::bits;
use crate::v1_4::bundle::BundleProperty;
use crate::v1_5::bundle::{ScheduledTime, Time};
use crate::wire::{Align8, List, Pad, Padded, WireFormat};
use crate::{
    DecodeError, EncodeError, ErrorMessage, Header, Kind, Reader, Version, Writer, v1_4, v1_5,
};
use core::time::Duration;

/// Types of the ONF's messages: control of a bundle, and a message for one. The errors about bundles follow from the first
/// number on.
const ONF_CONTROL: u32 = 2300;
const ONF_ADD: u32 = 2301;

/// Type of errors about bundles (`OFPET_BUNDLE_FAILED`), from OpenFlow 1.4 on.
const BUNDLE_FAILED: u16 = 17;

/// Starts to decode a message of `kind`, or the ONF's of this type in OpenFlow 1.3.
fn open_bundle(
    message: &[u8],
    kind: Kind,
    onf_type: u32,
) -> Result<(Version, Reader<'_>), DecodeError> {
    if check_version(message)? != Version::V1_3 {
        let (version, _, body) = open(message, kind)?;
        return Ok((version, body));
    }
    let (version, _, mut body) = open(message, Kind::Experimenter)?;
    expect(&mut body, "experimenter.experimenter", ONF, "0x4f4e4600, the ONF")?;
    expect(&mut body, "experimenter.exp_type", onf_type, "the type of this message of a bundle")?;
    Ok((version, body))
}

/// Reads a number that must be this one.
fn expect(
    body: &mut Reader<'_>,
    field: &'static str,
    wanted: u32,
    expected: &'static str,
) -> Result<(), DecodeError> {
    let offset = body.offset();
    let found = body.u32(field)?;
    if found == wanted {
        return Ok(());
    }
    Err(DecodeError::BadValue { field, offset, found: found.into(), expected })
}

/// Starts to encode a message of `kind`, or the ONF's of this type in OpenFlow 1.3.
fn begin_bundle(
    (kind, onf_type): (Kind, u32),
    version: Version,
    xid: u32,
    out: &mut [u8],
) -> Result<Writer<'_>, EncodeError> {
    if version != Version::V1_3 {
        return begin(kind, version, xid, out);
    }
    let mut to = begin(Kind::Experimenter, version, xid, out)?;
    to.u32(ONF);
    to.u32(onf_type);
    Ok(to)
}

/// A reason to refuse a message about a bundle (`ofp_bundle_failed_code`), under one name for the versions that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleFailed {
    /// The switch does not support this flag, or the flags differ from those of the bundle.
    BadFlags,
    /// The switch does not support this message in a bundle.
    MessageUnsupported,
    /// A message of the bundle failed. An error about that message says why.
    MessageFailed,
    /// The switch has no room for a further bundle now, or carries one out.
    TooMany,
    /// Another reason.
    Other(u16),
}

impl BundleFailed {
    /// Returns the reason of an error about a bundle; `None` if it is another error.
    pub fn of(error: &ErrorMessage<'_>) -> Option<Self> {
        let is_onf = error.kind == ErrorMessage::EXPERIMENTER
            && error.version == Version::V1_3
            && error.data.first_chunk() == Some(&ONF.to_be_bytes());
        let code = if is_onf {
            u32::from(error.code).checked_sub(ONF_CONTROL).and_then(|code| u16::try_from(code).ok())
        } else {
            let has_bundles = Kind::BundleControl.to_wire(error.version).is_some();
            (has_bundles && error.kind == BUNDLE_FAILED).then_some(error.code)
        }?;
        Some(match code {
            5 | 15 => Self::TooMany,
            7 => Self::BadFlags,
            10 => Self::MessageUnsupported,
            13 => Self::MessageFailed,
            other => Self::Other(other),
        })
    }
}

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
        let (version, mut body) = open_bundle(message, Kind::BundleControl, ONF_CONTROL)?;
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
    /// [`EncodeError::Unsupported`] before OpenFlow 1.3, and for a time before OpenFlow 1.5; [`EncodeError::NoRoom`] if `out` is
    /// too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin_bundle((Kind::BundleControl, ONF_CONTROL), version, xid, out)?;
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
        let (version, mut body) = open_bundle(message, Kind::BundleAdd, ONF_ADD)?;
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
    /// [`EncodeError::Unsupported`] before OpenFlow 1.3, for a time before OpenFlow 1.5, and if `message` is not one whole message;
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin_bundle((Kind::BundleAdd, ONF_ADD), version, xid, out)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowMod, Match};

    fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
        let mut out = Vec::new();
        crate::append(&mut out, encode).unwrap();
        out
    }

    #[test]
    fn extension_of_1_3_wraps_the_bodies_of_1_4() {
        let control = BundleControl {
            bundle_id: 7,
            command: BundleCommand::CommitRequest,
            flags: BundleFlags(3),
            time: None,
        };
        let onf = encoded(|out| control.encode(Version::V1_3, 9, out));
        let head = [4, 4, 0, 24, 0, 0, 0, 9, 0x4f, 0x4e, 0x46, 0, 0, 0, 0x08, 0xfc];
        assert_eq!(onf, [&head[..], &[0, 0, 0, 7, 0, 4, 0, 3]].concat());
        assert_eq!(BundleControl::decode(&onf), Ok(control));
        let add = FlowMod::add(Match::new());
        let message = encoded(|out| add.encode(Version::V1_3, 9, out));
        let add = BundleAdd { bundle_id: 7, flags: BundleFlags(3), message: &message, time: None };
        let onf = encoded(|out| add.encode(Version::V1_3, 9, out));
        assert_eq!(onf[12..24], [0, 0, 0x08, 0xfd, 0, 0, 0, 7, 0, 0, 0, 3]);
        assert_eq!(onf[24..], message);
        assert_eq!(BundleAdd::decode(&onf), Ok(add));
        for at in [8, 11, 12, 15] {
            let mut other = onf.clone();
            other[at] ^= 1;
            assert!(BundleAdd::decode(&other).is_err(), "another experimenter or type");
        }
        for cut in 0..onf.len() {
            assert!(BundleAdd::decode(&onf[..cut]).is_err());
        }
        for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
            let refused = control.encode(version, 9, &mut [0; 64]);
            assert!(matches!(refused, Err(EncodeError::Unsupported { .. })), "{version}");
        }
    }

    #[test]
    fn reasons_are_the_same_in_extension_and_standard() {
        let onf = ONF.to_be_bytes();
        let of = |version, kind, code, data| {
            BundleFailed::of(&ErrorMessage { version, kind, code, data })
        };
        for (code, reason) in [
            (7, BundleFailed::BadFlags),
            (10, BundleFailed::MessageUnsupported),
            (13, BundleFailed::MessageFailed),
            (14, BundleFailed::Other(14)),
        ] {
            assert_eq!(of(Version::V1_3, 0xffff, 2300 + code, &onf), Some(reason));
            assert_eq!(of(Version::V1_4, 17, code, &[]), Some(reason));
            assert_eq!(of(Version::V1_5, 17, code, &[]), Some(reason));
        }
        assert_eq!(of(Version::V1_3, 17, 7, &[]), None, "1.3 has no such type");
        assert_eq!(of(Version::V1_3, 0xffff, 2307, &[0; 4]), None, "another experimenter");
        assert_eq!(of(Version::V1_3, 0xffff, 9, &onf), None);
        assert_eq!(of(Version::V1_4, 5, 7, &onf), None);
    }
}

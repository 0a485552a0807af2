//! OXS, the extensible statistics: fields of a flow entry's statistics as type, length and value.
//!
//! OpenFlow 1.5.1 §7.2.4. A structure `ofp_stats` contains them:
//!
//! ```text
//!  0          2        4
//! +----------+--------+------------+---------------------+
//! | reserved | length | OXS fields | pad to a multiple   |
//! |          |        |            | of 8, not in length |
//! +----------+--------+------------+---------------------+
//!
//!  0       2             3        4
//! +-------+-------+-----+--------+-------+
//! | class | field | res | length | value |
//! |  16   |   7   |  1  |   8    |       |
//! +-------+-------+-----+--------+-------+
//! ```
//!
//! In class `0xffff` a 4-byte experimenter id precedes the value and is included in `length`.

use crate::flow_removed::seconds;
use crate::wire::{Align8, List, WireFormat};
use crate::{Available, DecodeError, Reader, Writer};
use core::time::Duration;

/// The class of the fields that the specification defines (`OFPXSC_OPENFLOW_BASIC`).
pub const OPENFLOW_BASIC: u16 = 0x8002;
/// The class of experimenters' fields (`OFPXSC_EXPERIMENTER`).
pub const EXPERIMENTER: u16 = 0xffff;

/// Lifetime of the entry: seconds and nanoseconds, 4 bytes each.
pub const DURATION: u8 = 0;
/// Time since the last packet: seconds and nanoseconds, 4 bytes each.
pub const IDLE_TIME: u8 = 1;
/// Number of entries, in aggregate statistics; 4 bytes.
pub const FLOW_COUNT: u8 = 3;
/// Number of packets; 8 bytes.
pub const PACKET_COUNT: u8 = 4;
/// Number of bytes; 8 bytes.
pub const BYTE_COUNT: u8 = 5;

/// Size of type and length, which the length includes.
const HEAD_SIZE: usize = 4;

/// Returns the size of a field of class [`OPENFLOW_BASIC`] in bytes, if the specification defines it. OpenFlow 1.5.1
/// §7.2.4.2.
fn basic_size(field: u8) -> Option<usize> {
    match field {
        DURATION | IDLE_TIME | PACKET_COUNT | BYTE_COUNT => Some(8),
        FLOW_COUNT => Some(4),
        _ => None,
    }
}

/// One field of statistics as on the wire.
///
/// A field of the specification has its specified length; other fields are opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Oxs<'a> {
    /// Class: who defined the field ([`OPENFLOW_BASIC`], [`EXPERIMENTER`], or another).
    pub class: u16,
    /// The field's number in its class; 7 bits.
    pub field: u8,
    /// The reserved bit.
    pub reserved: bool,
    /// The bytes counted by `length`: experimenter id (if any) and value; at most 255 bytes.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub payload: &'a [u8],
}

impl<'a> WireFormat<'a> for Oxs<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let class = from.u16("oxs.class")?;
        let field_and_reserved = from.u8("oxs.field")?;
        let field = field_and_reserved >> 1;
        let offset = from.offset();
        let length = usize::from(from.u8("oxs.length")?);
        let bad = |expected| DecodeError::BadLength {
            field: "oxs.length",
            offset,
            found: length,
            expected,
        };
        if class == OPENFLOW_BASIC && basic_size(field).is_some_and(|size| length != size) {
            return Err(bad("the size of the field"));
        }
        if class == EXPERIMENTER && length < 4 {
            return Err(bad("at least the experimenter id's 4 bytes"));
        }
        let payload = from.take("oxs.value", length)?;
        Ok(Self { class, field, reserved: field_and_reserved & 1 != 0, payload })
    }

    fn write(&self, to: &mut Writer<'_>) {
        let payload = self.payload.get(..255).unwrap_or(self.payload);
        to.u16(self.class);
        to.u8(self.field << 1 | u8::from(self.reserved));
        to.u8(u8::try_from(payload.len()).unwrap_or(u8::MAX));
        to.bytes(payload);
    }
}

/// Statistics (`ofp_stats`): their fields in wire order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stats<'a> {
    /// Reserved for a type.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub reserved: u16,
    /// The fields.
    pub fields: List<'a, Oxs<'a>>,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Align8,
}

impl Stats<'_> {
    /// Returns the value of a field of the specification with `N` bytes, if present.
    pub(crate) fn value<const N: usize>(&self, number: u8) -> Option<[u8; N]> {
        let mut fields = self.fields.iter();
        let found = fields.find(|it| it.class == OPENFLOW_BASIC && it.field == number)?;
        found.payload.try_into().ok()
    }

    /// Returns a counter, if present.
    pub(crate) fn count(&self, number: u8) -> Option<u64> {
        self.value(number).map(u64::from_be_bytes)
    }

    /// Returns seconds and nanoseconds of a time, if present.
    pub(crate) fn time(&self, number: u8) -> Option<(u32, u32)> {
        let value: [u8; 8] = self.value(number)?;
        let (seconds, nanoseconds) = (value.first_chunk()?, value.last_chunk()?);
        Some((u32::from_be_bytes(*seconds), u32::from_be_bytes(*nanoseconds)))
    }
}

impl<'a> WireFormat<'a> for Stats<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let reserved = from.u16("stats.reserved")?;
        let offset = from.offset();
        let length = usize::from(from.u16("stats.length")?);
        let bad = |expected| DecodeError::BadLength {
            field: "stats.length",
            offset,
            found: length,
            expected,
        };
        let size =
            length.checked_sub(HEAD_SIZE).ok_or_else(|| bad("at least its own 4-byte head"))?;
        if size > from.left() {
            return Err(bad("no more than the bytes left around it"));
        }
        let mut fields = from.sub("stats.oxs_fields", size)?;
        let fields = List::read(&mut fields, "stats.oxs_fields")?;
        Ok(Self { reserved, fields, pad: Align8::read(from, "stats.pad", length)? })
    }

    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(self.reserved);
        to.u16(0);
        self.fields.write(to);
        to.patch_size(start + 2, start);
        self.pad.write(to, to.position() - start);
    }
}

/// The fields of the specification, to encode. Counters of all ones are left out: the switch does not keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) duration: Option<Duration>,
    pub(crate) idle_time: Option<Duration>,
    pub(crate) flow_count: u32,
    pub(crate) packet_count: u64,
    pub(crate) byte_count: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            duration: None,
            idle_time: None,
            flow_count: u32::MAX,
            packet_count: u64::MAX,
            byte_count: u64::MAX,
        }
    }
}

/// Size of all fields of the specification with their headers.
const ALL_SIZE: usize = 5 * 4 + 4 * 8 + 4;

/// Encoded fields.
pub(crate) struct Encoded {
    bytes: [u8; ALL_SIZE],
    size: usize,
}

impl Encoded {
    /// Returns the statistics with these fields.
    pub(crate) fn stats(&self) -> Stats<'_> {
        let fields = List::checked(self.bytes.get(..self.size).unwrap_or_default());
        Stats { fields, ..Stats::default() }
    }
}

impl Counts {
    /// Encodes the fields in the order of their numbers.
    pub(crate) fn to_bytes(self) -> Encoded {
        let mut bytes = [0; ALL_SIZE];
        let mut to = Writer::new(&mut bytes);
        let mut field = |number: u8, value: Option<&[u8]>| {
            if let Some(payload) = value {
                let (class, reserved) = (OPENFLOW_BASIC, false);
                Oxs { class, field: number, reserved, payload }.write(&mut to);
            }
        };
        let time = |time: Duration| {
            let nanoseconds = u64::from(time.subsec_nanos());
            (u64::from(seconds(time)) << 32 | nanoseconds).to_be_bytes()
        };
        let (duration, idle_time) = (self.duration.map(time), self.idle_time.map(time));
        field(DURATION, duration.as_ref().map(<[u8; 8]>::as_slice));
        field(IDLE_TIME, idle_time.as_ref().map(<[u8; 8]>::as_slice));
        let flow_count = self.flow_count.available().map(u32::to_be_bytes);
        field(FLOW_COUNT, flow_count.as_ref().map(<[u8; 4]>::as_slice));
        let packets = self.packet_count.available().map(u64::to_be_bytes);
        field(PACKET_COUNT, packets.as_ref().map(<[u8; 8]>::as_slice));
        let byte_count = self.byte_count.available().map(u64::to_be_bytes);
        field(BYTE_COUNT, byte_count.as_ref().map(<[u8; 8]>::as_slice));
        let size = to.position();
        Encoded { bytes, size }
    }
}

#[cfg(feature = "serde")]
crate::json::as_field!(Oxs<'_>, Stats<'_>);

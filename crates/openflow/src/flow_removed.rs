//! The version-independent flow-removed message.
//!
//! OpenFlow 1.3.5 §7.4.2, OpenFlow 1.0.2 §5.4.2, OpenFlow 1.1.0 §A.4.2, OpenFlow 1.5.1 §7.4.2.

use crate::header::{begin, open};
use crate::matching::Match;
use crate::oxs::{self, Counts};
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, Header, Kind, Version, Writer, v1_0, v1_1, v1_3, v1_5};
use core::time::Duration;

/// Reason for the removal of a flow entry (`ofp_flow_removed_reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum FlowRemovedReason {
    /// The idle timeout expired.
    IdleTimeout,
    /// The hard timeout expired.
    HardTimeout,
    /// A flow-mod deleted it.
    Delete,
    /// Its group was deleted. Not in OpenFlow 1.0.
    GroupDelete,
    /// Another number; some are constants of this type.
    Other(u8),
}

impl FlowRemovedReason {
    /// Its meter was deleted. From OpenFlow 1.4 on.
    pub const METER_DELETE: Self = Self::Other(4);
    /// The switch evicted it to make room. From OpenFlow 1.4 on.
    pub const EVICTION: Self = Self::Other(5);

    /// Returns the reason with this number.
    pub fn from_wire(found: u8) -> Self {
        match found {
            0 => Self::IdleTimeout,
            1 => Self::HardTimeout,
            2 => Self::Delete,
            3 => Self::GroupDelete,
            other => Self::Other(other),
        }
    }

    /// Returns the reason's number.
    pub fn wire(self) -> u8 {
        match self {
            Self::IdleTimeout => 0,
            Self::HardTimeout => 1,
            Self::Delete => 2,
            Self::GroupDelete => 3,
            Self::Other(other) => other,
        }
    }
}

/// A flow-removed message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowRemoved {
    /// Its match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Reason for the removal.
    pub reason: FlowRemovedReason,
    /// Its table; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// Lifetime of the entry.
    pub duration: Duration,
    /// Its idle timeout, in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout, in seconds; 0 in OpenFlow 1.0 and 1.1.
    pub hard_timeout: u16,
    /// Number of matched packets; [`u64::MAX`] if the switch does not report it.
    pub packet_count: u64,
    /// Number of matched bytes; [`u64::MAX`] if the switch does not report it.
    pub byte_count: u64,
}

/// Converts a duration to wire seconds, limited to the maximum of 136 years.
pub(crate) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// Reads a duration from the wire; nanoseconds are limited to one less than a second.
pub(crate) fn duration(seconds: u32, nanoseconds: u32) -> Duration {
    Duration::new(seconds.into(), nanoseconds.min(999_999_999))
}

/// Reads an optional duration: all ones in both parts mean that the switch does not keep it.
pub(crate) fn duration_if_kept(seconds: u32, nanoseconds: u32) -> Option<Duration> {
    ((seconds, nanoseconds) != (u32::MAX, u32::MAX)).then(|| duration(seconds, nanoseconds))
}

/// Writes an optional duration.
pub(crate) fn write_duration_if_kept(duration: Option<Duration>, to: &mut Writer<'_>) {
    to.u32(duration.map_or(u32::MAX, seconds));
    to.u32(duration.map_or(u32::MAX, |duration| duration.subsec_nanos()));
}

impl FlowRemoved {
    /// Decodes a whole flow-removed message of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one flow-removed message, or its match repeats
    /// a field.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::FlowRemoved)?;
        let body = &mut body;
        let removed = match version {
            Version::V1_0 => Ok(Self::from_v1_0(&v1_0::FlowRemoved::read(body, "flow_removed")?)),
            Version::V1_1 => Ok(Self::from_v1_1(&v1_1::FlowRemoved::read(body, "flow_removed")?)),
            Version::V1_2 | Version::V1_3 | Version::V1_4 => {
                Self::from_v1_3(&v1_3::FlowRemoved::read(body, "flow_removed")?)
            }
            Version::V1_5 => Self::from_v1_5(&v1_5::FlowRemoved::read(body, "flow_removed")?),
        }?;
        body.finish("flow_removed")?;
        Ok(removed)
    }

    pub(crate) fn from_v1_1(wire: &v1_1::FlowRemoved) -> Self {
        Self {
            match_: v1_1::convert::match_from_wire(&wire.match_),
            cookie: wire.cookie,
            priority: wire.priority,
            reason: FlowRemovedReason::from_wire(wire.reason),
            table_id: wire.table_id,
            duration: duration(wire.duration_sec, wire.duration_nsec),
            idle_timeout: wire.idle_timeout,
            hard_timeout: 0,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
        }
    }

    pub(crate) fn from_v1_5(wire: &v1_5::FlowRemoved<'_>) -> Result<Self, DecodeError> {
        /// Offset of the match in the message, for errors.
        const MATCH_AT: usize = Header::SIZE + 16;
        let (sec, nsec) = wire.stats.time(oxs::DURATION).unwrap_or_default();
        Ok(Self {
            match_: Match::from_v1_3(&wire.match_, MATCH_AT)?,
            cookie: wire.cookie,
            priority: wire.priority,
            reason: FlowRemovedReason::from_wire(wire.reason),
            table_id: wire.table_id,
            duration: duration(sec, nsec),
            idle_timeout: wire.idle_timeout,
            hard_timeout: wire.hard_timeout,
            packet_count: wire.stats.count(oxs::PACKET_COUNT).unwrap_or(u64::MAX),
            byte_count: wire.stats.count(oxs::BYTE_COUNT).unwrap_or(u64::MAX),
        })
    }

    pub(crate) fn from_v1_0(wire: &v1_0::FlowRemoved) -> Self {
        Self {
            match_: v1_0::convert::match_from_wire(&wire.match_),
            cookie: wire.cookie,
            priority: wire.priority,
            reason: match FlowRemovedReason::from_wire(wire.reason) {
                FlowRemovedReason::GroupDelete => FlowRemovedReason::Other(wire.reason),
                reason => reason,
            },
            table_id: 0,
            duration: duration(wire.duration_sec, wire.duration_nsec),
            idle_timeout: wire.idle_timeout,
            hard_timeout: 0,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::FlowRemoved<'_>) -> Result<Self, DecodeError> {
        /// Offset of the match in the message, for errors.
        const MATCH_AT: usize = Header::SIZE + 40;
        Ok(Self {
            match_: Match::from_v1_3(&wire.match_, MATCH_AT)?,
            cookie: wire.cookie,
            priority: wire.priority,
            reason: FlowRemovedReason::from_wire(wire.reason),
            table_id: wire.table_id,
            duration: duration(wire.duration_sec, wire.duration_nsec),
            idle_timeout: wire.idle_timeout,
            hard_timeout: wire.hard_timeout,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
        })
    }

    /// Encodes the message for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version });
        let mut to = begin(Kind::FlowRemoved, version, xid, out)?;
        match version {
            Version::V1_0 => {
                if self.table_id != 0 {
                    return unsupported("flow_removed.table_id");
                }
                if self.hard_timeout != 0 {
                    return unsupported("flow_removed.hard_timeout");
                }
                if self.reason == FlowRemovedReason::GroupDelete {
                    return unsupported("flow_removed.reason group_delete");
                }
                let wire = v1_0::FlowRemoved {
                    match_: v1_0::convert::match_to_wire(&self.match_)?,
                    cookie: self.cookie,
                    priority: self.priority,
                    reason: self.reason.wire(),
                    pad: Pad::default(),
                    duration_sec: seconds(self.duration),
                    duration_nsec: self.duration.subsec_nanos(),
                    idle_timeout: self.idle_timeout,
                    pad2: Pad::default(),
                    packet_count: self.packet_count,
                    byte_count: self.byte_count,
                };
                wire.write(&mut to);
            }
            Version::V1_1 => {
                if self.hard_timeout != 0 {
                    return unsupported("flow_removed.hard_timeout");
                }
                let wire = v1_1::FlowRemoved {
                    cookie: self.cookie,
                    priority: self.priority,
                    reason: self.reason.wire(),
                    table_id: self.table_id,
                    duration_sec: seconds(self.duration),
                    duration_nsec: self.duration.subsec_nanos(),
                    idle_timeout: self.idle_timeout,
                    pad: Pad::default(),
                    packet_count: self.packet_count,
                    byte_count: self.byte_count,
                    match_: v1_1::convert::match_to_wire(&self.match_)?,
                };
                wire.write(&mut to);
            }
            Version::V1_5 => {
                let fields = self.match_.to_bytes();
                let counts = Counts {
                    duration: Some(self.duration),
                    packet_count: self.packet_count,
                    byte_count: self.byte_count,
                    ..Counts::default()
                };
                let bytes = counts.to_bytes();
                let wire = v1_5::FlowRemoved {
                    table_id: self.table_id,
                    reason: self.reason.wire(),
                    priority: self.priority,
                    idle_timeout: self.idle_timeout,
                    hard_timeout: self.hard_timeout,
                    cookie: self.cookie,
                    match_: v1_3::Match::of(&fields),
                    stats: bytes.stats(),
                };
                wire.write(&mut to);
            }
            Version::V1_2 | Version::V1_3 | Version::V1_4 => {
                let fields = self.match_.to_bytes();
                let wire = v1_3::FlowRemoved {
                    cookie: self.cookie,
                    priority: self.priority,
                    reason: self.reason.wire(),
                    table_id: self.table_id,
                    duration_sec: seconds(self.duration),
                    duration_nsec: self.duration.subsec_nanos(),
                    idle_timeout: self.idle_timeout,
                    hard_timeout: self.hard_timeout,
                    packet_count: self.packet_count,
                    byte_count: self.byte_count,
                    match_: v1_3::Match::of(&fields),
                };
                wire.write(&mut to);
            }
        }
        to.finish()
    }
}

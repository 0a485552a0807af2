//! Flow entries: their requests, descriptions and statistics.

use crate::action::Actions;
use crate::flow_removed::{duration, seconds};
use crate::instruction::Instructions;
use crate::matching::Match;
use crate::oxs::{self, Counts};
use crate::wire::{Pad, WireFormat};
use crate::{
    DecodeError, EncodeError, FlowMod, FlowModFlags, Header, PortNo, Reader, Version, Writer, v1_0,
    v1_1, v1_2, v1_3, v1_4, v1_5,
};
use core::time::Duration;

/// Selects flow entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowStatsRequest {
    /// Table number; [`FlowMod::ALL_TABLES`] means every table.
    pub table_id: u8,
    /// Selects only entries that output to this port; [`PortNo::ANY`] disables the filter.
    pub out_port: PortNo,
    /// Selects only entries that use this group; [`FlowMod::ANY_GROUP`] disables the filter.
    pub out_group: u32,
    /// Selects only entries whose cookie has these bits where `cookie_mask` is 1.
    pub cookie: u64,
    /// Mask of `cookie`. 0 in OpenFlow 1.0.
    pub cookie_mask: u64,
    /// Selects only entries that this match covers.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
}

impl FlowStatsRequest {
    /// Selects every entry of every table covered by the match.
    pub fn new(match_: Match) -> Self {
        Self {
            table_id: FlowMod::ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: FlowMod::ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            match_,
        }
    }

    pub(crate) fn from_v1_0(wire: &v1_0::stats::FlowStatsRequest) -> Self {
        Self {
            table_id: wire.table_id,
            out_port: v1_0::port_from_wire(wire.out_port),
            ..Self::new(v1_0::convert::match_from_wire(&wire.match_))
        }
    }

    pub(super) fn to_v1_0(&self) -> Result<v1_0::stats::FlowStatsRequest, EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        if self.out_group != FlowMod::ANY_GROUP {
            return unsupported("flow_stats_request.out_group");
        }
        if self.cookie_mask != 0 {
            return unsupported("flow_stats_request.cookie_mask");
        }
        Ok(v1_0::stats::FlowStatsRequest {
            match_: v1_0::convert::match_to_wire(&self.match_)?,
            table_id: self.table_id,
            pad: Pad::default(),
            out_port: v1_0::convert::port(self.out_port, "flow_stats_request.out_port")?,
        })
    }

    pub(crate) fn from_v1_1(wire: &v1_1::stats::FlowStatsRequest) -> Self {
        Self {
            table_id: wire.table_id,
            out_port: wire.out_port,
            out_group: wire.out_group,
            cookie: wire.cookie,
            cookie_mask: wire.cookie_mask,
            match_: v1_1::convert::match_from_wire(&wire.match_),
        }
    }

    pub(crate) fn from_v1_3(
        wire: &v1_3::multipart::FlowStatsRequest<'_>,
    ) -> Result<Self, DecodeError> {
        /// Offset of the match in the message, for errors.
        const MATCH_AT: usize = Header::SIZE + 40;
        Ok(Self {
            table_id: wire.table_id,
            out_port: wire.out_port,
            out_group: wire.out_group,
            cookie: wire.cookie,
            cookie_mask: wire.cookie_mask,
            match_: Match::from_v1_3(&wire.match_, MATCH_AT)?,
        })
    }

    /// Writes the request for OpenFlow 1.1 and later, which differ only in the match.
    pub(super) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.u8(self.table_id);
        to.zeros(3);
        to.u32(self.out_port.0);
        to.u32(self.out_group);
        to.zeros(4);
        to.u64(self.cookie);
        to.u64(self.cookie_mask);
        write_match(&self.match_, version, to)
    }
}

/// Writes a match for OpenFlow 1.1 and later.
fn write_match(match_: &Match, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    if version == Version::V1_1 {
        v1_1::convert::match_to_wire(match_)?.write(to);
    } else {
        v1_3::matching::write_with(to, |to| match_.write_oxms(to));
    }
    Ok(())
}

/// A flow entry with its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowStats<'a> {
    /// Its table.
    pub table_id: u8,
    /// Lifetime of the entry.
    pub duration: Duration,
    /// Its priority.
    pub priority: u16,
    /// Its idle timeout, in seconds; 0 is none.
    pub idle_timeout: u16,
    /// Its hard timeout, in seconds; 0 is none.
    pub hard_timeout: u16,
    /// Its flags; empty before OpenFlow 1.3.
    pub flags: FlowModFlags,
    /// Its importance for eviction; 0 before OpenFlow 1.4.
    pub importance: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Number of matched packets; [`u64::MAX`] if the switch does not report it.
    pub packet_count: u64,
    /// Number of matched bytes; [`u64::MAX`] if the switch does not report it.
    pub byte_count: u64,
    /// The match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
    /// Treatment of matching packets.
    pub instructions: Instructions<'a>,
}

/// Converts a flow entry of OpenFlow 1.1 to 1.4, whose structures differ only in match, flags and importance.
macro_rules! since_1_1 {
    ($wire:ident, $match_:expr, $flags:expr, $importance:expr, $at:expr) => {
        Ok(Self {
            table_id: $wire.table_id,
            duration: duration($wire.duration_sec, $wire.duration_nsec),
            priority: $wire.priority,
            idle_timeout: $wire.idle_timeout,
            hard_timeout: $wire.hard_timeout,
            flags: FlowModFlags($flags),
            importance: $importance,
            cookie: $wire.cookie,
            packet_count: $wire.packet_count,
            byte_count: $wire.byte_count,
            match_: $match_,
            instructions: Instructions::from_wire($wire.instructions, $at)?,
        })
    };
}

/// Returns the time for which a flow of a multipart reply has been installed. `entry` is the flow's whole entry. `None` if the
/// entry does not have the time, as may be in OpenFlow 1.5, or is malformed.
pub fn flow_entry_duration(version: Version, entry: &[u8]) -> Option<Duration> {
    let (seconds, nanoseconds) = if let Some(at) = version.layout().entry_duration {
        let both: [u8; 8] = *entry.get(usize::from(at)..)?.first_chunk()?;
        let both = u64::from_be_bytes(both);
        (u32::try_from(both >> 32).ok()?, u32::try_from(both & 0xffff_ffff).ok()?)
    } else {
        let desc = v1_5::multipart::FlowDesc::read(&mut Reader::new(entry, 0), "flow_desc");
        desc.ok()?.stats.time(oxs::DURATION)?
    };
    Some(Duration::from_secs(seconds.into()) + Duration::from_nanos(nanoseconds.into()))
}

impl<'a> FlowStats<'a> {
    pub(crate) fn from_v1_0(wire: &v1_0::stats::FlowStats<'a>) -> Self {
        Self {
            table_id: wire.table_id,
            duration: duration(wire.duration_sec, wire.duration_nsec),
            priority: wire.priority,
            idle_timeout: wire.idle_timeout,
            hard_timeout: wire.hard_timeout,
            flags: FlowModFlags::default(),
            importance: 0,
            cookie: wire.cookie,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
            match_: v1_0::convert::match_from_wire(&wire.match_),
            instructions: Instructions {
                apply: Actions::from(wire.actions),
                ..Instructions::default()
            },
        }
    }

    pub(crate) fn from_v1_1(
        wire: &v1_1::stats::FlowStats<'a>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        let match_ = match &wire.match_ {
            v1_1::stats::ListedMatch::Standard(match_) => v1_1::convert::match_from_wire(match_),
            v1_1::stats::ListedMatch::Fields(match_) => Match::from_v1_3(match_, at)?,
        };
        since_1_1!(wire, match_, 0, 0, at)
    }

    pub(crate) fn from_v1_2(
        wire: &v1_2::stats::FlowStats<'a>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        since_1_1!(wire, Match::from_v1_3(&wire.match_, at)?, 0, 0, at)
    }

    pub(crate) fn from_v1_3(
        wire: &v1_3::multipart::FlowStats<'a>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        since_1_1!(wire, Match::from_v1_3(&wire.match_, at)?, wire.flags, 0, at)
    }

    pub(crate) fn from_v1_4(
        wire: &v1_4::multipart::FlowStats<'a>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        let match_ = Match::from_v1_3(&wire.match_, at)?;
        since_1_1!(wire, match_, wire.flags, wire.importance, at)
    }

    pub(crate) fn from_v1_5(
        wire: &v1_5::multipart::FlowDesc<'a>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        let (sec, nsec) = wire.stats.time(oxs::DURATION).unwrap_or_default();
        Ok(Self {
            table_id: wire.table_id,
            duration: duration(sec, nsec),
            priority: wire.priority,
            idle_timeout: wire.idle_timeout,
            hard_timeout: wire.hard_timeout,
            flags: FlowModFlags(wire.flags),
            importance: wire.importance,
            cookie: wire.cookie,
            packet_count: wire.stats.count(oxs::PACKET_COUNT).unwrap_or(u64::MAX),
            byte_count: wire.stats.count(oxs::BYTE_COUNT).unwrap_or(u64::MAX),
            match_: Match::from_v1_3(&wire.match_, at)?,
            instructions: Instructions::from_wire(wire.instructions, at)?,
        })
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version });
        if self.flags != FlowModFlags::default() && !version.features().flow_stats_flags {
            return unsupported("flow_stats.flags");
        }
        if self.importance != 0 && version < Version::V1_4 {
            return unsupported("flow_stats.importance");
        }
        let start = to.position();
        to.u16(0);
        match version {
            Version::V1_0 => self.write_v1_0(to)?,
            Version::V1_5 => self.write_v1_5(to)?,
            _ => {
                to.u8(self.table_id);
                to.u8(0);
                to.u32(seconds(self.duration));
                to.u32(self.duration.subsec_nanos());
                to.u16(self.priority);
                to.u16(self.idle_timeout);
                to.u16(self.hard_timeout);
                to.u16(self.flags.0); // padding before OpenFlow 1.3
                to.u16(self.importance); // padding before OpenFlow 1.4
                to.zeros(2);
                to.u64(self.cookie);
                to.u64(self.packet_count);
                to.u64(self.byte_count);
                write_match(&self.match_, version, to)?;
                self.instructions.write(version, to)?;
            }
        }
        to.patch_size(start, start);
        Ok(())
    }

    fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.u8(self.table_id);
        to.u8(0);
        v1_0::convert::match_to_wire(&self.match_)?.write(to);
        to.u32(seconds(self.duration));
        to.u32(self.duration.subsec_nanos());
        to.u16(self.priority);
        to.u16(self.idle_timeout);
        to.u16(self.hard_timeout);
        to.zeros(6);
        to.u64(self.cookie);
        to.u64(self.packet_count);
        to.u64(self.byte_count);
        self.instructions.write_v1_0(to)
    }

    fn write_v1_5(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.zeros(2);
        to.u8(self.table_id);
        to.u8(0);
        to.u16(self.priority);
        to.u16(self.idle_timeout);
        to.u16(self.hard_timeout);
        to.u16(self.flags.0);
        to.u16(self.importance);
        to.u64(self.cookie);
        write_match(&self.match_, Version::V1_5, to)?;
        let counts = Counts {
            duration: Some(self.duration),
            packet_count: self.packet_count,
            byte_count: self.byte_count,
            ..Counts::default()
        };
        counts.to_bytes().stats().write(to);
        self.instructions.write(Version::V1_5, to)
    }
}

/// Statistics of a flow entry, without its description. From OpenFlow 1.5 on (1.5.1 §7.3.5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowCounters {
    /// Its table.
    pub table_id: u8,
    /// Reason of the message: 0 is a request, 1 the thresholds of an instruction (`ofp_flow_stats_reason`).
    pub reason: u8,
    /// Its priority.
    pub priority: u16,
    /// The match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
    /// Lifetime of the entry, if the switch reports it.
    pub duration: Option<Duration>,
    /// Time since the last packet, if the switch reports it.
    pub idle_time: Option<Duration>,
    /// Number of matched packets; [`u64::MAX`] if the switch does not report it.
    pub packet_count: u64,
    /// Number of matched bytes; [`u64::MAX`] if the switch does not report it.
    pub byte_count: u64,
}

impl FlowCounters {
    pub(crate) fn from_v1_5(
        wire: &v1_5::multipart::FlowStats<'_>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        let time = |number| wire.stats.time(number).map(|(sec, nsec)| duration(sec, nsec));
        Ok(Self {
            table_id: wire.table_id,
            reason: wire.reason,
            priority: wire.priority,
            match_: Match::from_v1_3(&wire.match_, at)?,
            duration: time(oxs::DURATION),
            idle_time: time(oxs::IDLE_TIME),
            packet_count: wire.stats.count(oxs::PACKET_COUNT).unwrap_or(u64::MAX),
            byte_count: wire.stats.count(oxs::BYTE_COUNT).unwrap_or(u64::MAX),
        })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        let fields = self.match_.to_bytes();
        let counts = Counts {
            duration: self.duration,
            idle_time: self.idle_time,
            packet_count: self.packet_count,
            byte_count: self.byte_count,
            ..Counts::default()
        };
        let counts = counts.to_bytes();
        v1_5::multipart::FlowStats {
            pad: Pad::default(),
            table_id: self.table_id,
            reason: self.reason,
            priority: self.priority,
            match_: v1_3::Match::of(&fields),
            stats: counts.stats(),
        }
        .write(to);
    }
}

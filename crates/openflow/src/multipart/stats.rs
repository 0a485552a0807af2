//! Statistics of flow entries, tables, ports and queues.

use crate::action::Actions;
use crate::flow_removed::{duration, duration_if_kept, seconds, write_duration_if_kept};
use crate::instruction::Instructions;
use crate::matching::Match;
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, FlowModFlags, PortNo, Text, Version, Writer, v1_0, v1_3};
use core::time::Duration;

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
    /// Its flags; empty in OpenFlow 1.0.
    pub flags: FlowModFlags,
    /// Its cookie.
    pub cookie: u64,
    /// Number of matched packets.
    pub packet_count: u64,
    /// Number of matched bytes.
    pub byte_count: u64,
    /// The match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
    /// Treatment of matching packets.
    pub instructions: Instructions<'a>,
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

    pub(crate) fn from_v1_3(
        wire: &v1_3::multipart::FlowStats<'a>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            table_id: wire.table_id,
            duration: duration(wire.duration_sec, wire.duration_nsec),
            priority: wire.priority,
            idle_timeout: wire.idle_timeout,
            hard_timeout: wire.hard_timeout,
            flags: FlowModFlags(wire.flags),
            cookie: wire.cookie,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
            match_: Match::from_v1_3(&wire.match_, at)?,
            instructions: Instructions::from_v1_3(wire.instructions, at)?,
        })
    }

    pub(crate) fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
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
        if self.flags != FlowModFlags::default() {
            let field = "flow_stats.flags";
            return Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        }
        self.instructions.write_v1_0(to)?;
        to.patch_size(start, start);
        Ok(())
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
        to.u8(self.table_id);
        to.u8(0);
        to.u32(seconds(self.duration));
        to.u32(self.duration.subsec_nanos());
        to.u16(self.priority);
        to.u16(self.idle_timeout);
        to.u16(self.hard_timeout);
        to.u16(self.flags.0);
        to.zeros(4);
        to.u64(self.cookie);
        to.u64(self.packet_count);
        to.u64(self.byte_count);
        v1_3::matching::write_with(to, |to| self.match_.write_oxms(to));
        self.instructions.write_v1_3(to)?;
        to.patch_size(start, start);
        Ok(())
    }
}

/// Aggregate counters of flow entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AggregateStats {
    /// Number of packets of all entries.
    pub packet_count: u64,
    /// Number of bytes of all entries.
    pub byte_count: u64,
    /// Number of entries.
    pub flow_count: u32,
}

/// Statistics of a flow table. OpenFlow 1.0 also describes the table; later versions do so in table
/// features, and have `None` and 0 here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableStats {
    /// Table number.
    pub table_id: u8,
    /// Its name.
    pub name: Option<Text<32>>,
    /// Fields that it can wildcard: see [`v1_0::matching::wildcard`].
    pub wildcards: u32,
    /// Maximum number of entries.
    pub max_entries: u32,
    /// Number of entries.
    pub active_count: u32,
    /// Number of packets looked up.
    pub lookup_count: u64,
    /// Number of packets that matched an entry.
    pub matched_count: u64,
}

impl TableStats {
    pub(crate) fn from_v1_0(wire: &v1_0::stats::TableStats) -> Self {
        Self {
            table_id: wire.table_id,
            name: Some(wire.name),
            wildcards: wire.wildcards,
            max_entries: wire.max_entries,
            active_count: wire.active_count,
            lookup_count: wire.lookup_count,
            matched_count: wire.matched_count,
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::multipart::TableStats) -> Self {
        Self {
            table_id: wire.table_id,
            name: None,
            wildcards: 0,
            max_entries: 0,
            active_count: wire.active_count,
            lookup_count: wire.lookup_count,
            matched_count: wire.matched_count,
        }
    }

    pub(crate) fn write_v1_0(&self, to: &mut Writer<'_>) {
        v1_0::stats::TableStats {
            table_id: self.table_id,
            pad: Pad::default(),
            name: self.name.unwrap_or_default(),
            wildcards: self.wildcards,
            max_entries: self.max_entries,
            active_count: self.active_count,
            lookup_count: self.lookup_count,
            matched_count: self.matched_count,
        }
        .write(to);
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.name.is_some() || self.wildcards != 0 || self.max_entries != 0 {
            let field = "table_stats: name, wildcards or max_entries";
            return Err(EncodeError::Unsupported { field, version: Version::V1_3 });
        }
        v1_3::multipart::TableStats {
            table_id: self.table_id,
            pad: Pad::default(),
            active_count: self.active_count,
            lookup_count: self.lookup_count,
            matched_count: self.matched_count,
        }
        .write(to);
        Ok(())
    }
}

/// Statistics of a port. A counter of all ones is not kept by the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PortStats {
    /// Port number.
    pub port_no: PortNo,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on reception.
    pub rx_dropped: u64,
    /// Packets dropped on sending.
    pub tx_dropped: u64,
    /// Errors on reception, those below included.
    pub rx_errors: u64,
    /// Errors on sending.
    pub tx_errors: u64,
    /// Frame alignment errors.
    pub rx_frame_err: u64,
    /// Packets received too fast.
    pub rx_over_err: u64,
    /// CRC errors.
    pub rx_crc_err: u64,
    /// Collisions.
    pub collisions: u64,
    /// Lifetime of the port, if the switch reports it; not in OpenFlow 1.0.
    pub duration: Option<Duration>,
}

impl PortStats {
    pub(crate) fn from_v1_0(wire: &v1_0::stats::PortStats) -> Self {
        Self {
            port_no: v1_0::port_from_wire(wire.port_no),
            rx_packets: wire.rx_packets,
            tx_packets: wire.tx_packets,
            rx_bytes: wire.rx_bytes,
            tx_bytes: wire.tx_bytes,
            rx_dropped: wire.rx_dropped,
            tx_dropped: wire.tx_dropped,
            rx_errors: wire.rx_errors,
            tx_errors: wire.tx_errors,
            rx_frame_err: wire.rx_frame_err,
            rx_over_err: wire.rx_over_err,
            rx_crc_err: wire.rx_crc_err,
            collisions: wire.collisions,
            duration: None,
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::multipart::PortStats) -> Self {
        Self {
            port_no: wire.port_no,
            rx_packets: wire.rx_packets,
            tx_packets: wire.tx_packets,
            rx_bytes: wire.rx_bytes,
            tx_bytes: wire.tx_bytes,
            rx_dropped: wire.rx_dropped,
            tx_dropped: wire.tx_dropped,
            rx_errors: wire.rx_errors,
            tx_errors: wire.tx_errors,
            rx_frame_err: wire.rx_frame_err,
            rx_over_err: wire.rx_over_err,
            rx_crc_err: wire.rx_crc_err,
            collisions: wire.collisions,
            duration: duration_if_kept(wire.duration_sec, wire.duration_nsec),
        }
    }

    /// Returns the twelve counters in wire order, which is the same in every version.
    fn counters(&self) -> [u64; 12] {
        [
            self.rx_packets,
            self.tx_packets,
            self.rx_bytes,
            self.tx_bytes,
            self.rx_dropped,
            self.tx_dropped,
            self.rx_errors,
            self.tx_errors,
            self.rx_frame_err,
            self.rx_over_err,
            self.rx_crc_err,
            self.collisions,
        ]
    }

    pub(crate) fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.duration.is_some() {
            let field = "port_stats.duration";
            return Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        }
        to.u16(v1_0::convert::port(self.port_no, "port_stats.port_no")?);
        to.zeros(6);
        self.counters().write(to);
        Ok(())
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) {
        to.u32(self.port_no.0);
        to.zeros(4);
        self.counters().write(to);
        write_duration_if_kept(self.duration, to);
    }
}

/// Statistics of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct QueueStats {
    /// Port number.
    pub port_no: PortNo,
    /// Queue number.
    pub queue_id: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped because the queue was full.
    pub tx_errors: u64,
    /// Lifetime of the queue, if the switch reports it; not in OpenFlow 1.0.
    pub duration: Option<Duration>,
}

impl QueueStats {
    pub(crate) fn from_v1_0(wire: &v1_0::stats::QueueStats) -> Self {
        Self {
            port_no: v1_0::port_from_wire(wire.port_no),
            queue_id: wire.queue_id,
            tx_bytes: wire.tx_bytes,
            tx_packets: wire.tx_packets,
            tx_errors: wire.tx_errors,
            duration: None,
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::multipart::QueueStats) -> Self {
        Self {
            port_no: wire.port_no,
            queue_id: wire.queue_id,
            tx_bytes: wire.tx_bytes,
            tx_packets: wire.tx_packets,
            tx_errors: wire.tx_errors,
            duration: duration_if_kept(wire.duration_sec, wire.duration_nsec),
        }
    }

    pub(crate) fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.duration.is_some() {
            let field = "queue_stats.duration";
            return Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        }
        to.u16(v1_0::convert::port(self.port_no, "queue_stats.port_no")?);
        to.zeros(2);
        to.u32(self.queue_id);
        [self.tx_bytes, self.tx_packets, self.tx_errors].write(to);
        Ok(())
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) {
        to.u32(self.port_no.0);
        to.u32(self.queue_id);
        [self.tx_bytes, self.tx_packets, self.tx_errors].write(to);
        write_duration_if_kept(self.duration, to);
    }
}

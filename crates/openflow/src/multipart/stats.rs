//! Statistics of tables, ports and queues, and aggregate statistics of flow entries.

use crate::flow_removed::{duration_if_kept, write_duration_if_kept};
use crate::oxs::{self, Counts, Stats};
use crate::v1_4::multipart::{EthernetStats, PortStatsProperty};
use crate::wire::{Pad, WireFormat};
use crate::{EncodeError, PortNo, Text, Version, Writer, v1_0, v1_1, v1_2, v1_3, v1_4};
use core::time::Duration;

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

impl AggregateStats {
    pub(crate) fn from_v1_5(wire: &Stats<'_>) -> Self {
        Self {
            packet_count: wire.count(oxs::PACKET_COUNT).unwrap_or(u64::MAX),
            byte_count: wire.count(oxs::BYTE_COUNT).unwrap_or(u64::MAX),
            flow_count: wire.value(oxs::FLOW_COUNT).map_or(u32::MAX, u32::from_be_bytes),
        }
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) {
        let Self { packet_count, byte_count, flow_count } = *self;
        if version == Version::V1_5 {
            let counts = Counts { flow_count, packet_count, byte_count, ..Counts::default() };
            counts.to_bytes().stats().write(to);
            return;
        }
        let pad = Pad::default();
        v1_3::multipart::AggregateStats { packet_count, byte_count, flow_count, pad }.write(to);
    }
}

/// Statistics of a flow table. OpenFlow 1.0 to 1.2 also describe the table; later versions do so in table
/// features, and have `None` and 0 here. The words of bits of 1.1 and 1.2 are out; [`v1_1::stats::TableStats`] and
/// [`v1_2::stats::TableStats`] have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableStats {
    /// Table number.
    pub table_id: u8,
    /// Its name.
    pub name: Option<Text<32>>,
    /// Fields that it can wildcard: see [`v1_0::matching::wildcard`]. OpenFlow 1.0 only, otherwise 0.
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

    pub(crate) fn from_v1_1(wire: &v1_1::stats::TableStats) -> Self {
        Self {
            table_id: wire.table_id,
            name: Some(wire.name),
            wildcards: 0,
            max_entries: wire.max_entries,
            active_count: wire.active_count,
            lookup_count: wire.lookup_count,
            matched_count: wire.matched_count,
        }
    }

    pub(crate) fn from_v1_2(wire: &v1_2::stats::TableStats) -> Self {
        Self {
            table_id: wire.table_id,
            name: Some(wire.name),
            wildcards: 0,
            max_entries: wire.max_entries,
            active_count: wire.active_count,
            lookup_count: wire.lookup_count,
            matched_count: wire.matched_count,
        }
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version });
        if version != Version::V1_0 && self.wildcards != 0 {
            return unsupported("table_stats.wildcards");
        }
        let is_described = self.name.is_some() || self.max_entries != 0;
        if version.features().table_features && is_described {
            return unsupported("table_stats: name or max_entries");
        }
        to.u8(self.table_id);
        match version {
            Version::V1_0 => {
                to.zeros(3);
                self.name.unwrap_or_default().write(to);
                to.u32(self.wildcards);
                to.u32(self.max_entries);
            }
            // The words of bits are zero.
            Version::V1_1 => {
                to.zeros(7);
                self.name.unwrap_or_default().write(to);
                to.zeros(24);
                to.u32(self.max_entries);
            }
            Version::V1_2 => {
                to.zeros(7);
                self.name.unwrap_or_default().write(to);
                to.zeros(64);
                to.u32(self.max_entries);
            }
            Version::V1_3 | Version::V1_4 | Version::V1_5 => to.zeros(3),
        }
        to.u32(self.active_count);
        to.u64(self.lookup_count);
        to.u64(self.matched_count);
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
    /// Lifetime of the port, if the switch reports it; not before OpenFlow 1.3.
    pub duration: Option<Duration>,
}

/// Port statistics of a structure with the counters that OpenFlow 1.0 to 1.3 share.
macro_rules! port_stats {
    ($wire:ident, $port_no:expr, $duration:expr) => {
        PortStats {
            port_no: $port_no,
            rx_packets: $wire.rx_packets,
            tx_packets: $wire.tx_packets,
            rx_bytes: $wire.rx_bytes,
            tx_bytes: $wire.tx_bytes,
            rx_dropped: $wire.rx_dropped,
            tx_dropped: $wire.tx_dropped,
            rx_errors: $wire.rx_errors,
            tx_errors: $wire.tx_errors,
            rx_frame_err: $wire.rx_frame_err,
            rx_over_err: $wire.rx_over_err,
            rx_crc_err: $wire.rx_crc_err,
            collisions: $wire.collisions,
            duration: $duration,
        }
    };
}

impl PortStats {
    pub(crate) fn from_v1_0(wire: &v1_0::stats::PortStats) -> Self {
        port_stats!(wire, v1_0::port_from_wire(wire.port_no), None)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::multipart::PortStats) -> Self {
        let duration = duration_if_kept(wire.duration_sec, wire.duration_nsec);
        port_stats!(wire, wire.port_no, duration)
    }

    pub(crate) fn from_v1_1(wire: &v1_1::stats::PortStats) -> Self {
        port_stats!(wire, wire.port_no, None)
    }

    /// Without the property of Ethernet, its counters are all ones. Other properties are out;
    /// [`v1_4::multipart::PortStats`] has them.
    pub(crate) fn from_v1_4(wire: &v1_4::multipart::PortStats<'_>) -> Self {
        let ethernet = wire.properties.iter().find_map(|property| match property.item {
            PortStatsProperty::Ethernet(it) => {
                Some([it.rx_frame_err, it.rx_over_err, it.rx_crc_err, it.collisions])
            }
            _ => None,
        });
        let [rx_frame_err, rx_over_err, rx_crc_err, collisions] = ethernet.unwrap_or([u64::MAX; 4]);
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
            rx_frame_err,
            rx_over_err,
            rx_crc_err,
            collisions,
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

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.duration.is_some() && !version.features().durations {
            return Err(EncodeError::Unsupported { field: "port_stats.duration", version });
        }
        match version {
            Version::V1_0 => {
                to.u16(v1_0::convert::port(self.port_no, "port_stats.port_no")?);
                to.zeros(6);
                self.counters().write(to);
            }
            Version::V1_1 | Version::V1_2 | Version::V1_3 => {
                to.u32(self.port_no.0);
                to.zeros(4);
                self.counters().write(to);
                if version == Version::V1_3 {
                    write_duration_if_kept(self.duration, to);
                }
            }
            Version::V1_4 | Version::V1_5 => self.write_v1_4(to),
        }
        Ok(())
    }

    fn write_v1_4(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.zeros(4); // length, and the padding
        to.u32(self.port_no.0);
        write_duration_if_kept(self.duration, to);
        let [counters @ .., rx_frame_err, rx_over_err, rx_crc_err, collisions] = self.counters();
        counters.write(to);
        let pad = Pad::default();
        let ethernet = EthernetStats { pad, rx_frame_err, rx_over_err, rx_crc_err, collisions };
        PortStatsProperty::Ethernet(ethernet).write(to);
        to.patch_size(start, start);
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
    /// Lifetime of the queue, if the switch reports it; not before OpenFlow 1.3.
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

    pub(crate) fn from_v1_1(wire: &v1_1::stats::QueueStats) -> Self {
        Self {
            port_no: wire.port_no,
            queue_id: wire.queue_id,
            tx_bytes: wire.tx_bytes,
            tx_packets: wire.tx_packets,
            tx_errors: wire.tx_errors,
            duration: None,
        }
    }

    pub(crate) fn from_v1_4(wire: &v1_4::multipart::QueueStats<'_>) -> Self {
        Self {
            port_no: wire.port_no,
            queue_id: wire.queue_id,
            tx_bytes: wire.tx_bytes,
            tx_packets: wire.tx_packets,
            tx_errors: wire.tx_errors,
            duration: duration_if_kept(wire.duration_sec, wire.duration_nsec),
        }
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.duration.is_some() && !version.features().durations {
            return Err(EncodeError::Unsupported { field: "queue_stats.duration", version });
        }
        let start = to.position();
        let has_length = version >= Version::V1_4;
        if has_length {
            to.zeros(8); // length, and the padding
        }
        if version == Version::V1_0 {
            to.u16(v1_0::convert::port(self.port_no, "queue_stats.port_no")?);
            to.zeros(2);
        } else {
            to.u32(self.port_no.0);
        }
        to.u32(self.queue_id);
        [self.tx_bytes, self.tx_packets, self.tx_errors].write(to);
        if version.features().durations {
            write_duration_if_kept(self.duration, to);
        }
        if has_length {
            to.patch_size(start, start);
        }
        Ok(())
    }
}

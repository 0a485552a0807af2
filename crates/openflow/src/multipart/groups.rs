//! Statistics and descriptions of groups and meters. Not in OpenFlow 1.0.

use crate::flow_removed::{duration_if_kept, write_duration_if_kept};
use crate::{Bucket, EncodeError, GroupKind, MeterBand, MeterFlags, Writer, v1_3};
use core::time::Duration;

/// Packet and byte counter of a bucket or a meter band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counter {
    /// Packets.
    pub packet_count: u64,
    /// Bytes.
    pub byte_count: u64,
}

impl Counter {
    fn from_v1_3(wire: &v1_3::multipart::Counter) -> Self {
        Self { packet_count: wire.packet_count, byte_count: wire.byte_count }
    }

    fn write(self, to: &mut Writer<'_>) {
        to.u64(self.packet_count);
        to.u64(self.byte_count);
    }
}

/// Statistics of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupStats {
    /// Group number.
    pub group_id: u32,
    /// Number of flow entries and groups that refer to it.
    pub ref_count: u32,
    /// Number of processed packets.
    pub packet_count: u64,
    /// Number of processed bytes.
    pub byte_count: u64,
    /// Lifetime, if the switch reports it.
    pub duration: Option<Duration>,
    /// Counters of its buckets.
    pub buckets: Vec<Counter>,
}

impl GroupStats {
    pub(crate) fn from_v1_3(wire: &v1_3::multipart::GroupStats<'_>) -> Self {
        Self {
            group_id: wire.group_id,
            ref_count: wire.ref_count,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
            duration: duration_if_kept(wire.duration_sec, wire.duration_nsec),
            buckets: wire.buckets.iter().map(|counter| Counter::from_v1_3(&counter)).collect(),
        }
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.zeros(4); // length, and the padding
        to.u32(self.group_id);
        to.u32(self.ref_count);
        to.zeros(4);
        to.u64(self.packet_count);
        to.u64(self.byte_count);
        write_duration_if_kept(self.duration, to);
        for counter in &self.buckets {
            counter.write(to);
        }
        to.patch_size(start, start);
    }
}

/// A group and its buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupDesc {
    /// Type: which buckets a packet takes.
    pub kind: GroupKind,
    /// Group number.
    pub group_id: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupDesc {
    pub(crate) fn from_v1_3(wire: &v1_3::multipart::GroupDesc<'_>) -> Self {
        Self {
            kind: GroupKind::from_wire(wire.kind),
            group_id: wire.group_id,
            buckets: wire.buckets.iter().map(|bucket| Bucket::from_v1_3(&bucket)).collect(),
        }
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
        to.u8(self.kind.wire());
        to.u8(0);
        to.u32(self.group_id);
        self.buckets.iter().try_for_each(|bucket| bucket.write_v1_3(to))?;
        to.patch_size(start, start);
        Ok(())
    }
}

/// Features of groups. Arrays have an element per group type: all, select, indirect, fast failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupFeatures {
    /// Supported group types: one bit per type.
    pub types: u32,
    /// `ofp_group_capabilities`: bit 0 weights, 1 liveness, 2 chaining, 3 loop checks.
    pub capabilities: u32,
    /// Maximum number of groups, by type.
    pub max_groups: [u32; 4],
    /// Supported actions: one bit per type.
    pub actions: [u32; 4],
}

/// Statistics of a meter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MeterStats {
    /// Meter number.
    pub meter_id: u32,
    /// Number of flow entries that use it.
    pub flow_count: u32,
    /// Number of packets that reached the meter.
    pub packet_in_count: u64,
    /// Number of bytes that reached the meter.
    pub byte_in_count: u64,
    /// Lifetime, if the switch reports it.
    pub duration: Option<Duration>,
    /// Counters of its bands.
    pub bands: Vec<Counter>,
}

impl MeterStats {
    pub(crate) fn from_v1_3(wire: &v1_3::multipart::MeterStats<'_>) -> Self {
        Self {
            meter_id: wire.meter_id,
            flow_count: wire.flow_count,
            packet_in_count: wire.packet_in_count,
            byte_in_count: wire.byte_in_count,
            duration: duration_if_kept(wire.duration_sec, wire.duration_nsec),
            bands: wire.bands.iter().map(|counter| Counter::from_v1_3(&counter)).collect(),
        }
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u32(self.meter_id);
        let len_at = to.position();
        to.zeros(8); // len, and the padding
        to.u32(self.flow_count);
        to.u64(self.packet_in_count);
        to.u64(self.byte_in_count);
        write_duration_if_kept(self.duration, to);
        for counter in &self.bands {
            counter.write(to);
        }
        to.patch_size(len_at, start);
    }
}

/// A meter and its bands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MeterConfig {
    /// Flags: how the meter counts.
    pub flags: MeterFlags,
    /// Meter number.
    pub meter_id: u32,
    /// Its bands.
    pub bands: Vec<MeterBand>,
}

impl MeterConfig {
    pub(crate) fn from_v1_3(wire: &v1_3::multipart::MeterConfig<'_>) -> Self {
        Self {
            flags: MeterFlags(wire.flags),
            meter_id: wire.meter_id,
            bands: wire.bands.iter().map(|band| MeterBand::from_v1_3(&band)).collect(),
        }
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
        to.u16(self.flags.0);
        to.u32(self.meter_id);
        self.bands.iter().try_for_each(|band| band.write_v1_3(to))?;
        to.patch_size(start, start);
        Ok(())
    }
}

/// Features of meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MeterFeatures {
    /// Maximum number of meters.
    pub max_meter: u32,
    /// Supported band types: one bit per type.
    pub band_types: u32,
    /// Supported meter flags.
    pub capabilities: u32,
    /// Maximum number of bands of a meter.
    pub max_bands: u8,
    /// The highest colour value.
    pub max_color: u8,
}

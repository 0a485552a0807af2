//! Statistics and descriptions of groups and meters. Not in OpenFlow 1.0.

use crate::flow_removed::{duration_if_kept, write_duration_if_kept};
use crate::instruction::{Lists, OfVersion};
use crate::{
    Bucket, EncodeError, GroupKind, MeterBand, MeterFlags, Version, Writer, v1_1, v1_3, v1_5,
};
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
    /// Lifetime, if the switch reports it; not before OpenFlow 1.3.
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

    pub(crate) fn from_v1_1(wire: &v1_1::stats::GroupStats<'_>) -> Self {
        Self {
            group_id: wire.group_id,
            ref_count: wire.ref_count,
            packet_count: wire.packet_count,
            byte_count: wire.byte_count,
            duration: None,
            buckets: wire.buckets.iter().map(|counter| Counter::from_v1_3(&counter)).collect(),
        }
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.zeros(4); // length, and the padding
        to.u32(self.group_id);
        to.u32(self.ref_count);
        to.zeros(4);
        to.u64(self.packet_count);
        to.u64(self.byte_count);
        if version.features().durations {
            write_duration_if_kept(self.duration, to);
        } else if self.duration.is_some() {
            return Err(EncodeError::Unsupported { field: "group_stats.duration", version });
        }
        for counter in &self.buckets {
            counter.write(to);
        }
        to.patch_size(start, start);
        Ok(())
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
    pub(crate) fn from_v1_3<const V: u8>(wire: &v1_3::multipart::GroupDesc<'_, V>) -> Self
    where
        Lists: OfVersion<V>,
    {
        Self {
            kind: GroupKind::from_wire(wire.kind),
            group_id: wire.group_id,
            buckets: wire.buckets.iter().map(|bucket| Bucket::from_v1_3(&bucket)).collect(),
        }
    }

    /// Experimenters' properties are out; [`v1_5::group::GroupDesc`] has them.
    pub(crate) fn from_v1_5(wire: &v1_5::group::GroupDesc<'_>) -> Self {
        Self {
            kind: GroupKind::from_wire(wire.kind),
            group_id: wire.group_id,
            buckets: wire.buckets.iter().map(|bucket| Bucket::from_v1_5(&bucket)).collect(),
        }
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
        to.u8(self.kind.wire());
        to.u8(0);
        to.u32(self.group_id);
        let size_at = to.position();
        if version == Version::V1_5 {
            to.zeros(8); // size of the buckets, and the padding
        }
        let buckets_at = to.position();
        Bucket::write_all(&self.buckets, version, to)?;
        if version == Version::V1_5 {
            to.patch_size(size_at, buckets_at);
        }
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
    /// Features of the meter action (`ofp_meter_feature_flags`): bit 0 in action sets, 1 at any place, 2 several times. From OpenFlow 1.5
    /// on, otherwise 0.
    pub features: u32,
}

impl MeterFeatures {
    pub(crate) fn from_v1_3(wire: &v1_3::multipart::MeterFeatures) -> Self {
        Self {
            max_meter: wire.max_meter,
            band_types: wire.band_types,
            capabilities: wire.capabilities,
            max_bands: wire.max_bands,
            max_color: wire.max_color,
            features: 0,
        }
    }

    pub(crate) fn from_v1_5(wire: &v1_5::multipart::MeterFeatures) -> Self {
        Self {
            max_meter: wire.max_meter,
            band_types: wire.band_types,
            capabilities: wire.capabilities,
            max_bands: wire.max_bands,
            max_color: wire.max_color,
            features: wire.features,
        }
    }

    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.u32(self.max_meter);
        to.u32(self.band_types);
        to.u32(self.capabilities);
        to.u8(self.max_bands);
        to.u8(self.max_color);
        to.zeros(2);
        if version == Version::V1_5 {
            to.u32(self.features);
            to.zeros(4);
        } else if self.features != 0 {
            return Err(EncodeError::Unsupported { field: "meter_features.features", version });
        }
        Ok(())
    }
}

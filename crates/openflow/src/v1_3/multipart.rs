//! Multipart requests and replies: statistics and descriptions, possibly in several parts. OpenFlow
//! 1.3.5 §7.3.5.
//!
//! ```text
//!  8      10      12     16
//! +------+-------+------+---------------------------+
//! | type | flags | pad  | as the type says          |
//! +------+-------+------+---------------------------+
//! ```
//!
//! Bit 0 of the flags: more messages with the same xid follow.
//!
//! [`RequestBody`] and [`ReplyBody`] are the tables of OpenFlow 1.1 to 1.5 (1.1 and 1.2 §A.3.5 and §A.3.6, where they are
//! statistics messages; 1.4.1 §7.3.5; 1.5.1 §7.3.5).

use super::group::Bucket;
use super::instruction::Instruction;
use super::meter::MeterBand;
use super::table::TableFeatures;
use super::{Match, Port};
use crate::PortNo;
use crate::message_enum::multipart_enum;
use crate::wire::{Empty, List, Pad, WireFormat, sized_struct, wire_struct};
use crate::{DecodeError, Reader, Writer};
use crate::{v1_1, v1_2, v1_4, v1_5};

multipart_enum! {
    /// The body of a multipart request (`ofp_multipart_request`).
    pub struct MultipartRequest<V> = "multipart_request", pad 4;
    /// The request.
    pub enum RequestBody {
        /// Description of the switch.
        Desc(Empty) = 0,
        /// Statistics of individual flow entries; from OpenFlow 1.5 on their descriptions.
        Flow(FlowStatsRequest<'a>) = 1 in 3..=6,
        /// The same in OpenFlow 1.1.
        #[cfg_attr(feature = "serde", serde(rename = "flow"))]
        FlowV1_1(v1_1::stats::FlowStatsRequest) = 1 in 2..=2,
        /// Aggregate statistics of flow entries.
        Aggregate(FlowStatsRequest<'a>) = 2 in 3..=6,
        /// The same in OpenFlow 1.1.
        #[cfg_attr(feature = "serde", serde(rename = "aggregate"))]
        AggregateV1_1(v1_1::stats::FlowStatsRequest) = 2 in 2..=2,
        /// Counters of tables.
        Table(Empty) = 3,
        /// Counters of ports.
        PortStats(PortRequest) = 4,
        /// Counters of queues.
        Queue(QueueStatsRequest) = 5,
        /// Counters of groups.
        Group(IdRequest) = 6,
        /// Groups and their buckets.
        GroupDesc(Empty) = 7 in 2..=5,
        /// One group or all, and their buckets.
        #[cfg_attr(feature = "serde", serde(rename = "group_desc"))]
        GroupDescV1_5(IdRequest) = 7 in 6..=6,
        /// Group features.
        GroupFeatures(Empty) = 8 in 3..=6,
        /// Counters of meters.
        Meter(IdRequest) = 9 in 4..=6,
        /// Meters and their bands.
        MeterConfig(IdRequest) = 10 in 4..=6,
        /// Meter features.
        MeterFeatures(Empty) = 11 in 4..=6,
        /// Table features; a non-empty body requests a new configuration.
        TableFeatures(List<'a, TableFeatures<'a, V>>) = 12 in 4..=5,
        /// The same from OpenFlow 1.5 on.
        #[cfg_attr(feature = "serde", serde(rename = "table_features"))]
        TableFeaturesV1_5(List<'a, v1_5::TableFeatures<'a>>) = 12 in 6..=6,
        /// Ports.
        PortDesc(Empty) = 13 in 4..=5,
        /// One port or all.
        #[cfg_attr(feature = "serde", serde(rename = "port_desc"))]
        PortDescV1_5(PortRequest) = 13 in 6..=6,
        /// Configuration of tables.
        TableDesc(Empty) = 14 in 5..=6,
        /// Configuration of queues.
        QueueDesc(QueueStatsRequest) = 15 in 5..=6,
        /// Flow monitors to add, change or delete.
        FlowMonitor(List<'a, v1_4::monitor::FlowMonitorRequest<'a>>) = 16 in 5..=6,
        /// Statistics of individual flow entries.
        FlowStats(FlowStatsRequest<'a>) = 17 in 6..=6,
        /// State of the switch's controllers.
        ControllerStatus(Empty) = 18 in 6..=6,
        /// Features of bundles.
        BundleFeatures(v1_5::bundle::BundleFeaturesRequest<'a>) = 19 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

multipart_enum! {
    /// The body of a multipart reply (`ofp_multipart_reply`).
    pub struct MultipartReply<V> = "multipart_reply", pad 4;
    /// The reply.
    pub enum ReplyBody {
        /// Description of the switch.
        Desc(Desc<'a>) = 0,
        /// Statistics of individual flow entries.
        Flow(List<'a, FlowStats<'a>>) = 1 in 4..=4,
        /// The same in OpenFlow 1.1.
        #[cfg_attr(feature = "serde", serde(rename = "flow"))]
        FlowV1_1(List<'a, v1_1::stats::FlowStats<'a>>) = 1 in 2..=2,
        /// The same in OpenFlow 1.2.
        #[cfg_attr(feature = "serde", serde(rename = "flow"))]
        FlowV1_2(List<'a, v1_2::stats::FlowStats<'a>>) = 1 in 3..=3,
        /// The same in OpenFlow 1.4.
        #[cfg_attr(feature = "serde", serde(rename = "flow"))]
        FlowV1_4(List<'a, v1_4::multipart::FlowStats<'a>>) = 1 in 5..=5,
        /// Descriptions of individual flow entries.
        FlowDesc(List<'a, v1_5::multipart::FlowDesc<'a>>) = 1 in 6..=6,
        /// Aggregate statistics of flow entries.
        Aggregate(AggregateStats) = 2 in 2..=5,
        /// The same from OpenFlow 1.5 on.
        #[cfg_attr(feature = "serde", serde(rename = "aggregate"))]
        AggregateV1_5(crate::oxs::Stats<'a>) = 2 in 6..=6,
        /// Counters of tables.
        Table(List<'a, TableStats>) = 3 in 4..=6,
        /// The same in OpenFlow 1.1.
        #[cfg_attr(feature = "serde", serde(rename = "table"))]
        TableV1_1(List<'a, v1_1::stats::TableStats>) = 3 in 2..=2,
        /// The same in OpenFlow 1.2.
        #[cfg_attr(feature = "serde", serde(rename = "table"))]
        TableV1_2(List<'a, v1_2::stats::TableStats>) = 3 in 3..=3,
        /// Counters of ports.
        PortStats(List<'a, PortStats>) = 4 in 4..=4,
        /// The same in OpenFlow 1.1 and 1.2.
        #[cfg_attr(feature = "serde", serde(rename = "port_stats"))]
        PortStatsV1_1(List<'a, v1_1::stats::PortStats>) = 4 in 2..=3,
        /// The same from OpenFlow 1.4 on.
        #[cfg_attr(feature = "serde", serde(rename = "port_stats"))]
        PortStatsV1_4(List<'a, v1_4::multipart::PortStats<'a>>) = 4 in 5..=6,
        /// Counters of queues.
        Queue(List<'a, QueueStats>) = 5 in 4..=4,
        /// The same in OpenFlow 1.1 and 1.2.
        #[cfg_attr(feature = "serde", serde(rename = "queue"))]
        QueueV1_1(List<'a, v1_1::stats::QueueStats>) = 5 in 2..=3,
        /// The same from OpenFlow 1.4 on.
        #[cfg_attr(feature = "serde", serde(rename = "queue"))]
        QueueV1_4(List<'a, v1_4::multipart::QueueStats<'a>>) = 5 in 5..=6,
        /// Counters of groups.
        Group(List<'a, GroupStats<'a>>) = 6 in 4..=6,
        /// The same in OpenFlow 1.1 and 1.2.
        #[cfg_attr(feature = "serde", serde(rename = "group"))]
        GroupV1_1(List<'a, v1_1::stats::GroupStats<'a>>) = 6 in 2..=3,
        /// Groups and their buckets.
        GroupDesc(List<'a, GroupDesc<'a, V>>) = 7 in 2..=5,
        /// The same from OpenFlow 1.5 on.
        #[cfg_attr(feature = "serde", serde(rename = "group_desc"))]
        GroupDescV1_5(List<'a, v1_5::group::GroupDesc<'a>>) = 7 in 6..=6,
        /// Group features.
        GroupFeatures(GroupFeatures) = 8 in 3..=6,
        /// Counters of meters.
        Meter(List<'a, MeterStats<'a>>) = 9 in 4..=6,
        /// Meters and their bands.
        MeterConfig(List<'a, MeterConfig<'a>>) = 10 in 4..=6,
        /// Meter features.
        MeterFeatures(MeterFeatures) = 11 in 4..=5,
        /// The same from OpenFlow 1.5 on.
        #[cfg_attr(feature = "serde", serde(rename = "meter_features"))]
        MeterFeaturesV1_5(v1_5::multipart::MeterFeatures) = 11 in 6..=6,
        /// Table features.
        TableFeatures(List<'a, TableFeatures<'a, V>>) = 12 in 4..=5,
        /// The same from OpenFlow 1.5 on.
        #[cfg_attr(feature = "serde", serde(rename = "table_features"))]
        TableFeaturesV1_5(List<'a, v1_5::TableFeatures<'a>>) = 12 in 6..=6,
        /// Ports.
        PortDesc(List<'a, Port>) = 13 in 4..=4,
        /// The same from OpenFlow 1.4 on.
        #[cfg_attr(feature = "serde", serde(rename = "port_desc"))]
        PortDescV1_4(List<'a, v1_4::port::Port<'a, V>>) = 13 in 5..=6,
        /// Configuration of tables.
        TableDesc(List<'a, v1_4::table::TableDesc<'a>>) = 14 in 5..=6,
        /// Configuration of queues.
        QueueDesc(List<'a, v1_4::queue::QueueDesc<'a>>) = 15 in 5..=6,
        /// Changes of flow entries that a flow monitor selects.
        FlowMonitor(List<'a, v1_4::monitor::FlowUpdate<'a, V>>) = 16 in 5..=6,
        /// Statistics of individual flow entries.
        FlowStats(List<'a, v1_5::multipart::FlowStats<'a>>) = 17 in 6..=6,
        /// State of the switch's controllers.
        ControllerStatus(List<'a, v1_5::controller::ControllerStatus<'a>>) = 18 in 6..=6,
        /// Features of bundles.
        BundleFeatures(v1_5::bundle::BundleFeatures<'a>) = 19 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_flow_stats_request`, `ofp_aggregate_stats_request`; §7.3.5.2, §7.3.5.3.
    pub struct FlowStatsRequest<'a> = "flow_stats_request" {
        /// Table number; `0xff` means every table.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
        /// Selects only entries that output to this port; [`PortNo::ANY`] disables the filter.
        out_port: PortNo,
        /// Selects only entries that use this group; `0xffffffff` disables the filter.
        out_group: u32,
        /// Padding.
        pad2: Pad<4>,
        /// Selects only entries whose cookie has these bits...
        cookie: u64,
        /// ... where this mask is 1.
        cookie_mask: u64,
        /// Selects only entries that this match covers.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
    }

    /// `ofp_port_stats_request`; §7.3.5.6.
    pub struct PortRequest = "port_stats_request" {
        /// Port number; [`PortNo::ANY`] means every port.
        port_no: PortNo,
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_queue_stats_request`; §7.3.5.8.
    pub struct QueueStatsRequest = "queue_stats_request" {
        /// Port number; [`PortNo::ANY`] means every port.
        port_no: PortNo,
        /// Queue number; `0xffffffff` means every queue.
        queue_id: u32,
    }

    /// `ofp_group_stats_request`, `ofp_meter_multipart_request`; §7.3.5.9, §7.3.5.12.
    pub struct IdRequest = "multipart_request_id" {
        /// Group or meter number; `0xfffffffc` means every group, `0xffffffff` every meter.
        id: u32,
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_aggregate_stats_reply`; §7.3.5.3.
    pub struct AggregateStats = "aggregate_stats_reply" {
        /// Packets of all entries.
        packet_count: u64,
        /// Bytes of all entries.
        byte_count: u64,
        /// Number of entries.
        flow_count: u32,
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_table_stats`; §7.3.5.4.
    pub struct TableStats = "table_stats" {
        /// Table number.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
        /// Number of entries.
        active_count: u32,
        /// Number of packets looked up.
        lookup_count: u64,
        /// Number of packets that matched an entry.
        matched_count: u64,
    }

    /// `ofp_port_stats`; §7.3.5.6. A counter of all ones is not kept by the switch.
    pub struct PortStats = "port_stats" {
        /// Port number.
        port_no: PortNo,
        /// Padding.
        pad: Pad<4>,
        /// Packets received.
        rx_packets: u64,
        /// Packets sent.
        tx_packets: u64,
        /// Bytes received.
        rx_bytes: u64,
        /// Bytes sent.
        tx_bytes: u64,
        /// Packets dropped on reception.
        rx_dropped: u64,
        /// Packets dropped on sending.
        tx_dropped: u64,
        /// Errors on reception, those below included.
        rx_errors: u64,
        /// Errors on sending.
        tx_errors: u64,
        /// Frame alignment errors.
        rx_frame_err: u64,
        /// Packets received too fast.
        rx_over_err: u64,
        /// CRC errors.
        rx_crc_err: u64,
        /// Collisions.
        collisions: u64,
        /// Lifetime of the port, in seconds.
        duration_sec: u32,
        /// Nanoseconds beyond `duration_sec`.
        duration_nsec: u32,
    }

    /// `ofp_queue_stats`; §7.3.5.8.
    pub struct QueueStats = "queue_stats" {
        /// Port number.
        port_no: PortNo,
        /// Queue number.
        queue_id: u32,
        /// Bytes sent.
        tx_bytes: u64,
        /// Packets sent.
        tx_packets: u64,
        /// Packets dropped because the queue was full.
        tx_errors: u64,
        /// Lifetime of the queue, in seconds.
        duration_sec: u32,
        /// Nanoseconds beyond `duration_sec`.
        duration_nsec: u32,
    }

    /// `ofp_bucket_counter`, `ofp_meter_band_stats`; §7.3.5.9, §7.3.5.12.
    pub struct Counter = "counter" {
        /// Packets.
        packet_count: u64,
        /// Bytes.
        byte_count: u64,
    }

    /// `ofp_group_features`; §7.3.5.11. Arrays have an element per group type.
    pub struct GroupFeatures = "group_features" {
        /// Supported group types: one bit per type.
        types: u32,
        /// `ofp_group_capabilities`.
        capabilities: u32,
        /// Maximum number of groups, by type.
        max_groups: [u32; 4],
        /// Supported actions: one bit per type.
        actions: [u32; 4],
    }

    /// `ofp_meter_features`; §7.3.5.14.
    pub struct MeterFeatures = "meter_features" {
        /// Maximum number of meters.
        max_meter: u32,
        /// Supported band types: one bit per type.
        band_types: u32,
        /// `ofp_meter_flags`.
        capabilities: u32,
        /// Maximum number of bands of a meter.
        max_bands: u8,
        /// The highest colour value.
        max_color: u8,
        /// Padding.
        pad: Pad<2>,
    }

    /// `ofp_desc`; §7.3.5.1: 1056 bytes of text, see [`Desc::fields`].
    pub struct Desc<'a> = "desc" {
        /// The five texts, concatenated.
        bytes: DescBytes<'a>,
    }
}

/// `ofp_experimenter_multipart_header`; §7.3.5.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Experimenter<'a> {
    /// Experimenter id.
    pub experimenter: u32,
    /// Experimenter-defined type (4 bytes), then the data; see
    /// [`Experimenter::exp_type`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub body: &'a [u8],
}

impl Experimenter<'_> {
    /// Returns the experimenter-defined type; every decoded message has one.
    pub fn exp_type(&self) -> Option<u32> {
        self.body.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

impl<'a> WireFormat<'a> for Experimenter<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let experimenter = from.u32("experimenter_multipart.experimenter")?;
        let mut check = *from;
        check.u32("experimenter_multipart.exp_type")?;
        Ok(Self { experimenter, body: from.rest() })
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.experimenter);
        to.bytes(self.body);
    }
}

pub use crate::desc::DescBytes;

impl Desc<'_> {
    /// Returns the five texts.
    pub fn fields(&self) -> crate::desc::DescText {
        self.bytes.text()
    }
}

sized_struct! {
    /// `ofp_flow_stats`; §7.3.5.2.
    pub struct FlowStats<'a> = "flow_stats" {
        before {}
        after {
            /// The entry's table.
            table_id: u8,
            /// Padding.
            pad: Pad<1>,
            /// Lifetime of the entry, in seconds.
            duration_sec: u32,
            /// Nanoseconds beyond `duration_sec`.
            duration_nsec: u32,
            /// The entry's priority.
            priority: u16,
            /// The entry's idle timeout, in seconds.
            idle_timeout: u16,
            /// The entry's hard timeout, in seconds.
            hard_timeout: u16,
            /// `ofp_flow_mod_flags`.
            flags: u16,
            /// Padding.
            pad2: Pad<4>,
            /// The entry's cookie.
            cookie: u64,
            /// Number of matched packets.
            packet_count: u64,
            /// Number of matched bytes.
            byte_count: u64,
            /// Its match.
            #[cfg_attr(feature = "serde", serde(rename = "match"))]
            match_: Match<'a>,
            /// Its instructions.
            instructions: List<'a, Instruction<'a, 4>>,
        }
    }

    /// `ofp_group_stats`; §7.3.5.9.
    pub struct GroupStats<'a> = "group_stats" {
        before {}
        after {
            /// Padding.
            pad: Pad<2>,
            /// Group number.
            group_id: u32,
            /// Number of flow entries and groups that refer to it.
            ref_count: u32,
            /// Padding.
            pad2: Pad<4>,
            /// Number of processed packets.
            packet_count: u64,
            /// Number of processed bytes.
            byte_count: u64,
            /// Lifetime of the group, in seconds.
            duration_sec: u32,
            /// Nanoseconds beyond `duration_sec`.
            duration_nsec: u32,
            /// The counters of its buckets.
            buckets: List<'a, Counter>,
        }
    }

    /// `ofp_group_desc`; §7.3.5.10.
    pub struct GroupDesc<'a, V> = "group_desc" {
        before {}
        after {
            /// `ofp_group_type`.
            kind: u8,
            /// Padding.
            pad: Pad<1>,
            /// Group number.
            group_id: u32,
            /// Its buckets.
            buckets: List<'a, Bucket<'a, V>>,
        }
    }

    /// `ofp_meter_stats`; §7.3.5.12.
    pub struct MeterStats<'a> = "meter_stats" {
        before {
            /// Meter number.
            meter_id: u32,
        }
        after {
            /// Padding.
            pad: Pad<6>,
            /// Number of flow entries that use it.
            flow_count: u32,
            /// Number of packets that reached the meter.
            packet_in_count: u64,
            /// Number of bytes that reached the meter.
            byte_in_count: u64,
            /// Lifetime of the meter, in seconds.
            duration_sec: u32,
            /// Nanoseconds beyond `duration_sec`.
            duration_nsec: u32,
            /// The counters of its bands.
            bands: List<'a, Counter>,
        }
    }

    /// `ofp_meter_config`; §7.3.5.13.
    pub struct MeterConfig<'a> = "meter_config" {
        before {}
        after {
            /// `ofp_meter_flags`.
            flags: u16,
            /// Meter number.
            meter_id: u32,
            /// Its bands.
            bands: List<'a, MeterBand<'a>>,
        }
    }
}

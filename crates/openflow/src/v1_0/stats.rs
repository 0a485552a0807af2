//! Statistics requests and replies. A reply may have several parts. OpenFlow 1.0.2 §5.3.5.
//!
//! ```text
//!  8      10      12
//! +------+-------+---------------------------+
//! | type | flags | as the type says          |
//! +------+-------+---------------------------+
//! ```
//!
//! Bit 0 of a reply's flags: more messages with the same xid follow.

use super::{Action, Match};
use crate::desc::{DescBytes, DescText};
use crate::message_enum::multipart_enum;
use crate::text::Text;
use crate::wire::{Empty, List, Pad, sized_struct, wire_struct};

multipart_enum! {
    /// The body of a statistics request (`ofp_stats_request`).
    pub struct StatsRequest = "stats_request", pad 0;
    /// The request.
    pub enum RequestBody {
        /// Description of the switch.
        Desc(Empty) = 0,
        /// Statistics of individual flow entries.
        Flow(FlowStatsRequest) = 1,
        /// Aggregate statistics of flow entries.
        Aggregate(FlowStatsRequest) = 2,
        /// Counters of tables.
        Table(Empty) = 3,
        /// Counters of ports.
        Port(PortStatsRequest) = 4,
        /// Counters of queues.
        Queue(QueueStatsRequest) = 5,
        /// Vendor-defined.
        Vendor(Vendor<'a>) = 0xffff,
    }
}

multipart_enum! {
    /// The body of a statistics reply (`ofp_stats_reply`).
    pub struct StatsReply = "stats_reply", pad 0;
    /// The reply.
    pub enum ReplyBody {
        /// Description of the switch.
        Desc(Desc<'a>) = 0,
        /// Statistics of individual flow entries.
        Flow(List<'a, FlowStats<'a>>) = 1,
        /// Aggregate statistics of flow entries.
        Aggregate(AggregateStats) = 2,
        /// Counters of tables.
        Table(List<'a, TableStats>) = 3,
        /// Counters of ports.
        Port(List<'a, PortStats>) = 4,
        /// Counters of queues.
        Queue(List<'a, QueueStats>) = 5,
        /// Vendor-defined.
        Vendor(Vendor<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_flow_stats_request`, `ofp_aggregate_stats_request`.
    pub struct FlowStatsRequest = "flow_stats_request" {
        /// Selects only entries that this match covers.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match,
        /// Table number; `0xff` means every table, `0xfe` the emergency entries.
        table_id: u8,
        /// Padding.
        pad: Pad<1>,
        /// Selects only entries that output to this port; `0xffff` disables the filter.
        out_port: u16,
    }

    /// `ofp_port_stats_request`.
    pub struct PortStatsRequest = "port_stats_request" {
        /// Port number; `0xffff` means every port.
        port_no: u16,
        /// Padding.
        pad: Pad<6>,
    }

    /// `ofp_queue_stats_request`.
    pub struct QueueStatsRequest = "queue_stats_request" {
        /// Port number; `0xfffc` means every port.
        port_no: u16,
        /// Padding.
        pad: Pad<2>,
        /// Queue number; `0xffffffff` means every queue.
        queue_id: u32,
    }

    /// The body of a vendor's statistics.
    pub struct Vendor<'a> = "vendor_stats" {
        /// Experimenter id.
        vendor: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }

    /// `ofp_desc_stats`: 1056 bytes of text, see [`Desc::fields`].
    pub struct Desc<'a> = "desc_stats" {
        /// The five texts, concatenated.
        bytes: DescBytes<'a>,
    }

    /// `ofp_aggregate_stats_reply`.
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

    /// `ofp_table_stats`.
    pub struct TableStats = "table_stats" {
        /// Table number.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
        /// Its name.
        name: Text<32>,
        /// Fields that it can wildcard: see [`super::matching::wildcard`].
        wildcards: u32,
        /// Maximum number of entries.
        max_entries: u32,
        /// Number of entries.
        active_count: u32,
        /// Number of packets looked up.
        lookup_count: u64,
        /// Number of packets that matched an entry.
        matched_count: u64,
    }

    /// `ofp_port_stats`. A counter of all ones is one the switch does not keep.
    pub struct PortStats = "port_stats" {
        /// Port number.
        port_no: u16,
        /// Padding.
        pad: Pad<6>,
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
    }

    /// `ofp_queue_stats`.
    pub struct QueueStats = "queue_stats" {
        /// Port number.
        port_no: u16,
        /// Padding.
        pad: Pad<2>,
        /// Queue number.
        queue_id: u32,
        /// Bytes sent.
        tx_bytes: u64,
        /// Packets sent.
        tx_packets: u64,
        /// Packets dropped because the queue was full.
        tx_errors: u64,
    }
}

impl Desc<'_> {
    /// Returns the five texts.
    pub fn fields(&self) -> DescText {
        self.bytes.text()
    }
}

sized_struct! {
    /// `ofp_flow_stats`.
    pub struct FlowStats<'a> = "flow_stats" {
        before {}
        after {
            /// The entry's table.
            table_id: u8,
            /// Padding.
            pad: Pad<1>,
            /// The entry's match.
            #[cfg_attr(feature = "serde", serde(rename = "match"))]
            match_: Match,
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
            /// Padding.
            pad2: Pad<6>,
            /// The entry's cookie.
            cookie: u64,
            /// Number of matched packets.
            packet_count: u64,
            /// Number of matched bytes.
            byte_count: u64,
            /// Its actions.
            actions: List<'a, Action<'a>>,
        }
    }
}

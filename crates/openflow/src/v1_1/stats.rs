//! Content of statistics messages. OpenFlow 1.1.0 §A.3.5. Those of ports, queues and groups are the same in OpenFlow 1.2
//! (§A.3.6).

use super::Match;
use super::instruction::Instruction;
use crate::text::Text;
use crate::v1_3::{self, multipart::Counter};
use crate::wire::{List, Pad, WireFormat, sized_struct, wire_struct};
use crate::{DecodeError, PortNo, Reader, Writer};

wire_struct! {
    /// `ofp_flow_stats_request`, `ofp_aggregate_stats_request`.
    pub struct FlowStatsRequest = "flow_stats_request" {
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
        match_: Match,
    }

    /// `ofp_table_stats`.
    pub struct TableStats = "table_stats" {
        /// Table number.
        table_id: u8,
        /// Padding.
        pad: Pad<7>,
        /// Its name.
        name: Text<32>,
        /// Fields that it can wildcard: see [`super::matching::wildcard`].
        wildcards: u32,
        /// Fields that it can match: the same bits.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: u32,
        /// Supported instructions: one bit per type.
        instructions: u32,
        /// Supported actions in write-actions: one bit per type.
        write_actions: u32,
        /// Supported actions in apply-actions: one bit per type.
        apply_actions: u32,
        /// `ofp_table_config`.
        config: u32,
        /// Maximum number of entries.
        max_entries: u32,
        /// Number of entries.
        active_count: u32,
        /// Number of packets looked up.
        lookup_count: u64,
        /// Number of packets that matched an entry.
        matched_count: u64,
    }

    /// `ofp_port_stats`. A counter of all ones is not kept by the switch.
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
    }

    /// `ofp_queue_stats`.
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
    }
}

/// The match of a listed flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
pub enum ListedMatch<'a> {
    /// As the specification has it.
    Standard(Match),
    /// A list of fields, which Open vSwitch writes here as in OpenFlow 1.2.
    Fields(v1_3::Match<'a>),
}

impl<'a> WireFormat<'a> for ListedMatch<'a> {
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        match from.peek() {
            [0, 1, ..] => v1_3::Match::read(from, field).map(Self::Fields),
            _ => Match::read(from, field).map(Self::Standard),
        }
    }
    fn write(&self, to: &mut Writer<'_>) {
        match self {
            Self::Standard(match_) => match_.write(to),
            Self::Fields(match_) => match_.write(to),
        }
    }
}

#[cfg(feature = "serde")]
crate::json::as_field!(ListedMatch<'_>);

sized_struct! {
    /// `ofp_flow_stats`.
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
            /// Padding.
            pad2: Pad<6>,
            /// The entry's cookie.
            cookie: u64,
            /// Number of matched packets.
            packet_count: u64,
            /// Number of matched bytes.
            byte_count: u64,
            /// Its match.
            #[cfg_attr(feature = "serde", serde(rename = "match"))]
            match_: ListedMatch<'a>,
            /// Its instructions.
            instructions: List<'a, Instruction<'a, 2>>,
        }
    }

    /// `ofp_group_stats`.
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
            /// The counters of its buckets.
            buckets: List<'a, Counter>,
        }
    }
}

//! Content of statistics messages. OpenFlow 1.2 §A.3.6.

use crate::text::Text;
use crate::v1_3::Match;
use crate::v1_3::instruction::Instruction;
use crate::wire::{List, Pad, sized_struct, wire_struct};

wire_struct! {
    /// `ofp_table_stats`.
    pub struct TableStats = "table_stats" {
        /// Table number.
        table_id: u8,
        /// Padding.
        pad: Pad<7>,
        /// Its name.
        name: Text<32>,
        /// Fields that it can match: one bit per OXM number, like the other words of 64 bits.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: u64,
        /// Fields that it can wildcard.
        wildcards: u64,
        /// Supported actions in write-actions: one bit per type.
        write_actions: u32,
        /// Supported actions in apply-actions: one bit per type.
        apply_actions: u32,
        /// Fields that it can set in write-actions.
        write_setfields: u64,
        /// Fields that it can set in apply-actions.
        apply_setfields: u64,
        /// Metadata bits that it can match.
        metadata_match: u64,
        /// Metadata bits that it can write.
        metadata_write: u64,
        /// Supported instructions: one bit per type.
        instructions: u32,
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
            match_: Match<'a>,
            /// Its instructions.
            instructions: List<'a, Instruction<'a, 3>>,
        }
    }
}

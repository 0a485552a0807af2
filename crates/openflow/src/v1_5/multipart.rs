//! Content of multipart messages: flow entries, and features of meters. OpenFlow 1.5.1 §7.3.5.2, §7.3.5.3, §7.3.5.16.

use crate::oxs::Stats;
use crate::v1_3::Match;
use crate::v1_3::instruction::Instruction;
use crate::wire::{List, Pad, sized_struct, wire_struct};

sized_struct! {
    /// Description of a flow entry, with its statistics (`ofp_flow_desc`).
    pub struct FlowDesc<'a> = "flow_desc" {
        before {}
        after {
            /// Padding.
            pad: Pad<2>,
            /// The entry's table.
            table_id: u8,
            /// Padding.
            pad2: Pad<1>,
            /// The entry's priority.
            priority: u16,
            /// The entry's idle timeout, in seconds.
            idle_timeout: u16,
            /// The entry's hard timeout, in seconds.
            hard_timeout: u16,
            /// `ofp_flow_mod_flags`.
            flags: u16,
            /// Importance for eviction.
            importance: u16,
            /// The entry's cookie.
            cookie: u64,
            /// Its match.
            #[cfg_attr(feature = "serde", serde(rename = "match"))]
            match_: Match<'a>,
            /// Its statistics.
            stats: Stats<'a>,
            /// Its instructions.
            instructions: List<'a, Instruction<'a, 6>>,
        }
    }

    /// Statistics of a flow entry (`ofp_flow_stats`).
    pub struct FlowStats<'a> = "flow_stats" {
        before {}
        after {
            /// Padding.
            pad: Pad<2>,
            /// The entry's table.
            table_id: u8,
            /// Reason of the message: `ofp_flow_stats_reason`.
            reason: u8,
            /// The entry's priority.
            priority: u16,
            /// Its match.
            #[cfg_attr(feature = "serde", serde(rename = "match"))]
            match_: Match<'a>,
            /// Its statistics.
            stats: Stats<'a>,
        }
    }
}

wire_struct! {
    /// `ofp_meter_features`.
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
        /// `ofp_meter_feature_flags`.
        features: u32,
        /// Padding.
        pad2: Pad<4>,
    }
}

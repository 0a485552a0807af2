//! Flow-removed messages. OpenFlow 1.5.1 §7.4.2.

use crate::oxs::Stats;
use crate::v1_3::Match;
use crate::wire::wire_struct;

wire_struct! {
    /// The body of a flow-removed message (`ofp_flow_removed`).
    pub struct FlowRemoved<'a> = "flow_removed" {
        /// The entry's table.
        table_id: u8,
        /// Reason: `ofp_flow_removed_reason`.
        reason: u8,
        /// The entry's priority.
        priority: u16,
        /// The entry's idle timeout, in seconds.
        idle_timeout: u16,
        /// The entry's hard timeout, in seconds.
        hard_timeout: u16,
        /// The entry's cookie.
        cookie: u64,
        /// Its match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
        /// Its statistics.
        stats: Stats<'a>,
    }
}

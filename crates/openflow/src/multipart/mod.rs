//! The version-independent statistics and descriptions. A reply may have several parts.
//!
//! OpenFlow 1.3.5 §7.3.5 (multipart messages), OpenFlow 1.0.2 §5.3.5 (statistics messages).
//! OpenFlow 1.0 has no groups, meters, table features and port descriptions.

mod groups;
mod reply;
mod request;
mod stats;
#[cfg(test)]
mod tests;

pub use groups::{
    Counter, GroupDesc, GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats,
};
pub use reply::{MultipartReply, ReplyBody};
pub use request::{FlowStatsRequest, MultipartRequest};
pub use stats::{AggregateStats, FlowStats, PortStats, QueueStats, TableStats};

/// Bit 0 of the flags: more parts with the same xid follow (`OFPMPF_REQ_MORE`,
/// `OFPMPF_REPLY_MORE`).
const MORE: u16 = 1;
/// The `queue_id` that means every queue (`OFPQ_ALL`).
const ALL_QUEUES: u32 = 0xffff_ffff;

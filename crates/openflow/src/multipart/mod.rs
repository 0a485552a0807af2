//! The version-independent statistics and descriptions. A reply may have several parts.
//!
//! OpenFlow 1.3.5, 1.4.1 and 1.5.1 §7.3.5 (multipart messages), OpenFlow 1.0.2 §5.3.5, OpenFlow 1.1.0 and 1.2 §A.3.5 (statistics
//! messages). The types that a version lacks are in the tables of [`MultipartRequest`] and [`ReplyBody`].

mod bundles;
mod flows;
mod groups;
mod monitor;
mod reply;
mod request;
mod stats;
#[cfg(test)]
mod tests;

pub use bundles::{BundleFeatures, BundleFeaturesRequest, ScheduleFeatures};
pub use flows::{FlowCounters, FlowStats, FlowStatsRequest, flow_entry_duration};
pub use groups::{
    Counter, GroupDesc, GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats,
};
pub use monitor::{
    FlowChange, FlowEvent, FlowMonitorCommand, FlowMonitorFlags, FlowMonitorRequest, FlowUpdate,
};
pub use reply::{MultipartReply, ReplyBody};
pub use request::MultipartRequest;
pub use stats::{AggregateStats, PortStats, QueueStats, TableStats};

/// Bit 0 of the flags: more parts with the same xid follow (`OFPMPF_REQ_MORE`,
/// `OFPMPF_REPLY_MORE`).
const MORE: u16 = 1;
/// The `queue_id` that means every queue (`OFPQ_ALL`).
const ALL_QUEUES: u32 = 0xffff_ffff;

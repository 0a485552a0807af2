//! Queries of operators to the kernel, by the names they had before.

pub use control::query::{
    AppCounters, FLOWS_TIMEOUT as FLOWS_PATIENCE, FlowStatus, Fullest, KernelQuery as Query,
    KernelQueryReply as Reply, MAX_TEXT as LONGEST_TEXT, PAGE, SwitchStatus,
};

//! The instruction that sends statistics when they reach thresholds. OpenFlow 1.5.1 §7.2.5.7.

use crate::oxs::Stats;
use crate::wire::wire_struct;

wire_struct! {
    /// `ofp_instruction_stat_trigger`.
    pub struct StatTrigger<'a> = "instruction_stat_trigger" {
        /// `ofp_stat_trigger_flags`.
        flags: u32,
        /// The thresholds.
        thresholds: Stats<'a>,
    }
}

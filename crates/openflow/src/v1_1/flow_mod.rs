//! Flow-mod and flow-removed messages. OpenFlow 1.1.0 §A.3.4.1, §A.4.2.

use super::Match;
use super::instruction::Instruction;
use crate::PortNo;
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a flow-mod (`ofp_flow_mod`).
    pub struct FlowMod<'a> = "flow_mod" {
        /// Cookie chosen by the controller.
        cookie: u64,
        /// Mask of the cookie in modify and delete; 0 disables the filter.
        cookie_mask: u64,
        /// The table; `0xff` in a delete means every table.
        table_id: u8,
        /// `ofp_flow_mod_command`.
        command: u8,
        /// Idle timeout in seconds; 0 means none.
        idle_timeout: u16,
        /// Hard timeout in seconds; 0 means none.
        hard_timeout: u16,
        /// Priority; the highest matching entry applies.
        priority: u16,
        /// Id of a buffered packet that the new entry then processes; `0xffffffff` means none.
        buffer_id: u32,
        /// Deletes only entries that output to this port; [`PortNo::ANY`] disables the filter.
        out_port: PortNo,
        /// Deletes only entries that use this group; `0xffffffff` disables the filter.
        out_group: u32,
        /// `ofp_flow_mod_flags`.
        flags: u16,
        /// Padding.
        pad: Pad<2>,
        /// The match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match,
        /// Treatment of matching packets.
        instructions: List<'a, Instruction<'a, 2>>,
    }

    /// The body of a flow-removed message (`ofp_flow_removed`).
    pub struct FlowRemoved = "flow_removed" {
        /// The entry's cookie.
        cookie: u64,
        /// The entry's priority.
        priority: u16,
        /// Reason: `ofp_flow_removed_reason`.
        reason: u8,
        /// The entry's table.
        table_id: u8,
        /// Lifetime of the entry, in seconds.
        duration_sec: u32,
        /// Nanoseconds beyond `duration_sec`.
        duration_nsec: u32,
        /// The entry's idle timeout, in seconds.
        idle_timeout: u16,
        /// Padding.
        pad: Pad<2>,
        /// Number of matched packets.
        packet_count: u64,
        /// Number of matched bytes.
        byte_count: u64,
        /// Its match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match,
    }
}

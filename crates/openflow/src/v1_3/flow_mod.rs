//! Flow-mod and flow-removed: flow entries come and go. OpenFlow 1.3.5 §7.3.4.1, §7.4.2.

use super::{Instruction, Match};
use crate::PortNo;
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a flow-mod (`ofp_flow_mod`).
    pub struct FlowMod<'a> = "flow_mod" {
        /// What the controller wants to know the entry by.
        cookie: u64,
        /// Which cookie bits must agree, in modify and delete; 0 is none of them.
        cookie_mask: u64,
        /// The table; `0xff` in a delete means every table.
        table_id: u8,
        /// `ofp_flow_mod_command`.
        command: u8,
        /// Seconds without a packet before the entry goes; 0 is never.
        idle_timeout: u16,
        /// Seconds before the entry goes; 0 is never.
        hard_timeout: u16,
        /// The higher goes first.
        priority: u16,
        /// A packet the switch holds, to be sent through the new entry; `0xffffffff` is none.
        buffer_id: u32,
        /// Deletes only entries that output here; [`PortNo::ANY`] does not ask.
        out_port: PortNo,
        /// Deletes only entries that use this group; `0xffffffff` does not ask.
        out_group: u32,
        /// `ofp_flow_mod_flags`.
        flags: u16,
        /// Padding.
        pad: Pad<2>,
        /// Which packets.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
        /// What happens to them.
        instructions: List<'a, Instruction<'a>>,
    }

    /// The body of a flow-removed message (`ofp_flow_removed`).
    pub struct FlowRemoved<'a> = "flow_removed" {
        /// The entry's cookie.
        cookie: u64,
        /// The entry's priority.
        priority: u16,
        /// Why: `ofp_flow_removed_reason`.
        reason: u8,
        /// The entry's table.
        table_id: u8,
        /// How long the entry was there, in seconds.
        duration_sec: u32,
        /// Nanoseconds on top of `duration_sec`.
        duration_nsec: u32,
        /// The entry's idle timeout, in seconds.
        idle_timeout: u16,
        /// The entry's hard timeout, in seconds.
        hard_timeout: u16,
        /// How many packets it matched.
        packet_count: u64,
        /// How many bytes it matched.
        byte_count: u64,
        /// Its match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
    }
}

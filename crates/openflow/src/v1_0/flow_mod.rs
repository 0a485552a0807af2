//! Flow-mod and flow-removed messages. OpenFlow 1.0.2 §5.3.3, §5.4.2.

use super::{Action, Match};
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a flow-mod (`ofp_flow_mod`).
    pub struct FlowMod<'a> = "flow_mod" {
        /// The match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match,
        /// Cookie chosen by the controller.
        cookie: u64,
        /// `ofp_flow_mod_command`.
        command: u16,
        /// Idle timeout in seconds; 0 means none.
        idle_timeout: u16,
        /// Hard timeout in seconds; 0 means none.
        hard_timeout: u16,
        /// Priority; the highest matching entry applies, and an exact match precedes all others.
        priority: u16,
        /// Id of a buffered packet that the new entry then processes; `0xffffffff` means none.
        buffer_id: u32,
        /// Deletes only entries that output to this port; `0xffff` disables the filter.
        out_port: u16,
        /// `ofp_flow_mod_flags`.
        flags: u16,
        /// Treatment of matching packets; an empty list drops them.
        actions: List<'a, Action<'a>>,
    }

    /// The body of a flow-removed message (`ofp_flow_removed`).
    pub struct FlowRemoved = "flow_removed" {
        /// The entry's match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match,
        /// The entry's cookie.
        cookie: u64,
        /// The entry's priority.
        priority: u16,
        /// Reason: `ofp_flow_removed_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<1>,
        /// Lifetime of the entry, in seconds.
        duration_sec: u32,
        /// Nanoseconds beyond `duration_sec`.
        duration_nsec: u32,
        /// The entry's idle timeout, in seconds.
        idle_timeout: u16,
        /// Padding.
        pad2: Pad<2>,
        /// Number of matched packets.
        packet_count: u64,
        /// Number of matched bytes.
        byte_count: u64,
    }
}

//! Flow-mod and flow-removed: flow entries come and go. OpenFlow 1.0.2 §5.3.3, §5.4.2.

use super::{Action, Match};
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a flow-mod (`ofp_flow_mod`).
    pub struct FlowMod<'a> = "flow_mod" {
        /// Which packets.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match,
        /// What the controller wants to know the entry by.
        cookie: u64,
        /// `ofp_flow_mod_command`.
        command: u16,
        /// Seconds without a packet before the entry goes; 0 is never.
        idle_timeout: u16,
        /// Seconds before the entry goes; 0 is never.
        hard_timeout: u16,
        /// The higher goes first; a match without wildcards goes before all.
        priority: u16,
        /// A packet the switch holds, to be sent through the new entry; `0xffffffff` is none.
        buffer_id: u32,
        /// Deletes only entries that output here; `0xffff` does not ask.
        out_port: u16,
        /// `ofp_flow_mod_flags`.
        flags: u16,
        /// What happens to the packets; none drops them.
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
        /// Why: `ofp_flow_removed_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<1>,
        /// How long the entry was there, in seconds.
        duration_sec: u32,
        /// Nanoseconds on top of `duration_sec`.
        duration_nsec: u32,
        /// The entry's idle timeout, in seconds.
        idle_timeout: u16,
        /// Padding.
        pad2: Pad<2>,
        /// How many packets it matched.
        packet_count: u64,
        /// How many bytes it matched.
        byte_count: u64,
    }
}

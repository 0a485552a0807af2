//! Flow-mod: adds, changes, deletes flow entries. OpenFlow 1.0.2 §5.3.3.

use super::{Action, Match};
use crate::wire::{List, wire_struct};

wire_struct! {
    /// The body of a flow-mod (`ofp_flow_mod`).
    pub struct FlowMod<'a> = "flow_mod" {
        /// Which packets.
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
}

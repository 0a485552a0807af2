//! Flow-mod messages. OpenFlow 1.4.1 §7.3.4.1, 1.5.1 §7.3.4.2.

use crate::PortNo;
use crate::v1_3::Match;
use crate::v1_3::instruction::Instruction;
use crate::wire::{List, wire_struct};

wire_struct! {
    /// The body of a flow-mod (`ofp_flow_mod`).
    pub struct FlowMod<'a, V> = "flow_mod" {
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
        /// Importance for eviction: a switch evicts entries of lower importance first.
        importance: u16,
        /// The match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
        /// Treatment of matching packets.
        instructions: List<'a, Instruction<'a, V>>,
    }
}

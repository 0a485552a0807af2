//! Groups: sets of action lists. OpenFlow 1.3.5 §7.3.4.2.

use super::Action;
use crate::PortNo;
use crate::wire::{List, Pad, sized_struct, wire_struct};

wire_struct! {
    /// The body of a group-mod (`ofp_group_mod`).
    pub struct GroupMod<'a> = "group_mod" {
        /// `ofp_group_mod_command`.
        command: u16,
        /// `ofp_group_type`.
        kind: u8,
        /// Padding.
        pad: Pad<1>,
        /// Which group; `0xfffffffc` in a delete is every one.
        group_id: u32,
        /// Its buckets.
        buckets: List<'a, Bucket<'a>>,
    }
}

sized_struct! {
    /// A bucket (`ofp_bucket`).
    pub struct Bucket<'a> = "bucket" {
        before {}
        after {
            /// Its share of the traffic, in a select group.
            weight: u16,
            /// The port whose state decides whether it is live, in a fast-failover group.
            watch_port: PortNo,
            /// The group whose state decides whether it is live.
            watch_group: u32,
            /// Padding.
            pad: Pad<4>,
            /// What happens to a packet that comes here.
            actions: List<'a, Action<'a>>,
        }
    }
}

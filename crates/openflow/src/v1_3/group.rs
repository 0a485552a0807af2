//! Groups: sets of action lists. OpenFlow 1.3.5 §7.3.4.2; the same layout in 1.1 (§A.3.4.2), 1.2 (§A.3.4.2) and 1.4
//! (1.4.1 §7.3.4.2).

use super::action::Action;
use crate::PortNo;
use crate::wire::{List, Pad, sized_struct, wire_struct};

wire_struct! {
    /// The body of a group-mod (`ofp_group_mod`).
    pub struct GroupMod<'a, V> = "group_mod" {
        /// `ofp_group_mod_command`.
        command: u16,
        /// `ofp_group_type`.
        kind: u8,
        /// Padding.
        pad: Pad<1>,
        /// Group number; `0xfffffffc` in a delete means every group.
        group_id: u32,
        /// Its buckets.
        buckets: List<'a, Bucket<'a, V>>,
    }
}

sized_struct! {
    /// A bucket (`ofp_bucket`).
    pub struct Bucket<'a, V> = "bucket" {
        before {}
        after {
            /// Weight in a select group.
            weight: u16,
            /// Port whose state decides whether the bucket is live, in a fast-failover group.
            watch_port: PortNo,
            /// Group whose state decides whether the bucket is live.
            watch_group: u32,
            /// Padding.
            pad: Pad<4>,
            /// Actions on a packet that takes this bucket.
            actions: List<'a, Action<'a, V>>,
        }
    }
}

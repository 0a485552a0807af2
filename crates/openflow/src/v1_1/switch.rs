//! The switch itself: its features. OpenFlow 1.1.0 §A.3.1, OpenFlow 1.2 §A.3.1.

use crate::v1_3::Port;
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a features reply (`ofp_switch_features`), of OpenFlow 1.1 and 1.2.
    pub struct Features<'a> = "switch_features" {
        /// The switch's identity.
        datapath_id: u64,
        /// Number of packets that it can buffer.
        n_buffers: u32,
        /// Number of flow tables.
        n_tables: u8,
        /// Padding.
        pad: Pad<3>,
        /// `ofp_capabilities`.
        capabilities: u32,
        /// Reserved.
        reserved: u32,
        /// Its ports.
        ports: List<'a, Port>,
    }
}

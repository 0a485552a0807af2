//! The switch itself: features and configuration. OpenFlow 1.0.2 §5.3.1, §5.3.2.

use super::PhyPort;
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a features reply (`ofp_switch_features`).
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
        /// Supported actions: one bit per type.
        actions: u32,
        /// Its ports.
        ports: List<'a, PhyPort>,
    }

    /// The body of a get-config reply and of a set-config (`ofp_switch_config`).
    pub struct SwitchConfig = "switch_config" {
        /// `ofp_config_flags`.
        flags: u16,
        /// Maximum number of packet bytes in a packet-in.
        miss_send_len: u16,
    }
}

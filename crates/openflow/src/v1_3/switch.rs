//! The switch itself: features and configuration. OpenFlow 1.3.5 §7.3.1, §7.3.2.

use crate::wire::{Pad, wire_struct};

wire_struct! {
    /// The body of a features reply (`ofp_switch_features`).
    pub struct Features = "switch_features" {
        /// The switch's identity.
        datapath_id: u64,
        /// Number of packets that it can buffer.
        n_buffers: u32,
        /// Number of flow tables.
        n_tables: u8,
        /// Number of the connection; 0 is the main one.
        auxiliary_id: u8,
        /// Padding.
        pad: Pad<2>,
        /// `ofp_capabilities`.
        capabilities: u32,
        /// Reserved.
        reserved: u32,
    }

    /// The body of a get-config reply and of a set-config (`ofp_switch_config`).
    pub struct SwitchConfig = "switch_config" {
        /// `ofp_config_flags`.
        flags: u16,
        /// Maximum number of packet bytes in a packet-in; `0xffff` means all, unbuffered.
        miss_send_len: u16,
    }
}

//! Several controllers: who is master, who hears what. OpenFlow 1.3.5 §7.3.9, §7.3.10.

use crate::wire::{Pad, wire_struct};

wire_struct! {
    /// The body of a role request and reply (`ofp_role_request`).
    pub struct Role = "role_request" {
        /// `ofp_controller_role`.
        role: u32,
        /// Padding.
        pad: Pad<4>,
        /// The number of the master election.
        generation_id: u64,
    }

    /// The body of a set-async and of a get-async reply (`ofp_async_config`): bits for reasons,
    /// first as master or equal, then as slave.
    pub struct AsyncConfig = "async_config" {
        /// Which packet-ins are sent: bits of `ofp_packet_in_reason`.
        packet_in_mask: [u32; 2],
        /// Which port-status messages are sent: bits of `ofp_port_reason`.
        port_status_mask: [u32; 2],
        /// Which flow-removed messages are sent: bits of `ofp_flow_removed_reason`.
        flow_removed_mask: [u32; 2],
    }
}

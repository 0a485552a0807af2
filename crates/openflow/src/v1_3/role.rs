//! Controller roles and the filter of asynchronous messages. OpenFlow 1.3.5 §7.3.9, §7.3.10.

use crate::wire::{Pad, wire_struct};

wire_struct! {
    /// The body of a role request and reply (`ofp_role_request`).
    pub struct Role = "role_request" {
        /// `ofp_controller_role`.
        role: u32,
        /// Padding.
        pad: Pad<4>,
        /// Generation id of the master election.
        generation_id: u64,
    }

    /// The body of a set-async and of a get-async reply (`ofp_async_config`). The first element
    /// applies to master and equal, the second to slave.
    pub struct AsyncConfig = "async_config" {
        /// Which packet-ins are sent: bits of `ofp_packet_in_reason`.
        packet_in_mask: [u32; 2],
        /// Which port-status messages are sent: bits of `ofp_port_reason`.
        port_status_mask: [u32; 2],
        /// Which flow-removed messages are sent: bits of `ofp_flow_removed_reason`.
        flow_removed_mask: [u32; 2],
    }
}

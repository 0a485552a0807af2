//! Changes of a controller's role, and the filter of asynchronous messages. OpenFlow 1.4.1 §7.4.4, §7.3.10; 1.5.1 §7.4.4,
//! §7.3.10.

use super::property::{Experimenter, Properties};
use crate::tlv::tlv_enum;
use crate::wire::{Pad, wire_struct};

wire_struct! {
    /// The body of a role-status message (`ofp_role_status`).
    pub struct RoleStatus<'a> = "role_status" {
        /// The new role: `ofp_controller_role`.
        role: u32,
        /// `ofp_controller_role_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<3>,
        /// Generation id of the master election.
        generation_id: u64,
        /// Its properties.
        properties: Properties<'a>,
    }

    /// The body of a set-async and of a get-async reply (`ofp_async_config`).
    pub struct AsyncConfig<'a, V> = "async_config" {
        /// The masks of reasons, at most one of each kind.
        properties: Properties<'a, AsyncProperty<'a, V>>,
    }
}

tlv_enum! {
    /// Which messages of a kind a switch sends to a controller (`ofp_async_config_prop_header`): one bit per reason. The
    /// "master" masks apply to master and equal.
    pub enum AsyncProperty<'a, V> = "async_config_prop", align 1 {
        /// Packet-ins to a slave.
        PacketInSlave(u32) = 0,
        /// Packet-ins to a master.
        PacketInMaster(u32) = 1,
        /// Port-status messages to a slave.
        PortStatusSlave(u32) = 2,
        /// Port-status messages to a master.
        PortStatusMaster(u32) = 3,
        /// Flow-removed messages to a slave.
        FlowRemovedSlave(u32) = 4,
        /// Flow-removed messages to a master.
        FlowRemovedMaster(u32) = 5,
        /// Role-status messages to a slave.
        RoleStatusSlave(u32) = 6,
        /// Role-status messages to a master.
        RoleStatusMaster(u32) = 7,
        /// Table-status messages to a slave.
        TableStatusSlave(u32) = 8,
        /// Table-status messages to a master.
        TableStatusMaster(u32) = 9,
        /// Requestforward messages to a slave.
        RequestForwardSlave(u32) = 10,
        /// Requestforward messages to a master.
        RequestForwardMaster(u32) = 11,
        /// Statistics of flow entries to a slave.
        FlowStatsSlave(u32) = 12 in 6..=6,
        /// Statistics of flow entries to a master.
        FlowStatsMaster(u32) = 13 in 6..=6,
        /// Controller-status messages to a slave.
        ControllerStatusSlave(u32) = 14 in 6..=6,
        /// Controller-status messages to a master.
        ControllerStatusMaster(u32) = 15 in 6..=6,
        /// Experimenter-defined, to a slave.
        ExperimenterSlave(Experimenter<'a>) = 0xfffe,
        /// Experimenter-defined, to a master.
        ExperimenterMaster(Experimenter<'a>) = 0xffff,
    }
}

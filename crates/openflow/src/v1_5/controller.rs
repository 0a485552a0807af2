//! A switch's controllers: their roles and states. OpenFlow 1.5.1 §7.3.8, §7.3.5.21, §7.4.6.

use crate::tlv::tlv_enum;
use crate::v1_4::property::{Experimenter, Properties};
use crate::wire::{Pad, sized_struct, wire_struct};

wire_struct! {
    /// The body of a role request and reply (`ofp_role_request`).
    pub struct Role = "role_request" {
        /// `ofp_controller_role`.
        role: u32,
        /// Number of the controller at this switch; `0xffff` means no change.
        short_id: u16,
        /// Padding.
        pad: Pad<2>,
        /// Generation id of the master election.
        generation_id: u64,
    }
}

sized_struct! {
    /// State of a controller (`ofp_controller_status`): the body of a controller-status message, and an item of a multipart
    /// reply.
    pub struct ControllerStatus<'a> = "controller_status" {
        before {}
        after {
            /// Number of the controller at this switch.
            short_id: u16,
            /// `ofp_controller_role`.
            role: u32,
            /// `ofp_controller_status_reason`.
            reason: u8,
            /// `ofp_control_channel_status`.
            channel_status: u8,
            /// Padding.
            pad: Pad<6>,
            /// Its properties.
            properties: Properties<'a, ControllerStatusProperty<'a>>,
        }
    }
}

tlv_enum! {
    /// A property of a controller (`ofp_controller_status_prop_header`).
    pub enum ControllerStatusProperty<'a> = "controller_status_prop", align 1 {
        /// The connection, such as `tls:192.0.2.1:6653`.
        Uri(&'a [u8]) = 0,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

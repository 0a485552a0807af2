//! Queue configuration of ports. OpenFlow 1.3.5 §7.2.2, §7.3.6.

use crate::PortNo;
use crate::tlv::tlv_enum;
use crate::wire::{List, Pad, sized_struct, wire_struct};

wire_struct! {
    /// The body of a queue configuration request (`ofp_queue_get_config_request`).
    pub struct QueueGetConfigRequest = "queue_get_config_request" {
        /// Port number; [`PortNo::ANY`] means every port.
        port: PortNo,
        /// Padding.
        pad: Pad<4>,
    }

    /// The body of a queue configuration reply (`ofp_queue_get_config_reply`).
    pub struct QueueGetConfigReply<'a> = "queue_get_config_reply" {
        /// Port number.
        port: PortNo,
        /// Padding.
        pad: Pad<4>,
        /// Its queues.
        queues: List<'a, PacketQueue<'a>>,
    }

    /// `ofp_queue_prop_min_rate`, `ofp_queue_prop_max_rate`.
    pub struct Rate = "queue_prop_rate" {
        /// Padding.
        pad: Pad<4>,
        /// Rate in tenths of a percent; a value above 1000 disables it.
        rate: u16,
        /// Padding.
        pad2: Pad<6>,
    }

    /// `ofp_queue_prop_experimenter`.
    pub struct Experimenter<'a> = "queue_prop_experimenter" {
        /// Padding.
        pad: Pad<4>,
        /// Experimenter id.
        experimenter: u32,
        /// Padding.
        pad2: Pad<4>,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}

sized_struct! {
    /// A queue (`ofp_packet_queue`).
    pub struct PacketQueue<'a> = "packet_queue" {
        before {
            /// Number of the queue at its port.
            queue_id: u32,
            /// Its port.
            port: PortNo,
        }
        after {
            /// Padding.
            pad: Pad<6>,
            /// Its properties.
            properties: List<'a, QueueProperty<'a>>,
        }
    }
}

tlv_enum! {
    /// A property of a queue (`ofp_queue_prop_header`).
    pub enum QueueProperty<'a> = "queue_prop", align 1 {
        /// Minimum rate.
        MinRate(Rate) = 1,
        /// Maximum rate.
        MaxRate(Rate) = 2,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

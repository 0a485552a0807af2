//! Queue configuration of ports. OpenFlow 1.0.2 §5.2.2, §5.3.4.

use crate::tlv::tlv_enum;
use crate::wire::{List, Pad, sized_struct, wire_struct};

wire_struct! {
    /// The body of a queue configuration request (`ofp_queue_get_config_request`).
    pub struct QueueGetConfigRequest = "queue_get_config_request" {
        /// Port number.
        port: u16,
        /// Padding.
        pad: Pad<2>,
    }

    /// The body of a queue configuration reply (`ofp_queue_get_config_reply`).
    pub struct QueueGetConfigReply<'a> = "queue_get_config_reply" {
        /// Port number.
        port: u16,
        /// Padding.
        pad: Pad<6>,
        /// Its queues.
        queues: List<'a, PacketQueue<'a>>,
    }

    /// `ofp_queue_prop_header`: a property without content.
    pub struct Nothing = "queue_prop_none" {
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_queue_prop_min_rate`.
    pub struct Rate = "queue_prop_rate" {
        /// Padding.
        pad: Pad<4>,
        /// Rate in tenths of a percent; a value above 1000 disables it.
        rate: u16,
        /// Padding.
        pad2: Pad<6>,
    }
}

sized_struct! {
    /// A queue (`ofp_packet_queue`).
    pub struct PacketQueue<'a> = "packet_queue" {
        before {
            /// Number of the queue at its port.
            queue_id: u32,
        }
        after {
            /// Padding.
            pad: Pad<2>,
            /// Its properties.
            properties: List<'a, QueueProperty<'a>>,
        }
    }
}

tlv_enum! {
    /// A property of a queue (`ofp_queue_prop_header`).
    pub enum QueueProperty<'a> = "queue_prop", align 8 {
        /// No property.
        Nothing(Nothing) = 0,
        /// Minimum rate.
        MinRate(Rate) = 1,
    }
}

//! Queue configuration of ports. OpenFlow 1.1.0 §A.2.2, §A.3.6.
//!
//! A queue and its properties are those of OpenFlow 1.0; the port has 32 bits.

pub use crate::v1_0::queue::{PacketQueue, QueueProperty, Rate};

use crate::PortNo;
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a queue configuration reply (`ofp_queue_get_config_reply`).
    pub struct QueueGetConfigReply<'a> = "queue_get_config_reply" {
        /// Port number.
        port: PortNo,
        /// Padding.
        pad: Pad<4>,
        /// Its queues.
        queues: List<'a, PacketQueue<'a>>,
    }
}

//! Queue configuration of ports. OpenFlow 1.4.1 §7.3.5.10, 1.5.1 §7.3.5.10.

use super::property::{Experimenter, Properties};
use crate::PortNo;
use crate::tlv::tlv_enum;
use crate::wire::{Pad, sized_struct, wire_struct};

sized_struct! {
    /// A queue (`ofp_queue_desc`).
    pub struct QueueDesc<'a> = "queue_desc" {
        before {
            /// Its port.
            port_no: PortNo,
            /// Number of the queue at its port.
            queue_id: u32,
        }
        after {
            /// Padding.
            pad: Pad<6>,
            /// Its properties.
            properties: Properties<'a, QueueDescProperty<'a>>,
        }
    }
}

tlv_enum! {
    /// A property of a queue (`ofp_queue_desc_prop_header`).
    pub enum QueueDescProperty<'a> = "queue_desc_prop", align 1 {
        /// Minimum rate.
        MinRate(Rate) = 1,
        /// Maximum rate.
        MaxRate(Rate) = 2,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_queue_desc_prop_min_rate`, `ofp_queue_desc_prop_max_rate`.
    pub struct Rate = "queue_desc_prop_rate" {
        /// Rate in tenths of a percent; a value above 1000 disables it.
        rate: u16,
        /// Padding.
        pad: Pad<2>,
    }
}

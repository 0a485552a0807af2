//! A worker's answer to an operator's question about a switch, in parts.
//!
//! [`listing`](crate::flows::listing), [`entries`](crate::flows::entries) and [`details`](crate::details) collect the parts on the server thread.

use std::collections::BTreeMap;

use openflow::PortDesc;

/// A worker's answer to a question, in parts.
#[derive(Debug)]
pub enum Part {
    /// The worker has no such switch.
    NoSwitch,
    /// The kernel's own knowledge of the switch; it comes before the parts of the switch's answer.
    Known(Known),
    /// A part of the switch's answer.
    Of {
        /// The multipart reply.
        message: Vec<u8>,
        /// Whether it is the last part.
        last: bool,
    },
    /// The reason why there is no answer.
    Failed(String),
}

/// The kernel's own knowledge of a switch.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Its ports.
    pub ports: Vec<PortDesc>,
    /// Most flows of its tables, by number, as far as it states them.
    pub table_sizes: BTreeMap<u8, u32>,
}

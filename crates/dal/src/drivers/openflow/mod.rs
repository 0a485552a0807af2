//! Serves switches that speak OpenFlow 1.0 to 1.5.
//!
//! [`framing`] divides a stream of bytes into messages. [`Session`] handles the messages of one switch.

use std::time::Instant;

use openflow::OfferedVersions;

use crate::session::{Driver, Timing};

pub mod framing;
mod inventory;
mod monitor;
mod negotiation;
mod session;
#[cfg(test)]
mod tests;

pub use session::Session;

/// The driver for switches that speak OpenFlow.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenFlow {
    /// The versions that it offers.
    pub versions: OfferedVersions,
}

impl Driver for OpenFlow {
    fn open(&self, now: Instant, timing: Timing) -> Box<dyn crate::Session> {
        Box::new(Session::new(now, timing, self.versions))
    }
}

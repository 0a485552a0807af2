//! OpenFlow 1.0 and 1.3 switches.
//!
//! [`framing`] cuts a stream of bytes into messages; [`Session`] is the conversation with one
//! switch from its first byte to its last.

mod closed;
pub mod framing;
mod inventory;
mod negotiation;
mod session;
#[cfg(test)]
mod tests;

pub use closed::Closed;
pub use inventory::{Table, Told};
pub use negotiation::recognise;
pub use session::{Event, MAX_PORTS, Session, SwitchInfo, Timing};

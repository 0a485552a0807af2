//! OpenFlow 1.0 and 1.3 switches.
//!
//! [`framing`] cuts a stream of bytes into messages; [`Session`] is the conversation with one
//! switch from its first byte to its last.

pub mod framing;
mod session;
#[cfg(test)]
mod tests;

pub use session::{Closed, Event, Session, SwitchInfo, Timing, recognise};

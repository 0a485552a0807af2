//! Data abstraction layer: turns devices into OpenFlow datapaths of a stated version.
//!
//! A [driver](Driver) opens a [`Session`] per connection: a state machine without sockets or clock. Its inputs are
//! bytes and the time, its outputs are runs of packet-ins, events and bytes, so that tests replay whole protocols. The
//! kernel's workers own the sockets and do not know the protocol. Another protocol is a folder in [`drivers`]
//! with an implementation of both traits. A version of OpenFlow is a row in the tables of `openflow`.
//!
//! This crate never reads or writes a socket, reads no clock, and knows nothing of apps.

#![forbid(unsafe_code)]

mod closed;
pub mod drivers;
mod session;

pub use closed::Closed;
pub use drivers::openflow::framing::{begins_with_packet_in, whole_packet_in};
pub use session::{
    Description, Driver, Event, Inbound, MAX_PORTS, Session, SwitchInfo, Table, Taken, Timing,
};

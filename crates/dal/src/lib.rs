//! Data abstraction layer: turns devices into OpenFlow datapaths of a stated version.
//!
//! A [driver](Driver) opens a [`Session`] per connection: a state machine without sockets or clock. Bytes and the time go
//! in, events and bytes come out, so that whole protocols are tested by replay. The kernel's workers own the sockets
//! and know nothing of the protocol. Another protocol, or another version of OpenFlow, is a folder in [`drivers`] with an
//! implementation of both traits; [`AnySession`] carries it without a change to the kernel.
//!
//! This crate never reads or writes a socket, reads no clock, and knows nothing of apps.

#![forbid(unsafe_code)]

mod any;
mod closed;
pub mod drivers;
mod session;

pub use any::AnySession;
pub use closed::Closed;
pub use drivers::openflow::framing::whole_packet_in;
pub use session::{
    Description, Driver, Event, MAX_PORTS, Received, Session, SwitchInfo, Table, Timing,
};

//! Data abstraction layer: turns devices into OpenFlow datapaths of a stated version.
//!
//! A [driver](Driver) opens a [`Session`] per connection: a state machine without sockets or clock. Its inputs are
//! bytes and the time, its outputs are runs of packet-ins, events and bytes, so that tests replay whole protocols. The
//! kernel's workers own the sockets and do not know the protocol. Another protocol is a folder in [`drivers`]
//! with an implementation of both traits. A version of OpenFlow is a row in the tables of `openflow`.
//!
//! ```
//! use std::time::Instant;
//!
//! use openflow::{Hello, Version};
//! use rosemary_dal::drivers::openflow::OpenFlow;
//! use rosemary_dal::{Driver as _, Inbound, Timing};
//!
//! // A switch connects, and its hello arrives.
//! let mut session = OpenFlow::default().open(Instant::now(), Timing::default());
//! let mut received = [0; 64];
//! let size = Hello::new(&[Version::V1_0, Version::V1_3]).encode(1, &mut received)?;
//!
//! let (mut room, mut out) = (Vec::new(), Vec::new());
//! let taken = session.take(&mut received[..size], &mut room, &mut out)?.ok_or("half a message")?;
//! assert_eq!(taken.size, Some(size));
//! assert!(matches!(taken.inbound, Inbound::Nothing));
//!
//! // The session answers with a hello of its own and asks for the switch's features, in the version that both speak.
//! session.seal(&mut out, 0);
//! let (hello, request) = out.split_at(out.len() - 8);
//! assert_eq!(hello[1], 0);
//! assert_eq!(request[..2], [4, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate never reads or writes a socket, reads no clock, and knows nothing of apps.

#![forbid(unsafe_code)]

mod closed;
pub mod drivers;
mod session;

pub use closed::Closed;
pub use drivers::openflow::framing::{begins_with_packet_in, whole_packet_in};
pub use session::{
    Description, Driver, Event, FlowMonitor, FlowNews, HostReport, Inbound, MAX_PORTS, Session,
    SwitchInfo, Table, Taken, Timing,
};

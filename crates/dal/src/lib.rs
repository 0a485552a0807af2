//! Data abstraction layer: turns devices into OpenFlow datapaths of a stated version.
//!
//! A [driver](drivers) is a state machine without sockets or clock: bytes and the time go in,
//! bytes and events come out. Whole protocols are therefore tested by replay, and whoever owns
//! the sockets (the kernel's workers) owns nothing of the protocol. A driver for another
//! southbound protocol is a folder in `drivers` and presents the same events.
//!
//! What it will never do: read or write a socket, read a clock, know that applications exist.

#![forbid(unsafe_code)]

pub mod drivers;

//! A folder per southbound protocol, each with an implementation of [`Driver`](crate::Driver) and
//! [`Session`](crate::Session).

pub mod openflow;

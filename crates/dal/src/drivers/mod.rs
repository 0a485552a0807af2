//! A folder per southbound protocol.

pub mod openflow;

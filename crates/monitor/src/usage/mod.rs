//! Measures how much each program uses, and acts when a program exceeds its limits.
//!
//! | file | contents |
//! | --- | --- |
//! | `enforcement.rs` | what enforces each limit on this machine: cgroups, setrlimit(2), or the monitor |
//!
//! What follows from a measurement is decided in [`supervisor::usage`].
//!
//! The event loop measures each program once per [`supervisor::usage::MEASUREMENT_PERIOD`]. Alerts follow from these measurements for every
//! limit, whatever enforces it, so all machines alert alike. The price is that shorter peaks raise no alert.

mod enforcement;

pub use enforcement::{EnforcedBy, Enforcement};

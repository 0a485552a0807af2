//! Measures how much each program uses, and acts when a program exceeds its limits.
//!
//! | file | contents |
//! | --- | --- |
//! | `enforcement.rs` | what enforces each limit on this machine: cgroups, setrlimit(2), or the monitor |
//! | `meter.rs` | rates, alerts and kills for one program's measurements; no clock, no processes |
//! | `counters.rs` | the kernel's counters of the apps |
//! | `leak.rs` | memory that grows steadily |
//! | `charges.rs` | the app in the kernel to which such growth is charged |
//! | `report.rs` | a program's usage, for operators |
//!
//! The supervisor measures each program once per [`MEASUREMENT_PERIOD`]. Alerts follow from these measurements for every
//! limit, whatever enforces it, so all machines alert alike. The price is that shorter peaks raise no alert.

pub(crate) mod charges;
pub(crate) mod counters;
mod enforcement;
pub(crate) mod leak;
pub(crate) mod meter;
pub(crate) mod report;

use std::time::Duration;

pub use enforcement::{EnforcedBy, Enforcement};

/// The time between two measurements of a program.
pub(crate) const MEASUREMENT_PERIOD: Duration = Duration::from_millis(500);

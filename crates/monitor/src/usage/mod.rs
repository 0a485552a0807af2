//! How much each program uses, and what keeps it below its limits (design §9).
//!
//! | file | what it is |
//! | --- | --- |
//! | `keeper.rs` | who keeps which limit on this machine: groups, setrlimit(2), or we by looking |
//! | `meter.rs` | what a program's numbers come to: rates, alerts, an end; no clock, no processes |
//! | `counters.rs` | what the kernel counts for the apps, asked for now and then |
//!
//! Every [`PERIOD`] the loop looks at each program once. That is how alerts come about, whatever keeps the
//! limit: one way for all limits on all machines, at the price that what lasts shorter is not seen.

pub(crate) mod counters;
mod keeper;
pub(crate) mod meter;

use std::time::Duration;

pub use keeper::{Keeper, Kept};

/// Between two looks.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);

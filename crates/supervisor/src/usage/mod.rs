//! Judges what programs use: limits, leaks, and the app in the kernel to which memory is charged.

pub mod charges;
pub mod leak;
pub mod meter;
pub mod report;

use std::time::Duration;

/// The time between two measurements of a program.
pub const MEASUREMENT_PERIOD: Duration = Duration::from_millis(500);

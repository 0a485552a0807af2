//! The log of our programs: lines on standard error, for the operator at night.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;

/// Logs to standard error what `ROSEMARY_LOG`, or else `RUST_LOG`, asks for; otherwise `info`.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_stderr() {
    let wanted = ["ROSEMARY_LOG", "RUST_LOG"].iter().find_map(|name| std::env::var(name).ok());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or("info"))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // A reader of the log that went away must not end who writes it.
        .log_internal_errors(false)
        .init();
}

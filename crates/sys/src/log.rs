//! The log of our programs: lines on standard error, for the operator at night.
//!
//! The rule that keeps it right: who does not read the log never stops who writes it. A terminal
//! that was told to pause, a pager that waits, a full disk: lines are lost then, counted, and the
//! number is said when there is room again.
//!
//! ```text
//! zone, kernel: a line --> pipe, which does not block ----> monitor
//! monitor: its lines, and theirs --> queue, bounded --> thread, which may block --> standard error
//! ```
//!
//! Only the monitor has the thread. In a zone it would keep the privileges that the main thread
//! gives up, and to make the terminal itself non-blocking would do so for all programs on it.

mod direct;
mod queue;

use std::io::{IsTerminal as _, stderr};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use self::direct::Direct;
use self::queue::{Patient, Queue};

/// The target of what apps say, in the monitor's log. They have been filtered in their zones.
pub const APP: &str = "app";

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Logs to standard error what `ROSEMARY_LOG`, or else `RUST_LOG`, asks for; otherwise `info`.
/// What the monitor's pipe cannot take is lost and counted.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_writer(|| Direct)
        .with_ansi(stderr().is_terminal())
        // A reader of the log that went away must not end who writes it.
        .log_internal_errors(false)
        .init();
}

/// As [`to_stderr`], for a zone: the monitor adds the time and whose line it is.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_monitor() {
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_writer(|| Direct)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .init();
}

/// As [`to_stderr`], for the monitor: a thread of its own does the writing, and may be blocked.
///
/// # Panics
/// If it is called twice in a process, or the thread cannot be started.
pub fn in_background() {
    let queue = QUEUE.get_or_init(|| Queue::start(Patient(stderr())));
    let apps = format!("{APP}=trace").parse().expect("a directive of ours");
    tracing_subscriber::fmt()
        .with_env_filter(filter().add_directive(apps))
        .with_writer(move || queue)
        .with_ansi(stderr().is_terminal())
        .log_internal_errors(false)
        .init();
}

/// Adds a line, which ends with a newline, to the log as it is, after [`in_background`].
pub fn pass_on(line: &[u8]) {
    if let Some(queue) = QUEUE.get() {
        queue.push(line);
    }
}

/// Waits until the log has been written, after [`in_background`]; not for longer than `most`.
pub fn flush(most: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.flush(most);
    }
}

fn filter() -> EnvFilter {
    let wanted = ["ROSEMARY_LOG", "RUST_LOG"].iter().find_map(|name| std::env::var(name).ok());
    EnvFilter::try_new(wanted.as_deref().unwrap_or("info"))
        .unwrap_or_else(|_| EnvFilter::new("info"))
}

/// What stands where lines are missing.
fn lost(lines: u64) -> String {
    format!("({lines} lines of the log are missing here: it was not read in time)\n")
}

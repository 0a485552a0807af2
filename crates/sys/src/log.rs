//! Writes the log of every program to standard error without blocking.
//!
//! The invariant: a reader that does not read never blocks a program that logs. While a paused terminal, a waiting
//! pager or a full disk takes no lines, the log drops and counts them, and states the number as soon as it can write
//! again.
//!
//! ```text
//! zone, kernel: a line --> pipe, which does not block ----> monitor
//! monitor: its lines, and theirs --> queue, bounded --> thread, which may block --> standard error
//!                                +-> the service that keeps them (`monitor/src/log_forwarder.rs`)
//! ```
//!
//! Only the monitor has such a thread. In a zone, the thread would keep privileges that the main thread gives up. The
//! monitor does not make the terminal non-blocking, because that would affect all programs that use it.

mod direct;
mod fields;
mod queue;

use std::io::{self, IsTerminal as _, Write as _, stderr};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::filter::{Directive, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use self::direct::Direct;
use self::fields::EscapedFields;
use self::queue::{Patient, Queue};

/// The environment variable with the log level.
pub const VARIABLE: &str = "ROSEMARY_LOG";

/// Its values.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The target of apps' lines, in every program. Each app has a level of its own, by which its host and the monitor filter.
pub const APP: &str = "app";

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Logs to standard error with the level of [`VARIABLE`], and lines with the target [`APP`] of any level. Drops and counts
/// lines for which the monitor's pipe has no room.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_stderr() {
    fmt()
        .with_env_filter(filter().add_directive(all_of_apps()))
        .with_writer(|| Direct)
        .fmt_fields(EscapedFields)
        .with_ansi(stderr().is_terminal())
        // A closed standard error must not end this program.
        .log_internal_errors(false)
        .init();
}

/// Logs in the same way as [`to_stderr`] for a program whose lines the monitor reads. The monitor adds the time and the
/// program's name.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_monitor() {
    fmt()
        .with_env_filter(filter().add_directive(all_of_apps()))
        .with_writer(|| Direct)
        .fmt_fields(EscapedFields)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .init();
}

/// Logs in the same way as [`to_stderr`] for the monitor: a thread writes the lines and may block. `keep` also gets the
/// monitor's own lines in the form of [`to_monitor`].
///
/// # Panics
/// If it is called twice in a process, or the thread cannot be started.
pub fn in_background(keep: fn(&[u8])) {
    let queue = QUEUE.get_or_init(|| Queue::start(Patient(stderr())));
    let coloured = stderr().is_terminal();
    let shown = fmt::layer()
        .with_writer(move || queue)
        .fmt_fields(EscapedFields)
        .with_ansi(coloured)
        .log_internal_errors(false);
    let kept = fmt::layer()
        .with_writer(move || Keep(keep))
        .fmt_fields(EscapedFields)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .with_filter(filter_fn(|line| line.target() != APP));
    tracing_subscriber::registry()
        .with(filter().add_directive(all_of_apps()))
        .with(shown)
        .with(kept)
        .init();
}

/// The rule by which the filter admits every line of apps.
fn all_of_apps() -> Directive {
    format!("{APP}=trace").parse().expect("a valid directive")
}

/// Passes the monitor's own lines to a function.
struct Keep(fn(&[u8]));

impl io::Write for Keep {
    /// Takes a whole line; tracing writes one at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        (self.0)(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds a line, which ends with a newline, to the log unchanged. Only after [`in_background`].
pub fn pass_on(line: &[u8]) {
    if let Some(queue) = QUEUE.get() {
        queue.push(line);
    }
}

/// Waits until the log has been written, for at most `most`. Only after [`in_background`].
pub fn flush(most: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.flush(most);
    }
}

/// The filter for the level of [`VARIABLE`]; `info` if it is empty, not set, or unknown. An unknown level is reported.
fn filter() -> EnvFilter {
    let wanted = std::env::var_os(VARIABLE).unwrap_or_default();
    let wanted = wanted.to_string_lossy();
    if level(&wanted).is_none() {
        // If this fails, there is no other place to report it.
        let _ = writeln!(
            stderr(),
            "rosemary: {VARIABLE}: unknown level {wanted:?}, using info; \
             use error, warn, info, debug or trace"
        );
    }
    EnvFilter::new(name(&wanted))
}

/// The level for the programs that this one starts. It is always one of [`LEVELS`], so that only this program reports
/// an unknown one.
pub fn for_children() -> &'static str {
    name(&std::env::var_os(VARIABLE).unwrap_or_default().to_string_lossy())
}

fn name(wanted: &str) -> &'static str {
    let level = level(wanted).unwrap_or(LevelFilter::INFO);
    LEVELS.iter().find(|(_, it)| *it == level).map_or("info", |(name, _)| name)
}

/// Parses a level; `None` if it is unknown.
///
/// This does not use tracing's filter language, which takes an unknown word as the name of a module, and logs that
/// module only. A typing mistake would silence the log.
fn level(wanted: &str) -> Option<LevelFilter> {
    if wanted.is_empty() {
        return Some(LevelFilter::INFO);
    }
    LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, level)| *level)
}

/// The line that replaces lost lines.
fn lost(lines: u64) -> String {
    format!("({lines} lines of the log are missing here: it was not read in time)\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_or_empty_level_is_info() {
        assert_eq!(level("debug"), Some(LevelFilter::DEBUG));
        assert_eq!(level("WARN"), Some(LevelFilter::WARN));
        assert_eq!(level(""), Some(LevelFilter::INFO));
        for wrong in ["warning", "inof", "3", "off", " info", "rosemary=debug"] {
            assert_eq!(level(wrong), None, "{wrong}");
            assert_eq!(name(wrong), "info");
        }
    }

    #[test]
    fn children_get_a_known_level() {
        for (name_of, _) in LEVELS {
            assert_eq!(name(name_of), name_of);
        }
        assert_eq!(name("Debug"), "debug");
        assert_eq!(name(""), "info");
    }
}

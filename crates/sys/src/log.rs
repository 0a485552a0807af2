//! The log of our programs: lines on standard error, for the operator at night.
//!
//! The rule that keeps it right: who does not read the log never stops who writes it. A terminal
//! that was told to pause, a pager that waits, a full disk: lines are lost then, counted, and the
//! number is said when there is room again.
//!
//! ```text
//! zone, kernel: a line --> pipe, which does not block ----> monitor
//! monitor: its lines, and theirs --> queue, bounded --> thread, which may block --> standard error
//!                                +-> the service that keeps them (`monitor/src/journal.rs`)
//! ```
//!
//! Only the monitor has the thread. In a zone it would keep the privileges that the main thread
//! gives up, and to make the terminal itself non-blocking would do so for all programs on it.

mod direct;
mod fields;
mod queue;

use std::io::{self, IsTerminal as _, Write as _, stderr};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use self::direct::Direct;
use self::fields::EscapedFields;
use self::queue::{Patient, Queue};

/// The environment variable that says what is logged.
pub const VARIABLE: &str = "ROSEMARY_LOG";

/// What it may say.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The target of what apps say, in the monitor's log. They have been filtered in their zones.
pub const APP: &str = "app";

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Logs to standard error what [`VARIABLE`] asks for.
/// What the monitor's pipe cannot take is lost and counted.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_stderr() {
    fmt()
        .with_env_filter(filter())
        .with_writer(|| Direct)
        .fmt_fields(EscapedFields)
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
    fmt()
        .with_env_filter(filter())
        .with_writer(|| Direct)
        .fmt_fields(EscapedFields)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .init();
}

/// As [`to_stderr`], for the monitor: a thread of its own does the writing, and may be blocked. `keep`
/// gets the monitor's own lines, too, in the form of [`to_monitor`].
///
/// # Panics
/// If it is called twice in a process, or the thread cannot be started.
pub fn in_background(keep: fn(&[u8])) {
    let queue = QUEUE.get_or_init(|| Queue::start(Patient(stderr())));
    let apps = format!("{APP}=trace").parse().expect("a directive of ours");
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
    tracing_subscriber::registry().with(filter().add_directive(apps)).with(shown).with(kept).init();
}

/// What takes the monitor's own lines.
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

/// What [`VARIABLE`] asks for; `info` if it is empty, not set, or no level, which is said then.
fn filter() -> EnvFilter {
    let wanted = std::env::var_os(VARIABLE).unwrap_or_default();
    let wanted = wanted.to_string_lossy();
    if level(&wanted).is_none() {
        // Nobody is left to be told if this fails.
        let _ = writeln!(
            stderr(),
            "rosemary: {VARIABLE}: unknown level {wanted:?}, using info; \
             there are error, warn, info, debug and trace"
        );
    }
    EnvFilter::new(name(&wanted))
}

/// The level as it is handed to the programs that this one starts: one of [`LEVELS`], so that a
/// mistake is told once and not by each of them.
pub fn for_children() -> &'static str {
    name(&std::env::var_os(VARIABLE).unwrap_or_default().to_string_lossy())
}

fn name(wanted: &str) -> &'static str {
    let level = level(wanted).unwrap_or(LevelFilter::INFO);
    LEVELS.iter().find(|(_, it)| *it == level).map_or("info", |(name, _)| name)
}

/// The level that is meant; `None` if it is none.
///
/// Not tracing's own filter language: to it each word that is no level is the name of a module of
/// which all is logged, and of the others nothing; a typing mistake would silence everything.
fn level(wanted: &str) -> Option<LevelFilter> {
    if wanted.is_empty() {
        return Some(LevelFilter::INFO);
    }
    LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, level)| *level)
}

/// What stands where lines are missing.
fn lost(lines: u64) -> String {
    format!("({lines} lines of the log are missing here: it was not read in time)\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_that_is_mistyped_or_empty_is_not_silence() {
        assert_eq!(level("debug"), Some(LevelFilter::DEBUG));
        assert_eq!(level("WARN"), Some(LevelFilter::WARN));
        assert_eq!(level(""), Some(LevelFilter::INFO));
        for wrong in ["warning", "inof", "3", "off", " info", "rosemary=debug"] {
            assert_eq!(level(wrong), None, "{wrong}");
            assert_eq!(name(wrong), "info");
        }
    }

    #[test]
    fn children_are_told_a_level_that_they_know() {
        for (name_of, _) in LEVELS {
            assert_eq!(name(name_of), name_of);
        }
        assert_eq!(name("Debug"), "debug");
        assert_eq!(name(""), "info");
    }
}

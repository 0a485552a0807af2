//! The log of our programs: lines on standard error, for the operator at night.

use std::io::{IsTerminal as _, Write as _, stderr};

use tracing_subscriber::filter::LevelFilter;

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

/// Logs to standard error what [`VARIABLE`] asks for; `info` if it is empty, not set, or no level,
/// which is said then.
///
/// # Panics
/// If it is called twice in a process.
pub fn to_stderr() {
    let wanted = std::env::var_os(VARIABLE).unwrap_or_default();
    let wanted = wanted.to_string_lossy();
    let level = level(&wanted);
    if level.is_none() {
        // Nobody is left to be told if this fails.
        let _ = writeln!(
            stderr(),
            "rosemary: {VARIABLE}: unknown level {wanted:?}, using info; \
             there are error, warn, info, debug and trace"
        );
    }
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // A reader of the log that went away must not end who writes it.
        .log_internal_errors(false)
        .init();
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

//! Messages to the log service, from the monitor and from operators' commands, and the replies.
//!
//! The monitor appends lines, operators read them. Messages are JSON in packets of `sdk::services`.
//!
//! Each line has a number, one more than the line before it. The monitor assigns it, after it has asked the
//! service for the next one. So the service recognises lines that the monitor sends again because it
//! received no acknowledgement.

use names::Level;
use serde::{Deserialize, Serialize};

/// Most bytes of a line's text.
pub const MAX_TEXT: usize = 4 * 1024;

/// Most bytes of lines in one message, in their encoded form.
pub const MAX_BATCH_BYTES: usize = 32 * 1024;

/// The severity of a line, the most severe first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// An operator must act.
    Error,
    /// Something failed, and the program coped.
    Warn,
    /// Something changed.
    #[default]
    Info,
    /// Detail for finding a fault.
    Debug,
}

impl LogLevel {
    /// All levels, the most severe first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Whether a log with this level has lines of level `line`.
    pub fn admits(self, line: Self) -> bool {
        line <= self
    }

    /// The level with this name, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warn,
            Level::Info | Level::Audit => Self::Info,
            Level::Debug => Self::Debug,
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its number.
    pub number: u64,
    /// When the monitor received it, in nanoseconds since 1970.
    pub time: u64,
    /// Its severity.
    pub level: LogLevel,
    /// The program that wrote it: `monitor`, `kernel`, `service NAME` or `app NAME`; or [`program_on`].
    pub program: String,
    /// Its text, without an end of line.
    pub text: String,
}

/// The program name of lines in which `program` reports on `app`. They count against a quota of their own.
#[must_use]
pub fn program_on(program: &str, app: &str) -> String {
    format!("{program} on {app}")
}

/// Whether `name`, as an operator types it, stands for `program`.
///
/// `storage` stands for `service storage` and `service storage on APP`, `firewall` for `app firewall` and
/// `kernel on firewall`.
#[must_use]
pub fn is_named(program: &str, name: &str) -> bool {
    let (who, on) = match program.split_once(" on ") {
        Some((who, app)) => (who, Some(app)),
        None => (program, None),
    };
    let is_it = |who: &str| who == name || who.split_once(' ').is_some_and(|(_, it)| it == name);
    program == name || is_it(who) || on == Some(name)
}

impl LogLine {
    /// Its size in a message, in bytes.
    pub fn size(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |json| json.len() + 1)
    }
}

/// The lines that a reader selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFilter {
    /// Lines of these programs; of all programs if the list is empty.
    pub programs: Vec<String>,
    /// Lines not older than this, in nanoseconds since 1970.
    pub since: u64,
    /// Lines at least as severe as this.
    pub level: LogLevel,
}

impl LogFilter {
    /// Whether it selects a line of this time and level, of a program that it selects.
    pub fn selects(&self, time: u64, level: LogLevel) -> bool {
        time >= self.since && level <= self.level
    }
}

/// Sent to the log service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRequest {
    /// From the monitor: return the number of the next line. Answered by [`LogReply::Next`].
    Next,
    /// From the monitor: store these lines, and skip those whose numbers are stored already. Answered by
    /// [`LogReply::Next`] once they are on the disk, or by [`LogReply::NotKept`].
    Keep(Vec<LogLine>),
    /// From an operator: list the programs that have lines. Answered by [`LogReply::Programs`].
    Programs,
    /// From an operator: find the number from which on `count` lines match. The service looks at a bounded
    /// number of lines, the newest first. Answered by [`LogReply::Last`].
    Last {
        /// The number of matching lines.
        count: u32,
        /// Look at lines below this number only.
        before: u64,
        /// The lines that match.
        filter: LogFilter,
    },
    /// From an operator: return lines. Answered by [`LogReply::Lines`].
    Read {
        /// The first line's number.
        from: u64,
        /// The lines to return.
        filter: LogFilter,
    },
}

/// Sent by the log service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogReply {
    /// The number of the next line.
    Next(u64),
    /// The disk did not take the lines. The monitor sends them again later.
    NotKept,
    /// The programs that have lines, by name.
    Programs(Vec<String>),
    /// Lines, by ascending number.
    Lines {
        /// As many lines as fit.
        lines: Vec<LogLine>,
        /// The number to read on from.
        next: u64,
        /// Whether the log has no later lines now.
        end: bool,
        /// The reason why newer lines could not be stored, if they could not.
        not_kept: Option<String>,
    },
    /// The result of [`LogRequest::Last`].
    Last {
        /// The number of the first matching line; if there is none, of the first line looked at.
        from: u64,
        /// The number of matching lines.
        found: u32,
        /// The number below which to continue.
        before: u64,
        /// Whether there are no earlier lines.
        end: bool,
    },
    /// The service refused the request.
    Refused {
        /// The reason, as a phrase.
        why: String,
    },
}

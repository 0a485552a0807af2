//! What the log is asked, and answers.
//!
//! JSON, other than with the services that apps ask: here both ends are Rosemary's own programs (the
//! monitor, which hands the lines in, and the operator's command), and what they say is text.
//!
//! Each line has a number, one more than the one before it. The monitor gives it, and asks first which is
//! the next: so lines that it hands in a second time, as nobody told it that they were kept, are known.

use serde::{Deserialize, Serialize};

/// Bytes of a line's text, at most.
pub const LONGEST_TEXT: usize = 4 * 1024;

/// Bytes of lines in one message, as they are written there.
pub const MOST_LINES: usize = 32 * 1024;

/// How important a line is, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Somebody must act.
    Error,
    /// It was coped with.
    Warn,
    /// Something has changed.
    Info,
    /// For who looks for a fault.
    Debug,
}

impl Level {
    /// All that there are, the most important first.
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

    /// From its name, in any letters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub number: u64,
    /// When it came, in nanoseconds since 1970 began.
    pub time: u64,
    /// How important it is.
    pub level: Level,
    /// Whose it is: `monitor`, `kernel`, `service NAME` or `app NAME`; or [`program_on`].
    pub program: String,
    /// What it says, without an end of line.
    pub text: String,
}

/// Whose a line is in which `program` speaks of `app`: one whose lines count by themselves.
#[must_use]
pub fn program_on(program: &str, app: &str) -> String {
    format!("{program} on {app}")
}

/// Whether `program` is the one that an operator calls `name`, or says something of it: `storage` is `service
/// storage` and `service storage on APP`, `firewall` is `app firewall` and `kernel on firewall`.
#[must_use]
pub fn is_meant(program: &str, name: &str) -> bool {
    let (who, on) = match program.split_once(" on ") {
        Some((who, app)) => (who, Some(app)),
        None => (program, None),
    };
    let is_it = |who: &str| who == name || who.split_once(' ').is_some_and(|(_, it)| it == name);
    program == name || is_it(who) || on == Some(name)
}

impl Line {
    /// Bytes of it in a message.
    pub fn size(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |json| json.len() + 1)
    }
}

/// Which lines somebody wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Those of these programs; of all, if there are none here.
    pub programs: Vec<String>,
    /// Those not older than this, in nanoseconds since 1970 began.
    pub since: u64,
    /// Those at least as important.
    pub level: Level,
}

impl Filter {
    /// Whether a line of a program that is wanted is wanted.
    pub(super) fn wants(&self, time: u64, level: Level) -> bool {
        time >= self.since && level <= self.level
    }
}

/// What the log is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The monitor: which number has the next line? Answered by [`Answer::Next`].
    Next,
    /// The monitor: keep these lines. Those that have the number of a line that there is are that line.
    /// Answered by [`Answer::Next`] when they are on the disk, or by [`Answer::NotKept`].
    Keep(Vec<Line>),
    /// An operator: of whom are there lines? Answered by [`Answer::Programs`].
    Programs,
    /// An operator: from which number on are there as many such lines? Looks at a bounded number of lines, the
    /// newest first. Answered by [`Answer::Last`].
    Last {
        /// As many.
        count: u32,
        /// Below this number.
        before: u64,
        /// Such.
        filter: Filter,
    },
    /// An operator: the lines from this number on. Answered by [`Answer::Lines`].
    Read {
        /// See above.
        from: u64,
        /// Which of them.
        filter: Filter,
    },
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A number of a line.
    Next(u64),
    /// The disk did not take them: hand them in again later.
    NotKept,
    /// The programs of which there are lines, by name.
    Programs(Vec<String>),
    /// Lines, by number.
    Lines {
        /// As many as there is room for.
        lines: Vec<Line>,
        /// From where to read on.
        next: u64,
        /// Whether that is the end, for now.
        end: bool,
        /// Why newer lines could not be kept, if so.
        not_kept: Option<String>,
    },
    /// What was found of the last lines.
    Last {
        /// The number of the first of them; from where it was looked, if there is none.
        from: u64,
        /// How many.
        found: u32,
        /// Below which number to look on for more.
        before: u64,
        /// Whether there are no more.
        end: bool,
    },
    /// It cannot be answered.
    Refused {
        /// Why, as a phrase.
        why: String,
    },
}

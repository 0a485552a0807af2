//! Changes that an operator makes while Rosemary runs, over the admin socket.
//!
//! The monitor makes one change at a time. It answers a request for a change at once with a [`ChangeReport`]; the operator's
//! command asks for later reports until the change is [over](ChangeState::is_over).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::log::LogLevel;

/// A change that an operator requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    /// What to change.
    pub change: Change,
    /// Whether the operator accepts that the kernel restarts. Without this a change that needs it is not made.
    pub confirmed: bool,
}

/// What to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// One app.
    App {
        /// Its name.
        app: String,
        /// What to do with it.
        verb: AppVerb,
    },
    /// Change the level of an app's log while the app runs.
    LogLevel {
        /// The app's name.
        app: String,
        /// The level; `None` for the configured one.
        level: Option<LogLevel>,
    },
    /// Apply the configuration file as it is now.
    Reload {
        /// Only report the steps.
        dry_run: bool,
    },
    /// Apply another text as the configuration, and store it in the file. The text is not part of this message: it travels as a
    /// descriptor of sealed memory. Only the HTTP interface may request this.
    Configure {
        /// The SHA-256 of the file that the user has seen, in hexadecimal digits. If the file has changed since, nothing happens.
        expected: String,
        /// Only report the steps.
        dry_run: bool,
    },
    /// Put a package beside the installed one, for an upgrade. The package and its signature travel as descriptors of sealed
    /// memory. Only the HTTP interface may request this.
    Stage {
        /// The app that the package must contain.
        app: String,
    },
    /// End safe mode: all apps run as configured.
    LeaveSafeMode,
    /// Change what is reserved for a session, until the configuration is applied again.
    Session {
        /// The session's name.
        session: String,
        /// Keys of the session and their values.
        values: Vec<(String, u64)>,
    },
}

/// What to do with an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppVerb {
    /// Start it after a stop.
    Start,
    /// Stop it until it is started, or until the next start of Rosemary.
    Stop,
    /// Stop it and start it again with its files as they are now.
    Restart,
    /// Run it from now on, whatever the configuration says.
    Enable,
    /// Do not run it any more, whatever the configuration says.
    Disable,
    /// Let the kernel host it again after a demotion.
    Promote,
    /// Run the version that was put beside the installed package.
    Upgrade,
    /// Run the version before the last upgrade.
    Rollback,
}

impl AppVerb {
    /// The verb as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Promote => "promote",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App { app, verb } => write!(f, "{} {app}", verb.name()),
            Self::LogLevel { app, level } => {
                write!(f, "log-level {app} {}", level.map_or("default", LogLevel::name))
            }
            Self::Reload { dry_run: false } => f.write_str("reload"),
            Self::Reload { dry_run: true } => f.write_str("reload --dry-run"),
            Self::Configure { dry_run: false, .. } => f.write_str("apply another configuration"),
            Self::Configure { dry_run: true, .. } => f.write_str("plan another configuration"),
            Self::Stage { app } => write!(f, "stage a package of {app}"),
            Self::LeaveSafeMode => f.write_str("safe-mode exit"),
            Self::Session { session, values } => {
                write!(f, "session set {}", Word(session))?;
                values.iter().try_for_each(|(key, value)| write!(f, " {}={value}", Word(key)))
            }
        }
    }
}

/// A word that a user has given: in quotes unless it has the form of a name, as it could look like the rest of a line.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        if self.0.bytes().all(is_plain) { f.write_str(self.0) } else { write!(f, "{:?}", self.0) }
    }
}

/// The steps and the state of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// Its number since the start of Rosemary.
    pub id: u64,
    /// The steps, in their order.
    pub steps: Vec<ChangeStep>,
    /// Facts that the operator should know, as sentences.
    pub notices: Vec<String>,
    /// Whether a mistake in the configuration, or in a file that it names, prevented the change.
    #[serde(default)]
    pub misconfigured: bool,
    /// Its state.
    pub state: ChangeState,
}

/// One step of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeStep {
    /// What happens to the program.
    pub action: Action,
    /// The program, such as `app firewall` or `kernel`.
    pub program: String,
    /// The reason, as a phrase.
    pub why: String,
}

/// The effect of a step on a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It starts.
    Start,
    /// Its successor starts beside it and takes over.
    Replace,
    /// It ends and starts again.
    Restart,
    /// Its rights or its position change while it runs.
    Update,
    /// It ends.
    Stop,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start => "start",
            Self::Replace => "replace",
            Self::Restart => "restart",
            Self::Update => "update",
            Self::Stop => "stop",
        })
    }
}

/// How far a change has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum ChangeState {
    /// It is being made.
    Running,
    /// It was made, and the new programs are still being watched: a failure undoes it.
    Watching,
    /// It was made.
    Done,
    /// It was not made, because only the steps were requested.
    Planned,
    /// It was not made, because it restarts the kernel and the operator has not confirmed that.
    Unconfirmed,
    /// It was not made, and nothing has changed.
    Refused {
        /// The reason, as a phrase.
        why: String,
    },
    /// It was begun and undone.
    Undone {
        /// The reason, as a phrase.
        why: String,
    },
    /// It was begun and did not come to its end in time.
    Incomplete {
        /// The missing part, as a phrase.
        why: String,
    },
}

impl ChangeState {
    /// Whether the operator's command need not wait for another report.
    pub fn is_over(&self) -> bool {
        *self != Self::Running
    }
}

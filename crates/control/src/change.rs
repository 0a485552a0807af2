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
        /// Seconds after which the configuration before returns, unless an operator confirms this one.
        confirm: Option<u32>,
    },
    /// Apply another text as the configuration, and store it in the file. The text is not part of this message: it travels as a
    /// descriptor of sealed memory. Only the HTTP interface may request this.
    Configure {
        /// The SHA-256 of the file that the user has seen, in hexadecimal digits. If the file has changed since, nothing happens.
        expected: String,
        /// Only report the steps.
        dry_run: bool,
        /// Seconds after which the configuration before returns, unless an operator confirms this one.
        confirm: Option<u32>,
    },
    /// Apply the configuration before a change of the configuration, and store it in the file.
    Undo {
        /// The number of the change in the history.
        id: u64,
        /// Only report the steps.
        dry_run: bool,
        /// Seconds after which the present configuration returns, unless an operator confirms the earlier one.
        confirm: Option<u32>,
        /// Replace the file also if somebody edited it since it was loaded.
        force: bool,
    },
    /// Keep the configuration that waits for a confirmation.
    Confirm,
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
            Self::Reload { dry_run, confirm } => {
                write!(f, "reload{}", options(*dry_run, *confirm))
            }
            Self::Configure { dry_run: false, confirm, .. } => {
                write!(f, "apply another configuration{}", options(false, *confirm))
            }
            Self::Configure { dry_run: true, .. } => f.write_str("plan another configuration"),
            Self::Undo { id, dry_run, confirm, force } => {
                write!(f, "undo {id}{}", options(*dry_run, *confirm))?;
                f.write_str(if *force { " --force" } else { "" })
            }
            Self::Confirm => f.write_str("confirm"),
            Self::Stage { app } => write!(f, "stage a package of {app}"),
            Self::LeaveSafeMode => f.write_str("safe-mode exit"),
            Self::Session { session, values } => {
                write!(f, "session set {}", Word(session))?;
                values.iter().try_for_each(|(key, value)| write!(f, " {}={value}", Word(key)))
            }
        }
    }
}

/// The options of a change of the configuration.
fn options(dry_run: bool, confirm: Option<u32>) -> String {
    let confirm = confirm.map_or_else(String::new, |seconds| format!(" --confirm {seconds}"));
    format!("{}{confirm}", if dry_run { " --dry-run" } else { "" })
}

/// A word that a user has given: in quotes unless it has the form of a name, as it could look like the rest of a line.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        if self.0.bytes().all(is_plain) { f.write_str(self.0) } else { write!(f, "{:?}", self.0) }
    }
}

/// The longest time for a confirmation, in seconds.
pub const LONGEST_CONFIRMATION_S: u32 = 86_400;

/// A change of the configuration, in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Its number, which grows and outlives a run.
    pub id: u64,
    /// When the configuration was applied, in nanoseconds since 1970.
    pub time: u64,
    /// Who requested it: `user 0`, `token ci`, `SIGHUP`, or `Rosemary` itself.
    pub who: String,
    /// What was requested, as a phrase.
    pub what: String,
    /// What became of the configuration.
    pub outcome: Outcome,
    /// The keys that differ from the configuration before, each as `KEY OLD -> NEW`, without secrets.
    pub difference: Vec<String>,
    /// The number of further keys that differ.
    #[serde(default)]
    pub more: usize,
    /// Whether the configuration before is kept, so that the change can be undone.
    #[serde(default)]
    pub undoable: bool,
}

/// What became of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was applied.
    Applied,
    /// It was applied, and waits for a confirmation.
    Waiting,
    /// It was applied, and an operator has confirmed it.
    Confirmed,
    /// It was applied, and was taken back, as nobody confirmed it or an operator requested that.
    #[serde(rename = "taken back")]
    TakenBack,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Applied => "applied",
            Self::Waiting => "waiting",
            Self::Confirmed => "confirmed",
            Self::TakenBack => "taken back",
        })
    }
}

/// A configuration that waits for a confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnconfirmedConfig {
    /// The number of its change in the history.
    pub id: u64,
    /// Time until the configuration before returns, in seconds.
    pub seconds_left: u64,
    /// Why the configuration before has not returned although the time is over, as a phrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<String>,
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

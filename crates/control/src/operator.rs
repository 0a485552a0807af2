//! Messages between an operator's command and the monitor, over the admin socket.
//!
//! One message per packet. The socket's peer credentials identify the operator; a message never does. The
//! monitor answers for itself and for the processes that it started. For other questions it passes a
//! connection to the process that can answer them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::app_report::AppReport;
use crate::change::{ChangeReport, ChangeRequest, ConfigChange, UnconfirmedConfig};
use crate::incident::{Incident, IncidentId};
use crate::northbound::TokenRecord;
use crate::session::SessionReport;

/// The name of the admin socket in the runtime directory.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// Sent by an operator's command to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorRequest {
    /// Report the state of all processes. Answered by [`OperatorReply::Status`].
    Status,
    /// Report one app. Answered by [`OperatorReply::App`] or [`OperatorReply::Unavailable`].
    App {
        /// Its name.
        name: String,
    },
    /// Report the resource usage of all programs. Answered by [`OperatorReply::Usage`].
    Usage,
    /// Pass a connection to the kernel. Answered by [`OperatorReply::Kernel`] or
    /// [`OperatorReply::Unavailable`].
    Kernel,
    /// Pass a connection to the log. Answered by [`OperatorReply::Log`] or [`OperatorReply::Unavailable`].
    Log,
    /// Pass a connection to the history. Answered by [`OperatorReply::History`] or [`OperatorReply::Unavailable`].
    History,
    /// Pass a connection to a service that an app provides. Answered by [`OperatorReply::Service`] or
    /// [`OperatorReply::Unavailable`].
    Service {
        /// Its name.
        name: String,
    },
    /// Make a change. Answered by [`OperatorReply::Change`] or [`OperatorReply::Unavailable`].
    Change(ChangeRequest),
    /// Report how far a change has come. Answered by [`OperatorReply::Change`] or
    /// [`OperatorReply::Unavailable`].
    ChangeReport {
        /// The number of the change.
        id: u64,
    },
    /// Do something on behalf of a user whom the sender has authenticated. Only the HTTP interface may send this.
    /// Answered as the request inside.
    As {
        /// The user, for the audit record: `token ci`, `user 1000`.
        who: String,
        /// The request.
        request: Box<OperatorRequest>,
    },
    /// Report the text of the configuration. Answered by [`OperatorReply::Config`].
    Config,
    /// Report the changes of the configuration from this number on. Answered by [`OperatorReply::ConfigChanges`].
    ConfigChanges {
        /// The lowest number.
        from: u64,
    },
    /// Add a token of the HTTP interface. Answered by [`OperatorReply::Interface`] or [`OperatorReply::Unavailable`].
    AddToken(TokenRecord),
    /// List the tokens of the HTTP interface. Answered by [`OperatorReply::Tokens`] or [`OperatorReply::Unavailable`].
    Tokens,
    /// Revoke the tokens with this identifier or name. Answered by [`OperatorReply::Revoked`] or
    /// [`OperatorReply::Unavailable`].
    RevokeToken {
        /// The identifier or the name.
        which: String,
    },
    /// Read the list of revoked users again, which has this one. Answered by [`OperatorReply::RevokedUser`] or
    /// [`OperatorReply::Unavailable`].
    RevokeUser {
        /// The name in the certificates.
        name: String,
    },
    /// Report which files were checked before they ran. Answered by [`OperatorReply::Provenance`].
    Provenance,
    /// Report the sessions. Answered by [`OperatorReply::Sessions`].
    Sessions,
    /// Report the accounts since a time. Answered by [`OperatorReply::Accounts`].
    Accounts {
        /// The time in seconds since 1970. Accounts begin with its hour.
        since: u64,
        /// The number of accounts that the operator already has.
        after: usize,
    },
    /// Report the incidents from this number on. Answered by [`OperatorReply::Incidents`].
    Incidents {
        /// The lowest number.
        from: IncidentId,
    },
}

impl OperatorRequest {
    /// Whether the HTTP interface may send it. That recognises users by tokens and certificates, so a token of its own would outlive
    /// whoever takes it over, and no route needs more.
    pub fn may_be_of_http_interface(&self) -> bool {
        match self {
            Self::AddToken(_) | Self::RevokeUser { .. } => false,
            Self::As { request, .. } => request.may_be_of_http_interface(),
            Self::Status
            | Self::App { .. }
            | Self::Usage
            | Self::Kernel
            | Self::Log
            | Self::History
            | Self::Service { .. }
            | Self::Change(_)
            | Self::ChangeReport { .. }
            | Self::Config
            | Self::ConfigChanges { .. }
            | Self::Tokens
            | Self::Provenance
            | Self::Sessions
            | Self::Accounts { .. }
            | Self::RevokeToken { .. }
            | Self::Incidents { .. } => true,
        }
    }

    /// Whether the history service may send it: it reads figures, and changes nothing.
    pub fn may_be_of_history(&self) -> bool {
        matches!(self, Self::Usage | Self::Kernel | Self::Service { .. } | Self::Incidents { .. })
    }
}

/// Sent by the monitor to an operator's command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one exists at a time, and it is encoded at once")]
pub enum OperatorReply {
    /// The state of all processes.
    Status(Status),
    /// One app.
    App(Box<AppReport>),
    /// The usage of the monitor, the kernel, the services, and the apps in their order.
    Usage(Vec<ProgramUsage>),
    /// Descriptor: a socket whose other end the kernel holds, for the messages of [`query`](crate::query).
    Kernel,
    /// Descriptor: a socket whose other end the log holds, for reading with the messages of
    /// [`log`](crate::log).
    Log,
    /// Descriptor: a socket whose other end the history service holds, for the messages of [`history`](crate::history).
    History,
    /// Descriptors: a socket whose other end the provider of the service holds, for the messages of `sdk::services`, and
    /// the service's table ([`sys::table`]).
    Service,
    /// A change, as far as it has come.
    Change(ChangeReport),
    /// The text of the configuration. Descriptor: sealed memory with the text, without secrets.
    Config {
        /// The file; `None` if there is none.
        file: Option<PathBuf>,
        /// The SHA-256 of the file with its secrets, in hexadecimal digits.
        sha256: String,
        /// The keys whose values are hidden.
        redacted: Vec<String>,
    },
    /// Changes of the configuration in ascending order.
    ConfigChanges {
        /// As many as one message holds.
        changes: Vec<ConfigChange>,
        /// Whether later ones exist, which are requested with the number after the last.
        more: bool,
    },
    /// The HTTP interface.
    Interface {
        /// Its address; `None` if it has only the Unix socket.
        api: Option<SocketAddr>,
    },
    /// The tokens of the HTTP interface.
    Tokens(Vec<TokenRecord>),
    /// The number of tokens that were revoked.
    Revoked(usize),
    /// The list of revoked users was read again and is in effect.
    RevokedUser {
        /// The directory of the list and the keys that the HTTP interface uses; `None` if it accepts no certificates, or is switched off.
        dir: Option<PathBuf>,
        /// Certificates of the user whose validity begins before this time are refused, in seconds since 1970; `None` if the list does
        /// not have the user.
        before: Option<u64>,
    },
    /// The files that were checked before they ran.
    Provenance(Provenance),
    /// The sessions: `system`, `best-effort`, and the configured ones in their order.
    Sessions(Vec<SessionReport>),
    /// Accounts in the order of sessions and members.
    Accounts {
        /// The beginning of the first hour in seconds since 1970; `None` if the accounts include everything that was ever used.
        from: Option<u64>,
        /// As many as one message holds.
        accounts: Vec<Account>,
        /// Whether later ones exist.
        more: bool,
    },
    /// Incidents in ascending order.
    Incidents {
        /// As many as one message holds.
        incidents: Vec<Incident>,
        /// Whether later ones exist, which are requested with the number after the last.
        more: bool,
    },
    /// The operator may not send this request.
    Refused {
        /// The reason, as a phrase.
        why: String,
    },
    /// The monitor cannot answer now.
    Unavailable {
        /// The reason, as a phrase.
        why: String,
    },
}

/// Which files of the installation were checked before they ran, and with which result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The policy: `require`, `report` or `off`.
    pub verify: String,
    /// The root of the installation; `None` if nothing is checked.
    pub root: Option<String>,
    /// The key that signed the manifests; `None` if nothing is checked.
    pub key: Option<String>,
    /// The parts of the release.
    pub parts: Vec<ReleasePart>,
    /// The files, in the order of their paths.
    pub files: Vec<CheckedFile>,
    /// The faults, as phrases.
    pub faults: Vec<String>,
}

/// A part of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasePart {
    /// Its name: `rosemary` or `python`.
    pub name: String,
    /// The number of the release.
    pub number: u64,
    /// The SHA-256 of the manifest, in hexadecimal digits.
    pub sha256: String,
    /// The number of its files.
    pub files: usize,
}

/// A file that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedFile {
    /// Its path below the root.
    pub path: String,
    /// The SHA-256 in the manifest, in hexadecimal digits.
    pub sha256: String,
    /// The result of the last check.
    pub state: FileState,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// It is the released file.
    Released,
    /// It was replaced from the recovery copy, and is the released file now.
    Replaced,
    /// It is not the released file and could not be replaced; the file of the recovery copy runs instead.
    Copy,
    /// It is not the released file.
    Changed,
}

impl std::fmt::Display for FileState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Released => "released",
            Self::Replaced => "replaced",
            Self::Copy => "copy",
            Self::Changed => "changed",
        })
    }
}

/// The state of a program, in one word for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramState {
    /// It runs, and is not yet ready.
    Starting,
    /// It runs and is ready.
    Running,
    /// It has ended and will be started again.
    Waiting,
    /// It cannot run with its current files, and is started when they have changed.
    Held,
    /// It was asked to end, reported that it ends, or was killed, and has not ended yet.
    Stopping,
    /// It does not run and is not to be started.
    Stopped,
}

impl std::fmt::Display for ProgramState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        })
    }
}

/// The monitor and all processes that it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this software.
    pub version: String,
    /// The monitor itself.
    pub monitor: MonitorStatus,
    /// The kernel.
    pub kernel: KernelStatus,
    /// The services that run: the log, and those that apps use.
    pub services: Vec<ServiceStatus>,
    /// The apps.
    pub apps: Vec<AppStatus>,
    /// The apps that do not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inactive: Vec<InactiveApp>,
    /// Ways in which the apps do not fit together, as phrases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The services that apps name and whose provider an operator stopped or disabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<UnservedService>,
    /// The connections that were refused lately, the last first: they claimed a datapath that they may not have, or did not
    /// complete their handshake although a switch was connected from their address before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedConnection>,
    /// The switches that another controller commands, and what to do, as a phrase, if there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_controller: Option<String>,
    /// Why the last reload of the configuration was refused, as a phrase, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// The configuration that waits for a confirmation, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<UnconfirmedConfig>,
    /// Data that the disk does not take, with the reasons and remedies, as phrases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_stored: Vec<String>,
    /// Reservations of sessions that are not held as they were promised, as phrases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unheld: Vec<String>,
    /// Safe mode, if Rosemary is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_mode: Option<Box<SafeModeStatus>>,
}

/// A connection that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedConnection {
    /// The datapath identifier that it claimed, or that of the switch which was connected from its address before.
    pub dpid: String,
    /// Its address, without the port.
    pub address: IpAddr,
    /// Why it was refused, as a phrase.
    pub why: String,
    /// Time since the last attempt, in seconds.
    pub seconds_ago: u64,
}

/// How far safe mode has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafeModeStatus {
    /// Why it began, as a phrase.
    pub why: String,
    /// Whether all apps of the list were started.
    pub complete: bool,
    /// The app that was started last and is being watched.
    pub on_trial: Option<String>,
    /// The apps that ran without a fault while they were watched.
    pub passed: Vec<String>,
    /// The apps that start later, in their order.
    pub waiting: Vec<String>,
    /// The apps with whose start or traffic a fault came back. They are held.
    pub suspects: Vec<Suspect>,
}

/// An app with whose start or traffic a fault came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// Its name.
    pub app: String,
    /// What happened, as a phrase.
    pub why: String,
}

/// The monitor itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonitorStatus {
    /// Its process id.
    pub pid: u32,
    /// Time since it started.
    pub uptime_seconds: f64,
}

/// The kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelStatus {
    /// Its process id, if it runs.
    pub pid: Option<u32>,
    /// The user of its process.
    pub uid: u32,
    /// Its state.
    pub state: ProgramState,
    /// How often it was restarted.
    pub restarts: u64,
    /// How it ended the last time, as a phrase.
    pub last_exit: Option<String>,
    /// The addresses at which switches connect.
    pub listen: Vec<String>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Its process id, if it runs.
    pub pid: Option<u32>,
    /// The user of its process.
    pub uid: u32,
    /// Its state.
    pub state: ProgramState,
    /// How often it was restarted.
    pub restarts: u64,
    /// How it ended the last time, as a phrase.
    pub last_exit: Option<String>,
}

/// An app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// Its number, which never changes.
    pub number: u16,
    /// Its stage: `guard`, `control` or `observe`.
    pub stage: String,
    /// The lowest and the highest priority of its flows; `None` if it may write none.
    pub band: Option<[u16; 2]>,
    /// Its hosting: `user` for a zone, `kernel` for the kernel.
    pub host: String,
    /// The reason why the kernel no longer hosts it, as a phrase, if it was demoted.
    pub demoted: Option<String>,
    /// The version that its object states, once it is loaded.
    pub version: Option<String>,
    /// The SHA-256 of the object that runs, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Its origin: `package` if a developer has signed it, `shipped` if it is part of Rosemary, `unsigned` if
    /// it is a bare file, for development.
    pub origin: String,
    /// The developer who signed its package, by the name in `[[trust]]`; `None` for other origins.
    pub signed_by: Option<String>,
    /// Its process id, if it runs; the kernel's for an app that the kernel hosts.
    pub pid: Option<u32>,
    /// The user of its process.
    pub uid: u32,
    /// Its state.
    pub state: ProgramState,
    /// How often it was restarted.
    pub restarts: u64,
    /// How it ended the last time, as a phrase.
    pub last_exit: Option<String>,
    /// Why it runs with older files than there are, as a phrase, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The problem that the app last stated, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The limit that another app has set, as a phrase, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<String>,
}

/// An app that does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InactiveApp {
    /// Its name.
    pub name: String,
    /// Why it does not run.
    pub state: InactiveState,
}

/// A service whose provider an operator stopped or disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnservedService {
    /// The name of the service, and of the app that provides it.
    pub service: String,
    /// The apps that name it and that no operator stopped.
    pub clients: Vec<String>,
    /// The command that helps.
    pub remedy: String,
}

/// Why an app does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InactiveState {
    /// The configuration contains it, and it or an operator disables it.
    Disabled,
    /// Its package is installed, and the configuration does not contain it.
    Installed,
}

impl std::fmt::Display for InactiveState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Disabled => "disabled",
            Self::Installed => "installed",
        })
    }
}

/// The resource usage of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramUsage {
    /// Its name; for an app, the app's.
    pub name: String,
    /// Its kind: `monitor`, `kernel`, `service`, `app`, or `kernel app`, whose memory and time count as the
    /// kernel's.
    pub kind: String,
    /// Its state.
    pub state: ProgramState,
    /// Its process id, if it runs.
    pub pid: Option<u32>,
    /// How often it was restarted.
    pub restarts: u64,
    /// Its usage of each limited resource.
    pub uses: Vec<Amount>,
    /// The names of the limits whose soft value it exceeds now.
    pub above: Vec<String>,
    /// Packet-ins that the app receives per second; `None` if unknown, or if it is not an app.
    pub events_per_second: Option<u64>,
    /// Packet-ins that were dropped because it did not keep up, since the kernel started.
    pub dropped: Option<u64>,
    /// Its messages that the kernel refused, since the kernel started.
    pub refused: Option<u64>,
    /// Its flow-mods that waited because of its pace, since the kernel started; `None` if unknown.
    #[serde(default)]
    pub delayed: Option<u64>,
}

impl ProgramUsage {
    /// Its usage of the resource that `limit` names.
    pub fn amount(&self, limit: &str) -> Option<&Amount> {
        self.uses.iter().find(|it| it.limit == limit)
    }
}

/// A program's usage of one resource, in the resource's unit: bytes, bytes or messages per second,
/// descriptors, threads, thousandths of a processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The name of the limit, as in the configuration.
    pub limit: String,
    /// The amount in use; `None` if unknown.
    pub value: Option<u64>,
    /// The soft limit, above which the app receives an alert; `None` for no limit.
    pub soft: Option<u64>,
    /// The hard limit, which cannot be exceeded; `None` for no limit.
    pub hard: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_interface_makes_no_users() {
        let revoke = OperatorRequest::RevokeUser { name: "alice".into() };
        let on_behalf =
            |request| OperatorRequest::As { who: "x".into(), request: Box::new(request) };
        assert!(!revoke.may_be_of_http_interface());
        assert!(!on_behalf(revoke).may_be_of_http_interface());
        let revoke = OperatorRequest::RevokeToken { which: "ci".into() };
        assert!(on_behalf(revoke).may_be_of_http_interface());
    }
}

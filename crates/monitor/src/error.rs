//! The reasons for which Rosemary does not start, each with a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use config::{ConfigError, Position};
use thiserror::Error;

use crate::packages::Refused;

/// Why the monitor cannot start. It then leaves nothing behind except a state directory.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another user could replace the files in the runtime directory.
    #[error("{dir} {why}; name a directory of your own with --runtime-dir")]
    UnsafeRuntimeDir {
        /// The directory.
        dir: PathBuf,
        /// The problem.
        why: &'static str,
    },
    /// A directory of the instance is unknown.
    #[error(transparent)]
    Directory(#[from] config::instance::DirectoryError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A mistake in the configuration that is noticed after the file was read.
    #[error("{place}: {}", with_causes(error))]
    At {
        /// Where it is.
        place: Position,
        /// The mistake, whose causes are part of the text.
        error: Box<Self>,
    },
    /// An environment variable has an invalid value.
    #[error(transparent)]
    Environment(#[from] config::InvalidVariable),
    /// The operator requires a complete sandbox, which this machine does not support.
    #[error(
        "zones.require is \"full\", and the sandbox lacks: {0}; `rosemary doctor` says what to do"
    )]
    IncompleteSandbox(String),
    /// No app of a command that runs these apps alone can run.
    #[error("{0}; correct it and start again")]
    AppsHeld(String),
    /// `--app` names an app that cannot run.
    #[error("--app {app}: {why}")]
    App {
        /// The value of `--app`.
        app: String,
        /// The reason, and a remedy.
        why: &'static str,
    },
    /// There is no app of this name.
    #[error(
        "the app {app} is missing; {}looked for {}; install its package with `rosemary app install`, or, if \
         it comes with Rosemary, build it with `make build`", did_you_mean(similar.as_deref()), list(.looked)
    )]
    MissingApp {
        /// Its name.
        app: String,
        /// The paths that were tried.
        looked: Vec<PathBuf>,
        /// The app with the most similar name.
        similar: Option<String>,
    },
    /// The list of `[safe-mode]` names an app that is neither configured nor installed.
    #[error("apps of [safe-mode] names {app:?}, which is no app of this configuration; {}correct the name, or remove it", did_you_mean(similar.as_deref()))]
    UnknownInSafeMode {
        /// Its name.
        app: String,
        /// The app with the most similar name.
        similar: Option<String>,
    },
    /// The sessions reserve more than the machine has.
    #[error("{0}")]
    Sessions(String),
    /// The apps do not fit together: denied packets would pass, or packets would double.
    #[error("{0}")]
    Misfit(String),
    /// The object of an app cannot be loaded.
    #[error("the object of the app {app}, {}, cannot be loaded: {why}; {remedy}", object.display())]
    Object {
        /// Its name.
        app: String,
        /// The file.
        object: PathBuf,
        /// The problem.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An app's own configuration cannot be read.
    #[error("the configuration of the app {app} cannot be used: {why}; correct `config`")]
    AppFile {
        /// Its name.
        app: String,
        /// The problem.
        why: String,
    },
    /// An app is a bare file or a module, and the operator does not allow unsigned apps.
    #[error(
        "the app {app} is {object}, which has no signature. While you develop it, run `rosemary up \
         --allow-unsigned`. To run it permanently, make a package: `rosemary app build`, `sign` and \
         `install`, and remove `object` from the configuration (docs/packages.md)"
    )]
    Unsigned {
        /// Its name.
        app: String,
        /// The kind and the name of its object, as a phrase.
        object: String,
    },
    /// The virtual environment for apps in Python is missing.
    #[error(
        "apps in Python need Rosemary's virtual environment; looked for {}; install the package rosemary-python, or type in the source tree: make python, \
         and make install if Rosemary is installed",
        list(.looked)
    )]
    NoPython {
        /// The directories that were tried.
        looked: Vec<PathBuf>,
    },
    /// The virtual environment has no `rosemary-ryu`.
    #[error(
        "the app {app} is written for Ryu, and rosemary-ryu is not installed; type: make python"
    )]
    NoRyu {
        /// The app's name.
        app: String,
    },
    /// The app's package is refused.
    #[error("the app {app} cannot run: {why}. To do without it, type: rosemary app disable {app}")]
    Package {
        /// Its name.
        app: String,
        /// The reason.
        why: Refused,
    },
    /// A file of the installation differs from the release, and the configuration forbids that.
    #[error("`verify` in [start] is \"require\", and {why}")]
    NotVerified {
        /// The problem, and a remedy.
        why: String,
    },
    /// Unsigned apps are allowed although all programs must be released ones.
    #[error(
        "--allow-unsigned is for development, and `verify` in [start] is \"require\"; remove one of the two"
    )]
    UnsignedUnderRequire,
    /// The release is older than the one before.
    #[error(
        "release {number} of {part} is older than {highest}, which ran before; install the newer one again, or start once with \
         --allow-downgrade"
    )]
    Downgrade {
        /// The part of the release.
        part: &'static str,
        /// Its number.
        number: u64,
        /// The highest number that ran.
        highest: u64,
    },
    /// Unsigned apps are allowed together with connections from anywhere.
    #[error(
        "--allow-unsigned is for development, and plain TCP is allowed from anywhere (`plain`), so any \
         host could attack an unsigned app as a switch; remove one of the two"
    )]
    UnsignedFromAnywhere,
    /// The configuration grants an app access that it must not have.
    #[error("app {app}: {why}")]
    Granted {
        /// Its name.
        app: String,
        /// The access, and a remedy.
        why: String,
    },
    /// `--app` is given too often.
    #[error("--app is given {count} times; at most {most} are possible")]
    TooManyApps {
        /// The number that was given.
        count: usize,
        /// The largest possible number.
        most: usize,
    },
    /// The file of the apps' numbers is damaged.
    #[error(
        "{} cannot be used: {why}. It records which app owns which flows in the switches, so it is not \
         replaced. Put it back from a backup. If there is none, remove it and delete the apps' flows \
         from the switches: `ovs-ofctl del-flows BRIDGE`", file.display()
    )]
    Numbers {
        /// The file.
        file: PathBuf,
        /// The damage.
        why: String,
    },
    /// A process that is no instance of Rosemary holds the lock.
    #[error(
        "{lock} is locked {}; end that program, or name another directory with --runtime-dir",
        holder(*.pid)
    )]
    Locked {
        /// The lock file.
        lock: PathBuf,
        /// The process that holds it, if that is visible from here.
        pid: Option<u32>,
    },
    /// Another instance runs in the runtime directory.
    #[error(
        "Rosemary already runs in {dir} as process {pid}; stop it with `kill {pid}`, or start \
         another one beside it with --runtime-dir, --state-dir and --listen"
    )]
    AlreadyRunning {
        /// The runtime directory.
        dir: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// Another instance uses the state directory.
    #[error(
        "another instance of Rosemary{} uses the state directory {}; stop that one, or give this one a \
         directory of its own with --state-dir", of_process(*.pid), dir.display()
    )]
    StateInUse {
        /// The state directory.
        dir: PathBuf,
        /// The process that holds it, if that is visible from here.
        pid: Option<u32>,
    },
    /// The same address, or one that includes it, was given twice.
    #[error("the addresses to listen on {first} and {second} overlap; remove one of them")]
    SameAddress {
        /// One of them.
        first: SocketAddr,
        /// The other.
        second: SocketAddr,
    },
    /// More addresses were given than a kernel can receive sockets.
    #[error(
        "{count} addresses to listen on are given; at most {most} are possible; 0.0.0.0 or [::] stands for all addresses"
    )]
    TooManyAddresses {
        /// The number that was given.
        count: usize,
        /// The largest possible number.
        most: usize,
    },
    /// Another program listens at the address.
    #[error(
        "{address} is taken by another program; `ss -ltnp 'sport = :{port}'` says which; stop it, \
         or choose another address with --listen", port = address.port()
    )]
    Occupied {
        /// The address.
        address: SocketAddr,
    },
    /// A configuration or a package that arrived over the HTTP interface is refused.
    #[error("{0}")]
    Upload(String),
    /// Others than this machine would reach the HTTP interface, and there are no keys for TLS.
    #[error(
        "the HTTP interface speaks TLS at {address}, which other machines can reach, and there are no keys for it; type: rosemary \
         pki api {} --dir {}, or choose 127.0.0.1:{} with --api or `api` in [northbound]",
        own_name(*address), dir.display(), address.port()
    )]
    NorthboundNeedsKeys {
        /// The address.
        address: SocketAddr,
        /// The directory of the keys.
        dir: PathBuf,
    },
    /// The system refuses the address that the operator chose for the HTTP interface.
    #[error(
        "the HTTP interface cannot listen on {address}: {hint}; choose another address with --api, or `api` in [northbound], or \
             run none with --no-northbound"
    )]
    Northbound {
        /// The address.
        address: SocketAddr,
        /// What to look at.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refuses the address that the operator chose for the routes of apps.
    #[error(
        "the routes of apps cannot be served on {address}: {hint}; choose another address with `app-routes` in [northbound]"
    )]
    AppRoutes {
        /// The address.
        address: SocketAddr,
        /// What to look at.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refuses to listen at the address.
    #[error("cannot listen on {address}; {hint}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// A remedy.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A program, or the object of an app, is missing.
    #[error("{what} is missing; looked for {}; {hint}", list(.looked))]
    Missing {
        /// The missing program or object.
        what: String,
        /// The paths that were tried.
        looked: Vec<PathBuf>,
        /// A remedy.
        hint: &'static str,
    },
    /// The object of an app is a directory, a device or the like.
    #[error("{what} is {path}, which is not a regular file; {hint}")]
    NoFile {
        /// The missing program or object.
        what: String,
        /// The path.
        path: PathBuf,
        /// A remedy.
        hint: &'static str,
    },
    /// The keys for TLS cannot be used. Without them switches would be served in a way the operator did not choose.
    #[error("the keys for TLS cannot be used: {path}: {why}")]
    Keys {
        /// The file or directory.
        path: PathBuf,
        /// The problem, and a remedy.
        why: String,
    },
    /// Plain TCP is forbidden, and there are no keys for TLS.
    #[error(
        "no switch could connect: plain TCP is forbidden, as `plain` is never, and there are no keys for \
         TLS; `rosemary pki init` makes some"
    )]
    NobodyCouldConnect,
    /// The monitor cannot find out whether programs can have users of their own.
    #[error(
        "cannot read {map}, so it is unknown whether the kernel and the apps can have users of \
         their own, and they must not run as root; is /proc mounted?"
    )]
    Users {
        /// The file that lists user ids.
        map: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused an operation on a path.
    #[error("cannot {what} {path}; {hint}")]
    Path {
        /// The operation, as a verb with its preposition.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// A remedy.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused an operation that normally succeeds.
    #[error("cannot {what}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl StartError {
    /// Returns this error with its place in the configuration, if that is known.
    #[must_use]
    pub fn at(self, place: Option<Position>) -> Self {
        match place {
            Some(place) => Self::At { place, error: Box::new(self) },
            None => self,
        }
    }

    /// Returns whether it is about the files of one app, or its interpreter: its package, its object, or Rosemary's environment for
    /// Python. Such an error can come without a change of the configuration, and the other apps can run.
    #[must_use]
    pub fn is_of_files(&self) -> bool {
        match self {
            Self::At { error, .. } => error.is_of_files(),
            Self::Package { .. }
            | Self::Object { .. }
            | Self::NoPython { .. }
            | Self::NoRyu { .. }
            | Self::Missing { .. }
            | Self::NoFile { .. }
            | Self::Path { .. }
            | Self::System { .. } => true,
            _ => false,
        }
    }

    /// The error and its causes, as one phrase.
    pub(crate) fn with_causes(&self) -> String {
        with_causes(self)
    }

    /// Returns whether the operator must change the configuration or the command line.
    ///
    /// Every further start would fail for the same reason. Other errors, such as a refusal of the system or a missing
    /// file, may have gone by then.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        match self {
            Self::Config { .. }
            | Self::Environment { .. }
            | Self::App { .. }
            | Self::MissingApp { .. }
            | Self::UnknownInSafeMode { .. }
            | Self::Misfit(_)
            | Self::Sessions(_)
            | Self::Object { .. }
            | Self::AppFile { .. }
            | Self::Keys { .. }
            | Self::Unsigned { .. }
            | Self::NoPython { .. }
            | Self::NoRyu { .. }
            | Self::UnsignedFromAnywhere
            | Self::UnsignedUnderRequire
            | Self::Granted { .. }
            | Self::TooManyApps { .. }
            | Self::SameAddress { .. }
            | Self::TooManyAddresses { .. }
            | Self::NorthboundNeedsKeys { .. }
            | Self::NobodyCouldConnect => true,
            Self::At { error, .. } => match &**error {
                Self::Package { .. } | Self::System { .. } => error.is_of_configuration(),
                _ => true,
            },
            Self::Package { why, .. } => {
                !matches!(why, Refused::Unreadable { .. } | Refused::Unknown(_))
            }
            _ => false,
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("by process {pid} (`ps {pid}` shows it)"),
        None => "by a process that is not visible from here".into(),
    }
}

/// By what clients call this machine: the address, unless it stands for all addresses of this machine; then `NAME`.
fn own_name(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { "NAME".to_owned() } else { address.ip().to_string() }
}

fn did_you_mean(similar: Option<&str>) -> String {
    similar.map_or_else(String::new, |similar| format!("did you mean `{similar}`? "))
}

/// Formats an error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn of_process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", process {pid},"))
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

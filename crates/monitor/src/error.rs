//! Why Rosemary does not start, each with what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use config::ConfigError;
use thiserror::Error;

use crate::packages::Refused;

/// What keeps the monitor from starting. Nothing but a state directory is left behind then.
#[derive(Debug, Error)]
pub enum StartError {
    /// Without root, the place for sockets is the login session's, and there is no such session.
    #[error(
        "there is no place for the sockets: XDG_RUNTIME_DIR is not set; set it, or name a \
         directory of yours with --runtime-dir"
    )]
    NoRuntimeDir,
    /// The runtime directory belongs to somebody who could then replace what is in it.
    #[error("{dir} {why}; name a directory of your own with --runtime-dir")]
    UnsafeRuntimeDir {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Without root, state is kept in the home directory, and nothing says where that is.
    #[error(
        "there is no place for the state: neither XDG_STATE_HOME nor HOME is set; name a \
         directory of yours with --state-dir"
    )]
    NoStateDir,
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operator wants more of a wall around apps than there can be.
    #[error(
        "zones.require is \"full\", and this is missing: {0}; `rosemary doctor` says what to do"
    )]
    NoWall(String),
    /// `--app` names what cannot run.
    #[error("--app {app}: {why}")]
    App {
        /// What was asked for.
        app: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// An app is nothing but a file.
    #[error(
        "the app {app} is the bare file {}, which nobody signed. While you develop it, type `rosemary up \
         --allow-unsigned`. To run it for good, make a package of it: `rosemary app build`, `sign` and \
         `install`, and leave `object` out of the configuration (docs/packages.md)", object.display()
    )]
    Unsigned {
        /// Its name.
        app: String,
        /// The file.
        object: PathBuf,
    },
    /// The app's package is not let in.
    #[error(
        "the app {app} is not run: {why}. With enabled = false in its [[app]], or without it, the \
             others run"
    )]
    Package {
        /// Its name.
        app: String,
        /// Why not.
        why: Refused,
    },
    /// Development for everybody.
    #[error(
        "--allow-unsigned is for development, and plain TCP is allowed from anywhere (`plain`): then \
         anybody could be the switch that an app nobody signed is tried with; leave one of them out"
    )]
    UnsignedFromAnywhere,
    /// An app is granted what it must not have.
    #[error("app {app}: {why}")]
    Granted {
        /// Its name.
        app: String,
        /// What, and what to do.
        why: String,
    },
    /// `--app` is given too often.
    #[error("--app is given {count} times; {most} is the most")]
    TooManyApps {
        /// How many were given.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The file of the apps' numbers cannot be believed.
    #[error(
        "{} cannot be used: {why}. It says which flows in the switches are whose, so it is not made \
         anew. Put it back from a backup. If there is none, remove it and delete what apps wrote \
         into the switches before: `ovs-ofctl del-flows BRIDGE`", file.display()
    )]
    Numbers {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody holds the lock who is not known as an instance.
    #[error(
        "{lock} is locked {}; end that program, or name another directory with --runtime-dir",
        holder(*.pid)
    )]
    Locked {
        /// The lock file.
        lock: PathBuf,
        /// Whose lock it is, if it is of a process that can be seen from here.
        pid: Option<u32>,
    },
    /// Another instance holds the lock.
    #[error(
        "Rosemary already runs in {dir} as process {pid}; stop it with `kill {pid}`, or start \
         another one beside it with --runtime-dir, --state-dir and --listen"
    )]
    AlreadyRunning {
        /// The runtime directory.
        dir: PathBuf,
        /// Whose lock it is.
        pid: u32,
    },
    /// Another instance uses the state directory.
    #[error(
        "another instance of Rosemary{} has its state in {}; stop that one, or give this one a directory \
         of its own with --state-dir", of_process(*.pid), dir.display()
    )]
    StateInUse {
        /// The state directory.
        dir: PathBuf,
        /// Whose lock it is, if it is of a process that can be seen from here.
        pid: Option<u32>,
    },
    /// The same address, or one that includes it, was given twice.
    #[error("--listen {first} and --listen {second} overlap; leave one of them out")]
    SameAddress {
        /// One of them.
        first: SocketAddr,
        /// The other.
        second: SocketAddr,
    },
    /// More addresses than sockets can be handed to a kernel at once.
    #[error(
        "--listen is given {count} times, {most} is the most; 0.0.0.0 or [::] stands for all addresses"
    )]
    TooManyAddresses {
        /// How many were given.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Another program listens there.
    #[error(
        "{address} is taken by another program; `ss -ltnp 'sport = :{port}'` says which; stop it, \
         or choose another address with --listen", port = address.port()
    )]
    Occupied {
        /// The address.
        address: SocketAddr,
    },
    /// The system does not let us listen there.
    #[error("cannot listen on {address}; {hint}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What to look at.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A program or the app's object is not where it should be.
    #[error("{what} is missing; looked for {}; {hint}", list(.looked))]
    Missing {
        /// What.
        what: String,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
        /// How to get it.
        hint: &'static str,
    },
    /// What is there is a directory, a device or the like.
    #[error("{what} is {path}, which is no regular file; {hint}")]
    NoFile {
        /// What.
        what: String,
        /// What it is.
        path: PathBuf,
        /// How to get it.
        hint: &'static str,
    },
    /// Keys for TLS that cannot be used; without them switches would be served otherwise than meant.
    #[error("the keys for TLS cannot be used: {path}: {why}")]
    Keys {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Plain TCP is forbidden, and there is nothing to speak TLS with.
    #[error(
        "no switch could connect: plain TCP is forbidden, as `plain` is never, and for TLS there are \
         no keys; `rosemary pki init` makes some"
    )]
    NobodyCouldConnect,
    /// Whether the kernel and the apps can have users of their own is not known.
    #[error(
        "cannot read {map}, so it is not known whether the kernel and the apps can have users of \
         their own, and they are not run as root; is /proc mounted?"
    )]
    Users {
        /// The file that says so.
        map: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something with a path.
    #[error("cannot {what} {path}; {hint}")]
    Path {
        /// What was tried, as a verb with its preposition.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What to look at.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something that it never should.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl StartError {
    /// Whether it is the operator's to mend, in the configuration or the command line: the next start would
    /// fail of the same. What the system refused, or what is not there, may be otherwise then.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        match self {
            Self::Config { .. }
            | Self::App { .. }
            | Self::Unsigned { .. }
            | Self::UnsignedFromAnywhere
            | Self::Granted { .. }
            | Self::TooManyApps { .. }
            | Self::SameAddress { .. }
            | Self::TooManyAddresses { .. }
            | Self::NobodyCouldConnect => true,
            Self::Package { why, .. } => {
                !matches!(why, Refused::Unreadable { .. } | Refused::Unknown(_))
            }
            _ => false,
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("by process {pid} (`ps {pid}` says what that is)"),
        None => "by a process that cannot be seen from here".into(),
    }
}

fn of_process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", process {pid},"))
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

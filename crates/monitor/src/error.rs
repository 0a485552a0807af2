//! Why Rosemary does not start, each with what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// What keeps the monitor from starting. Nothing is left behind then.
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
    /// Another instance holds the lock.
    #[error(
        "Rosemary already runs in {dir} as process {pid}; stop it with `kill {pid}`, or start \
         another one beside it with --runtime-dir and --listen"
    )]
    AlreadyRunning {
        /// The runtime directory.
        dir: PathBuf,
        /// What the lock file says.
        pid: String,
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
        what: &'static str,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
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
        "no switch could connect: --plain never forbids plain TCP, and for TLS there are no keys; \
         `rosemary pki init` makes some"
    )]
    NobodyCouldConnect,
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

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

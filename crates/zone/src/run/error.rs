//! Why a zone ends, and how the monitor learns it.

use std::io;

use control::zone::ZoneReply;
use sdk::abi::host::{Failed, LoadError};
use sys::channel::{Channel, ChannelError};
use sys::ring::PeerFault;
use thiserror::Error;

/// Why a zone ends.
#[derive(Debug, Error)]
pub enum ZoneError {
    /// The monitor has ended, or sent something unexpected.
    #[error("the monitor: {0}; rosemary-zone is started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// Standard output could not be prepared for the lines that the app prints.
    #[error("standard output: {0}")]
    Stdout(io::Error),
    /// The monitor sent a message that is not allowed at this point.
    #[error("the monitor sent {0}")]
    OutOfOrder(&'static str),
    /// The process could not give up its privileges, or a granted path cannot be shown; the app was not loaded.
    #[error("could not be confined: {0}")]
    Confine(io::Error),
    /// Mechanisms of the sandbox are missing, and the operator requires all of them.
    #[error("the sandbox has gaps, and zones.require is \"full\": {0}")]
    Gaps(String),
    /// The object differs from the one that the monitor named.
    #[error("the object's SHA-256 is {found}, not {expected}: it was not loaded")]
    OtherObject {
        /// The digest that the monitor sent.
        expected: String,
        /// The digest of the object.
        found: String,
    },
    /// The object could not be loaded.
    #[error("could not load the app's object: {0}")]
    Load(io::Error),
    /// The configuration could not be read.
    #[error("could not read the app's configuration: {0}")]
    Config(io::Error),
    /// The object is not an app for this host.
    #[error(transparent)]
    NotAnApp(#[from] LoadError),
    /// The app failed.
    #[error(transparent)]
    App(#[from] Failed),
    /// The app's Python code raised an exception that it did not catch.
    #[error("the app raised {0}")]
    Raised(String),
    /// The app's Python code could not be imported.
    #[error("the app could not be imported: {0}")]
    Import(String),
    /// The app's module cannot run here: it lacks an export, or imports what the host does not have.
    #[error("the app's module cannot run: {0}")]
    Module(String),
    /// The app's module trapped, or used too much processor time.
    #[error("the app {0}")]
    Trapped(String),
    /// The process could not give up what only the load of the code needs.
    #[error("could not forbid further code: {0}")]
    Code(io::Error),
    /// The monitor sent an app that this program does not host.
    #[error("this program runs no app with host = {0:?}")]
    OtherHost(&'static str),
    /// The flight recorder of the monitor cannot be mapped.
    #[error("the monitor's flight recorder: {0}")]
    Watch(io::Error),
    /// The memory of the table that the app publishes cannot be mapped.
    #[error("the memory of its table: {0}")]
    Table(io::Error),
    /// The rings of the kernel cannot be mapped.
    #[error("the kernel's rings: {0}")]
    Rings(io::Error),
    /// The kernel broke the contract of the ring, which is a bug in Rosemary.
    #[error("the kernel broke the ring's contract: {0}")]
    Kernel(#[from] PeerFault),
}

/// Sends the error of `result`, if it is one, to the monitor.
///
/// # Errors
/// That error.
pub fn reported<T>(monitor: &Channel, result: Result<T, ZoneError>) -> Result<T, ZoneError> {
    if let Err(error) = &result {
        let why = error.to_string();
        let reply = match error {
            ZoneError::NotAnApp(_) | ZoneError::Import(_) | ZoneError::Module(_) => {
                ZoneReply::Unfit { why }
            }
            ZoneError::Load(_) => ZoneReply::NotLoaded { why },
            _ => ZoneReply::Failed { why },
        };
        // This fails if the monitor has ended. Otherwise the monitor notices the exit in any case.
        let _ = monitor.send(&reply, &[]);
    }
    result
}

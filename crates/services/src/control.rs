//! What the monitor and a service say to each other over the service's control socket.
//!
//! One enum each way, the same for all services. The monitor is the only one that holds the other end.

use serde::{Deserialize, Serialize};
use sys::sandbox::Report;

/// The monitor to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message: confine yourself and begin to serve. Descriptor, for a service that keeps
    /// something: the file that it keeps it in. Answered by [`Answer::Confined`] and then
    /// [`Answer::Ready`], or by [`Answer::Unfit`] or [`Answer::Failed`].
    Start {
        /// How to confine itself; `None` not to, for tests of the wall alone.
        wall: Option<Wall>,
        /// How much it is to keep.
        quotas: Quotas,
    },
    /// Somebody who may ask. Descriptor: the socket ([`sys::packets`]), which is all that tells who asks.
    Client(Client),
    /// Finish what is in hand and exit with code 0.
    Stop,
}

/// How a service is to confine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// The user and group to become, if the monitor is root.
    pub run_as: Option<u32>,
    /// Whether a wall with gaps is not enough: then it does not begin to serve.
    pub full: bool,
}

/// How much services keep, as the operator wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// The storage: bytes of keys and values in each app's namespace.
    pub storage_bytes: u64,
    /// The storage: keys in each app's namespace.
    pub storage_keys: u64,
    /// The log: bytes of lines of each program.
    pub log_bytes: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { storage_bytes: 16 << 20, storage_keys: 100_000, log_bytes: 4 << 20 }
    }
}

/// Who may ask: an app; of the log, the monitor and operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The app's number, which is never another app's; 0 if it is none.
    pub app: u16,
    /// Its name, for messages.
    pub name: String,
    /// What it may.
    pub rights: Rights,
}

/// What an app may ask of services, beyond what is its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Other apps' namespaces in the storage.
    pub namespaces: Vec<Namespace>,
    /// Where it may have connections to.
    pub hosts: Vec<Host>,
    /// What it may with the log.
    pub log: Option<LogRight>,
}

/// What somebody may with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRight {
    /// Read it.
    Read,
    /// Add lines to it.
    Write,
}

/// Another app's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// The other's name, by which it is asked for.
    pub name: String,
    /// The other's number.
    pub app: u16,
    /// `storage.read`: it may be read and watched.
    pub read: bool,
    /// `storage.write`: it may be written.
    pub write: bool,
}

/// A host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    /// A name or an address.
    pub name: String,
    /// The TCP port.
    pub port: u16,
}

/// A service to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The process is confined. Descriptor, if there is one: the listener that is told of refused
    /// system calls ([`sys::sandbox::notifications`]).
    Confined {
        /// What could be done.
        report: Report,
    },
    /// It serves.
    Ready,
    /// What is in its file is damaged, and has not been changed; the process exits after this, and is not to
    /// be started again.
    Unfit {
        /// Why, as a phrase.
        why: String,
    },
    /// It cannot go on; the process exits after this.
    Failed {
        /// Why, as a phrase.
        why: String,
    },
}

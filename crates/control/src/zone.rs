//! Messages between the monitor and a zone, over the zone's control socket.
//!
//! A zone may be hostile: a [`ZoneReply`] is a claim of the app about itself, never evidence about
//! anything else.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sys::sandbox::{Limits, Report, Tmp};

use crate::hosting::Hosting;
use crate::log::LogLevel;
use crate::service::ServiceClient;

/// The size of a zone's `/tmp`, unless the app's memory limit makes it smaller.
pub const TMP: Tmp = Tmp { size: 16 << 20, inodes: 1024 };

/// The resource limits (setrlimit(2)) of a zone that are the same for every app.
pub const DEFAULT_LIMITS: Limits =
    Limits { descriptors: 512, threads: 64, file_size: TMP.size, memory: None };

/// The numbers on switches that belong to an app. Each pair is the lowest and the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchNumbers {
    /// Priorities of flows.
    pub band: (u16, u16),
    /// Groups.
    pub groups: (u32, u32),
    /// Meters.
    pub meters: (u32, u32),
}

/// Sent by the monitor to a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZoneRequest {
    /// The first message: confine yourself and load the app. Descriptors: the shared object and the app's
    /// configuration, which may be empty, each in sealed memory. Answered by [`ZoneReply::Confined`] and
    /// then [`ZoneReply::Loaded`], or by [`ZoneReply::Unfit`], [`ZoneReply::NotLoaded`] or
    /// [`ZoneReply::Failed`].
    Load {
        /// The app's name, for messages.
        name: String,
        /// The sandbox to enter first. `None` runs the app with all privileges of the monitor, which only
        /// tests of the sandbox do.
        sandbox: Option<ZoneSandbox>,
        /// The SHA-256 of the object in hexadecimal digits. The zone refuses an object with another one.
        sha256: String,
        /// The numbers on switches that belong to the app.
        numbers: SwitchNumbers,
        /// The names of the services that the app may use.
        services: Vec<String>,
        /// The level of the app's log.
        log_level: LogLevel,
        /// The name of the service with a table that the app provides. A third descriptor is then the memory of the table
        /// ([`sys::table`]), which the zone maps and seals before it confines itself.
        provides: Option<String>,
        /// How to run the app. The descriptors of its listening sockets come last.
        guest: Box<GuestSettings>,
    },
    /// The first and only message of a sandbox probe: confine yourself, report the result and exit.
    /// Descriptors as for [`Load`](Self::Load). Answered by [`ZoneReply::Confined`] or
    /// [`ZoneReply::Failed`].
    Try {
        /// The sandbox to enter.
        sandbox: ZoneSandbox,
    },
    /// From now on, note each call of the app in this memory, so that the monitor notices a call that does
    /// not return. Descriptor: the memory of a [flight recorder](crate::flight).
    Watch,
    /// New rings of the kernel; earlier rings are dead. Descriptors: up doorbell; then, for each worker of
    /// the kernel, up memory, down memory and down doorbell.
    Rings {
        /// Bytes of records that each ring holds.
        capacity: u32,
        /// Most records per call of the app.
        batch: u16,
    },
    /// A service is available; an earlier one of this name is gone. Descriptors: the socket to it
    /// ([`sys::packets`]), and its table if it has one.
    Service {
        /// Its name.
        name: String,
    },
    /// From now on, log the app's lines of this level and of more severe ones.
    LogLevel {
        /// The level.
        level: LogLevel,
    },
    /// A new client of the service that the app provides, or the HTTP interface, which has requests for its routes. Descriptor:
    /// the client's socket, which alone identifies it.
    Client(ServiceClient),
    /// The app exceeds its soft limit of a resource, or has reached the hard one. The zone passes the
    /// alert on to the app.
    Alert {
        /// The resource: the number of an [`names::Limit`].
        limit: u8,
        /// The amount in use, the soft and the hard limit.
        numbers: [u64; 3],
    },
    /// Finish the current batch and exit with code 0.
    Stop,
}

/// How a zone runs its app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSettings {
    /// The hosting, which must be one of the program that receives this.
    pub host: Hosting,
    /// The contents of the object.
    pub form: ObjectForm,
    /// The path of the app's file, or the name of its module, for messages and tracebacks.
    pub object: String,
    /// Directories with modules that the app may import after the confinement. The sandbox grants them.
    pub path: Vec<PathBuf>,
    /// The app's options.
    pub options: BTreeMap<String, String>,
    /// The names of its capabilities, if the program shows them to the app.
    pub capabilities: Vec<String>,
    /// Its listening sockets: a name and an address each.
    pub listeners: Vec<(String, SocketAddr)>,
}

impl GuestSettings {
    /// The settings of an app whose object is a file, and which needs nothing else.
    pub fn of_file(host: Hosting, object: String) -> Self {
        Self {
            host,
            form: ObjectForm::File,
            object,
            path: Vec::new(),
            options: BTreeMap::new(),
            capabilities: Vec::new(),
            listeners: Vec::new(),
        }
    }
}

/// The form of an app's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectForm {
    /// A file of the hosting: a shared object, or the source of a module.
    File,
    /// The name of a module on the import path.
    Module,
    /// An archive with modules; the module `__main__` or `app` is the app.
    Archive,
}

/// The sandbox that a zone must enter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneSandbox {
    /// The user and group to become, if the monitor is root.
    pub run_as: Option<u32>,
    /// Whether every mechanism is required: a zone whose sandbox has gaps then does not load the app.
    pub full: bool,
    /// Environment variables of the process, which has no others. No name is empty or contains `=`, and neither names nor
    /// values contain a zero byte.
    pub env: BTreeMap<String, String>,
    /// Absolute paths that the app may read.
    pub read: Vec<PathBuf>,
    /// Paths that are hidden from every app, even below a path in `read`.
    pub never: Vec<PathBuf>,
    /// The limits for setrlimit(2).
    pub limits: Limits,
}

/// Sent by a zone to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZoneReply {
    /// The process is confined and has not looked at the object yet. Descriptor, if there is one: the
    /// listener that reports refused system calls ([`sys::sandbox::notifications`]).
    Confined {
        /// The confinement that the system granted.
        report: Report,
    },
    /// The app is loaded and created, and waits for rings.
    Loaded {
        /// The version that the object states.
        version: String,
    },
    /// This object cannot create the app with this configuration, so another attempt would fail too. The
    /// process exits after this message.
    Unfit {
        /// The reason, as a phrase.
        why: String,
    },
    /// The system could not load the object: it is no shared object, or needs a library that is missing.
    /// The process exits after this message.
    NotLoaded {
        /// The reason, as a phrase.
        why: String,
    },
    /// The app cannot start or go on. The process exits after this message.
    Failed {
        /// The reason, as a phrase.
        why: String,
    },
    /// The app, which provides a service, has made a change that an operator requested.
    Audit {
        /// Who, what, and the state before and after.
        record: String,
    },
    /// The app reports an incident of the network.
    Incident {
        /// What happened, as a phrase.
        summary: String,
        /// The evidence, as a phrase.
        evidence: String,
    },
    /// The app states a problem that stops its work, in place of its last one.
    Problem {
        /// The problem, as a phrase that says what to do; empty if there is none any more.
        text: String,
    },
}

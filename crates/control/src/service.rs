//! Messages between the monitor and a service, over the service's control socket; and the list of services.
//!
//! All services use the same enums. Only the monitor holds the other end.

use names::Service;
use serde::{Deserialize, Serialize};
use sys::sandbox::Report;

/// A service that is a program of its own. Other services are provided by apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceKind {
    /// The log of all programs, for operators.
    Log,
    /// The storage, for apps.
    Storage,
    /// The broker, for apps.
    Broker,
}

impl ServiceKind {
    /// All services, in the order in which commands show them.
    pub const ALL: [Self; 3] = [Self::Log, Self::Storage, Self::Broker];

    /// The program that is this service for apps; `None` if an app or the monitor provides
    /// the service.
    pub fn of(service: Service) -> Option<Self> {
        match service {
            Service::Storage => Some(Self::Storage),
            Service::Broker => Some(Self::Broker),
            Service::Topology
            | Service::Hosts
            | Service::Stats
            | Service::Apps
            | Service::Operator
            | Service::Ofctl => None,
        }
    }

    /// The service that apps name; `None` for the log.
    pub fn for_apps(self) -> Option<Service> {
        match self {
            Self::Log => None,
            Self::Storage => Some(Service::Storage),
            Self::Broker => Some(Service::Broker),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Storage => Service::Storage.name(),
            Self::Broker => Service::Broker.name(),
        }
    }

    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Log => "rosemary-log",
            Self::Storage => "rosemary-storage",
            Self::Broker => "rosemary-broker",
        }
    }

    /// The name of its state file in the state directory; `None` if it keeps no state.
    pub fn file(self) -> Option<&'static str> {
        match self {
            Self::Log => Some("log.redb"),
            Self::Storage => Some("storage.redb"),
            Self::Broker => None,
        }
    }

    /// An operator's remedy for a damaged state file; `None` if it keeps no state.
    pub fn remedy_for_damage(self) -> Option<String> {
        let file = self.file()?;
        Some(format!(
            "if the disk is sound: stop Rosemary, move {file} away from its state directory, or restore a \
             backup, then start it again"
        ))
    }

    /// Its number among the services, from which the monitor derives the user of its process.
    pub fn number(self) -> u32 {
        match self {
            Self::Log => 0,
            Self::Storage => Service::Storage.number(), // from 1 on
            Self::Broker => Service::Broker.number(),
        }
    }
}

/// Sent by the monitor to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceRequest {
    /// The first message: confine yourself and serve clients. Descriptor, for a service with state: its
    /// state file. Answered by [`ServiceReply::Confined`] and then [`ServiceReply::Ready`], or by
    /// [`ServiceReply::Unfit`] or [`ServiceReply::Failed`].
    Start {
        /// The sandbox to enter; `None` for no sandbox, which only tests request.
        sandbox: Option<ServiceSandbox>,
        /// The bounds of its state.
        quotas: ServiceQuotas,
    },
    /// A new client. Descriptor: the client's socket ([`sys::packets`]), which alone identifies it.
    Client(ServiceClient),
    /// Answer with [`ServiceReply::Pong`], to show that the service does not hang.
    Ping {
        /// The number of the question.
        number: u64,
    },
    /// Finish the requests in hand and exit with code 0.
    Stop,
}

/// The sandbox that a service must enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSandbox {
    /// The user and group to become, if the monitor is root.
    pub run_as: Option<u32>,
    /// Whether every mechanism is required: a service whose sandbox has gaps then does not serve.
    pub full: bool,
}

/// Bounds of the services' state, as the operator configured them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceQuotas {
    /// Storage: bytes of keys and values in each app's namespace.
    pub storage_bytes: u64,
    /// Storage: keys in each app's namespace.
    pub storage_keys: u64,
    /// Log: bytes of lines of each program.
    pub log_bytes: u64,
}

impl Default for ServiceQuotas {
    fn default() -> Self {
        Self { storage_bytes: 16 << 20, storage_keys: 100_000, log_bytes: 4 << 20 }
    }
}

/// A client of a service: an app; for the log, the monitor or an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceClient {
    /// The app's number, which is never reused; 0 if the client is no app.
    pub app: u16,
    /// Its name, for messages.
    pub name: String,
    /// Its rights.
    pub rights: ClientRights,
}

/// The right of the HTTP interface to send an app HTTP requests. No app can have it.
const HTTP: &str = "http";

impl ServiceClient {
    /// The HTTP interface as a client of an app that publishes routes.
    pub fn http_interface() -> Self {
        let rights = ClientRights { names: vec![HTTP.into()], ..ClientRights::default() };
        Self { app: 0, name: "northbound".into(), rights }
    }

    /// Whether it is the HTTP interface.
    pub fn is_http_interface(&self) -> bool {
        self.app == 0 && self.rights.names == [HTTP]
    }
}

/// A client's rights beyond its own state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRights {
    /// Namespaces of other apps in the storage.
    pub namespaces: Vec<Namespace>,
    /// Destinations to which the broker may connect it.
    pub hosts: Vec<Destination>,
    /// Its right to the log.
    pub log: Option<LogRight>,
    /// Its capabilities that concern services which apps provide, such as `topology.read`; `operator` for an operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A right to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRight {
    /// Read lines.
    Read,
    /// Add lines.
    Write,
}

/// The namespace of another app in the storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// The other app's name, by which requests name the namespace.
    pub name: String,
    /// The other app's number.
    pub app: u16,
    /// `storage.read`: the client may read and watch it.
    pub read: bool,
    /// `storage.write`: the client may write it.
    pub write: bool,
}

/// The host and port of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Destination {
    /// The host's name or address.
    pub name: String,
    /// The TCP port.
    pub port: u16,
}

/// Sent by a service to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceReply {
    /// The process is confined. Descriptor, if there is one: the listener that reports refused system
    /// calls ([`sys::sandbox::notifications`]).
    Confined {
        /// The confinement that the system granted.
        report: Report,
    },
    /// The service serves clients.
    Ready,
    /// The disk no longer takes what clients write, or takes it again.
    Disk {
        /// Why it does not, as a phrase with a remedy; `None` if it does.
        failure: Option<String>,
    },
    /// The answer to [`ServiceRequest::Ping`].
    Pong {
        /// The number of the question.
        number: u64,
    },
    /// Its state file is damaged, and unchanged. The process exits after this message, and the monitor
    /// must not start it again.
    Unfit {
        /// The reason, as a phrase.
        why: String,
    },
    /// The service cannot go on. The process exits after this message.
    Failed {
        /// The reason, as a phrase.
        why: String,
    },
}

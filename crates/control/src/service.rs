//! Messages between the monitor and a service, over the service's control socket; and the list of services.
//!
//! All services use the same enums. Only the monitor holds the other end.

use std::fmt;

use names::Service;
use serde::{Deserialize, Serialize};
use sys::sandbox::Report;

use crate::app::Installation;

/// A service that is a program of its own. Other services are provided by apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceKind {
    /// The log of all programs, for operators.
    Log,
    /// The storage, for apps.
    Storage,
    /// The broker, for apps.
    Broker,
    /// The databases of switches, for apps.
    Ovsdb,
    /// The history of figures, for operators. It runs if the operator configures it.
    History,
}

impl ServiceKind {
    /// All services, in the order in which commands show them.
    pub const ALL: [Self; 5] = [Self::Log, Self::Storage, Self::Broker, Self::Ovsdb, Self::History];

    /// The program that is this service for apps; `None` if an app or the monitor provides
    /// the service.
    pub fn of(service: Service) -> Option<Self> {
        match service {
            Service::Storage => Some(Self::Storage),
            Service::Broker => Some(Self::Broker),
            Service::Ovsdb => Some(Self::Ovsdb),
            Service::Topology
            | Service::Hosts
            | Service::Stats
            | Service::Apps
            | Service::Operator
            | Service::Ofctl => None,
        }
    }

    /// The service that apps name; `None` for the log and the history.
    pub fn for_apps(self) -> Option<Service> {
        match self {
            Self::Log | Self::History => None,
            Self::Storage => Some(Service::Storage),
            Self::Broker => Some(Service::Broker),
            Self::Ovsdb => Some(Service::Ovsdb),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::History => "history",
            Self::Storage => Service::Storage.name(),
            Self::Broker => Service::Broker.name(),
            Self::Ovsdb => Service::Ovsdb.name(),
        }
    }

    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Log => "rosemary-log",
            Self::History => "rosemary-history",
            Self::Storage => "rosemary-storage",
            Self::Broker => "rosemary-broker",
            Self::Ovsdb => "rosemary-ovsdb",
        }
    }

    /// The name of its state file in the state directory; `None` if it keeps no state.
    pub fn file(self) -> Option<&'static str> {
        match self {
            Self::Log => Some("log.redb"),
            Self::Storage => Some("storage.redb"),
            Self::History => Some("history.redb"),
            Self::Broker | Self::Ovsdb => None,
        }
    }

    /// Whether a damaged state file is set aside, and the service starts with a new one. Its state is then only for people to read: the
    /// network needs none of it.
    pub fn sets_damage_aside(self) -> bool {
        self == Self::History
    }

    /// Whether its failures count towards a restart of all programs. Failures of the history concern no other program.
    pub fn counts_as_failed(self) -> bool {
        self != Self::History
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
            Self::History => 100, // behind the numbers of all services for apps
            Self::Storage => Service::Storage.number(), // from 1 on
            Self::Broker => Service::Broker.number(),
            Self::Ovsdb => Service::Ovsdb.number(),
        }
    }
}

/// Sent by the monitor to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceRequest {
    /// The first message: confine yourself and serve clients. Descriptor, for a service with state: its
    /// state file, and for the history a channel for requests to the monitor ([`operator`](crate::operator)); for the databases of switches with [`OvsdbStart::tls`]: certificate, key and authorities. Answered by [`ServiceReply::Confined`] and then [`ServiceReply::Ready`], or by
    /// [`ServiceReply::Unfit`] or [`ServiceReply::Failed`].
    Start {
        /// The sandbox to enter; `None` for no sandbox, which only tests request.
        sandbox: Option<ServiceSandbox>,
        /// The bounds of its state.
        quotas: ServiceQuotas,
        /// For [`ServiceKind::Ovsdb`]: the databases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ovsdb: Option<OvsdbStart>,
    },
    /// For [`ServiceKind::Ovsdb`]: the names of all apps that use the service, also if an app does not run at present. Rows of
    /// other apps are removed.
    Apps {
        /// The names.
        names: Vec<String>,
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

/// The settings of the service of databases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OvsdbStart {
    /// The databases.
    pub databases: Vec<OvsdbDatabase>,
    /// Whether keys for TLS come with the message.
    pub tls: bool,
    /// The installation, which the owners of rows name: several Rosemarys may use a database.
    pub installation: Installation,
}

/// A database of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OvsdbDatabase {
    /// The name by which apps and capabilities name it.
    pub name: String,
    /// `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`.
    pub address: String,
}

/// A right to write rows of databases.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OvsdbRight {
    /// The database; `None` for all.
    pub database: Option<String>,
    /// The bridge; `None` for all, and for rows that belong to no bridge.
    pub bridge: Option<String>,
    /// The table.
    pub table: String,
    /// The column; `None` for all.
    pub column: Option<String>,
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
    /// History: bytes of its file.
    pub history_bytes: u64,
    /// History: number of series.
    pub history_series: u32,
    /// History: seconds from one sample to the next.
    pub history_interval: u32,
}

impl Default for ServiceQuotas {
    fn default() -> Self {
        Self {
            storage_bytes: 16 << 20,
            storage_keys: 100_000,
            log_bytes: 4 << 20,
            history_bytes: 1 << 30,
            history_series: 16_384,
            history_interval: 10,
        }
    }
}

/// A client of a service: an app; for the log, the monitor or an operator; for the history, an operator.
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
    /// Whether it may read the history.
    #[serde(default)]
    pub history: bool,
    /// Where it may write rows of databases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ovsdb: Vec<OvsdbRight>,
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

/// The name of the right to write rows of databases.
pub const OVSDB_WRITE: &str = "ovsdb.write";

impl OvsdbRight {
    /// Reads what follows `ovsdb.write:`; `None` if it is not `DATABASE:BRIDGE:TABLE` or `DATABASE:BRIDGE:TABLE.COLUMN`.
    pub fn of_scope(text: &str) -> Option<Self> {
        let is_name = |it: &str| {
            (1..=64).contains(&it.len())
                && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.@".contains(&it))
        };
        let is_word = |it: &str| {
            (1..=64).contains(&it.len())
                && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
        };
        let any = |it: &str| match it {
            "*" => Some(None),
            it => is_name(it).then(|| Some(it.to_owned())),
        };
        let mut parts = text.split(':');
        let (database, bridge, table) = (parts.next()?, parts.next()?, parts.next()?);
        let (table, column) = match table.split_once('.') {
            Some((table, column)) => (table, Some(column)),
            None => (table, None),
        };
        let fits = parts.next().is_none() && is_word(table) && column.is_none_or(is_word);
        fits.then_some(())?;
        let (database, bridge) = (any(database)?, any(bridge)?);
        let (table, column) = (table.to_owned(), column.map(ToOwned::to_owned));
        Some(Self { database, bridge, table, column })
    }

    /// Whether `most` grants all of this.
    pub fn is_within(&self, most: &Self) -> bool {
        let covers = |most: &Option<String>, it: &Option<String>| most.is_none() || most == it;
        covers(&most.database, &self.database)
            && covers(&most.bridge, &self.bridge)
            && most.table == self.table
            && covers(&most.column, &self.column)
    }

    /// Whether it is about this database.
    pub fn is_of(&self, database: &str) -> bool {
        self.database.as_deref().is_none_or(|it| it == database)
    }
}

impl fmt::Display for OvsdbRight {
    /// Writes the capability of the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |it: &Option<String>| it.clone().unwrap_or_else(|| "*".to_owned());
        let (database, bridge) = (any(&self.database), any(&self.bridge));
        write!(f, "{OVSDB_WRITE}:{database}:{bridge}:{}", self.table)?;
        self.column.as_ref().map_or(Ok(()), |column| write!(f, ".{column}"))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_to_write_rows_are_read_as_they_are_written() {
        for text in ["edge:br0:QoS", "*:*:Queue", "edge-1:*:Port.qos"] {
            let right = OvsdbRight::of_scope(text).unwrap();
            assert_eq!(right.to_string(), format!("ovsdb.write:{text}"));
        }
        for text in [
            "",
            "edge",
            "edge:br0",
            "edge:br0:",
            "a:b:*",
            "a:b:QoS:c",
            "a b:c:QoS",
            ":b:QoS",
            "a:b:QoS.",
        ] {
            assert_eq!(OvsdbRight::of_scope(text), None, "{text}");
        }
    }

    #[test]
    fn right_is_within_a_wider_one() {
        let of = |text| OvsdbRight::of_scope(text).unwrap();
        let wide = of("*:br0:QoS");
        for (text, is_within) in [
            ("edge:br0:QoS", true),
            ("*:br0:QoS.queues", true),
            ("edge:*:QoS", false),
            ("edge:br1:QoS", false),
            ("edge:br0:Queue", false),
        ] {
            assert_eq!(of(text).is_within(&wide), is_within, "{text}");
        }
        assert!(
            !wide.is_within(&of("edge:br0:QoS")) && !of("*:*:Port").is_within(&of("*:*:Port.qos"))
        );
    }
}

//! Messages between the monitor and the HTTP interface, `rosemary-northbound`, over its control socket.
//!
//! Only the monitor holds the other end. The process receives a second socket at its start, the admin channel: over that it
//! sends [`OperatorRequest`](crate::operator::OperatorRequest)s, as the `rosemary` command does.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sys::sandbox::Report;

use crate::service::ServiceSandbox;

/// The name of the interface's Unix socket in the runtime directory.
pub const API_SOCKET: &str = "api.sock";

/// The rights of a user. A greater role includes the lesser ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read.
    Viewer,
    /// Also act on the network and on apps that are configured.
    Operator,
    /// Also change the configuration, packages and tokens.
    Admin,
}

impl Role {
    /// All roles, in ascending order.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let role = Self::ALL.into_iter().find(|role| role.name() == text);
        role.ok_or("say viewer (reads), operator (also acts on the network and apps) or admin (also configures)")
    }
}

/// The role of a client on this machine that shows no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loopback {
    /// That of its user: root and the user who started Rosemary are admins, others viewers.
    #[default]
    User,
    /// Every such client is a viewer.
    Viewer,
    /// None: such a client must show a token.
    None,
}

impl FromStr for Loopback {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "user" => Ok(Self::User),
            "viewer" => Ok(Self::Viewer),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

/// The purpose of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListenerRole {
    /// The API and the page, over TCP.
    Api,
    /// The API, over a Unix socket. Its mode decides about connections.
    Unix,
    /// The metrics alone.
    Metrics,
    /// The façade for clients of Ryu.
    Ofctl,
    /// Requests for the routes of apps.
    Apps,
}

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NorthboundListener {
    /// Its purpose.
    pub role: ListenerRole,
    /// Its address; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
}

/// Whether clients at this address speak TLS: other machines can reach it.
pub fn needs_tls(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// The operator's settings of the interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NorthboundSettings {
    /// The role of clients on this machine without a token.
    pub loopback: Loopback,
    /// Names besides addresses and `localhost` by which clients may call this machine.
    pub names: Vec<String>,
    /// The user who started Rosemary.
    pub uid: u32,
    /// What clients of Ryu's REST interface may do.
    #[serde(default)]
    pub ofctl: OfctlRest,
}

/// What clients of Ryu's REST interface may do, whoever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfctlRest {
    /// It is not served.
    #[default]
    Off,
    /// Read.
    Read,
    /// Also write flows, groups, meters and ports.
    Write,
}

impl FromStr for OfctlRest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            _ => Err(()),
        }
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Identifies it in lists and audit records.
    pub id: String,
    /// Its name, which the operator chose.
    pub name: String,
    /// The role that it gives.
    pub role: Role,
    /// The SHA-256 of the secret in hexadecimal digits. The secret has 256 random bits, so a slow hash would add nothing.
    pub sha256: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it ends, in seconds since 1970; `None` for never.
    pub expires: Option<u64>,
    /// Whether it can be exchanged once for a session, and for nothing else.
    #[serde(default)]
    pub one_time: bool,
}

/// Everything by which users are recognised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The valid tokens.
    pub tokens: Vec<TokenRecord>,
    /// The key that signs sessions, in hexadecimal digits. It lives as long as the monitor, so that sessions outlive a restart of
    /// this process.
    pub session_key: String,
    /// The users whose certificates were revoked.
    #[serde(default)]
    pub revoked: Vec<RevokedUser>,
}

/// A user whose certificates were revoked. Later ones are valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokedUser {
    /// The name in the certificates.
    pub name: String,
    /// Certificates whose validity begins before this time are revoked, in seconds since 1970.
    pub before: u64,
}

/// Sent by the monitor to the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NorthboundRequest {
    /// The first message: confine yourself and serve. Answered by [`NorthboundReply::Confined`] and then
    /// [`NorthboundReply::Ready`], or by [`NorthboundReply::Failed`].
    ///
    /// Descriptors, in this order: the listening sockets; the admin channel; if `peers`, a socket of `sock_diag(7)`; if `keys`, the
    /// certificate, the private key and the authorities for TLS as PEM, each in sealed memory.
    Start {
        /// The sandbox to enter; `None` for no sandbox, which only tests request.
        sandbox: Option<ServiceSandbox>,
        /// The listening sockets.
        listeners: Vec<NorthboundListener>,
        /// The operator's settings.
        settings: NorthboundSettings,
        /// By what users are recognised.
        credentials: Credentials,
        /// Whether the users of local connections can be found.
        peers: bool,
        /// Whether keys for TLS come with the message. Without them no socket of the API is at an address that [`needs_tls`].
        keys: bool,
    },
    /// Also serve this listening socket, which is the descriptor.
    Listen(NorthboundListener),
    /// An app that publishes routes is loaded; an earlier connection to it is gone. Descriptor: the socket to it
    /// ([`sys::packets`]), over which `sdk::http` says what is sent. The app may be hostile.
    App {
        /// Its name.
        name: String,
    },
    /// From now on, users are recognised by these.
    Credentials(Credentials),
    /// Answer with [`NorthboundReply::Pong`], to show that the process does not hang.
    Ping {
        /// The number of the question.
        number: u64,
    },
    /// Finish the requests in hand and exit with code 0.
    Stop,
}

/// Sent by the process to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NorthboundReply {
    /// The process is confined. Descriptor, if there is one: the listener that reports refused system
    /// calls ([`sys::sandbox::notifications`]).
    Confined {
        /// The confinement that the system granted.
        report: Report,
    },
    /// The process serves clients.
    Ready,
    /// The answer to [`NorthboundRequest::Ping`].
    Pong {
        /// The number of the question.
        number: u64,
    },
    /// This one-time token was used and must not be valid any more.
    Used {
        /// The token's [`TokenRecord::id`].
        id: String,
    },
    /// The process cannot go on. It exits after this message.
    Failed {
        /// The reason, as a phrase.
        why: String,
    },
}

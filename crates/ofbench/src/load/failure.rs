//! Describes why a run failed, in messages that name the side at fault.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use openflow::Dpid;
use thiserror::Error;

use crate::checker::WrongAnswer;
use crate::switch::Fault;

/// The error that ended a run without a result.
#[derive(Debug, Error)]
pub struct Failure {
    /// The switch concerned, if it is a single one.
    pub switch: Option<Dpid>,
    /// The cause.
    pub kind: FailureKind,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind) -> Self {
        Self { switch: None, kind }
    }

    /// Whether the requested run is impossible.
    pub fn is_usage(&self) -> bool {
        matches!(self.kind, FailureKind::Usage(_))
    }

    pub(crate) fn of(switch: Dpid, kind: FailureKind) -> Self {
        Self { switch: Some(switch), kind }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.switch {
            Some(dpid) => write!(f, "switch {dpid}: {}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

/// The cause of a [`Failure`].
#[derive(Debug, Error)]
pub enum FailureKind {
    /// The requested run is impossible.
    #[error("{0}")]
    Usage(String),
    /// Nothing accepts connections at the address.
    #[error("cannot connect to {to}: {why}; is a controller listening there?")]
    Unreachable {
        /// The address.
        to: SocketAddr,
        /// The error of the system.
        why: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {why}")]
    System {
        /// What failed.
        what: &'static str,
        /// The error of the system.
        why: io::Error,
    },
    /// The controller closed the connection during the handshake.
    #[error("the controller closed the connection during the handshake{last_message}")]
    ClosedEarly {
        /// Its last message, as a clause.
        last_message: String,
    },
    /// The controller closed the connection after the handshake.
    #[error("the controller closed the connection while it was under load{last_message}")]
    Closed {
        /// Its last message, as a clause.
        last_message: String,
    },
    /// The connection failed.
    #[error("the connection broke{when}: {why}")]
    Broken {
        /// When, as in ` during the handshake`.
        when: &'static str,
        /// The error of the system or of TLS.
        why: io::Error,
    },
    /// The controller violates the protocol.
    #[error("the controller violates the protocol: {0}")]
    Fault(#[from] Fault),
    /// The peer does not speak OpenFlow.
    #[error("{0}")]
    NotOpenFlow(#[from] crate::connection::InvalidHeader),
    /// The controller gave a wrong answer.
    #[error("wrong answer: {0}")]
    WrongAnswer(#[from] Box<WrongAnswer>),
    /// The controller sends without reading.
    #[error("the controller does not read the switches' replies: {0} bytes are queued")]
    NotReading(usize),
    /// The requested rate cannot be sent.
    #[error(
        "{0} packet-ins are due but not sent: the controller or this machine cannot keep up \
         with --rate"
    )]
    Behind(usize),
    /// The handshakes exceed their time limit.
    #[error(
        "only {settled} of {of} switches completed the handshake within {} s: the controller is \
          slow or waits for something; --patience sets a longer limit",
        after.as_secs()
    )]
    NotSettled {
        /// Number of settled switches.
        settled: usize,
        /// Number of switches.
        of: usize,
        /// The time limit.
        after: Duration,
    },
    /// The controller answers no packet-in.
    #[error(
        "the controller answered no packet-in in {} s. It must run a learning switch; if it answers \
          with flow-mods only although packets are not buffered, use --answer flow-mod",
        after.as_secs()
    )]
    NoAnswers {
        /// Time without an answer.
        after: Duration,
    },
    /// Another switch failed, or the run ended.
    #[error("stopped")]
    Stopped,
}

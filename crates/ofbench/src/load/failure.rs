//! What can go wrong, in words that say whose fault it is.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use openflow::Dpid;
use thiserror::Error;

use crate::ledger::Wrong;
use crate::switch::Fault;

/// Why a run ended without a result.
#[derive(Debug, Error)]
pub struct Failure {
    /// The switch that it happened to, if it was one.
    pub switch: Option<Dpid>,
    /// What happened.
    pub trouble: Trouble,
}

impl Failure {
    pub(crate) fn new(trouble: Trouble) -> Self {
        Self { switch: None, trouble }
    }

    /// Whether what was asked for cannot be done.
    pub fn is_usage(&self) -> bool {
        matches!(self.trouble, Trouble::Usage(_))
    }

    pub(crate) fn of(switch: Dpid, trouble: Trouble) -> Self {
        Self { switch: Some(switch), trouble }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.switch {
            Some(dpid) => write!(f, "switch {dpid}: {}", self.trouble),
            None => self.trouble.fmt(f),
        }
    }
}

/// What happened.
#[derive(Debug, Error)]
pub enum Trouble {
    /// What was asked for cannot be done.
    #[error("{0}")]
    Usage(String),
    /// Nobody is there.
    #[error("cannot connect to {to}: {why}; is a controller listening there?")]
    NotThere {
        /// Where.
        to: SocketAddr,
        /// What the system says.
        why: io::Error,
    },
    /// The system does not let us.
    #[error("{what}: {why}")]
    System {
        /// What could not be done.
        what: &'static str,
        /// What the system says.
        why: io::Error,
    },
    /// It closed the connection in the handshake.
    #[error("the controller closed the connection during the handshake{said}")]
    ClosedEarly {
        /// What it said last.
        said: String,
    },
    /// It closed the connection later.
    #[error("the controller closed the connection while it was under load{said}")]
    Closed {
        /// What it said last.
        said: String,
    },
    /// The connection broke.
    #[error("the connection broke{when}: {why}")]
    Broken {
        /// When, as ` during the handshake`.
        when: &'static str,
        /// What the system, or TLS, says.
        why: io::Error,
    },
    /// It does not keep to the protocol.
    #[error("the controller cannot be spoken with: {0}")]
    Fault(#[from] Fault),
    /// What it sends is no OpenFlow.
    #[error("{0}")]
    NoOpenFlow(#[from] crate::connection::NoMessage),
    /// It answered wrongly.
    #[error("wrong answer: {0}")]
    Wrong(#[from] Box<Wrong>),
    /// It sends, and does not read.
    #[error("the controller does not read what switches answer it: {0} bytes wait")]
    DoesNotRead(usize),
    /// It cannot be asked as fast as it is to be.
    #[error(
        "{0} packet-ins are due that cannot be sent yet: neither the controller nor this machine \
         keeps up with --rate"
    )]
    Behind(usize),
    /// Its handshakes take too long.
    #[error(
        "only {settled} of {of} switches had completed the handshake after {} s: the controller is \
         slow or waits for something; --patience gives it longer",
        after.as_secs()
    )]
    NotSettled {
        /// Switches that are settled.
        settled: usize,
        /// Switches.
        of: usize,
        /// How long was waited.
        after: Duration,
    },
    /// It answers nothing.
    #[error(
        "the controller answered no packet-in in {} s. A learning switch has to run in it; if it answers \
         with flow-mods alone although packets are not buffered, say --answer flow-mod",
        after.as_secs()
    )]
    Mute {
        /// How long was waited.
        after: Duration,
    },
    /// Another switch failed, or the run was ended.
    #[error("stopped")]
    Stopped,
}

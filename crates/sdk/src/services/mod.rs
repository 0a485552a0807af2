//! Sends an application's requests to services. A service is another process and owns one kind of state.
//!
//! A call sends a message. The answer is an event in a later batch with the call's [`RequestId`]; see
//! `docs/decisions/0003-services.md`. The operator's configuration names the services that an application reaches.
//! [`Event::ServiceUp`](crate::Event::ServiceUp) says that one has started or restarted; earlier requests get
//! [`Unavailable`]. Requests and answers that are underway when the application's own process ends
//! are lost.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`storage`] | values under keys, durable |
//! | [`apps`] | counters of other applications, and limits for them |
//! | [`broker`] | connections to hosts that the operator has named |
//! | [`topology`] | switches, ports and links that were found |
//! | `host` | the host's side of the sockets, with the feature `host` |
//! | [`hosts`] | where each host is, and its addresses |
//! | [`layout`] | where a table's records are |
//! | [`operator`] | changes of switches that people request |
//! | [`ovsdb`] | the databases of switches |
//! | [`stats`] | counters and rates of switches |
//! | [`table`] | tables that services publish, and the changes of their records |
//! | [`user`] | the user for whom the HTTP interface sends a request |
//! | [`wire`] | the layout of requests and answers |
//!
//! A packet on the socket between a zone and a service, all numbers little endian:
//!
//! ```text
//! request     id u64 | the request, see the service's module
//! answer      id u64 | more u8 | the answer, see the service's module      more: 1 if another answer follows
//! ```

pub mod apps;
pub mod broker;
#[cfg(feature = "host")]
pub mod host;
pub mod hosts;
pub mod layout;
pub mod operator;
pub mod ovsdb;
pub mod stats;
pub mod storage;
pub mod table;
pub mod topology;
pub mod user;
pub mod wire;

use std::os::fd::OwnedFd;

pub use names::{ANSWER_HEAD, MAX_MESSAGE, REQUEST_HEAD, Service};
use thiserror::Error;

use crate::network::Network;

/// The first byte of a request to a service that an application provides: watch its table. The host of the provider answers
/// with the table's descriptor, and then with each change: a byte, the number of a [`table::NewsKind`], and the changes.
pub const WATCH: u8 = 0;

/// The first byte of a request that the providing application itself answers.
pub const REQUEST_OF_APP: u8 = 1;

/// Most requests of an application that wait for one service at a time, watches included.
pub const MAX_WAITING: usize = 64;

/// The number of a request; never 0, and never the same twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AskError {
    /// The operator's configuration does not name this service for this application.
    #[error("the service is not named for this app: add it to `services` in its [[app]]")]
    NotNamed,
    /// [`MAX_WAITING`] requests already wait for this service.
    #[error("{MAX_WAITING} requests already wait for this service's answers")]
    TooMany,
    /// The request is too long.
    #[error("a request has {MAX_MESSAGE} bytes at most")]
    TooLong,
}

impl AskError {
    /// All errors.
    const ALL: [Self; 3] = [Self::NotNamed, Self::TooMany, Self::TooLong];

    /// Returns its code in the ABI, which `ask` returns.
    pub fn code(self) -> i64 {
        match self {
            Self::NotNamed => -1,
            Self::TooMany => -2,
            Self::TooLong => -3,
        }
    }

    /// Returns the error with this code in the ABI.
    pub(crate) fn from_code(code: i64) -> Self {
        Self::ALL.into_iter().find(|it| it.code() == code).unwrap_or(Self::NotNamed)
    }
}

/// The service was not running, or ended before it answered: it may or may not have carried out the request. A watch
/// has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the service is not available")]
pub struct Unavailable;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The body is the service's answer.
    Answered = 0,
    /// See [`Unavailable`].
    Unavailable = 1,
    /// About no request: the service has started.
    Up = 2,
}

impl Outcome {
    /// Returns the outcome with this number in a record.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Answered, Self::Unavailable, Self::Up].into_iter().find(|it| *it as u8 == number)
    }
}

impl Network<'_> {
    /// Returns the client through which the application uses the storage.
    pub fn storage(&mut self) -> storage::Client<'_> {
        storage::Client::new(self.host())
    }

    /// Requests a TCP connection from the broker. [`Event::Broker`](crate::Event::Broker) is the answer; while the
    /// application handles it, [`take`](Self::take) returns the connection.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn connect(&mut self, host: &str, port: u16) -> Result<RequestId, AskError> {
        let request = broker::Request { host, port }.encode();
        self.host().ask(Service::Broker, &request)
    }

    /// Returns the descriptor that came with the answer that the application handles now; `None` if there is none or it
    /// was already taken.
    ///
    /// A connection does not block and cannot be connected again. `File::from` makes it readable and writable; an
    /// application that has to wait sets a timer with [`wake_at`](Self::wake_at).
    pub fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        self.host().take(request)
    }
}

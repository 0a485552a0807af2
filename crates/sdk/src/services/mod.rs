//! What an application asks of services: other processes, each of which owns one kind of state.
//!
//! A call is a message, its answer an event in a later batch, with the call's [`RequestId`]; see
//! `docs/decisions/0003-services.md`. Which services an application reaches the operator's
//! configuration names, and it learns by [`Event::ServiceUp`](crate::Event::ServiceUp) that one is there,
//! at the start and again when the service was started anew. What it asks before is answered by
//! [`Unavailable`]. Requests and answers that are underway when the application's own process ends
//! are lost.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`storage`] | values under keys, durable |
//! | [`broker`] | connections to hosts that the operator has named |
//! | [`wire`] | how requests and answers are laid out |
//!
//! A packet on the socket between a zone and a service, all numbers little endian:
//!
//! ```text
//! request     id u64 | what the service's module says
//! answer      id u64 | more u8 | what the service's module says      more: 1 if the same id is answered again
//! ```

pub mod broker;
pub mod storage;
pub mod wire;

use std::os::fd::OwnedFd;

use thiserror::Error;

use crate::network::Network;

/// Bytes of a request or an answer, at most.
pub const MAX_MESSAGE: usize = 40 * 1024;

/// Bytes before a request: its id.
pub const REQUEST_HEAD: usize = 8;

/// Bytes before an answer: its request's id, and whether more follow.
pub const ANSWER_HEAD: usize = 9;

/// Requests of an application that may wait for one service at a time, watches among them.
pub const MAX_WAITING: usize = 64;

/// A service, as an application names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Service {
    /// Values under keys, durable.
    Storage = 1,
    /// Connections to hosts.
    Broker = 2,
}

impl Service {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::Storage, Self::Broker];

    /// From its number in the ABI.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// Its number in the ABI.
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// From its name in the configuration.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Broker => "broker",
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Which request of this application an answer is for; never 0, and never given twice by a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AskError {
    /// The operator's configuration does not name this service for this application, or the
    /// application runs in the kernel.
    #[error("the service is not named for this app: add it to `services` in its [[app]]")]
    NotNamed,
    /// As many requests as there may be wait for this service.
    #[error("{MAX_WAITING} requests wait for this service's answers already")]
    TooMany,
    /// It is too long.
    #[error("a request has {MAX_MESSAGE} bytes at most")]
    TooLong,
}

impl AskError {
    /// All that there are.
    const ALL: [Self; 3] = [Self::NotNamed, Self::TooMany, Self::TooLong];

    /// What `ask` of the ABI returns for it.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::NotNamed => -1,
            Self::TooMany => -2,
            Self::TooLong => -3,
        }
    }

    /// From what `ask` of the ABI returned.
    pub(crate) fn from_code(code: i64) -> Self {
        Self::ALL.into_iter().find(|it| it.code() == code).unwrap_or(Self::NotNamed)
    }
}

/// The service was not there, or ended before it answered: what was asked may or may not have been
/// done. A watch is over.
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
    /// No request's: the service is there now.
    Up = 2,
}

impl Outcome {
    /// From its number in a record.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Answered, Self::Unavailable, Self::Up].into_iter().find(|it| *it as u8 == number)
    }
}

impl Network<'_> {
    /// What can be asked of the storage.
    pub fn storage(&mut self) -> storage::Client<'_> {
        storage::Client::new(self.host())
    }

    /// Asks the broker for a TCP connection. Answered by
    /// [`Event::Broker`](crate::Event::Broker), when [`take`](Self::take) gives the connection.
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
    pub fn connect(&mut self, host: &str, port: u16) -> Result<RequestId, AskError> {
        let request = broker::Request { host, port }.encode();
        self.host().ask(Service::Broker, &request)
    }

    /// Takes the descriptor that came with the answer in hand: once, and before the event is handled.
    ///
    /// A connection neither waits nor can be connected again. `File::from` it to read and write;
    /// [`wake_at`](Self::wake_at) to look again later.
    pub fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        self.host().take(request)
    }
}

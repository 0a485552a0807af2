//! Connects a [`Client`] to a server with blocking sockets, for programs that do one thing after the other.
//!
//! This is the only module of the crate that has sockets and reads the clock.

mod address;
mod stream;

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use thiserror::Error;

pub use rustls::ClientConfig;

pub use self::address::{Address, AddressError, Host};
use self::stream::Stream;

use crate::client::{Client, Closed, Event, NotSent, Settings};
use crate::image::Image;
use crate::outcome::{Done, Failure};
use crate::schema::Schema;
use crate::transaction::Operation;
use crate::wanted::Wanted;

/// The size of the read buffer in bytes.
const BUFFER: usize = 64 * 1024;

/// How long output may wait at least for a server that does not read. A partly sent message ends the connection.
const WRITES_WITHIN: Duration = Duration::from_secs(1);

/// Most events that wait for [`Connection::next_event`], and most changes of rows in them: twice the rows of an image.
const MOST_EVENTS: usize = 10_000;
const MOST_CHANGES: usize = 200_000;

/// A server, and the keys for it.
#[derive(Clone)]
pub struct Server {
    /// Where it listens.
    pub address: Address,
    /// The keys of the client and the authorities that it trusts; needed for [`Address::Tls`] only.
    pub tls: Option<Arc<ClientConfig>>,
}

/// A connected client.
pub struct Connection {
    server: Server,
    client: Client,
    stream: Option<Stream>,
    events: VecDeque<Event>,
    buffer: Vec<u8>,
}

/// The connection failed.
#[derive(Debug, Error)]
pub enum DriverError {
    /// No connection came about.
    #[error(
        "cannot connect to {address}; let the server listen there, as with `ovs-vsctl set-manager pssl:6640` on the switch"
    )]
    Connect {
        /// The address.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The connection, or TLS, failed.
    #[error("the connection to {address} failed")]
    Io {
        /// The address.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("{0} closed the connection; try ssl: instead of tcp: if it expects TLS")]
    Ended(Address),
    /// The client closed the connection.
    #[error("the connection to {address} was closed")]
    Closed {
        /// The address.
        address: Address,
        /// Why.
        source: Box<Closed>,
    },
    /// The server sends changes faster than the caller reads the events.
    #[error("{0} sends more changes than can be handled; monitor fewer tables")]
    TooManyEvents(Address),
    /// Something did not happen in time.
    #[error("{address}: no answer within {} s", limit.as_secs())]
    TooLate {
        /// The address.
        address: Address,
        /// The time limit.
        limit: Duration,
    },
}

/// A transaction did not succeed.
#[derive(Debug, Error)]
pub enum TransactError {
    /// It was not sent.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// The server refused it, or its result is unknown.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The connection failed. The server may have carried out the transaction.
    #[error(
        "the connection failed before the answer; read the rows to learn whether they have changed"
    )]
    Connection(#[from] DriverError),
}

impl Connection {
    /// Connects, and waits until the image shows the database.
    ///
    /// # Errors
    /// [`DriverError`]; after `limit` [`DriverError::TooLate`].
    pub fn open(
        server: Server,
        wanted: Wanted,
        settings: Settings,
        limit: Duration,
    ) -> Result<Self, DriverError> {
        let mut connection = Self::new(server, wanted, settings);
        connection.connect(limit)?;
        Ok(connection)
    }

    /// Returns a connection that does not exist yet: [`reconnect`](Self::reconnect) makes it.
    pub fn new(server: Server, wanted: Wanted, settings: Settings) -> Self {
        let client = Client::new(wanted, settings, Instant::now());
        Self { server, client, stream: None, events: VecDeque::new(), buffer: vec![0; BUFFER] }
    }

    /// Returns when the back-off allows the next connection; `None` if it allows one now.
    pub fn reconnect_at(&self) -> Option<Instant> {
        self.client.reconnect_at()
    }

    /// Returns when [`next_event`](Self::next_event) has to be called although the server sends nothing.
    pub fn deadline(&self) -> Option<Instant> {
        self.client.deadline()
    }

    /// Returns the socket, which becomes readable when the server sends; `None` without a connection.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(Stream::socket)
    }

    /// Connects again after an error, when the back-off allows it, and waits until the image shows the database.
    ///
    /// # Errors
    /// Like [`open`](Self::open); the next call makes the next attempt.
    pub fn reconnect(&mut self, limit: Duration) -> Result<(), DriverError> {
        let now = Instant::now();
        let pause = self.client.reconnect_at().map(|at| at.saturating_duration_since(now));
        std::thread::sleep(pause.unwrap_or_default());
        self.connect(limit)
    }

    fn connect(&mut self, limit: Duration) -> Result<(), DriverError> {
        let deadline = Instant::now() + limit;
        match Stream::open(&self.server.address, self.server.tls.as_ref(), deadline) {
            Ok(stream) => self.stream = Some(stream),
            Err(source) => {
                let address = self.server.address.clone();
                return Err(self.failed(DriverError::Connect { address, source }));
            }
        }
        self.client.connected(Instant::now());
        while !self.client.is_synchronized() {
            if Instant::now() >= deadline {
                let address = self.server.address.clone();
                return Err(self.failed(DriverError::TooLate { address, limit }));
            }
            self.step(deadline)?;
        }
        Ok(())
    }

    /// Returns the next event, or `None` after `limit`.
    ///
    /// # Errors
    /// [`DriverError`]; [`reconnect`](Self::reconnect) may help.
    pub fn next_event(&mut self, limit: Duration) -> Result<Option<Event>, DriverError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            self.step(deadline)?;
        }
    }

    /// Carries out a transaction. Other events wait for [`next_event`](Self::next_event).
    ///
    /// # Errors
    /// [`TransactError`].
    pub fn transact(
        &mut self,
        operations: &[Operation],
        limit: Duration,
    ) -> Result<Vec<Done>, TransactError> {
        let deadline = Instant::now() + limit;
        let id = self.client.transact(operations, deadline)?;
        loop {
            let is_it = |event: &Event| matches!(event, Event::Transacted(its, _) if *its == id);
            if let Some(at) = self.events.iter().position(is_it)
                && let Some(Event::Transacted(_, outcome)) = self.events.remove(at)
            {
                return Ok(outcome?);
            }
            // Later than the deadline of the client, which then closes the connection.
            if let Err(error) = self.step(deadline + Duration::from_millis(1)) {
                self.events.retain(|event| !is_it(event));
                return Err(error.into());
            }
        }
    }

    /// Returns the image.
    pub fn image(&self) -> &Image {
        self.client.image()
    }

    /// Returns the server's schema.
    pub fn schema(&self) -> Option<&Schema> {
        self.client.schema()
    }

    /// Returns the method by which the image follows the database.
    pub fn method(&self) -> Option<&'static str> {
        self.client.method()
    }

    /// Returns the address of this end; `None` for a socket of this machine.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.stream.as_ref()?.local_address()
    }

    /// Returns the certificate that the server presented.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.stream.as_ref()?.certificate()
    }

    /// Sends what waits, and reads once, until `deadline` at the latest.
    fn step(&mut self, deadline: Instant) -> Result<(), DriverError> {
        let now = Instant::now();
        if let Err(closed) = self.client.tick(now) {
            return Err(self.closed(closed));
        }
        let until = self.client.deadline().map_or(deadline, |it| it.min(deadline));
        let output = self.client.take_output();
        let address = &self.server.address;
        let Some(stream) = &mut self.stream else {
            return Err(DriverError::Ended(address.clone()));
        };
        let read = stream
            .write(&output, deadline.max(now + WRITES_WITHIN))
            .and_then(|()| stream.read(&mut self.buffer, until));
        let read = match read {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => return Err(self.failed(DriverError::Ended(self.server.address.clone()))),
            Ok(Some(read)) => read,
            Err(source) => {
                let address = address.clone();
                return Err(self.failed(DriverError::Io { address, source }));
            }
        };
        let bytes = self.buffer.get(..read).unwrap_or_default();
        let mut events = Vec::new();
        let handled = self.client.handle(bytes, Instant::now(), &mut events);
        self.events.extend(events);
        handled.map_err(|closed| self.closed(closed))?;
        let changes: usize = self.events.iter().map(Event::changes).sum();
        if self.events.len() > MOST_EVENTS || changes > MOST_CHANGES {
            self.events.clear();
            return Err(self.failed(DriverError::TooManyEvents(self.server.address.clone())));
        }
        Ok(())
    }

    fn closed(&mut self, closed: Closed) -> DriverError {
        let (address, source) = (self.server.address.clone(), Box::new(closed));
        self.failed(DriverError::Closed { address, source })
    }

    /// Closes the connection; the back-off begins.
    fn failed(&mut self, error: DriverError) -> DriverError {
        self.stream = None;
        let mut events = Vec::new();
        // Random enough to keep clients apart.
        let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
        let jitter = u32::from_ne_bytes([a, b, c, d]);
        self.client.disconnected(Instant::now(), jitter, &mut events);
        self.events.extend(events);
        error
    }
}

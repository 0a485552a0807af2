//! The client of one database: a state machine without socket and clock.
//!
//! ```text
//!  connected --> list_dbs --> get_schema, check --> monitor_cond_since | monitor_cond | monitor --> synchronized
//!      ^                                                                                                |
//!      +------------------------- disconnected, after a pause <-----------------------------------------+
//! ```
//!
//! The caller owns the socket. It passes in bytes and the time, sends [`Client::take_output`], calls [`Client::tick`] at
//! [`Client::deadline`] at the latest, and after an error closes the connection and calls [`Client::disconnected`].
//!
//! The image stays over reconnections. The server sends the changes since the last transaction that the client knows, if the server still
//! has them, otherwise all rows.

mod closed;
mod receive;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use thiserror::Error;

pub use self::closed::Closed;

use crate::backoff::Backoff;
use crate::framing::{FrameLimits, Splitter};
use crate::image::{Change, Image, ImageLimits};
use crate::outcome::{Done, Failure};
use crate::rpc;
use crate::schema::Schema;
use crate::transaction::{self, Expected, Operation, TransactionError};
use crate::update::Form;
use crate::wanted::{Selection, Wanted};

/// The name of the client's monitor.
const MONITOR: &str = "rosemary";

/// The identifier of a transaction that no database has, for the first `monitor_cond_since`.
const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";

/// The times and bounds of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The bounds of a message.
    pub frames: FrameLimits,
    /// The bounds of the image.
    pub image: ImageLimits,
    /// Most bytes that wait for the socket.
    pub output: usize,
    /// Most transactions without an answer.
    pub transactions: usize,
    /// How long the server may take for an answer that is not to a transaction.
    pub answer: Duration,
    /// Time without a whole message after which the client sends an echo. The connection is closed if no byte has come for twice this time,
    /// or if the echo has no answer.
    pub probe: Duration,
    /// The pause before the first reconnection.
    pub first_pause: Duration,
    /// The longest pause before a reconnection.
    pub longest_pause: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            frames: FrameLimits::default(),
            image: ImageLimits::default(),
            output: 16 << 20,
            transactions: 64,
            answer: Duration::from_secs(10),
            probe: Duration::from_secs(5),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// The number of a transaction of this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

/// A change of the image, or the end of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The image shows the server's database as of now. The changes are those since the image was last up to date.
    Synchronized(Vec<Change>),
    /// Rows of the image have changed.
    Changed(Vec<Change>),
    /// A transaction has ended.
    Transacted(TransactionId, Result<Vec<Done>, Failure>),
}

impl Event {
    /// The number of changed rows in the event.
    pub fn changes(&self) -> usize {
        match self {
            Self::Synchronized(changes) | Self::Changed(changes) => changes.len(),
            Self::Transacted(..) => 0,
        }
    }
}

/// A transaction was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotSent {
    /// The client is not connected and synchronized.
    #[error("there is no connection to the database at present; try again")]
    NotConnected,
    /// Too many transactions wait for their answers.
    #[error("{0} transactions wait for their answers; wait for one of them")]
    TooMany(usize),
    /// The transaction is larger than the bound of messages.
    #[error("the transaction takes {size} bytes, at most {most} are allowed; split it")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The bound in bytes.
        most: usize,
    },
    /// The transaction does not fit the server's schema.
    #[error(transparent)]
    Invalid(#[from] TransactionError),
}

/// A method that monitors tables, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    MonitorCondSince,
    MonitorCond,
    Monitor,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::MonitorCondSince => "monitor_cond_since",
            Self::MonitorCond => "monitor_cond",
            Self::Monitor => "monitor",
        }
    }

    /// The method of its notifications.
    fn notification(self) -> &'static str {
        match self {
            Self::MonitorCondSince => "update3",
            Self::MonitorCond => "update2",
            Self::Monitor => "update",
        }
    }

    fn form(self) -> Form {
        if self == Self::Monitor { Form::Rows } else { Form::Differences }
    }

    /// The method for servers that do not know this one.
    fn next(self) -> Option<Self> {
        match self {
            Self::MonitorCondSince => Some(Self::MonitorCond),
            Self::MonitorCond => Some(Self::Monitor),
            Self::Monitor => None,
        }
    }
}

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is none, and the next attempt is due at this time.
    Disconnected(Instant),
    /// The client has asked for databases, schema or rows.
    Starting,
    /// The image follows the database by this method.
    Synchronized(Method),
}

/// A request without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    deadline: Instant,
    request: Request,
}

/// The purpose of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    Databases,
    Schema,
    Monitor(Method),
    Echo,
    Transact(Vec<Expected>),
}

impl Request {
    fn method(&self) -> &'static str {
        match self {
            Self::Databases => "list_dbs",
            Self::Schema => "get_schema",
            Self::Monitor(method) => method.name(),
            Self::Echo => "echo",
            Self::Transact(_) => "transact",
        }
    }
}

/// The client of one database; see the module's documentation.
#[derive(Debug)]
pub struct Client {
    wanted: Wanted,
    settings: Settings,
    phase: Phase,
    backoff: Backoff,
    splitter: Splitter,
    output: Vec<u8>,
    /// The id of the next request; ids are not used again, also not by later connections.
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    /// When the last whole message was received.
    last_received: Instant,
    /// When the last byte was received.
    last_byte: Instant,
    schema: Option<Schema>,
    selection: Selection,
    image: Image,
    /// The last transaction that the image contains, if the server numbers them.
    last_transaction: Option<String>,
}

impl Client {
    /// Creates a client without connection; the first attempt is due at once.
    pub fn new(wanted: Wanted, settings: Settings, now: Instant) -> Self {
        Self {
            wanted,
            settings,
            phase: Phase::Disconnected(now),
            backoff: Backoff::new(settings.first_pause, settings.longest_pause),
            splitter: Splitter::new(settings.frames),
            output: Vec::new(),
            next_id: 1,
            pending: BTreeMap::new(),
            last_received: now,
            last_byte: now,
            schema: None,
            selection: Selection::new(),
            image: Image::default(),
            last_transaction: None,
        }
    }

    /// Returns when the next attempt to connect is due; `None` while there is a connection.
    pub fn reconnect_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Disconnected(at) => Some(at),
            _ => None,
        }
    }

    /// Begins with a new connection.
    pub fn connected(&mut self, now: Instant) {
        self.splitter = Splitter::new(self.settings.frames);
        self.output.clear();
        self.pending.clear();
        self.phase = Phase::Starting;
        (self.last_received, self.last_byte) = (now, now);
        self.request(Request::Databases, &json!([]), now + self.settings.answer);
    }

    /// Ends the connection, or notes that an attempt has failed. `jitter` is any random number. Events of transactions without
    /// an answer are appended to `events`.
    pub fn disconnected(&mut self, now: Instant, jitter: u32, events: &mut Vec<Event>) {
        for (id, pending) in std::mem::take(&mut self.pending) {
            if matches!(pending.request, Request::Transact(_)) {
                events.push(Event::Transacted(TransactionId(id), Err(Failure::Unknown)));
            }
        }
        self.output.clear();
        self.splitter = Splitter::new(self.settings.frames);
        self.phase = Phase::Disconnected(now + self.backoff.fail(jitter));
    }

    /// Handles bytes of the server. Events are appended to `events`.
    ///
    /// # Errors
    /// [`Closed`]: send the output if possible, close the connection, and call [`disconnected`](Self::disconnected).
    pub fn handle(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), Closed> {
        if self.reconnect_at().is_some() {
            return Ok(()); // of a connection that the caller has closed
        }
        self.last_byte = now;
        while let Some(message) = self.splitter.take(&mut bytes)? {
            self.last_received = now;
            self.receive(&message, now, events)?;
        }
        Ok(())
    }

    /// Checks the timeouts.
    ///
    /// # Errors
    /// Like [`handle`](Self::handle).
    pub fn tick(&mut self, now: Instant) -> Result<(), Closed> {
        if self.reconnect_at().is_some() {
            return Ok(());
        }
        if let Some(late) = self.pending.values().find(|pending| pending.deadline <= now) {
            return Err(Closed::NoAnswer(late.request.method()));
        }
        let silence = now.saturating_duration_since(self.last_byte);
        if silence >= self.settings.probe * 2 {
            return Err(Closed::Silent(silence));
        }
        // Bytes without a whole message show no life for long: the echo has a deadline.
        let is_due = now.saturating_duration_since(self.last_received) >= self.settings.probe;
        if is_due && !self.is_probed() {
            self.request(Request::Echo, &json!([]), now + self.settings.answer);
        }
        Ok(())
    }

    /// Returns when [`tick`](Self::tick) is due next; `None` without connection.
    pub fn deadline(&self) -> Option<Instant> {
        if self.reconnect_at().is_some() {
            return None;
        }
        let probe = (!self.is_probed()).then_some(self.last_received + self.settings.probe);
        let deadlines = self.pending.values().map(|pending| pending.deadline);
        deadlines.chain(probe).chain([self.last_byte + self.settings.probe * 2]).min()
    }

    /// Whether an echo waits for its answer.
    fn is_probed(&self) -> bool {
        self.pending.values().any(|pending| pending.request == Request::Echo)
    }

    /// Returns the bytes for the server, which the caller must send in this order.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Sends a transaction. Its event follows before `deadline`, or the connection is closed.
    ///
    /// # Errors
    /// [`NotSent`]: no byte was sent.
    pub fn transact(
        &mut self,
        operations: &[Operation],
        deadline: Instant,
    ) -> Result<TransactionId, NotSent> {
        let (Phase::Synchronized(_), Some(schema)) = (self.phase, &self.schema) else {
            return Err(NotSent::NotConnected);
        };
        let is_transaction = |it: &&Pending| matches!(it.request, Request::Transact(_));
        let count = self.pending.values().filter(is_transaction).count();
        if count >= self.settings.transactions {
            return Err(NotSent::TooMany(count));
        }
        transaction::check(operations, schema)?;
        let params = transaction::parameters(self.wanted.database, operations);
        let request = rpc::request(self.next_id, "transact", &params);
        let most =
            self.settings.frames.size.min(self.settings.output.saturating_sub(self.output.len()));
        if request.len() > most {
            return Err(NotSent::TooLarge { size: request.len(), most });
        }
        let expected = operations.iter().map(Expected::of).collect();
        let pending = Pending { deadline, request: Request::Transact(expected) };
        Ok(TransactionId(self.queue(request, pending)))
    }

    /// Whether the image follows the server's database.
    pub fn is_synchronized(&self) -> bool {
        matches!(self.phase, Phase::Synchronized(_))
    }

    /// Returns the method by which the image follows the database, such as `monitor_cond_since`.
    pub fn method(&self) -> Option<&'static str> {
        match self.phase {
            Phase::Synchronized(method) => Some(method.name()),
            _ => None,
        }
    }

    /// Returns the image. Without connection it shows the database as it was last known.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the server's schema, once it was read.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    fn request(&mut self, request: Request, params: &Json, deadline: Instant) {
        let bytes = rpc::request(self.next_id, request.method(), params);
        self.queue(bytes, Pending { deadline, request });
    }

    fn queue(&mut self, bytes: Vec<u8>, pending: Pending) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.output.extend(bytes);
        self.pending.insert(id, pending);
        id
    }
}

#[cfg(test)]
mod tests;

//! The thread of one database: it connects, follows the database, and serves the requests of apps.
//!
//! Only this thread waits for the server. While there is no connection it answers at once that there is none.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use control::security::KeyPurpose;
use control::service::OvsdbRight;
use ovsdb::driver::{Address, Connection, DriverError};
use ovsdb::{Change, ChangeKind, Event, Uuid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sdk::services::ovsdb::{Answer, Page, Reason, Refused, RowId, WantedRow};
use sys::doorbell::{Doorbell, DoorbellSender};
use tracing::{info, warn};

use super::Ticket;
use super::owners::Owners;
use super::rows::{is_table, of_image, quoted};

/// How long a connection may take, until the database is read.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a look for events may take.
const LOOK: Duration = Duration::from_millis(1);

/// Most events that are handled before requests.
const EVENTS_PER_TURN: usize = 256;

/// The least time between two notices of changes.
const NOTICE_EVERY: Duration = Duration::from_secs(1);

/// A request for the thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Rows of a table.
    Read { ticket: Ticket, table: String, after: RowId },
    /// All rows that an app wants.
    Want { ticket: Ticket, app: String, rights: Vec<OvsdbRight>, rows: Vec<WantedRow> },
    /// Notices of changes.
    Watch { ticket: Ticket },
    /// The apps that use the service.
    Apps(Vec<String>),
    /// A client has disconnected.
    Gone(control::clients::ClientId),
}

/// A message of the thread.
#[derive(Debug)]
pub(super) enum Message {
    /// An answer.
    Answer {
        /// The request.
        ticket: Ticket,
        /// The answer.
        body: Vec<u8>,
        /// Whether further answers follow.
        more: bool,
        /// The missing rights, for the log.
        denied: BTreeSet<String>,
    },
    /// A request of this client for notices was received.
    Watching(control::clients::ClientId),
    /// The database with this number is connected, or why it is not.
    State(usize, Result<(), String>),
}

/// The thread of a database.
pub(super) struct Worker {
    /// The number of the database.
    pub(super) number: usize,
    /// Its name.
    pub(super) name: String,
    /// Its address.
    pub(super) address: Option<Address>,
    /// Why there can be no connection, or the connection.
    pub(super) connection: Result<Connection, String>,
    pub(super) commands: Receiver<Command>,
    pub(super) bell: Doorbell,
    pub(super) messages: Sender<Message>,
    pub(super) wake: DoorbellSender,
    pub(super) owners: Owners,
    pub(super) watchers: Vec<Ticket>,
    /// The tables that have changed since the last notice.
    pub(super) changed: BTreeSet<String>,
    /// When the next notice is sent.
    pub(super) notice_at: Option<Instant>,
}

/// The service has ended.
struct Ended;

impl Worker {
    /// Runs until the service ends.
    pub(super) fn run(mut self) {
        let mut why = match &self.connection {
            Ok(_) => "the service has just started; try again".to_owned(),
            Err(why) => why.clone(),
        };
        loop {
            self.send(Message::State(self.number, Err(why.clone())));
            self.answer_waiting(&why);
            if self.wait_for_connection(&why).is_err() {
                return;
            }
            let Ok(connection) = &mut self.connection else { continue };
            if let Err(error) = connection.reconnect(CONNECT) {
                why = self.explain(&error);
                self.log_failure(&why);
                continue;
            }
            info!(database = self.name, "database was connected");
            self.send(Message::State(self.number, Ok(())));
            match self.serve() {
                Err(Ended) => return,
                Ok(error) => why = self.explain(&error),
            }
            self.log_failure(&why);
            self.notify(false);
        }
    }

    fn log_failure(&self, why: &str) {
        // The pause before the next attempt bounds the lines.
        warn!(database = self.name, why, "database was not connected");
    }

    /// Answers requests until the back-off allows a connection.
    fn wait_for_connection(&mut self, why: &str) -> Result<(), Ended> {
        loop {
            self.refuse_commands(why)?;
            let at = match &self.connection {
                Ok(connection) => {
                    let at = connection.reconnect_at();
                    if at.is_none_or(|at| at <= Instant::now()) {
                        return Ok(());
                    }
                    at
                }
                Err(_) => None,
            };
            self.wait(at, false);
        }
    }

    /// Answers all requests that there is no connection.
    fn refuse_commands(&mut self, why: &str) -> Result<(), Ended> {
        while let Some(command) = self.next_command()? {
            if let Command::Read { ticket, .. } = command {
                let answer = Answer::Refused { reason: Reason::NotConnected, why: why.to_owned() };
                self.answer(ticket, &answer);
            } else {
                self.note(command);
            }
            self.answer_waiting(why);
        }
        Ok(())
    }

    /// Tells apps that wait for their rows that there is no connection. They get the rows later.
    fn answer_waiting(&mut self, why: &str) {
        for ticket in self.owners.take_tickets() {
            let refused = Refused {
                key: String::new(),
                why: format!("not connected, and done later: {why}"),
            };
            self.answer(ticket, &Answer::Wanted { is_done: false, refused: vec![refused] });
        }
    }

    /// Serves while the connection lasts. Returns why it ended.
    fn serve(&mut self) -> Result<DriverError, Ended> {
        if let Ok(connection) = &self.connection {
            self.owners.changed(connection.image(), Instant::now());
        }
        loop {
            if let Err(error) = self.handle_events() {
                return Ok(error);
            }
            while let Some(command) = self.next_command()? {
                match command {
                    Command::Read { ticket, table, after } => self.read(ticket, &table, after),
                    command => self.note(command),
                }
            }
            let Ok(connection) = &mut self.connection else { return Err(Ended) };
            match self.owners.bring_about(connection, Instant::now()) {
                Err(error) => return Ok(error),
                Ok(outcomes) => {
                    for outcome in outcomes {
                        for ticket in outcome.tickets {
                            let body = outcome.answer.encode();
                            let denied = outcome.denied.clone();
                            self.send(Message::Answer { ticket, body, more: false, denied });
                        }
                    }
                }
            }
            if self.notice_at.is_some_and(|at| at <= Instant::now()) {
                self.notify(true);
            }
            let deadline = self.connection.as_ref().ok().and_then(Connection::deadline);
            let due = deadline.into_iter().chain(self.owners.next_due()).chain(self.notice_at);
            self.wait(due.min(), true);
        }
    }

    /// Handles what the server has sent.
    fn handle_events(&mut self) -> Result<(), DriverError> {
        for _ in 0..EVENTS_PER_TURN {
            let Ok(connection) = &mut self.connection else { return Ok(()) };
            match connection.next_event(LOOK)? {
                None => break,
                Some(Event::Synchronized(changes) | Event::Changed(changes)) => {
                    // Counters and states of links change all the time, and no row depends on them.
                    let is_relevant =
                        |it: &Change| !(it.table == "Interface" && it.kind == ChangeKind::Modified);
                    if changes.iter().any(is_relevant) {
                        self.owners.changed(connection.image(), Instant::now());
                    }
                    self.changed.extend(changes.into_iter().map(|change| change.table));
                    if !self.watchers.is_empty() && self.notice_at.is_none() {
                        self.notice_at = Some(Instant::now());
                    }
                }
                Some(Event::Transacted(..)) => {}
            }
        }
        Ok(())
    }

    /// Handles a command that needs no connection.
    fn note(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Want { ticket, app, rights, rows } => {
                if !self.owners.want(&app, rights, rows, ticket, now) {
                    let key = String::new();
                    let why = "the app has left the configuration".to_owned();
                    let refused = vec![Refused { key, why }];
                    self.answer(ticket, &Answer::Wanted { is_done: false, refused });
                }
            }
            Command::Watch { ticket } => {
                self.send(Message::Watching(ticket.client));
                self.watchers.retain(|it| it.client != ticket.client);
                self.watchers.push(ticket);
            }
            Command::Apps(names) => self.owners.set_apps(&names, now),
            Command::Gone(client) => self.watchers.retain(|it| it.client != client),
            Command::Read { .. } => {}
        }
    }

    fn read(&self, ticket: Ticket, table: &str, after: RowId) {
        let Ok(connection) = &self.connection else { return };
        if !is_table(table) {
            let why = format!("Rosemary does not read a table {}", quoted(table));
            return self.answer(ticket, &Answer::Refused { reason: Reason::UnknownTable, why });
        }
        let mut rows = connection.image().rows_after(table, Uuid(after.0));
        let mut page = Page::default();
        let is_cut = rows.any(|(id, row)| !page.add(of_image(id, row)));
        self.answer(ticket, &page.answer(is_cut));
    }

    /// Tells the watchers which tables have changed.
    fn notify(&mut self, is_connected: bool) {
        self.notice_at = None;
        if self.changed.is_empty() && is_connected {
            return;
        }
        let tables: Vec<String> = std::mem::take(&mut self.changed).into_iter().collect();
        let body = Answer::Changed { is_connected, tables }.encode();
        for ticket in &self.watchers {
            let (ticket, body, denied) = (*ticket, body.clone(), BTreeSet::new());
            self.send(Message::Answer { ticket, body, more: true, denied });
        }
        self.notice_at = Some(Instant::now() + NOTICE_EVERY);
    }

    fn next_command(&self) -> Result<Option<Command>, Ended> {
        match self.commands.try_recv() {
            Ok(command) => Ok(Some(command)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Ended),
        }
    }

    /// Waits for a command, for the server if there is a connection, and until `at`.
    fn wait(&self, at: Option<Instant>, is_connected: bool) {
        let socket = self.connection.as_ref().ok().filter(|_| is_connected);
        let socket = socket.and_then(Connection::socket);
        let fds = self.bell.fds().chain(socket);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = at.map(|at| {
            // Rounded up, so that the loop does not spin through the last millisecond.
            let time = at.saturating_duration_since(Instant::now()) + LOOK;
            time.try_into().unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 })
        });
        let _ = poll(&mut fds, timeout.as_ref()); // if interrupted, the next turn polls again
        self.bell.silence();
    }

    fn answer(&self, ticket: Ticket, answer: &Answer) {
        let (body, denied) = (answer.encode(), BTreeSet::new());
        self.send(Message::Answer { ticket, body, more: false, denied });
    }

    fn send(&self, message: Message) {
        // It fails only when the process ends.
        if self.messages.send(message).is_ok() {
            self.wake.ring();
        }
    }

    /// Returns why there is no connection, as a phrase.
    fn explain(&self, error: &DriverError) -> String {
        use std::error::Error as _;
        let why = match (error, &self.address) {
            (DriverError::Io { address, source }, Some(Address::Tls(_))) => {
                let why = keys::fault::explain_io(source, KeyPurpose::Switches);
                format!("the TLS connection to {address} failed: {why}")
            }
            _ => error.source().map_or(error.to_string(), |source| format!("{error}: {source}")),
        };
        why.chars().take(600).flat_map(char::escape_default).collect()
    }
}

//! The host's side: sends an app's requests to services, and makes records for the app of the answers.
//!
//! The host is a zone, or the kernel for an instance of an app there. A service is another process, such as the storage. The
//! monitor passes the host a socket for each service that the app may use when that service starts, also after a restart. The
//! app then receives a record with [`Outcome::Up`].
//!
//! A request is *pending* from the app's call until its last answer. The host sends the requests of a batch of records when
//! the app has handled the batch. Each answer becomes a record of a later batch ([`Outcome::Answered`]). A request can have
//! several answers: the byte `more` of an answer announces the next one (`sdk::services`).
//!
//! When the socket closes, each pending request gets a record with [`Outcome::Unavailable`]. So does a request to a service
//! that does not run, when the host would send it.
//!
//! Some services publish a table ([`table`](super::table)). The monitor passes it with the socket, and the host watches its
//! changes for the app.
//!
//! The host does not trust a service: it closes the socket after a malformed answer, and after one to no pending request.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use sys::packets::{PacketError, Packets};
use sys::table::TableReader;
use thiserror::Error;
use tracing::warn;

use super::table::{NewsKind, Slot};
use super::wire::Reader;
use super::{ANSWER_HEAD, AskError, MAX_MESSAGE, MAX_WAITING, Outcome, RequestId, Service, WATCH};
use crate::abi::host::Gathered;
use crate::abi::{Record, RecordKind};

/// Bytes of records at which the host receives no further answers until the app has handled some.
const MAX_INBOX: usize = 256 * 1024;

/// The services of the app.
#[derive(Debug, Default)]
pub struct Services {
    clients: Vec<ServiceClient>,
    /// The number of the last request. Numbers are unique over all services of the app.
    last_request: u64,
    inbox: Inbox,
    /// Holds one received packet; empty if the app has no services.
    buffer: Vec<u8>,
}

/// The connection to one service.
#[derive(Debug)]
struct ServiceClient {
    service: Service,
    /// `None` while the service does not run.
    socket: Option<Packets>,
    /// The numbers of the pending requests, in no order.
    pending: Vec<u64>,
    /// The packets of pending requests that are not sent yet, the oldest first.
    to_send: VecDeque<Vec<u8>>,
    /// Requests up to this number are those of an earlier instance of the app, which gets no answer to them.
    former: u64,
    /// The service's table, if it publishes one and runs.
    table: Option<AttachedTable>,
}

/// The table of a service.
#[derive(Debug)]
struct AttachedTable {
    reader: TableReader,
    /// The number of the request that watches its changes.
    watch: u64,
    /// Whether the service has answered the watch. Before that, changes could be missed.
    is_watched: bool,
}

/// The records that the app has not handled.
#[derive(Debug, Default)]
struct Inbox {
    /// A queue of whole records, the oldest first.
    records: Gathered,
    /// For each record the number of its request, and the descriptor of the answer until the app takes it.
    origins: VecDeque<(u64, Option<OwnedFd>)>,
}

/// Why an answer closes the socket.
#[derive(Debug, Clone, Copy, Error)]
enum InvalidAnswer {
    #[error("the answer is malformed")]
    Malformed,
    #[error("the answer is longer than {MAX_MESSAGE} bytes")]
    TooLong,
    #[error("no request with the number of the answer is pending")]
    NotPending,
}

impl Inbox {
    fn push(&mut self, service: Service, outcome: Outcome, id: u64, answer: &[u8]) {
        let mut head = Record::new(RecordKind::Service, 0, 0, 0);
        // All records have one head. Those of services use fields that have another meaning in packet-ins.
        head.cookie = id;
        (head.reason, head.table_id) = (service as u8, outcome as u8);
        head.body_size = u16::try_from(answer.len()).unwrap_or(u16::MAX); // MAX_MESSAGE is less
        self.records.push(&head.words(), answer);
        self.origins.push_back((id, None));
    }

    fn push_news(&mut self, service: Service, kind: NewsKind, changes: &[u8]) {
        let mut head = Record::new(RecordKind::Table, 0, 0, 0);
        (head.reason, head.table_id) = (service as u8, kind as u8);
        head.body_size = u16::try_from(changes.len()).unwrap_or(u16::MAX); // MAX_MESSAGE is less
        self.records.push(&head.words(), changes);
        self.origins.push_back((0, None));
    }
}

impl Services {
    /// The services with these names, without sockets. Ignores unknown names: there are none, as the monitor has the same
    /// version.
    pub fn from_names(names: &[String]) -> Self {
        let clients: Vec<_> =
            names.iter().filter_map(|name| Service::named(name)).map(ServiceClient::new).collect();
        let size = if clients.is_empty() { 0 } else { ANSWER_HEAD + MAX_MESSAGE };
        Self { clients, buffer: vec![0; size], ..Self::default() }
    }

    /// Connects a service that has started, and announces it to the app; a service with a table only when it has answered the
    /// watch. No effect if the app does not use the service.
    pub fn connect(&mut self, name: &str, socket: OwnedFd, table: Option<&OwnedFd>) {
        let client = self.clients.iter_mut().find(|client| client.service.name() == name);
        let Some(client) = client else { return };
        // The host may not have noticed the end of the service's predecessor. The app learns first that its old requests are
        // unavailable, so that it can repeat them when it learns of the start.
        client.disconnect(&mut self.inbox);
        client.socket = Some(Packets::from_fd(socket));
        let Some(slots) = client.service.table_slots() else {
            return self.inbox.push(client.service, Outcome::Up, 0, &[]);
        };
        let reader = table.map(|table| TableReader::map(table, slots));
        match reader.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into())) {
            Ok(reader) => {
                self.last_request += 1;
                let watch = self.last_request;
                client.table = Some(AttachedTable { reader, watch, is_watched: false });
                client.to_send.push_back([&watch.to_le_bytes()[..], &[WATCH]].concat());
                client.send(&mut self.inbox);
            }
            Err(error) => {
                warn!(service = name, %error, "could not map the table of a service");
                client.disconnect(&mut self.inbox);
            }
        }
    }

    /// Makes the services those of another instance of the app in the same process. It learns which services run, as after its start,
    /// and gets no answers to requests of the instance before. Requests that were not sent are dropped.
    pub fn renew(&mut self) {
        self.inbox = Inbox::default();
        for client in &mut self.clients {
            let watch = client.table.as_ref().map(|table| table.watch);
            let id = |packet: &[u8]| packet.first_chunk().map(|id| u64::from_le_bytes(*id));
            let unsent: Vec<u64> = client.to_send.iter().filter_map(|it| id(it)).collect();
            client.to_send.retain(|packet| watch.is_some() && id(packet) == watch);
            client.pending.retain(|id| !unsent.contains(id));
            client.former = self.last_request;
            let is_watched = client.table.as_ref().is_none_or(|table| table.is_watched);
            if client.socket.is_some() && is_watched {
                self.inbox.push(client.service, Outcome::Up, 0, &[]);
                if client.table.is_some() {
                    self.inbox.push_news(client.service, NewsKind::Attached, &[]);
                }
            }
        }
    }

    /// Copies records of a service's table, from slot `first` on. Returns its version; `None` if there is no table.
    pub fn read_table(&self, service: Service, first: u32, records: &mut [Slot]) -> Option<u64> {
        let client = self.clients.iter().find(|client| client.service == service)?;
        let table = client.table.as_ref().filter(|table| table.is_watched)?;
        let version = table.reader.version();
        for (slot, record) in (first..=u32::MAX).zip(records) {
            *record = table.reader.read(slot);
        }
        Some(version)
    }

    /// Accepts a request of the app. [`send`](Self::send) sends it at the end of the batch.
    ///
    /// # Errors
    /// [`AskError`]: the request was not accepted.
    pub fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        let client = self.clients.iter_mut().find(|client| client.service == service);
        let client = client.ok_or(AskError::NotNamed)?;
        if client.pending.len() >= MAX_WAITING {
            return Err(AskError::TooMany);
        }
        if request.len() > MAX_MESSAGE {
            return Err(AskError::TooLong);
        }
        self.last_request += 1;
        client.pending.push(self.last_request);
        client.to_send.push_back([&self.last_request.to_le_bytes(), request].concat());
        Ok(RequestId(self.last_request))
    }

    /// Hands the descriptor of an answer to the app, once.
    pub fn take_fd(&mut self, request: RequestId) -> Option<OwnedFd> {
        // A request can have several answers in the inbox, each with or without a descriptor: the oldest comes first.
        let mut origins = self.inbox.origins.iter_mut().filter(|(id, _)| *id == request.0);
        origins.find_map(|(_, fd)| fd.take())
    }

    /// Sends requests until the services accept no more. The next [`exchange`](Self::exchange) sends the rest.
    pub fn send(&mut self) {
        for client in &mut self.clients {
            client.send(&mut self.inbox);
        }
    }

    /// Sends the requests that a service did not accept before, and receives answers. Call this when a descriptor of
    /// [`fds`](Self::fds) is ready.
    pub fn exchange(&mut self) {
        for client in &mut self.clients {
            client.send(&mut self.inbox);
            client.receive(&mut self.buffer, &mut self.inbox);
        }
    }

    /// The sockets to poll, each with the events that allow progress.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let is_full = self.inbox.records.size() >= MAX_INBOX;
        self.clients.iter().filter_map(move |client| {
            let input = if is_full { PollFlags::empty() } else { PollFlags::IN };
            let output =
                if client.to_send.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let events = input | output;
            client.socket.as_ref().filter(|_| !events.is_empty()).map(|it| PollFd::new(it, events))
        })
    }

    /// The records that the app has not handled.
    pub fn answers(&self) -> &Gathered {
        &self.inbox.records
    }

    /// Lends the records for a batch; [`give_back`](Self::give_back) returns them.
    ///
    /// While the app handles them, it calls [`ask`](Self::ask) and [`take_fd`](Self::take_fd), which change the services.
    pub fn lend_answers(&mut self) -> Gathered {
        std::mem::take(&mut self.inbox.records)
    }

    /// Takes the records back and drops the oldest `handled`, with the descriptors that the app did not take.
    ///
    /// # Panics
    /// If there are fewer records than that.
    pub fn give_back(&mut self, mut answers: Gathered, handled: usize) {
        answers.drop_oldest(handled);
        self.inbox.origins.drain(..handled);
        self.inbox.records = answers; // nothing was received while they were lent, so none is lost
    }
}

impl ServiceClient {
    fn new(service: Service) -> Self {
        let (pending, to_send) = (Vec::new(), VecDeque::new());
        Self { service, socket: None, pending, to_send, former: 0, table: None }
    }

    fn send(&mut self, inbox: &mut Inbox) {
        while let Some(packet) = self.to_send.front() {
            let Some(socket) = &self.socket else { return self.disconnect(inbox) };
            match socket.send(packet) {
                Ok(()) => drop(self.to_send.pop_front()),
                Err(PacketError::WouldBlock) => return,
                Err(_) => return self.disconnect(inbox),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8], inbox: &mut Inbox) {
        while inbox.records.size() < MAX_INBOX {
            let Some(socket) = &self.socket else { return };
            let accepted = match socket.receive(buffer) {
                Ok((size, fd)) => {
                    self.accept_answer(buffer.get(..size).unwrap_or_default(), fd, inbox)
                }
                Err(PacketError::WouldBlock) => return,
                Err(PacketError::TooLong) => Err(InvalidAnswer::TooLong),
                Err(_) => return self.disconnect(inbox),
            };
            if let Err(why) = accepted {
                let service = self.service.name();
                warn!(service, %why, "closed the socket of a service after an invalid answer");
                return self.disconnect(inbox);
            }
        }
    }

    /// Makes a record of an answer.
    fn accept_answer(
        &mut self,
        answer: &[u8],
        fd: Option<OwnedFd>,
        inbox: &mut Inbox,
    ) -> Result<(), InvalidAnswer> {
        let mut from = Reader(answer);
        let (Some(id), Some(more)) = (from.u64(), from.u8()) else {
            return Err(InvalidAnswer::Malformed);
        };
        if let Some(table) = self.table.as_mut().filter(|table| table.watch == id) {
            return table.accept_news(from.0, more != 0, self.service, inbox);
        }
        let place = self.pending.iter().position(|pending| *pending == id);
        let place = place.ok_or(InvalidAnswer::NotPending)?;
        if more == 0 {
            self.pending.swap_remove(place);
        }
        if id <= self.former {
            return Ok(());
        }
        inbox.push(self.service, Outcome::Answered, id, from.0);
        if let Some((_, slot)) = inbox.origins.back_mut() {
            *slot = fd;
        }
        Ok(())
    }

    /// Closes the socket, and ends the pending requests as unavailable.
    fn disconnect(&mut self, inbox: &mut Inbox) {
        self.socket = None;
        self.to_send.clear();
        if self.table.take().is_some_and(|table| table.is_watched) {
            inbox.push_news(self.service, NewsKind::Gone, &[]);
        }
        // The app gets the records in the order of its requests, which removals have disturbed.
        self.pending.sort_unstable();
        for id in self.pending.drain(..).filter(|id| *id > self.former) {
            inbox.push(self.service, Outcome::Unavailable, id, &[]);
        }
    }
}

impl AttachedTable {
    /// Makes records of an answer to the watch.
    fn accept_news(
        &mut self,
        answer: &[u8],
        more: bool,
        service: Service,
        inbox: &mut Inbox,
    ) -> Result<(), InvalidAnswer> {
        let (kind, changes) = answer.split_first().ok_or(InvalidAnswer::Malformed)?;
        match NewsKind::from_number(*kind) {
            Some(NewsKind::Attached) if more && !self.is_watched => {
                self.is_watched = true;
                inbox.push(service, Outcome::Up, 0, &[]);
                inbox.push_news(service, NewsKind::Attached, &[]);
            }
            Some(kind @ (NewsKind::Changed | NewsKind::Rescan)) if more && self.is_watched => {
                inbox.push_news(service, kind, changes);
            }
            _ => return Err(InvalidAnswer::Malformed),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

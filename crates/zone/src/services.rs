//! Sends the app's requests to services, and turns the answers into records.
//!
//! Each service that the app may use has a socket, as soon as the monitor has passed one, and a list of pending
//! requests. The zone sends the requests of a batch when the batch is done. An answer becomes a record of a later
//! batch. When a socket closes, each pending request gets a record that says so.
//!
//! The zone does not trust a service: a malformed answer, or one without a request, closes the socket.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use sdk::abi::host::Gathered;
use sdk::abi::{Record, RecordKind};
use sdk::services::wire::Reader;
use sdk::services::{ANSWER_HEAD, AskError, MAX_MESSAGE, MAX_WAITING, Outcome, RequestId, Service};
use sys::packets::{PacketError, Packets};
use tracing::warn;

/// Bytes of records above which no more answers are received until the app has handled some.
const MAX_INBOX: usize = 256 * 1024;

/// The services of the app.
#[derive(Debug, Default)]
pub struct Services {
    clients: Vec<ServiceClient>,
    /// The number of the last request.
    last: u64,
    inbox: Inbox,
    /// The buffer for a received packet.
    room: Vec<u8>,
}

/// The zone's end of one service.
#[derive(Debug)]
struct ServiceClient {
    service: Service,
    /// `None` while the service does not run.
    socket: Option<Packets>,
    /// The numbers of requests without an answer.
    pending: Vec<u64>,
    /// The pending requests that have not been sent.
    to_send: VecDeque<Vec<u8>>,
}

/// Records for the app.
#[derive(Debug, Default)]
struct Inbox {
    records: Gathered,
    /// For each record its request, and the descriptor of the answer until the app takes it.
    origins: VecDeque<(u64, Option<OwnedFd>)>,
}

impl Inbox {
    fn push(&mut self, service: Service, outcome: Outcome, id: u64, answer: &[u8]) {
        let mut head = Record::new(RecordKind::Service, 0, 0, 0);
        head.cookie = id;
        (head.reason, head.table_id) = (service as u8, outcome as u8);
        head.body_size = u16::try_from(answer.len()).unwrap_or(u16::MAX); // MAX_MESSAGE is less
        self.records.push(&head.words(), answer);
        self.origins.push_back((id, None));
    }
}

impl Services {
    /// The services with these names, all unavailable. The monitor has the same version and passes only known names.
    pub fn named(names: &[String]) -> Self {
        let clients: Vec<_> =
            names.iter().filter_map(|name| Service::named(name)).map(ServiceClient::new).collect();
        let room = if clients.is_empty() { 0 } else { ANSWER_HEAD + MAX_MESSAGE };
        Self { clients, room: vec![0; room], ..Self::default() }
    }

    /// Takes the socket of a service that has started.
    pub fn connect(&mut self, name: &str, socket: OwnedFd) {
        let client = self.clients.iter_mut().find(|client| client.service.name() == name);
        let Some(client) = client else { return };
        client.disconnect(&mut self.inbox); // the socket before may have ended unnoticed
        client.socket = Some(Packets::from_fd(socket));
        self.inbox.push(client.service, Outcome::Up, 0, &[]);
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
        self.last += 1;
        client.pending.push(self.last);
        client.to_send.push_back([&self.last.to_le_bytes(), request].concat());
        Ok(RequestId(self.last))
    }

    /// Hands the descriptor of an answer to the app, once.
    pub fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        let mut origins = self.inbox.origins.iter_mut().filter(|(id, _)| *id == request.0);
        origins.find_map(|(_, fd)| fd.take())
    }

    /// Sends requests, as many as the services accept.
    pub fn send(&mut self) {
        for client in &mut self.clients {
            client.send(&mut self.inbox);
        }
    }

    /// Receives answers, and sends the requests that a service did not accept before.
    pub fn receive(&mut self) {
        for client in &mut self.clients {
            client.send(&mut self.inbox);
            client.receive(&mut self.room, &mut self.inbox);
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

    /// The answers that the app has not handled.
    pub fn answers(&self) -> &Gathered {
        &self.inbox.records
    }

    /// Lends the answers for a batch; [`give_back`](Self::give_back) returns them.
    pub fn lend_answers(&mut self) -> Gathered {
        std::mem::take(&mut self.inbox.records)
    }

    /// Takes the answers back and drops the oldest `handled`, with the descriptors that the app did not take.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn give_back(&mut self, mut answers: Gathered, handled: usize) {
        answers.drop_oldest(handled);
        self.inbox.origins.drain(..handled);
        self.inbox.records = answers; // nothing was received while they were lent, so none is lost
    }
}

impl ServiceClient {
    fn new(service: Service) -> Self {
        Self { service, socket: None, pending: Vec::new(), to_send: VecDeque::new() }
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

    fn receive(&mut self, room: &mut [u8], inbox: &mut Inbox) {
        while inbox.records.size() < MAX_INBOX {
            let Some(socket) = &self.socket else { return };
            match socket.receive(room) {
                Ok((size, fd)) => {
                    let answer = room.get(..size).unwrap_or_default();
                    if self.accept_answer(answer, fd, inbox).is_none() {
                        let service = self.service.name();
                        warn!(service, "the service sent an answer without a request");
                        return self.disconnect(inbox);
                    }
                }
                Err(PacketError::WouldBlock) => return,
                Err(_) => return self.disconnect(inbox),
            }
        }
    }

    /// Makes a record of an answer; `None` if it is malformed, or its request is not pending.
    fn accept_answer(
        &mut self,
        answer: &[u8],
        fd: Option<OwnedFd>,
        inbox: &mut Inbox,
    ) -> Option<()> {
        let mut from = Reader(answer);
        let (id, more) = (from.u64()?, from.u8()?);
        let place = self.pending.iter().position(|pending| *pending == id)?;
        if more == 0 {
            self.pending.swap_remove(place);
        }
        inbox.push(self.service, Outcome::Answered, id, from.0);
        if let Some((_, slot)) = inbox.origins.back_mut() {
            *slot = fd;
        }
        Some(())
    }

    /// Closes the socket, and ends the pending requests as unavailable.
    fn disconnect(&mut self, inbox: &mut Inbox) {
        self.socket = None;
        self.to_send.clear();
        self.pending.sort_unstable();
        for id in self.pending.drain(..) {
            inbox.push(self.service, Outcome::Unavailable, id, &[]);
        }
    }
}

#[cfg(test)]
mod tests;

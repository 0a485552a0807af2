//! What the application asks of services, and what they answer.
//!
//! For each service that is named for the application there is a socket, once the monitor has given it,
//! and a list of the requests that wait. What is asked in a batch is sent when the batch is done. An
//! answer becomes a record, which the application gets in a batch; when a socket ends, so do the requests
//! that wait, each with a record that says so.
//!
//! The service is not believed: an answer that is none, or to no request, closes its socket.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use sdk::abi::host::Gathered;
use sdk::abi::{Record, RecordKind};
use sdk::services::wire::Reader;
use sdk::services::{ANSWER_HEAD, AskError, MAX_MESSAGE, MAX_WAITING, Outcome, RequestId, Service};
use sys::packets::{PacketError, Packets};
use tracing::warn;

/// Bytes of records above which no more answers are taken in, until the application has handled some.
const ENOUGH: usize = 256 * 1024;

/// The application's services.
#[derive(Debug, Default)]
pub struct Services {
    lines: Vec<Line>,
    /// The number of the last request.
    last: u64,
    inbox: Inbox,
    /// For the packet that is received.
    room: Vec<u8>,
}

/// One service.
#[derive(Debug)]
struct Line {
    service: Service,
    /// `None` while it is not there.
    socket: Option<Packets>,
    /// Requests that are not answered yet.
    waiting: Vec<u64>,
    /// Those of them that are not sent yet.
    to_send: VecDeque<Vec<u8>>,
}

/// Records for the application.
#[derive(Debug, Default)]
struct Inbox {
    records: Gathered,
    /// For each, its request, and the descriptor that came with it until it is taken.
    came: VecDeque<(u64, Option<OwnedFd>)>,
}

impl Inbox {
    fn push(&mut self, service: Service, outcome: Outcome, id: u64, answer: &[u8]) {
        let mut head = Record::new(RecordKind::Service, 0, 0, 0);
        head.cookie = id;
        (head.reason, head.table_id) = (service as u8, outcome as u8);
        head.body_size = u16::try_from(answer.len()).unwrap_or(u16::MAX); // MAX_MESSAGE is less
        self.records.push(&head.words(), answer);
        self.came.push_back((id, None));
    }
}

impl Services {
    /// The services of these names, none of which is there yet. A name that is not known here is
    /// left out: the monitor, which is of the same version, knows no other.
    pub fn named(names: &[String]) -> Self {
        let service = |name: &String| Service::named(name);
        let line =
            |service| Line { service, socket: None, waiting: Vec::new(), to_send: VecDeque::new() };
        let lines: Vec<Line> = names.iter().filter_map(service).map(line).collect();
        let room = if lines.is_empty() { 0 } else { ANSWER_HEAD + MAX_MESSAGE };
        Self { lines, room: vec![0; room], ..Self::default() }
    }

    /// A service is there.
    pub fn connect(&mut self, name: &str, socket: OwnedFd) {
        let line = self.lines.iter_mut().find(|line| line.service.name() == name);
        let Some(line) = line else { return };
        line.hang_up(&mut self.inbox); // from the one before, if its end was not heard yet
        line.socket = Some(Packets::from_fd(socket));
        self.inbox.push(line.service, Outcome::Up, 0, &[]);
    }

    /// The application asks; it is sent with the batch.
    ///
    /// # Errors
    /// [`AskError`]: nothing was asked.
    pub fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        let line = self.lines.iter_mut().find(|line| line.service == service);
        let line = line.ok_or(AskError::NotNamed)?;
        if line.waiting.len() >= MAX_WAITING {
            return Err(AskError::TooMany);
        }
        if request.len() > MAX_MESSAGE {
            return Err(AskError::TooLong);
        }
        self.last += 1;
        line.waiting.push(self.last);
        line.to_send.push_back([&self.last.to_le_bytes(), request].concat());
        Ok(RequestId(self.last))
    }

    /// The application takes what came with an answer.
    pub fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        let mut came = self.inbox.came.iter_mut().filter(|(id, _)| *id == request.0);
        came.find_map(|(_, fd)| fd.take())
    }

    /// Sends what was asked, as far as the services take it.
    pub fn send(&mut self) {
        for line in &mut self.lines {
            line.send(&mut self.inbox);
        }
    }

    /// Takes in what the services have answered, and sends what they did not take before.
    pub fn hear(&mut self) {
        for line in &mut self.lines {
            line.send(&mut self.inbox);
            line.hear(&mut self.room, &mut self.inbox);
        }
    }

    /// What becomes readable, or takes something, when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let full = self.inbox.records.size() >= ENOUGH;
        self.lines.iter().filter_map(move |line| {
            let hears = if full { PollFlags::empty() } else { PollFlags::IN };
            let sends = if line.to_send.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let wants = hears | sends;
            line.socket.as_ref().filter(|_| !wants.is_empty()).map(|it| PollFd::new(it, wants))
        })
    }

    /// Answers that the application has not handled.
    pub fn answers(&self) -> &Gathered {
        &self.inbox.records
    }

    /// Lends them, for a batch; to be given back when it is done.
    pub fn lend_answers(&mut self) -> Gathered {
        std::mem::take(&mut self.inbox.records)
    }

    /// Gets them back, of which the oldest `handled` are done. What came with these and was not taken
    /// is closed.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn give_back(&mut self, mut answers: Gathered, handled: usize) {
        answers.drop_oldest(handled);
        self.inbox.came.drain(..handled);
        self.inbox.records = answers; // while they were lent none came: nothing was heard or sent
    }
}

impl Line {
    fn send(&mut self, inbox: &mut Inbox) {
        while let Some(packet) = self.to_send.front() {
            let Some(socket) = &self.socket else { return self.hang_up(inbox) };
            match socket.send(packet) {
                Ok(()) => drop(self.to_send.pop_front()),
                Err(PacketError::WouldBlock) => return,
                Err(_) => return self.hang_up(inbox),
            }
        }
    }

    fn hear(&mut self, room: &mut [u8], inbox: &mut Inbox) {
        while inbox.records.size() < ENOUGH {
            let Some(socket) = &self.socket else { return };
            match socket.receive(room) {
                Ok((size, fd)) => {
                    if self.take_in(room.get(..size).unwrap_or_default(), fd, inbox).is_none() {
                        let service = self.service.name();
                        warn!(service, "the service answered what was not asked");
                        return self.hang_up(inbox);
                    }
                }
                Err(PacketError::WouldBlock) => return,
                Err(_) => return self.hang_up(inbox),
            }
        }
    }

    /// Takes an answer; `None` if it is none.
    fn take_in(&mut self, answer: &[u8], fd: Option<OwnedFd>, inbox: &mut Inbox) -> Option<()> {
        let mut from = Reader(answer);
        let (id, more) = (from.u64()?, from.u8()?);
        let place = self.waiting.iter().position(|waiting| *waiting == id)?;
        if more == 0 {
            self.waiting.swap_remove(place);
        }
        inbox.push(self.service, Outcome::Answered, id, from.0);
        if let Some(came) = inbox.came.back_mut() {
            came.1 = fd;
        }
        Some(())
    }

    /// The service is not there: the requests that wait are over.
    fn hang_up(&mut self, inbox: &mut Inbox) {
        self.socket = None;
        self.to_send.clear();
        self.waiting.sort_unstable();
        for id in self.waiting.drain(..) {
            inbox.push(self.service, Outcome::Unavailable, id, &[]);
        }
    }
}

#[cfg(test)]
mod tests;

//! Serves the clients of the app: publishes the app's table and its changes, and passes other requests to the app.
//!
//! A client is another app, an operator, or the HTTP interface, whose requests are for the app's routes. It receives the table
//! itself, read-only, from the monitor. Over its socket it watches the changes ([`WATCH`]), which this module sends without the
//! app, and sends requests that the app answers.
//!
//! | request | answers |
//! | --- | --- |
//! | `WATCH` | a byte `Attached`; then for each batch of the app the number of a [`NewsKind`] and the changes |
//! | `REQUEST_OF_APP`, content | those of the app |
//! | `HTTP_REQUEST`, content | those of the app, from the HTTP interface alone |
//!
//! A client that does not read its changes gets no more of them, and a single `Rescan` once it reads again. So the memory
//! for clients is bounded, and no client delays the app.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use control::clients::{ClientId, ClientRequest, Clients, Reply};
use control::service::ServiceClient;
use rustix::event::PollFd;
use sdk::abi::host::Gathered;
use sdk::abi::{Record, RecordKind};
use sdk::http::{HTTP_REQUEST, MOST_ANSWER_BODY, MOST_REQUESTS};
use sdk::services::table::{Change, EMPTY, MOST_CHANGES, NewsKind, Slot};
use sdk::services::{REQUEST_OF_APP, Service, WATCH};
use sdk::serving::{self, ClientEvent, ClientNews};
use sys::table::TableWriter;

/// Bytes of queued changes above which a client gets no further ones.
const MOST_QUEUED: usize = 256 * 1024;

/// Most changes of the app that wait for the end of its batch; more become a `Rescan`.
const MOST_PENDING: usize = 16 * 1024;

/// Most requests of clients that are received at once.
const REQUESTS_PER_TURN: usize = 64;

/// Bytes of records about clients at which no further requests are received.
const MAX_INBOX: usize = 256 * 1024;

/// Bytes of answers to the HTTP interface that may wait: those to all its requests, and as many that came too late for it.
const MOST_HTTP_QUEUED: usize = 2 * MOST_REQUESTS * MOST_ANSWER_BODY;

/// The app's side of the connections with its clients.
#[derive(Debug, Default)]
pub struct Server {
    /// The service that the app provides, and its table.
    published: Option<(Service, TableWriter)>,
    /// The connections of the HTTP interface; more than one while it restarts.
    http: BTreeSet<ClientId>,
    clients: Clients,
    watchers: BTreeMap<ClientId, Watcher>,
    /// Changes since the last [`notify`](Self::notify), the oldest first.
    changes: Vec<Change>,
    /// Whether there were more changes than `changes` holds.
    has_more: bool,
    /// The records about clients that the app has not handled.
    inbox: Gathered,
}

/// A client that watches the table.
#[derive(Debug)]
struct Watcher {
    /// The number of its request.
    request: u64,
    /// Whether it has missed changes.
    is_stale: bool,
}

impl Server {
    /// For an app that provides `service`: takes the memory of its table.
    ///
    /// # Errors
    /// The service has no table, or the memory is not that of one.
    pub fn new(service: Service, memory: &OwnedFd) -> io::Result<Self> {
        let slots = service.table_slots().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { published: Some((service, TableWriter::map(memory, slots)?)), ..Self::default() })
    }

    /// Adds a client, and announces it to the app unless it is the HTTP interface.
    pub fn connect(&mut self, client: ServiceClient, socket: OwnedFd) {
        if client.is_http_interface() {
            let id = self.clients.add(client, socket);
            self.clients.allow_queue(id, MOST_HTTP_QUEUED);
            self.http.insert(id);
            return;
        }
        if self.published.is_none() {
            return; // the monitor connects clients with providers only
        }
        let (app, name, rights) = (client.app, client.name.clone(), client.rights.names.join(" "));
        let id = self.clients.add(client, socket);
        let body = ClientEvent::connected_body(&name, &rights);
        self.push(ClientNews::Connected, id, (app, 0), &body);
    }

    /// Whether the app provides a service.
    pub fn is_provider(&self) -> bool {
        self.published.is_some()
    }

    /// Writes a record of the table. Returns `false` if there is no such slot.
    pub fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        // A record without a kind would be invisible to some readers only.
        let record = if record[0] == 0 { &EMPTY } else { record };
        let Some((_, table)) = &mut self.published else { return false };
        let Some(before) = table.write(slot, record) else { return false };
        if before != *record && !self.watchers.is_empty() {
            if self.changes.len() < MOST_PENDING {
                self.changes.push(Change { slot, before, after: *record });
            } else {
                self.has_more = true;
            }
        }
        true
    }

    /// Sends the changes of the app's last batch to the clients that watch the table.
    pub fn notify(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let (changes, has_more) = (std::mem::take(&mut self.changes), self.has_more);
        self.has_more = false;
        let mut bodies = Vec::new();
        if !has_more {
            bodies.extend(changes.chunks(MOST_CHANGES).map(|changes| {
                let changes = changes.iter().flat_map(Change::to_bytes);
                [NewsKind::Changed as u8].into_iter().chain(changes).collect::<Vec<u8>>()
            }));
        }
        let all: usize = bodies.iter().map(Vec::len).sum();
        for (client, watcher) in &mut self.watchers {
            if has_more || watcher.is_stale || self.clients.queued(*client) + all > MOST_QUEUED {
                watcher.is_stale = true;
                continue;
            }
            for body in &bodies {
                let (client, id) = (*client, watcher.request);
                self.clients.answer(Reply { client, id, more: true, body });
            }
        }
        self.refresh_stale();
    }

    /// Sends a `Rescan` to each client that has missed changes and reads again.
    fn refresh_stale(&mut self) {
        for (client, watcher) in self.watchers.iter_mut().filter(|(_, it)| it.is_stale) {
            if self.clients.queued(*client) == 0 {
                watcher.is_stale = false;
                let (client, id) = (*client, watcher.request);
                let body = &[NewsKind::Rescan as u8];
                self.clients.answer(Reply { client, id, more: true, body });
            }
        }
    }

    /// Receives requests, and sends what sockets did not accept before. Call this when a descriptor of
    /// [`fds`](Self::fds) is ready.
    pub fn exchange(&mut self) {
        let mut requests = Vec::new();
        let most = if self.inbox.size() < MAX_INBOX { REQUESTS_PER_TURN } else { 0 };
        self.clients.receive_requests(self.clients.ids(), most, &mut requests);
        for request in requests {
            self.handle(&request);
        }
        self.refresh_stale();
        self.clients.log_suppressed(Instant::now());
        for client in self.clients.take_disconnected() {
            self.watchers.remove(&client);
            if !self.http.remove(&client) {
                self.push(ClientNews::Disconnected, client, (0, 0), &[]);
            }
        }
    }

    fn handle(&mut self, request: &ClientRequest) {
        let ClientRequest { client, id, request } = request;
        let (client, id) = (*client, *id);
        match request.split_first() {
            Some((&HTTP_REQUEST, content)) if self.http.contains(&client) => {
                self.push_http(client, id, content);
            }
            // What follows is for clients of the service.
            _ if self.http.contains(&client) => {}
            Some((&WATCH, _)) if self.may_read(client) => {
                self.watchers.insert(client, Watcher { request: id, is_stale: false });
                let body = &[NewsKind::Attached as u8];
                self.clients.answer(Reply { client, id, more: true, body });
            }
            Some((&REQUEST_OF_APP, content)) => {
                let app = self.clients.app(client).unwrap_or(0);
                self.push(ClientNews::Request, client, (app, id), content);
            }
            _ => {
                let right = self.read_right().unwrap_or_default();
                self.clients.record_refusal(client, "a request to a service", right);
                let body = &[NewsKind::Gone as u8];
                self.clients.answer(Reply { client, id, more: false, body });
            }
        }
    }

    fn read_right(&self) -> Option<&'static str> {
        self.published.as_ref().and_then(|(service, _)| service.read_right())
    }

    fn may_read(&self, client: ClientId) -> bool {
        let read = self.read_right();
        let names = self.clients.rights(client).map(|rights| rights.names.as_slice());
        let mut names = names.unwrap_or_default().iter().map(String::as_str);
        names.any(|name| name == OPERATOR || Some(name) == read)
    }

    /// Answers a request of a client.
    pub fn answer(&mut self, request: serving::ClientRequest, more: bool, body: &[u8]) {
        let client = ClientId(request.client.0);
        self.clients.answer(Reply { client, id: request.id, more, body });
    }

    /// The sockets to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // While the app has much to handle, requests wait in the sockets.
        let is_full = self.inbox.size() >= MAX_INBOX;
        let waits_for_room = |client: &ClientId| self.clients.queued(*client) > 0;
        let fds = self.clients.fds();
        fds.filter(move |(client, _)| !is_full || waits_for_room(client)).map(|(_, fd)| fd)
    }

    /// The records about clients that the app has not handled.
    pub fn records(&self) -> &Gathered {
        &self.inbox
    }

    /// Lends the records for a batch; [`give_back`](Self::give_back) returns them.
    pub fn lend(&mut self) -> Gathered {
        std::mem::take(&mut self.inbox)
    }

    /// Takes back the records that the app has not handled.
    pub fn give_back(&mut self, records: Gathered) {
        self.inbox = records; // nothing was received while they were lent
    }

    fn push_http(&mut self, client: ClientId, id: u64, request: &[u8]) {
        let mut head = Record::new(RecordKind::Http, 0, client.0, 0);
        head.cookie = id;
        head.body_size = u16::try_from(request.len()).unwrap_or(u16::MAX); // MAX_MESSAGE is less
        self.inbox.push(&head.words(), request);
    }

    fn push(&mut self, kind: ClientNews, client: ClientId, (app, id): (u16, u64), body: &[u8]) {
        let mut head = Record::new(RecordKind::Client, 0, client.0, u32::from(app));
        (head.reason, head.cookie) = (kind as u8, id);
        head.body_size = u16::try_from(body.len()).unwrap_or(u16::MAX); // MAX_MESSAGE is less
        self.inbox.push(&head.words(), body);
    }
}

/// The right of an operator: every table may be read.
pub const OPERATOR: &str = "operator";

#[cfg(test)]
mod tests;

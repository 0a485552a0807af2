//! The clients of a service, with their queued output.
//!
//! No client is ever waited for. Replies that its socket does not accept are queued, and the client
//! is not read until the queue is empty. Replies are thus bounded by the requests of one turn. Only
//! unsolicited messages, such as changes that the client watches, can accumulate; at
//! [`MAX_QUEUED`] bytes the client is disconnected.
//!
//! The number of clients is bounded, in total and per owner (an app, or a user of the operator's
//! command). Beyond that, the oldest connection of the owner with the most connections is closed.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use names::{MAX_MESSAGE, REQUEST_HEAD};
use rustix::event::{PollFd, PollFlags};
use sys::packets::{PacketError, Packets};
use sys::rate::Rate;
use tracing::{debug, info, warn};

use crate::service::{ClientRights, LogRight, ServiceClient};

/// Maximum number of requests of one client per turn.
const MAX_REQUESTS_PER_TURN: usize = 16;

/// Maximum number of clients.
const MAX_CLIENTS: usize = 128;

/// Maximum number of clients of one owner.
const MAX_PER_OWNER: usize = 16;

/// Maximum size of a client's queued output, in bytes.
pub const MAX_QUEUED: usize = 1024 * 1024;

/// A client while its socket is open; ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// The client.
    pub client: ClientId,
    /// Request id chosen by the client, repeated in the reply.
    pub id: u64,
    /// The request, in the format of the service's module in `sdk::services`.
    pub request: Vec<u8>,
}

/// A reply to a request.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The client.
    pub client: ClientId,
    /// The request id.
    pub id: u64,
    /// Whether further replies to the same request follow.
    pub more: bool,
    /// The reply, in the service's format.
    pub body: &'a [u8],
}

#[derive(Debug)]
struct Client {
    app: u16,
    name: String,
    rights: ClientRights,
    socket: Packets,
    /// Packets that its socket has not accepted yet.
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    waiting_size: usize,
    /// The most bytes that may wait.
    most_queued: usize,
    refusals: Rate,
}

impl Client {
    /// Whether it writes the log: only the monitor does.
    fn is_writer(&self) -> bool {
        self.rights.log == Some(LogRight::Write)
    }
}

/// The connected clients of a service.
#[derive(Debug)]
pub struct Clients {
    connected: BTreeMap<ClientId, Client>,
    next: u64,
    /// Receive buffer.
    room: Vec<u8>,
    /// Clients that disconnected since [`take_disconnected`](Self::take_disconnected).
    gone: Vec<ClientId>,
    /// The last client served; the next turn starts after it.
    last_served: ClientId,
}

impl Default for Clients {
    fn default() -> Self {
        let room = vec![0; REQUEST_HEAD + MAX_MESSAGE];
        Self {
            connected: BTreeMap::new(),
            next: 0,
            room,
            gone: Vec::new(),
            last_served: ClientId(0),
        }
    }
}

impl Clients {
    /// Adds a client that sends requests on this socket.
    pub fn add(&mut self, client: ServiceClient, socket: OwnedFd) -> ClientId {
        let ServiceClient { app, name, rights } = client;
        if app == 0 {
            debug!(name, "an own client was connected");
        } else {
            info!(app = name, "app was connected");
        }
        if let Some(oldest) = self.connection_to_close(app, &name) {
            debug!(name, "closed the oldest connection of this owner for a new one");
            self.forget(oldest);
        }
        let id = ClientId(self.next);
        self.next += 1;
        let client = Client {
            app,
            name,
            rights,
            socket: Packets::from_fd(socket),
            waiting: VecDeque::new(),
            waiting_size: 0,
            most_queued: MAX_QUEUED,
            refusals: Rate::new(Instant::now()),
        };
        self.connected.insert(id, client);
        id
    }

    /// Returns the connection to close for a new one of this owner; `None` if there is room. It is
    /// never the monitor's connection, which writes the log.
    fn connection_to_close(&self, app: u16, name: &str) -> Option<ClientId> {
        let owner = |client: &Client| (client.app, client.name.clone());
        let mut counts: BTreeMap<(u16, String), usize> = BTreeMap::new();
        for client in self.connected.values().filter(|it| !it.is_writer()) {
            *counts.entry(owner(client)).or_default() += 1;
        }
        let new = (app, name.to_owned());
        let from = if counts.get(&new).is_some_and(|count| *count >= MAX_PER_OWNER) {
            new
        } else if self.connected.len() >= MAX_CLIENTS {
            counts.into_iter().max_by_key(|(_, count)| *count)?.0
        } else {
            return None;
        };
        let of_owner = |client: &Client| !client.is_writer() && owner(client) == from;
        self.connected.iter().find(|(_, client)| of_owner(client)).map(|(id, _)| *id)
    }

    /// Allows a client more queued output than [`MAX_QUEUED`].
    pub fn allow_queue(&mut self, client: ClientId, bytes: usize) {
        if let Some(client) = self.connected.get_mut(&client) {
            client.most_queued = bytes;
        }
    }

    /// Returns the number of a client's app.
    pub fn app(&self, client: ClientId) -> Option<u16> {
        self.connected.get(&client).map(|client| client.app)
    }

    /// Returns a client's rights.
    pub fn rights(&self, client: ClientId) -> Option<&ClientRights> {
        self.connected.get(&client).map(|client| &client.rights)
    }

    /// Logs for the operator that a client was denied `what`, which requires the right `right`.
    pub fn record_refusal(&mut self, client: ClientId, what: &str, right: &str) {
        let Some(client) = self.connected.get_mut(&client) else { return };
        let app = client.name.as_str();
        if let Some(suppressed) = client.refusals.admit(Instant::now()) {
            warn!(app, what, right, suppressed, "denied an app what it was not granted");
        }
    }

    /// Logs the number of suppressed records after a flood of denials has ended.
    pub fn log_suppressed(&mut self, now: Instant) {
        for client in self.connected.values_mut() {
            if let Some(suppressed) = client.refusals.rest(now) {
                let app = client.name.as_str();
                warn!(app, suppressed, "suppressed further records of denials to an app");
            }
        }
    }

    /// Returns when [`log_suppressed`](Self::log_suppressed) has something to log.
    pub fn wake_at(&self) -> Option<Instant> {
        self.connected.values().filter_map(|client| client.refusals.next_due()).min()
    }

    /// Returns what to poll for: a request, or room for the client's queued output.
    pub fn fds(&self) -> impl Iterator<Item = (ClientId, PollFd<'_>)> {
        self.connected.iter().map(|(id, client)| {
            let wants = if client.waiting.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            (*id, PollFd::from_borrowed_fd(client.socket.as_fd(), wants))
        })
    }

    /// Receives requests of the `ready` clients until `asked` has `most`. Writers of the log come
    /// first, then the clients after the last one served.
    pub fn receive_requests(
        &mut self,
        mut ready: Vec<ClientId>,
        most: usize,
        asked: &mut Vec<ClientRequest>,
    ) {
        for id in &ready {
            self.flush(*id);
        }
        let is_writer = |id: &ClientId| self.connected.get(id).is_some_and(Client::is_writer);
        // Ids after the last one served come first, which serves the clients round robin.
        ready.sort_by_cached_key(|id| (!is_writer(id), *id <= self.last_served, *id));
        for id in ready {
            if asked.len() >= most {
                return;
            }
            self.receive_from(id, most - asked.len(), asked);
            self.last_served = id;
        }
    }

    /// Receives at most `most` requests of a client without queued output.
    fn receive_from(&mut self, id: ClientId, most: usize, asked: &mut Vec<ClientRequest>) {
        for _ in 0..MAX_REQUESTS_PER_TURN.min(most) {
            let Some(client) = self.connected.get(&id).filter(|it| it.waiting.is_empty()) else {
                return;
            };
            match client.socket.receive(&mut self.room) {
                Ok((size, _)) => {
                    let packet = self.room.get(..size).unwrap_or_default();
                    let Some((head, request)) = packet.split_first_chunk::<REQUEST_HEAD>() else {
                        return self.drop_client(id, "it sent an invalid request");
                    };
                    let request = request.to_vec();
                    asked.push(ClientRequest {
                        client: id,
                        id: u64::from_le_bytes(*head),
                        request,
                    });
                }
                Err(PacketError::WouldBlock) => return,
                Err(PacketError::TooLong) => {
                    return self.drop_client(id, "it sent an invalid request");
                }
                Err(_) => return self.forget(id),
            }
        }
    }

    /// Sends a reply; what the socket does not accept is queued.
    pub fn answer(&mut self, reply: Reply<'_>) {
        self.answer_with(reply, None);
    }

    /// Like [`answer`](Self::answer), with a descriptor.
    pub fn answer_with(&mut self, reply: Reply<'_>, fd: Option<OwnedFd>) {
        let Some(client) = self.connected.get_mut(&reply.client) else { return };
        let packet = [&reply.id.to_le_bytes()[..], &[u8::from(reply.more)], reply.body].concat();
        client.waiting_size += packet.len();
        client.waiting.push_back((packet, fd));
        // Waiting longer would let one client that does not read exhaust the memory of the service.
        if client.waiting_size > client.most_queued {
            return self.drop_client(reply.client, "it does not read its replies");
        }
        self.flush(reply.client);
    }

    /// Returns the clients that disconnected, each once.
    pub fn take_disconnected(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.gone)
    }

    /// Returns the queued bytes of a client, which its socket has not accepted yet.
    pub fn queued(&self, client: ClientId) -> usize {
        self.connected.get(&client).map_or(0, |client| client.waiting_size)
    }

    /// Returns the name of a client: of its app, or of an operator.
    pub fn name(&self, client: ClientId) -> Option<&str> {
        self.connected.get(&client).map(|client| client.name.as_str())
    }

    /// Returns all clients.
    pub fn ids(&self) -> Vec<ClientId> {
        self.connected.keys().copied().collect()
    }

    /// Returns the queued bytes of all clients.
    pub fn waiting(&self) -> usize {
        self.connected.values().map(|client| client.waiting_size).sum()
    }

    /// Sends queued packets until the socket accepts no more.
    fn flush(&mut self, id: ClientId) {
        let Some(client) = self.connected.get_mut(&id) else { return };
        while let Some((packet, fd)) = client.waiting.front() {
            let sent = match fd {
                None => client.socket.send(packet),
                Some(fd) => client.socket.send_with(packet, fd.as_fd()),
            };
            match sent {
                Ok(()) => {
                    client.waiting_size -= packet.len();
                    client.waiting.pop_front();
                }
                Err(PacketError::WouldBlock) => return,
                Err(_) => return self.forget(id),
            }
        }
    }

    fn drop_client(&mut self, id: ClientId, why: &str) {
        match self.connected.get(&id) {
            // Debug level only, because an operator can cause it repeatedly.
            Some(client) if client.app == 0 => debug!(client.name, why, "disconnected a client"),
            Some(client) => {
                let app = client.name.as_str();
                warn!(app, why, "disconnected an app; it can reconnect after a restart");
            }
            None => {}
        }
        self.forget(id);
    }

    fn forget(&mut self, id: ClientId) {
        if self.connected.remove(&id).is_some() {
            self.gone.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(clients: &mut Clients) -> (ClientId, Packets) {
        let (ours, theirs) = Packets::pair().unwrap();
        let client = ServiceClient { app: 1, name: "app".into(), rights: ClientRights::default() };
        (clients.add(client, theirs.into_fd()), ours)
    }

    fn last_served(clients: &mut Clients, id: ClientId) -> Vec<ClientRequest> {
        let mut asked = Vec::new();
        clients.receive_requests(vec![id], usize::MAX, &mut asked);
        asked
    }

    #[test]
    fn requests_per_turn_are_bounded() {
        let mut clients = Clients::default();
        let (id, app) = connected(&mut clients);
        for number in 0..=MAX_REQUESTS_PER_TURN as u64 {
            app.send(&[&number.to_le_bytes()[..], b"request"].concat()).unwrap();
        }
        let asked = last_served(&mut clients, id);
        assert!(asked.iter().map(|it| it.id).eq(0..MAX_REQUESTS_PER_TURN as u64));
        assert_eq!(asked[0].request, b"request");
        assert_eq!(last_served(&mut clients, id).len(), 1);
    }

    #[test]
    fn clients_are_served_round_robin() {
        let mut clients = Clients::default();
        let connected: Vec<_> = (0..3).map(|_| connected(&mut clients)).collect();
        let ids: Vec<ClientId> = connected.iter().map(|(id, _)| *id).collect();
        let mut last_served = Vec::new();
        for _ in 0..3 {
            for (_, app) in &connected {
                while app.send(&[1; 8]).is_ok() {}
            }
            let mut asked = Vec::new();
            clients.receive_requests(ids.clone(), 1, &mut asked);
            assert_eq!(asked.len(), 1);
            last_served.push(asked[0].client);
        }
        last_served.sort();
        assert_eq!(last_served, ids);
    }

    #[test]
    fn connections_per_owner_are_bounded() {
        let mut clients = Clients::default();
        let mut others = Vec::new();
        let mut add = |clients: &mut Clients, name: &str, log| {
            let (ours, theirs) = Packets::pair().unwrap();
            others.push(ours);
            let rights = ClientRights { log: Some(log), ..ClientRights::default() };
            clients.add(ServiceClient { app: 0, name: name.into(), rights }, theirs.into_fd())
        };
        let monitor = add(&mut clients, "monitor", LogRight::Write);
        let first = add(&mut clients, "operator 7", LogRight::Read);
        for _ in 0..1_000 {
            add(&mut clients, "operator 8", LogRight::Read);
        }
        assert_eq!(clients.connected.len(), 2 + MAX_PER_OWNER);
        for user in 1_000..2_000 {
            add(&mut clients, &format!("operator {user}"), LogRight::Read);
        }
        assert_eq!(clients.connected.len(), MAX_CLIENTS);
        assert!(clients.connected.contains_key(&monitor));
        assert!(
            !clients.connected.contains_key(&first),
            "every owner had one, and this was the oldest"
        );
    }

    #[test]
    fn client_that_does_not_read_is_not_read() {
        let mut clients = Clients::default();
        let (id, app) = connected(&mut clients);
        let body = vec![0; 30_000];
        while clients.connected[&id].waiting.is_empty() {
            clients.answer(Reply { client: id, id: 1, more: false, body: &body });
        }
        app.send(&[7; 8]).unwrap();
        assert!(last_served(&mut clients, id).is_empty());
        let mut room = vec![0; 40_000];
        while app.receive(&mut room).is_ok() {}
        assert_eq!(last_served(&mut clients, id).len(), 1);
    }

    #[test]
    fn client_with_full_queue_is_disconnected() {
        let mut clients = Clients::default();
        let (slow, _app) = connected(&mut clients);
        let (other, app) = connected(&mut clients);
        let body = vec![0; 30_000];
        for _ in 0..100 {
            clients.answer(Reply { client: slow, id: 1, more: true, body: &body });
        }
        assert_eq!(clients.take_disconnected(), [slow]);
        clients.answer(Reply { client: other, id: 9, more: false, body: b"here" });
        let mut room = [0; 64];
        let (size, _) = app.receive(&mut room).unwrap();
        assert_eq!(&room[..size], b"\x09\0\0\0\0\0\0\0\0here");
    }

    #[test]
    fn invalid_packet_disconnects_its_sender() {
        for packet in [&b"short"[..], &vec![0; REQUEST_HEAD + MAX_MESSAGE + 1]] {
            let mut clients = Clients::default();
            let (id, app) = connected(&mut clients);
            app.send(packet).unwrap();
            assert!(last_served(&mut clients, id).is_empty());
            assert_eq!(clients.take_disconnected(), [id]);
        }
    }

    #[test]
    fn closed_client_is_removed_after_its_last_requests() {
        let mut clients = Clients::default();
        let (id, app) = connected(&mut clients);
        app.send(&[1; 8]).unwrap();
        drop(app);
        assert_eq!(last_served(&mut clients, id).len(), 1);
        assert_eq!(clients.take_disconnected(), [id]);
        assert_eq!(clients.app(id), None);
    }
}

//! Who is connected to a service, and what waits for them.
//!
//! Nobody is waited for. What a client's socket does not take is kept for it, and until that is gone it is
//! not read from: so its answers are bounded by what it may ask in one turn. Only what it did not ask for
//! at the moment, as changes that it watches, can become more; at [`MOST_WAITING`] bytes it is cut off.
//!
//! The number of clients is bounded, as is the number of those with one owner: an app, or an operator's user.
//! Beyond that the oldest connection is closed, of the owner with the most.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use sdk::services::{MAX_MESSAGE, REQUEST_HEAD};
use sys::packets::{PacketError, Packets};
use sys::rate::Rate;
use tracing::{debug, info, warn};

use crate::control::{self, Rights};

/// Requests of one client in one turn.
const PER_TURN: usize = 16;

/// Most clients.
const MOST: usize = 128;

/// Most clients of one owner.
const PER_OWNER: usize = 16;

/// Bytes that may wait for a client.
pub const MOST_WAITING: usize = 1024 * 1024;

/// A client, for as long as its socket is open; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u64);

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Who.
    pub client: ClientId,
    /// Their number for it, which the answer has, too.
    pub id: u64,
    /// What, as the service's module in [`sdk::services`] lays it out.
    pub request: Vec<u8>,
}

/// An answer to a request.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// To whom.
    pub client: ClientId,
    /// To which request.
    pub id: u64,
    /// Whether the same request will be answered again.
    pub more: bool,
    /// The answer.
    pub body: &'a [u8],
}

#[derive(Debug)]
struct Client {
    app: u16,
    name: String,
    rights: Rights,
    socket: Packets,
    /// Packets that its socket did not take yet.
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    waiting_size: usize,
    refusals: Rate,
}

impl Client {
    /// Whether it adds to the log: the monitor.
    fn is_writer(&self) -> bool {
        self.rights.log == Some(control::LogRight::Write)
    }
}

/// All that are connected.
#[derive(Debug)]
pub struct Clients {
    connected: BTreeMap<ClientId, Client>,
    next: u64,
    /// Where requests are received.
    room: Vec<u8>,
    /// Those that are gone and of whom the service has not been told.
    gone: Vec<ClientId>,
    /// Who was heard last, so that in the next turn the others come first.
    heard: ClientId,
}

impl Default for Clients {
    fn default() -> Self {
        let room = vec![0; REQUEST_HEAD + MAX_MESSAGE];
        Self { connected: BTreeMap::new(), next: 0, room, gone: Vec::new(), heard: ClientId(0) }
    }
}

impl Clients {
    /// Somebody may ask from now on, by this socket.
    pub fn add(&mut self, client: control::Client, socket: OwnedFd) -> ClientId {
        let control::Client { app, name, rights } = client;
        if app == 0 {
            debug!(name, "one of Rosemary's own was connected");
        } else {
            info!(app = name, "app was connected");
        }
        if let Some(oldest) = self.who_gives_way(app, &name) {
            debug!(name, "the oldest connection of its owner was closed for a new one");
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
            refusals: Rate::new(Instant::now()),
        };
        self.connected.insert(id, client);
        id
    }

    /// The connection that is closed for a new one of this owner; `None` if there is room. It is never that
    /// of the monitor, which adds to the log.
    fn who_gives_way(&self, app: u16, name: &str) -> Option<ClientId> {
        let owner = |client: &Client| (client.app, client.name.clone());
        let mut counts: BTreeMap<(u16, String), usize> = BTreeMap::new();
        for client in self.connected.values().filter(|it| !it.is_writer()) {
            *counts.entry(owner(client)).or_default() += 1;
        }
        let new = (app, name.to_owned());
        let from = if counts.get(&new).is_some_and(|count| *count >= PER_OWNER) {
            new
        } else if self.connected.len() >= MOST {
            counts.into_iter().max_by_key(|(_, count)| *count)?.0
        } else {
            return None;
        };
        let of_owner = |client: &Client| !client.is_writer() && owner(client) == from;
        self.connected.iter().find(|(_, client)| of_owner(client)).map(|(id, _)| *id)
    }

    /// The number of a client's app.
    pub fn app(&self, client: ClientId) -> Option<u16> {
        self.connected.get(&client).map(|client| client.app)
    }

    /// What a client may.
    pub fn rights(&self, client: ClientId) -> Option<&Rights> {
        self.connected.get(&client).map(|client| &client.rights)
    }

    /// Records for the operator that a client was refused `what`, which took the right `right`.
    pub fn record_refusal(&mut self, client: ClientId, what: &str, right: &str) {
        let Some(client) = self.connected.get_mut(&client) else { return };
        let app = client.name.as_str();
        if let Some(left_out) = client.refusals.admit(Instant::now()) {
            warn!(app, what, right, left_out, "refused an app what it was not granted");
        }
    }

    /// Records how many refusals were left out of floods that have ended.
    pub(crate) fn tell_left_out(&mut self, now: Instant) {
        for client in self.connected.values_mut() {
            if let Some(left_out) = client.refusals.rest(now) {
                let app = client.name.as_str();
                warn!(app, left_out, "refused the app more that it was not granted than was told");
            }
        }
    }

    /// When [`tell_left_out`](Self::tell_left_out) has something to do, if nothing happens before.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.connected.values().filter_map(|client| client.refusals.next_due()).min()
    }

    /// What to wait for: of each client a request, or that it takes what waits for it.
    pub fn fds(&self) -> impl Iterator<Item = (ClientId, PollFd<'_>)> {
        self.connected.iter().map(|(id, client)| {
            let wants = if client.waiting.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            (*id, PollFd::from_borrowed_fd(client.socket.as_fd(), wants))
        })
    }

    /// Receives requests of the clients that are `ready`, until `asked` has `most`: first of those who add to the
    /// log, then of those who come after the client of the last request that was received.
    pub fn receive_requests(
        &mut self,
        mut ready: Vec<ClientId>,
        most: usize,
        asked: &mut Vec<Asked>,
    ) {
        for id in &ready {
            self.flush(*id);
        }
        let is_writer = |id: &ClientId| self.connected.get(id).is_some_and(Client::is_writer);
        ready.sort_by_cached_key(|id| (!is_writer(id), *id <= self.heard, *id));
        for id in ready {
            if asked.len() >= most {
                return;
            }
            self.hear(id, most - asked.len(), asked);
            self.heard = id;
        }
    }

    /// Takes requests of a client for whom nothing waits, `most` of them.
    fn hear(&mut self, id: ClientId, most: usize, asked: &mut Vec<Asked>) {
        for _ in 0..PER_TURN.min(most) {
            let Some(client) = self.connected.get(&id).filter(|it| it.waiting.is_empty()) else {
                return;
            };
            match client.socket.receive(&mut self.room) {
                Ok((size, _)) => {
                    let packet = self.room.get(..size).unwrap_or_default();
                    let Some((head, request)) = packet.split_first_chunk::<REQUEST_HEAD>() else {
                        return self.drop_client(id, "it sent something that is no request");
                    };
                    let request = request.to_vec();
                    asked.push(Asked { client: id, id: u64::from_le_bytes(*head), request });
                }
                Err(PacketError::WouldBlock) => return,
                Err(PacketError::TooLong) => {
                    return self.drop_client(id, "it sent something that is no request");
                }
                Err(_) => return self.forget(id),
            }
        }
    }

    /// Answers, or tells the client something. What it does not take waits for it.
    pub fn answer(&mut self, reply: Reply<'_>) {
        self.answer_with(reply, None);
    }

    /// As [`answer`](Self::answer), with a descriptor.
    pub fn answer_with(&mut self, reply: Reply<'_>, fd: Option<OwnedFd>) {
        let Some(client) = self.connected.get_mut(&reply.client) else { return };
        let packet = [&reply.id.to_le_bytes()[..], &[u8::from(reply.more)], reply.body].concat();
        client.waiting_size += packet.len();
        client.waiting.push_back((packet, fd));
        if client.waiting_size > MOST_WAITING {
            return self.drop_client(reply.client, "it does not read what it is told");
        }
        self.flush(reply.client);
    }

    /// Those that are gone, each told once.
    pub fn take_gone(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.gone)
    }

    /// Bytes that wait for all clients.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.connected.values().map(|client| client.waiting_size).sum()
    }

    /// Sends what waits, as far as it is taken.
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
            // An operator can repeat it.
            Some(client) if client.app == 0 => debug!(client.name, why, "client was cut off"),
            Some(client) => {
                let app = client.name.as_str();
                warn!(app, why, "app was cut off; it can ask again when it is started again");
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
        let client = control::Client { app: 1, name: "app".into(), rights: Rights::default() };
        (clients.add(client, theirs.into_fd()), ours)
    }

    fn heard(clients: &mut Clients, id: ClientId) -> Vec<Asked> {
        let mut asked = Vec::new();
        clients.receive_requests(vec![id], usize::MAX, &mut asked);
        asked
    }

    #[test]
    fn client_is_taken_a_few_requests_of_at_a_time() {
        let mut clients = Clients::default();
        let (id, app) = connected(&mut clients);
        for number in 0..=PER_TURN as u64 {
            app.send(&[&number.to_le_bytes()[..], b"request"].concat()).unwrap();
        }
        let asked = heard(&mut clients, id);
        assert!(asked.iter().map(|it| it.id).eq(0..PER_TURN as u64));
        assert_eq!(asked[0].request, b"request");
        assert_eq!(heard(&mut clients, id).len(), 1);
    }

    #[test]
    fn clients_are_heard_in_turn_however_much_the_first_asks() {
        let mut clients = Clients::default();
        let connected: Vec<_> = (0..3).map(|_| connected(&mut clients)).collect();
        let ids: Vec<ClientId> = connected.iter().map(|(id, _)| *id).collect();
        let mut heard = Vec::new();
        for _ in 0..3 {
            for (_, app) in &connected {
                while app.send(&[1; 8]).is_ok() {}
            }
            let mut asked = Vec::new();
            clients.receive_requests(ids.clone(), 1, &mut asked);
            assert_eq!(asked.len(), 1);
            heard.push(asked[0].client);
        }
        heard.sort();
        assert_eq!(heard, ids);
    }

    #[test]
    fn connections_of_one_owner_are_bounded_and_the_monitor_stays() {
        let mut clients = Clients::default();
        let mut others = Vec::new();
        let mut add = |clients: &mut Clients, name: &str, log| {
            let (ours, theirs) = Packets::pair().unwrap();
            others.push(ours);
            let rights = Rights { log: Some(log), ..Rights::default() };
            clients.add(control::Client { app: 0, name: name.into(), rights }, theirs.into_fd())
        };
        let monitor = add(&mut clients, "monitor", control::LogRight::Write);
        let first = add(&mut clients, "operator 7", control::LogRight::Read);
        for _ in 0..1_000 {
            add(&mut clients, "operator 8", control::LogRight::Read);
        }
        assert_eq!(clients.connected.len(), 2 + PER_OWNER);
        for user in 1_000..2_000 {
            add(&mut clients, &format!("operator {user}"), control::LogRight::Read);
        }
        assert_eq!(clients.connected.len(), MOST);
        assert!(clients.connected.contains_key(&monitor));
        assert!(!clients.connected.contains_key(&first), "all had one, and it was the oldest");
    }

    #[test]
    fn client_that_does_not_read_is_not_read_from_until_it_does() {
        let mut clients = Clients::default();
        let (id, app) = connected(&mut clients);
        let body = vec![0; 30_000];
        while clients.connected[&id].waiting.is_empty() {
            clients.answer(Reply { client: id, id: 1, more: false, body: &body });
        }
        app.send(&[7; 8]).unwrap();
        assert!(heard(&mut clients, id).is_empty());
        let mut room = vec![0; 40_000];
        while app.receive(&mut room).is_ok() {}
        assert_eq!(heard(&mut clients, id).len(), 1);
    }

    #[test]
    fn client_for_whom_too_much_waits_is_cut_off_and_the_others_are_not() {
        let mut clients = Clients::default();
        let (slow, _app) = connected(&mut clients);
        let (other, app) = connected(&mut clients);
        let body = vec![0; 30_000];
        for _ in 0..100 {
            clients.answer(Reply { client: slow, id: 1, more: true, body: &body });
        }
        assert_eq!(clients.take_gone(), [slow]);
        clients.answer(Reply { client: other, id: 9, more: false, body: b"here" });
        let mut room = [0; 64];
        let (size, _) = app.receive(&mut room).unwrap();
        assert_eq!(&room[..size], b"\x09\0\0\0\0\0\0\0\0here");
    }

    #[test]
    fn packet_that_is_no_request_cuts_its_sender_off() {
        for packet in [&b"short"[..], &vec![0; REQUEST_HEAD + MAX_MESSAGE + 1]] {
            let mut clients = Clients::default();
            let (id, app) = connected(&mut clients);
            app.send(packet).unwrap();
            assert!(heard(&mut clients, id).is_empty());
            assert_eq!(clients.take_gone(), [id]);
        }
    }

    #[test]
    fn client_that_ends_is_forgotten_after_its_last_requests() {
        let mut clients = Clients::default();
        let (id, app) = connected(&mut clients);
        app.send(&[1; 8]).unwrap();
        drop(app);
        assert_eq!(heard(&mut clients, id).len(), 1);
        assert_eq!(clients.take_gone(), [id]);
        assert_eq!(clients.app(id), None);
    }
}

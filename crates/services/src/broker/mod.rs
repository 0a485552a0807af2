//! The broker: connects to the hosts that `net.connect` grants, and gives the connection away.
//!
//! Names are asked for here, with the system's own resolver, which waits: so each connection is made by a
//! thread of its own, of which there are few, and which gives up in bounded time. An app gives a host
//! exactly as the operator has granted it; what it gives is never looked up otherwise. A connection that
//! was made is the app's: the broker keeps nothing of it.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use sdk::services::broker::{Answer, Request};
use sys::doorbell::{Doorbell, Ringer};
use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;

use crate::clients::{Asked, ClientId, Clients, Reply};
use crate::control::{Host, Quotas};
use crate::run::{Needs, OpenError, Service};

/// Connections that are being made for one client.
const PER_CLIENT: usize = 4;

/// Connections that are being made in all.
const MOST: usize = 32;

/// From the request to the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that a connection may hold for each direction; the system doubles it, for what it keeps beside them. Otherwise
/// it holds up to some megabytes, which on many machines count as nobody's memory.
const BUFFER: usize = 32 << 10;

/// Addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;

/// What the resolver reads.
const FILES: [&str; 6] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
];

/// The service.
#[derive(Debug)]
pub struct Broker {
    bell: Doorbell,
    ringer: Ringer,
    made: (Sender<Made>, Receiver<Made>),
    /// Those that are not answered yet.
    underway: Vec<Underway>,
    /// Threads that have not ended, also for those who were told that it took too long.
    threads: usize,
}

/// A connection that is being made.
#[derive(Debug)]
struct Underway {
    client: ClientId,
    id: u64,
    /// When it takes too long.
    until: Instant,
}

/// What came of making a connection.
#[derive(Debug)]
struct Made {
    client: ClientId,
    id: u64,
    result: Result<OwnedFd, String>,
}

impl Service for Broker {
    const NAME: &'static str = "broker";

    fn needs() -> Needs {
        let limits = Limits { descriptors: 512, threads: 64, file_size: 0, memory: None };
        let read = FILES.iter().map(Into::into).collect();
        Needs { profile: Profile::Broker, network: true, read, limits }
    }

    fn open(_file: Option<OwnedFd>, _quotas: Quotas) -> Result<Self, OpenError> {
        let (bell, ringer) = Doorbell::new()?;
        let (underway, threads) = (Vec::new(), 0);
        Ok(Self { bell, ringer: Ringer::from_fd(ringer), made: channel(), underway, threads })
    }

    fn serve(&mut self, asked: Vec<Asked>, clients: &mut Clients) {
        self.answer_made(clients);
        let now = Instant::now();
        for Asked { client, id, request } in asked {
            let answer = match Request::decode(&request) {
                None => Some(Answer::Refused),
                Some(request) => self.begin(client, id, request, clients, now),
            };
            if let Some(answer) = answer {
                clients.answer(Reply { client, id, more: false, body: &answer.encode() });
            }
        }
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn wake_at(&self) -> Option<Instant> {
        self.underway.iter().map(|it| it.until).min()
    }

    fn gone(&mut self, client: ClientId) {
        self.underway.retain(|it| it.client != client);
    }
}

impl Broker {
    /// Begins to connect; an answer, if that is not to be done.
    fn begin(
        &mut self,
        client: ClientId,
        id: u64,
        request: Request<'_>,
        clients: &mut Clients,
        now: Instant,
    ) -> Option<Answer<'static>> {
        let host = Host { name: request.host.to_owned(), port: request.port };
        if !clients.rights(client).is_some_and(|rights| rights.hosts.contains(&host)) {
            let name: String = host.name.chars().take(100).flat_map(char::escape_debug).collect();
            let right = format!("net.connect:{name}:{}", host.port);
            clients.record_refusal(client, "a connection", &right);
            return Some(Answer::NotGranted);
        }
        let of_client = self.underway.iter().filter(|it| it.client == client).count();
        if of_client >= PER_CLIENT || self.threads >= MOST {
            return Some(Answer::Refused);
        }
        let Ok(ringer) = self.ringer.try_clone() else { return Some(Answer::Refused) };
        let made = self.made.0.clone();
        let thread = std::thread::Builder::new().name("connect".into()).spawn(move || {
            let result = connect(&host);
            if made.send(Made { client, id, result }).is_ok() {
                ringer.ring();
            }
        });
        if thread.is_err() {
            return Some(Answer::Refused);
        }
        self.threads += 1;
        self.underway.push(Underway { client, id, until: now + PATIENCE });
        None
    }

    /// Answers those whose connection is made, or takes too long.
    fn answer_made(&mut self, clients: &mut Clients) {
        self.bell.silence();
        for Made { client, id, result } in self.made.1.try_iter() {
            self.threads -= 1;
            let is_it = |it: &Underway| it.client == client && it.id == id;
            let Some(place) = self.underway.iter().position(is_it) else { continue };
            self.underway.swap_remove(place);
            let answer = match &result {
                Ok(_) => Answer::Connected,
                Err(why) => Answer::Failed(why),
            };
            let body = answer.encode();
            clients.answer_with(Reply { client, id, more: false, body: &body }, result.ok());
        }
        let now = Instant::now();
        let body = Answer::Failed("it took too long").encode();
        self.underway.retain(|&Underway { client, id, until }| {
            let goes_on = now < until;
            if !goes_on {
                clients.answer(Reply { client, id, more: false, body: &body });
            }
            goes_on
        });
    }
}

/// Connects to the first address of the host that answers. The socket does not wait from then on.
fn connect(host: &Host) -> Result<OwnedFd, String> {
    let addresses = (host.name.as_str(), host.port).to_socket_addrs();
    let addresses: Vec<_> =
        addresses.map_err(|error| error.to_string())?.take(MOST_ADDRESSES).collect();
    let each = PATIENCE / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        let connected = TcpStream::connect_timeout(&address, each).and_then(|socket| {
            // Asked again, the system takes it for connected for good: one that was connected without
            // waiting, and only once asked, can be connected anew by who is given it.
            rustix::net::connect(&socket, &address)?;
            socket.set_nonblocking(true)?;
            set_socket_send_buffer_size(&socket, BUFFER)?;
            set_socket_recv_buffer_size(&socket, BUFFER)?;
            Ok(socket.into())
        });
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests;

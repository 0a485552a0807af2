//! The broker connects to hosts that `net.connect` grants and passes the connected socket to the
//! app.
//!
//! The broker resolves names with the system's resolver, which blocks. Each connection is therefore
//! made by its own thread; the number of threads and their time are bounded. An app must name the
//! host exactly as the operator granted it, and no other name is resolved. A connected socket
//! belongs to the app: the broker keeps no copy.
//!
//! Whoever serves a name chooses its addresses. So a name never leads to this machine or its link:
//! the broker resolves it once, drops such addresses, and connects only to the others. The operator
//! grants them by address, or as `localhost`.

use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use sdk::services::broker::{Answer, Request};
use sys::doorbell::{Doorbell, DoorbellSender};
use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;

use crate::run::{Needs, OpenError, Service, Startup};
use control::clients::{ClientId, ClientRequest, Clients, Reply};
use control::service::Destination;

/// Maximum number of pending connections per client.
const MAX_PER_CLIENT: usize = 4;

/// Maximum number of threads that make connections.
const MAX_THREADS: usize = 32;

/// Time limit from the request to the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Socket buffer size in each direction; the system doubles it for its own bookkeeping. The default
/// grows to several megabytes, which many machines account to no process.
const BUFFER: usize = 32 << 10;

/// Maximum number of addresses tried per name.
const MAX_ADDRESSES: usize = 4;

/// Files that the resolver reads.
pub(crate) const RESOLVER_FILES: [&str; 6] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
];

/// The broker service.
#[derive(Debug)]
pub struct Broker {
    bell: Doorbell,
    wake: DoorbellSender,
    attempts: (Sender<Attempt>, Receiver<Attempt>),
    /// Connections that are not answered yet.
    pending: Vec<PendingConnection>,
    /// Number of running threads, including those whose client already received a timeout.
    threads: usize,
}

/// A connection that a thread is making.
#[derive(Debug)]
struct PendingConnection {
    client: ClientId,
    id: u64,
    /// Deadline of the answer.
    until: Instant,
}

/// Result of a connection attempt.
#[derive(Debug)]
struct Attempt {
    client: ClientId,
    id: u64,
    result: Result<OwnedFd, String>,
}

impl Service for Broker {
    const NAME: &'static str = "broker";

    fn needs(_: &Startup) -> Needs {
        let limits = Limits { descriptors: 512, threads: 64, file_size: 0, memory: None };
        let read = RESOLVER_FILES.iter().map(Into::into).collect();
        Needs { profile: Profile::Broker, network: true, read, limits }
    }

    fn open(_: Startup) -> Result<Self, OpenError> {
        let (bell, wake) = Doorbell::new()?;
        let (pending, threads) = (Vec::new(), 0);
        Ok(Self {
            bell,
            wake: DoorbellSender::from_fd(wake),
            attempts: channel(),
            pending,
            threads,
        })
    }

    fn serve(&mut self, asked: Vec<ClientRequest>, clients: &mut Clients) {
        self.answer_finished(clients);
        let now = Instant::now();
        for ClientRequest { client, id, request } in asked {
            let answer = match Request::decode(&request) {
                None => Some(Answer::Refused),
                Some(request) => self.begin(client, id, request, clients, now),
            };
            if let Some(answer) = answer {
                clients.answer(Reply { client, id, more: false, body: &answer.encode() });
            }
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn wake_at(&self) -> Option<Instant> {
        self.pending.iter().map(|it| it.until).min()
    }

    fn disconnected(&mut self, client: ClientId) {
        self.pending.retain(|it| it.client != client);
    }
}

impl Broker {
    /// Starts a connection attempt; returns the answer if it is rejected.
    fn begin(
        &mut self,
        client: ClientId,
        id: u64,
        request: Request<'_>,
        clients: &mut Clients,
        now: Instant,
    ) -> Option<Answer<'static>> {
        let host = Destination { name: request.host.to_owned(), port: request.port };
        if !clients.rights(client).is_some_and(|rights| rights.hosts.contains(&host)) {
            // The app chose the name: bound and escape it before it reaches the log.
            let name: String = host.name.chars().take(100).flat_map(char::escape_debug).collect();
            let right = format!("net.connect:{name}:{}", host.port);
            clients.record_refusal(client, "a connection", &right);
            return Some(Answer::NotGranted);
        }
        let of_client = self.pending.iter().filter(|it| it.client == client).count();
        if of_client >= MAX_PER_CLIENT || self.threads >= MAX_THREADS {
            return Some(Answer::Refused);
        }
        let Ok(wake) = self.wake.try_clone() else { return Some(Answer::Refused) };
        let attempts = self.attempts.0.clone();
        let thread = std::thread::Builder::new().name("connect".into()).spawn(move || {
            let result = connect(&host);
            if attempts.send(Attempt { client, id, result }).is_ok() {
                wake.ring();
            }
        });
        if thread.is_err() {
            return Some(Answer::Refused);
        }
        self.threads += 1;
        self.pending.push(PendingConnection { client, id, until: now + CONNECT_TIMEOUT });
        None
    }

    /// Answers attempts that have finished or exceeded their deadline.
    fn answer_finished(&mut self, clients: &mut Clients) {
        self.bell.silence();
        for Attempt { client, id, result } in self.attempts.1.try_iter() {
            self.threads -= 1;
            let is_it = |it: &PendingConnection| it.client == client && it.id == id;
            let Some(place) = self.pending.iter().position(is_it) else { continue };
            self.pending.swap_remove(place);
            let answer = match &result {
                Ok(_) => Answer::Connected,
                Err(why) => Answer::Failed(why),
            };
            let body = answer.encode();
            clients.answer_with(Reply { client, id, more: false, body: &body }, result.ok());
        }
        let now = Instant::now();
        let body = Answer::Failed("the connection timed out").encode();
        self.pending.retain(|&PendingConnection { client, id, until }| {
            let goes_on = now < until;
            if !goes_on {
                clients.answer(Reply { client, id, more: false, body: &body });
            }
            goes_on
        });
    }
}

/// Whether a name other than `localhost` may not lead to this address: this machine, its link, groups of machines.
///
/// `0.0.0.0` and `::` connect to this machine.
fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => {
            it.is_loopback()
                || it.is_link_local()
                || it.octets()[0] == 0
                || it.is_multicast()
                || it.is_broadcast()
        }
        IpAddr::V6(it) => {
            it.is_loopback()
                || it.is_unicast_link_local()
                || it.is_unspecified()
                || it.is_multicast()
                || it.to_ipv4().is_some_and(|it| is_near(it.into()))
        }
    }
}

/// Whether a grant of `name` covers `address`, to which the name was resolved.
fn covers(name: &str, address: IpAddr) -> bool {
    let name = name.trim_end_matches('.');
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    if name.eq_ignore_ascii_case("localhost") {
        return address.to_canonical().is_loopback();
    }
    !is_near(address)
}

/// Connects to the first address of the host that accepts. The returned socket is non-blocking.
fn connect(host: &Destination) -> Result<OwnedFd, String> {
    let addresses = (host.name.as_str(), host.port).to_socket_addrs();
    let (addresses, dropped): (Vec<_>, Vec<_>) = addresses
        .map_err(|error| error.to_string())?
        .take(MAX_ADDRESSES)
        .partition(|address| covers(&host.name, address.ip()));
    let each = CONNECT_TIMEOUT / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut last = dropped.first().map_or("the name has no address".to_owned(), |address| {
        let (ip, port) = (address.ip(), address.port());
        format!("the name leads to {ip}, which must be granted by address: net.connect:{ip}:{port}")
    });
    for address in addresses {
        let connected = TcpStream::connect_timeout(&address, each).and_then(|socket| {
            // A second connect call makes the kernel treat the socket as connected for good. After
            // a single non-blocking connect, the receiver of the socket could connect it to another
            // host.
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

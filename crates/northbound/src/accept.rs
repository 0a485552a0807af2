//! Accepts connections, and serves HTTP on each.
//!
//! A connection that is silent, or whose client accepts no byte of an answer, ends after a while. At most
//! [`limits::CONNECTIONS`] over TCP exist at once, and [`limits::CONNECTIONS_OF_CLIENT`] of one local user or other machine; a further
//! one is closed at once. TLS, the Unix socket and the routes of apps have numbers of their own, so clients on other machines cannot
//! lock out those on this one, nor clients of apps those of the API.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use control::northbound::ListenerRole;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, warn};

use crate::guard::{self, From};
use crate::limits;
use crate::state::{Api, lock};

/// How long nothing is accepted after the system refused to accept a connection.
const PAUSE: Duration = Duration::from_millis(200);

/// Counts connections.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Of those over TCP without TLS, by their [users](Client).
    tcp: HashMap<Client, usize>,
    /// Of those for routes of apps, by their [users](Client).
    apps: HashMap<Client, usize>,
    /// Of those, the ones whose last request was to this app.
    of_app: HashMap<String, usize>,
    unix: usize,
    /// Of those over TLS, by the sources of clients.
    tls: HashMap<IpAddr, usize>,
}

/// The kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Over TCP without TLS, from this client.
    Tcp(Client),
    /// Like that, for routes of apps.
    Apps(Client),
    /// Over TLS, from this [source](limits::source).
    Tls(IpAddr),
    /// Over the Unix socket.
    Unix,
}

/// Whose connections over TCP without TLS are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// A user of this machine; `None` if it is not known which.
    User(Option<u32>),
    /// Another machine, by its [source](limits::source).
    Machine(IpAddr),
}

/// Counts a key that leaves a map when its count is 0.
fn leave<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Counts {
    fn has_room(&self, kind: Kind) -> bool {
        match kind {
            Kind::Tcp(client) => {
                self.tcp.values().sum::<usize>() < limits::CONNECTIONS
                    && self.tcp.get(&client).is_none_or(|it| *it < limits::CONNECTIONS_OF_CLIENT)
            }
            Kind::Apps(client) => {
                self.apps.values().sum::<usize>() < limits::APP_CONNECTIONS
                    && self
                        .apps
                        .get(&client)
                        .is_none_or(|it| *it < limits::APP_CONNECTIONS_OF_CLIENT)
            }
            Kind::Unix => self.unix < limits::UNIX_CONNECTIONS,
            Kind::Tls(source) => {
                self.tls.values().sum::<usize>() < limits::TLS_CONNECTIONS
                    && self.tls.get(&source).is_none_or(|it| *it < limits::TLS_PER_SOURCE)
            }
        }
    }

    fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Tcp(client) => *self.tcp.entry(client).or_default() += 1,
            Kind::Apps(client) => *self.apps.entry(client).or_default() += 1,
            Kind::Unix => self.unix += 1,
            Kind::Tls(source) => *self.tls.entry(source).or_default() += 1,
        }
    }

    /// A connection that was counted for this app is not any more.
    fn leave(&mut self, app: Option<String>) {
        let Some(app) = app else { return };
        leave(&mut self.of_app, &app);
    }

    fn remove(&mut self, kind: Kind) {
        match kind {
            Kind::Tcp(client) => leave(&mut self.tcp, &client),
            Kind::Apps(client) => leave(&mut self.apps, &client),
            Kind::Unix => self.unix -= 1,
            Kind::Tls(source) => leave(&mut self.tls, &source),
        }
    }
}

/// A connection that is counted until this is dropped.
pub(crate) struct Slot {
    kind: Kind,
    app: AppOfConnection,
}

/// The app for whose routes a connection is counted: that of its last request.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppOfConnection {
    all: Arc<Connections>,
    app: Arc<Mutex<Option<String>>>,
}

impl AppOfConnection {
    /// Counts the connection for `app`. Returns `false` if that app has too many others.
    pub(crate) fn count_for(&self, app: &str) -> bool {
        let mut current = lock(&self.app);
        if current.as_deref() == Some(app) {
            return true;
        }
        let mut counts = lock(&self.all.0);
        if counts.of_app.get(app).is_some_and(|count| *count >= limits::CONNECTIONS_OF_APP) {
            return false;
        }
        counts.leave(current.take());
        *counts.of_app.entry(app.to_owned()).or_default() += 1;
        *current = Some(app.to_owned());
        true
    }
}

impl Connections {
    /// Counts a connection, unless there are too many of its kind.
    fn enter(self: &Arc<Self>, kind: Kind) -> Option<Slot> {
        let mut counts = lock(&self.0);
        if !counts.has_room(kind) {
            return None;
        }
        counts.add(kind);
        let app = AppOfConnection { all: self.clone(), app: Arc::default() };
        Some(Slot { kind, app })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let app = lock(&self.app.app).take();
        let mut counts = lock(&self.app.all.0);
        counts.leave(app);
        counts.remove(self.kind);
    }
}

/// Accepts the next connection over TCP, whose kind depends on both ends, the client's first; `None` if there is none to serve.
pub(crate) async fn accept(
    listener: &TcpListener,
    all: &Arc<Connections>,
    kind: impl FnOnce(SocketAddr, SocketAddr) -> Kind,
) -> Option<(TcpStream, SocketAddr, Slot)> {
    let (stream, client) = match listener.accept().await {
        Ok(accepted) => accepted,
        Err(error) => {
            pause(&error).await;
            return None;
        }
    };
    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
    let server = stream.local_addr().ok()?;
    let server = SocketAddr::new(server.ip().to_canonical(), server.port());
    let kind = kind(client, server);
    // After a reset, a socket of another user may have the client's port, and `kind` may have found that one. The bytes of the first
    // client could still be read. A connection that is open now was so before, and excludes that.
    if stream.peer_addr().is_err() {
        debug!(%client, "closed a connection: the client has reset it");
        return None;
    }
    let Some(slot) = all.enter(kind) else {
        debug!(%client, "closed a connection: too many are open");
        return None;
    };
    // Answers are short, and events must not wait.
    let _ = stream.set_nodelay(true);
    Some((stream, client, slot))
}

/// Serves a TCP listener for ever.
pub(crate) async fn serve_tcp(
    api: Arc<Api>,
    role: ListenerRole,
    listener: TcpListener,
    all: Arc<Connections>,
) {
    loop {
        let mut ends = None;
        let kind = |client: SocketAddr, server: SocketAddr| {
            let peer = guard::local_peer(&api, client, server);
            ends = Some((server, peer));
            let client = if guard::is_local(client, server) {
                Client::User(peer.map(|peer| peer.uid))
            } else {
                Client::Machine(limits::source(client.ip()))
            };
            if role == ListenerRole::Apps { Kind::Apps(client) } else { Kind::Tcp(client) }
        };
        let Some((stream, client, slot)) = accept(&listener, &all, kind).await else { continue };
        let Some((server, peer)) = ends else { continue };
        let from = From::Tcp { role, client, server, peer, app: slot.app.clone() };
        tokio::spawn(serve_one(api.clone(), from, Impatient::new(stream, slot)));
    }
}

/// Serves the Unix listener for ever.
pub(crate) async fn serve_unix(api: Arc<Api>, listener: UnixListener, all: Arc<Connections>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some(slot) = all.enter(Kind::Unix) {
                    let uid = stream.peer_cred().ok().map(|peer| peer.uid());
                    let from = From::Unix { uid };
                    tokio::spawn(serve_one(api.clone(), from, Impatient::new(stream, slot)));
                }
            }
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &io::Error) {
    // The listener stays readable: without a pause the loop would spin.
    warn!(%error, "could not accept a connection");
    sleep(PAUSE).await;
}

/// Serves one connection until it ends.
pub(crate) async fn serve_one<S>(api: Arc<Api>, from: From, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (api, from) = (api.clone(), from.clone());
        let request: Request = request.map(Body::new);
        async move { Ok::<_, std::convert::Infallible>(guard::serve(api, from, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIME)
        .max_headers(limits::HEADERS)
        .max_buf_size(limits::HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection ended with an error");
    }
}

/// A stream whose writes fail if the client accepts no byte for [`limits::WRITE_TIME`].
pub(crate) struct Impatient<S> {
    stream: S,
    /// Bytes that may still be read; `None` for any number.
    readable: Option<usize>,
    /// Here, because a WebSocket outlives the connection of HTTP and keeps the stream.
    _slot: Slot,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(crate) fn new(stream: S, slot: Slot) -> Self {
        Self { stream, readable: None, _slot: slot, timer: None }
    }

    /// Fails reads once about `size` bytes were read.
    pub(crate) fn reading_at_most(self, size: usize) -> Self {
        Self { readable: Some(size), ..self }
    }

    /// Ends the limit on reads.
    pub(crate) fn read_freely(&mut self) {
        self.readable = None;
    }

    /// Passes the result of a write on, or fails when the time is over.
    fn watch<T>(
        &mut self,
        result: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.timer = None;
            return result;
        }
        let until = Instant::now() + limits::WRITE_TIME;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = room.filled().len();
        if self.readable == Some(0) {
            return Poll::Ready(Err(io::Error::other("it sent too much before it was known")));
        }
        let result = Pin::new(&mut self.stream).poll_read(context, room);
        let read = room.filled().len() - before;
        self.readable = self.readable.map(|left| left.saturating_sub(read));
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(result, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_and_slots_are_reused() {
        let all = Arc::new(Connections::default());
        let user = |uid| Kind::Tcp(Client::User(uid));
        let tcp = (0..10_000).filter_map(|it| all.enter(user(Some(it))));
        let tcp: Vec<_> = tcp.collect();
        assert_eq!(tcp.len(), limits::CONNECTIONS);
        let unix: Vec<_> = (0..10_000).filter_map(|_| all.enter(Kind::Unix)).collect();
        assert_eq!(unix.len(), limits::UNIX_CONNECTIONS, "the Unix socket has slots of its own");
        let of_app = |uid| Kind::Apps(Client::User(Some(uid)));
        let apps: Vec<_> = (0..10_000).filter_map(|it| all.enter(of_app(it))).collect();
        assert_eq!(apps.len(), limits::APP_CONNECTIONS, "so have the routes of apps");
        let clients = (0..10_000_u32).map(|it| IpAddr::from([192, 0, 2, u8::from(it % 3 == 0)]));
        let tls: Vec<_> = clients.filter_map(|it| all.enter(Kind::Tls(it))).collect();
        assert_eq!(tls.len(), limits::TLS_CONNECTIONS);
        drop(tls);
        let one = |_| all.enter(Kind::Tls(IpAddr::from([192, 0, 2, 1])));
        let one: Vec<_> = (0..10_000).filter_map(one).collect();
        assert_eq!(one.len(), limits::TLS_PER_SOURCE, "one source leaves room for others");
        assert!(all.enter(Kind::Tls(IpAddr::from([192, 0, 2, 2]))).is_some());
        drop((tcp, one));
        assert!(lock(&all.0).tls.is_empty());
        assert!(all.enter(user(None)).is_some() && all.enter(Kind::Unix).is_none());
    }

    #[test]
    fn reset_connection_is_not_served() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let all = Arc::new(Connections::default());
            let user = Kind::Tcp(Client::User(Some(0)));
            for resets in [false, true] {
                let client = std::net::TcpStream::connect(at).unwrap();
                io::Write::write_all(&mut &client, b"GET / HTTP/1.1\r\n").unwrap();
                if resets {
                    let linger = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(&client, linger).unwrap();
                }
                let kept = (!resets).then_some(client);
                assert_eq!(accept(&listener, &all, |_, _| user).await.is_some(), !resets);
                drop(kept);
            }
            assert!(lock(&all.0).tcp.is_empty());
        });
    }

    #[test]
    fn one_local_user_leaves_connections_to_the_others() {
        let all = Arc::new(Connections::default());
        let machine = Client::Machine(IpAddr::from([192, 0, 2, 1]));
        for client in [Client::User(Some(1000)), Client::User(None), machine] {
            let slots: Vec<_> = (0..10_000).filter_map(|_| all.enter(Kind::Tcp(client))).collect();
            assert_eq!(slots.len(), limits::CONNECTIONS_OF_CLIENT, "{client:?}");
            assert!(all.enter(Kind::Tcp(Client::User(Some(0)))).is_some());
            let slots: Vec<_> = (0..10_000).filter_map(|_| all.enter(Kind::Apps(client))).collect();
            assert_eq!(slots.len(), limits::APP_CONNECTIONS_OF_CLIENT, "{client:?}");
            assert!(all.enter(Kind::Apps(Client::User(Some(0)))).is_some());
        }
        assert!(lock(&all.0).tcp.is_empty() && lock(&all.0).apps.is_empty());
    }

    #[test]
    fn clients_of_one_app_leave_connections_to_the_others() {
        let all = Arc::new(Connections::default());
        let client = Kind::Apps(Client::User(Some(0)));
        let mut slots: Vec<_> = (0..10_000).filter_map(|_| all.enter(client)).collect();
        let counted = slots.iter().filter(|it| it.app.count_for("web")).count();
        assert_eq!(counted, limits::CONNECTIONS_OF_APP);
        assert!(slots[0].app.count_for("web"), "it is counted once");
        // A connection whose requests go to another app counts for that one.
        assert!(slots[0].app.count_for("other"));
        let last = slots.pop().unwrap();
        assert!(last.app.count_for("web") && !slots.last().unwrap().app.count_for("web"));
        drop(last);
        assert!(slots.last().unwrap().app.count_for("web"));
        drop(slots);
        assert!(lock(&all.0).of_app.is_empty());
    }
}

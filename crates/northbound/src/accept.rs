//! Accepts connections, and serves HTTP on each.
//!
//! A connection that is silent, or whose client accepts no byte of an answer, ends after a while. At most
//! [`limits::CONNECTIONS`] over TCP exist at once; a further one is closed at once. The Unix socket has a number of its own.

use std::io;
use std::net::SocketAddr;
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
    tcp: usize,
    unix: usize,
}

/// The kind of a connection's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Socket {
    Tcp,
    Unix,
}

impl Counts {
    /// The number of connections of a kind.
    fn of(&mut self, socket: Socket) -> &mut usize {
        match socket {
            Socket::Tcp => &mut self.tcp,
            Socket::Unix => &mut self.unix,
        }
    }
}

/// A connection that is counted until this is dropped.
pub(crate) struct Slot {
    all: Arc<Connections>,
    socket: Socket,
}

impl Connections {
    /// Counts a connection, unless there are too many of its kind.
    fn enter(self: &Arc<Self>, socket: Socket) -> Option<Slot> {
        let most = match socket {
            Socket::Tcp => limits::CONNECTIONS,
            Socket::Unix => limits::UNIX_CONNECTIONS,
        };
        let mut counts = lock(&self.0);
        let open = counts.of(socket);
        if *open >= most {
            return None;
        }
        *open += 1;
        Some(Slot { all: self.clone(), socket })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.all.0).of(self.socket) -= 1;
    }
}

/// Accepts the next connection over TCP; `None` if there is none to serve.
pub(crate) async fn accept(
    listener: &TcpListener,
    all: &Arc<Connections>,
) -> Option<(TcpStream, SocketAddr, Slot)> {
    let (stream, client) = match listener.accept().await {
        Ok(accepted) => accepted,
        Err(error) => {
            pause(&error).await;
            return None;
        }
    };
    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
    let Some(slot) = all.enter(Socket::Tcp) else {
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
        let Some((stream, client, slot)) = accept(&listener, &all).await else { continue };
        let Ok(server) = stream.local_addr() else { continue };
        let server = SocketAddr::new(server.ip().to_canonical(), server.port());
        let from = From::Tcp { role, client, server };
        tokio::spawn(serve_one(api.clone(), from, Impatient::new(stream, slot)));
    }
}

/// Serves the Unix listener for ever.
pub(crate) async fn serve_unix(api: Arc<Api>, listener: UnixListener, all: Arc<Connections>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some(slot) = all.enter(Socket::Unix) {
                    tokio::spawn(serve_one(api.clone(), From::Unix, Impatient::new(stream, slot)));
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
        let tcp: Vec<_> = (0..10_000).filter_map(|_| all.enter(Socket::Tcp)).collect();
        assert_eq!(tcp.len(), limits::CONNECTIONS);
        let unix: Vec<_> = (0..10_000).filter_map(|_| all.enter(Socket::Unix)).collect();
        assert_eq!(unix.len(), limits::UNIX_CONNECTIONS, "the Unix socket has slots of its own");
        drop(tcp);
        assert!(all.enter(Socket::Tcp).is_some() && all.enter(Socket::Unix).is_none());
    }
}

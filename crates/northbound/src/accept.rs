//! Accepts connections, and serves HTTP on each.
//!
//! A connection that is silent, or whose client accepts no byte of an answer, ends after a while. At most
//! [`limits::CONNECTIONS`] exist at once; a further one is closed at once. An address on another machine has a share of its own.

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
use tokio::net::{TcpListener, UnixListener};
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
    remote: HashMap<IpAddr, usize>,
}

/// A place among the connections, which is free again when this is dropped.
struct Slot {
    of: Arc<Connections>,
    /// The address; `None` for the Unix socket.
    address: Option<IpAddr>,
}

impl Connections {
    /// Takes a place, if there is one.
    fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Slot> {
        let mut counts = lock(&self.0);
        match address {
            None if counts.unix >= limits::UNIX_CONNECTIONS => return None,
            None => counts.unix += 1,
            Some(_) if counts.tcp >= limits::CONNECTIONS => return None,
            Some(address) => {
                if !address.is_loopback() {
                    let own = counts.remote.entry(address).or_default();
                    if *own >= limits::CONNECTIONS_PER_ADDRESS {
                        return None;
                    }
                    *own += 1;
                }
                counts.tcp += 1;
            }
        }
        Some(Slot { of: self.clone(), address })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = lock(&self.of.0);
        let Some(address) = self.address else {
            counts.unix -= 1;
            return;
        };
        counts.tcp -= 1;
        if let Some(own) = counts.remote.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                counts.remote.remove(&address);
            }
        }
    }
}

/// Serves a TCP listener for ever.
pub(crate) async fn serve_tcp(
    api: Arc<Api>,
    role: ListenerRole,
    listener: TcpListener,
    all: Arc<Connections>,
) {
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                pause(&error).await;
                continue;
            }
        };
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let Some(place) = all.enter(Some(client.ip())) else {
            debug!(%client, "closed a connection: too many are open");
            continue;
        };
        let Ok(server) = stream.local_addr() else { continue };
        let server = SocketAddr::new(server.ip().to_canonical(), server.port());
        // Answers are short, and events must not wait.
        let _ = stream.set_nodelay(true);
        let from = From::Tcp { role, client, server };
        tokio::spawn(serve_one(api.clone(), from, stream, place));
    }
}

/// Serves the Unix listener for ever.
pub(crate) async fn serve_unix(api: Arc<Api>, listener: UnixListener, all: Arc<Connections>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some(place) = all.enter(None) {
                    tokio::spawn(serve_one(api.clone(), From::Unix, stream, place));
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

async fn serve_one<S>(api: Arc<Api>, from: From, stream: S, place: Slot)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Impatient::new(stream);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (api, request): (_, Request) = (api.clone(), request.map(Body::new));
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
    drop(place);
}

/// A stream whose writes fail if the client accepts no byte for [`limits::WRITE_TIME`].
struct Impatient<S> {
    stream: S,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    fn new(stream: S) -> Self {
        Self { stream, timer: None }
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
        Pin::new(&mut self.stream).poll_read(context, room)
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
    fn connections_are_bounded_and_places_are_reused() {
        let all = Arc::new(Connections::default());
        let (near, far) = (Some("127.0.0.1".parse().unwrap()), Some("192.0.2.1".parse().unwrap()));
        let mut places: Vec<_> = (0..10_000).filter_map(|_| all.enter(far)).collect();
        assert_eq!(places.len(), limits::CONNECTIONS_PER_ADDRESS);
        places.extend((0..10_000).filter_map(|_| all.enter(near)));
        assert_eq!(places.len(), limits::CONNECTIONS);
        assert!(all.enter(None).is_some(), "the Unix socket has places of its own");
        drop(places);
        assert!(all.enter(far).is_some());
        assert!(lock(&all.0).remote.is_empty());
    }
}

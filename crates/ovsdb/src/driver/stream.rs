//! A socket with blocking calls and timeouts, with or without TLS.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::address::{Address, Host};

/// The name by which TLS addresses a server whose host is none that TLS accepts.
const ANY_NAME: &str = "switch";

/// The shortest timeout of a socket: 0 means none to the system.
const SHORTEST: Duration = Duration::from_millis(1);

/// A connection to a server.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<ClientConnection>, TcpStream),
}

impl Stream {
    /// Connects before `deadline`.
    ///
    /// # Errors
    /// No address of the host accepts the connection in time.
    pub(super) fn open(
        address: &Address,
        tls: Option<&Arc<ClientConfig>>,
        deadline: Instant,
    ) -> io::Result<Self> {
        match (address, tls) {
            (Address::Unix(path), _) => UnixStream::connect(path).map(Self::Unix),
            (Address::Tcp(host), _) => connect(host, deadline).map(Self::Tcp),
            (Address::Tls(_), None) => Err(io::Error::other("there are no keys for TLS")),
            (Address::Tls(host), Some(config)) => {
                let name = ServerName::try_from(host.name.clone())
                    .or_else(|_| ServerName::try_from(ANY_NAME))
                    .map_err(io::Error::other)?;
                let session = ClientConnection::new(config.clone(), name);
                let mut session = Box::new(session.map_err(io::Error::other)?);
                session.set_buffer_limit(None); // the client bounds its output
                Ok(Self::Tls(session, connect(host, deadline)?))
            }
        }
    }

    /// Reads once into `buffer`, until `deadline`. Returns `None` if nothing has come, and 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection or TLS failed.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        deadline: Instant,
    ) -> io::Result<Option<usize>> {
        self.set_timeout(deadline)?;
        let read = match self {
            Self::Unix(socket) => socket.read(buffer),
            Self::Tcp(socket) => socket.read(buffer),
            Self::Tls(session, socket) => read_tls(session, socket, buffer),
        };
        match read {
            Err(error) if is_retryable(&error) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Writes all of `bytes` before `deadline`.
    ///
    /// # Errors
    /// The connection failed, or the server does not read.
    pub(super) fn write(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        if let Self::Tls(session, _) = self {
            session.writer().write_all(bytes)?;
            bytes = &[];
        }
        while self.wants_write() || !bytes.is_empty() {
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.set_timeout(deadline)?;
            let written = match self {
                Self::Unix(socket) => socket.write(bytes),
                Self::Tcp(socket) => socket.write(bytes),
                Self::Tls(session, socket) => session.write_tls(socket),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if is_retryable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether TLS has records for the socket.
    fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(session, _) if session.wants_write())
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) | Self::Tls(_, socket) => socket.as_fd(),
        }
    }

    /// Returns the address of this end; `None` for a socket of this machine.
    pub(super) fn local_address(&self) -> Option<IpAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(socket) | Self::Tls(_, socket) => socket.local_addr().ok().map(|it| it.ip()),
        }
    }

    /// Returns the certificate that the server presented, once the handshake is complete.
    pub(super) fn certificate(&self) -> Option<&rustls::pki_types::CertificateDer<'static>> {
        match self {
            Self::Tls(session, _) => session.peer_certificates()?.first(),
            Self::Unix(_) | Self::Tcp(_) => None,
        }
    }

    fn set_timeout(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now()).max(SHORTEST);
        match self {
            Self::Unix(socket) => {
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))
            }
            Self::Tcp(socket) | Self::Tls(_, socket) => {
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))
            }
        }
    }
}

fn connect(host: &Host, deadline: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host.name.as_str(), host.port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(SHORTEST);
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads ciphertext once, and returns plaintext. An answer of TLS itself is written at once.
fn read_tls(
    session: &mut ClientConnection,
    socket: &mut TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match session.reader().read(buffer) {
        Err(error) if is_retryable(&error) => {}
        read => return read,
    }
    let is_end = session.read_tls(socket)? == 0;
    let processed = session.process_new_packets();
    // Parts of a handshake, and the alert after an error.
    while session.wants_write() {
        if let Err(error) = session.write_tls(socket) {
            processed.as_ref().map_err(invalid)?;
            return Err(error);
        }
    }
    processed.as_ref().map_err(invalid)?;
    match session.reader().read(buffer) {
        Err(error) if is_retryable(&error) && is_end => Ok(0),
        read => read,
    }
}

fn invalid(error: &rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.clone())
}

fn is_retryable(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::TimedOut];
    kinds.contains(&error.kind())
}

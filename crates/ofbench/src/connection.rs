//! A non-blocking connection between a switch and a controller, over TCP or TLS.
//!
//! [`read`](Connection::read) fills a buffer that all connections of a thread share; the connection
//! stores only an incomplete message. Output that the socket does not accept is queued here.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use openflow::Header;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustls::Connection as Session;

use crate::tls::{Server, Tls};

/// Size of the shared read buffer: several messages of maximum size.
pub const BUFFER: usize = 256 * 1024;

/// Plaintext that ciphertext from earlier reads can add at most: one TLS record (RFC 8446 §5.1).
const RECORD: usize = 18 * 1024;

/// Limit of queued output, in bytes. A peer that exceeds it has stopped reading.
const MAX_QUEUED_OUTPUT: usize = 16 << 20;

/// Limit of queued ciphertext in a TLS session, in bytes.
const MAX_TLS_OUTPUT: usize = 256 * 1024;

/// A connection; see the module's documentation.
pub struct Connection {
    socket: TcpStream,
    tls: Option<Box<Session>>,
    /// The incomplete message at the end of the last read.
    partial: Vec<u8>,
    /// Queued output; the first `sent` bytes are already sent.
    out: Vec<u8>,
    sent: usize,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadResult {
    /// Number of bytes in the buffer, including the incomplete message of the previous read.
    Bytes(usize),
    /// Nothing to read at present.
    WouldBlock,
    /// The peer closed the connection.
    Closed,
}

impl Connection {
    /// Starts to connect. The socket becomes writable when that has succeeded or failed.
    ///
    /// # Errors
    /// The system has no socket left, or refuses the connection immediately.
    pub fn open(to: SocketAddr, tls: Option<&Tls>) -> io::Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &to) {
            Err(rustix::io::Errno::INPROGRESS) => {}
            result => result?,
        }
        let tls = tls.map(Tls::session).transpose()?;
        Ok(Self::over(socket.into(), tls.map(Session::Client)))
    }

    /// Wraps a socket that a listener accepted.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking, or no TLS session can be created.
    pub fn accepted(socket: TcpStream, tls: Option<&Server>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let tls = tls.map(Server::session).transpose()?;
        Ok(Self::over(socket, tls.map(Session::Server)))
    }

    fn over(socket: TcpStream, tls: Option<Session>) -> Self {
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(Some(MAX_TLS_OUTPUT));
            Box::new(tls)
        });
        Self { socket, tls, partial: Vec::new(), out: Vec::new(), sent: 0 }
    }

    /// Returns the socket, for epoll.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns the result of connecting, once the socket is writable.
    ///
    /// # Errors
    /// The peer refused the connection or did not respond.
    pub fn connected(&self) -> io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            None => self.socket.set_nodelay(true),
        }
    }

    /// Whether data can be exchanged: a TLS handshake, if any, is complete.
    pub fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Closes with a reset, which avoids a minute of `TIME_WAIT` on the local port.
    pub fn reset(self) {
        let _ = sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
    }

    /// Reads once into `buffer`, behind the stored incomplete message.
    ///
    /// # Errors
    /// The connection or the TLS session failed.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadResult> {
        let start = self.partial.len();
        let read = match &mut self.tls {
            None => self.socket.read(&mut buffer[start..]),
            Some(tls) => {
                let (plain, scratch) = buffer.split_at_mut(buffer.len() / 2);
                decrypt(tls, &mut self.socket, scratch, &mut plain[start..])
            }
        };
        match read {
            Ok(0) => Ok(ReadResult::Closed),
            Ok(read) => {
                // The read left room in front, so that only the incomplete message is copied, not
                // the new bytes.
                buffer[..start].copy_from_slice(&self.partial);
                self.partial.clear();
                Ok(ReadResult::Bytes(start + read))
            }
            Err(error) if is_retryable(&error) => Ok(ReadResult::WouldBlock),
            Err(error) => Err(error),
        }
    }

    /// Stores the rest of the input: an incomplete message.
    #[inline]
    pub fn keep(&mut self, rest: &[u8]) {
        self.partial.extend_from_slice(rest);
    }

    /// Returns the stored incomplete message.
    pub fn kept(&self) -> &[u8] {
        &self.partial
    }

    /// Whether the queued output exceeds the limit, because the peer does not read.
    pub fn is_output_full(&self) -> bool {
        self.out.len() - self.sent > MAX_QUEUED_OUTPUT
    }

    /// Whether no output is queued.
    #[inline]
    pub fn is_output_empty(&self) -> bool {
        self.sent == self.out.len() && self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Returns the output queue; append to it and call [`flush`](Self::flush).
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Writes `bytes` behind the queued output, and queues what the socket does not accept.
    ///
    /// # Errors
    /// The connection failed.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_some() || self.sent < self.out.len() {
            self.out.extend_from_slice(bytes);
            return self.flush();
        }
        let taken = match self.socket.write(bytes) {
            Ok(taken) => taken,
            Err(error) if is_retryable(&error) => 0,
            Err(error) => return Err(error),
        };
        self.out.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Writes queued output until the socket accepts no more.
    ///
    /// # Errors
    /// The connection failed.
    pub fn flush(&mut self) -> io::Result<()> {
        let result = match &mut self.tls {
            None => send(&mut self.socket, &self.out, &mut self.sent),
            Some(tls) => encrypt(tls, &mut self.socket, &self.out, &mut self.sent),
        };
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        result
    }
}

/// Whether an error means "try again later".
fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn send(socket: &mut TcpStream, out: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < out.len() {
        match socket.write(&out[*sent..]) {
            Ok(taken) => *sent += taken,
            Err(error) if is_retryable(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads ciphertext once and writes the plaintext to `plain`.
fn decrypt(
    tls: &mut Session,
    socket: &mut TcpStream,
    scratch: &mut [u8],
    plain: &mut [u8],
) -> io::Result<usize> {
    // Ciphertext is never shorter than its plaintext, so this much always fits into `plain`.
    let room = scratch.len().min(plain.len().saturating_sub(RECORD));
    let read = socket.read(&mut scratch[..room])?;
    if read == 0 {
        return Ok(0);
    }
    let mut rest = &scratch[..read];
    let mut size = 0;
    while !rest.is_empty() {
        let before = rest.len();
        tls.read_tls(&mut rest)?;
        let state = match tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // Send the TLS alert if the peer still reads; the error below is the result either
                // way.
                let _ = tls.write_tls(socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        };
        while size < plain.len() {
            match tls.reader().read(&mut plain[size..]) {
                Ok(0) => break,
                Ok(more) => size += more,
                Err(error) if is_retryable(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if state.peer_has_closed() || before == rest.len() {
            return Ok(size);
        }
    }
    if size == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(size)
}

/// Encrypts and sends `out` from `sent` on. Application data waits for the end of the handshake.
fn encrypt(
    tls: &mut Session,
    socket: &mut TcpStream,
    out: &[u8],
    sent: &mut usize,
) -> io::Result<()> {
    loop {
        if !tls.is_handshaking() && *sent < out.len() {
            *sent += tls.writer().write(&out[*sent..])?;
        }
        if !tls.wants_write() {
            return Ok(());
        }
        match tls.write_tls(socket) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if is_retryable(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Passes each complete message at the start of `input` to `each` and returns the rest.
///
/// # Errors
/// The error of `each`, or [`InvalidHeader`] for a length that is below the header's.
#[inline]
pub fn cut<E: From<InvalidHeader>>(
    mut input: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<&[u8], E> {
    while let Some(head) = input.first_chunk::<{ Header::SIZE }>() {
        let size = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if size < Header::SIZE {
            return Err(InvalidHeader(*head).into());
        }
        let Some((message, rest)) = input.split_at_checked(size) else { break };
        each(message)?;
        input = rest;
    }
    Ok(input)
}

/// An OpenFlow header whose length is below the header's own size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer does not send OpenFlow: {0:02x?} is not a valid header")]
pub struct InvalidHeader(pub [u8; Header::SIZE]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_splits_into_messages_and_a_rest() {
        let stream = [1, 2, 0, 8, 0, 0, 0, 1, 1, 2, 0, 10, 0, 0, 0, 2, 7, 7, 1, 2, 0];
        let mut sizes = Vec::new();
        let rest = cut::<InvalidHeader>(&stream, |message| {
            sizes.push(message.len());
            Ok(())
        });
        assert_eq!((sizes, rest), (vec![8, 10], Ok(&stream[18..])));
    }

    #[test]
    fn length_below_header_size_is_an_error() {
        let stream = *b"HTTP/1.1";
        let mut broken = stream;
        broken[3] = 7;
        broken[2] = 0;
        assert_eq!(cut::<InvalidHeader>(&broken, |_| Ok(())), Err(InvalidHeader(broken)));
    }
}

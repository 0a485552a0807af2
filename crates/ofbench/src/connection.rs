//! A connection to a controller: TCP or TLS, never waited for.
//!
//! Reading goes into a buffer that all connections of a thread share; only a message cut short is
//! kept here. Writing takes what the socket takes, and keeps the rest.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use openflow::Header;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustls::ClientConnection;

use crate::tls::Tls;

/// Bytes of the buffer that connections share: several of the longest messages.
pub const BUFFER: usize = 256 * 1024;

/// The most plaintext that ciphertext from before this read can add: one record (RFC 8446 §5.1).
const RECORD: usize = 18 * 1024;

/// What may wait to be written, in bytes, before the other side is taken for one that does not read.
const MOST_WAITING: usize = 16 << 20;

/// Ciphertext that may wait in a TLS session, in bytes.
const MOST_UNSENT: usize = 256 * 1024;

/// See the module's description.
pub struct Connection {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// The beginning of a message whose end has not come yet.
    partial: Vec<u8>,
    /// What is to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// What reading brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// So many bytes in the buffer, a message cut short before included.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The other side closed the connection.
    End,
}

impl Connection {
    /// Begins to connect; the socket is writable when that has succeeded or failed.
    ///
    /// # Errors
    /// The system has no socket, or knows at once that nobody is there.
    pub fn open(to: SocketAddr, tls: Option<&Tls>) -> io::Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &to) {
            Err(rustix::io::Errno::INPROGRESS) => {}
            result => result?,
        }
        let tls = tls.map(Tls::session).transpose()?;
        Ok(Self::over(socket.into(), tls))
    }

    /// A connection that another side opened.
    ///
    /// # Errors
    /// The socket cannot be used without waiting.
    pub fn accepted(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Self::over(socket, None))
    }

    fn over(socket: TcpStream, tls: Option<ClientConnection>) -> Self {
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(Some(MOST_UNSENT));
            Box::new(tls)
        });
        Self { socket, tls, partial: Vec::new(), out: Vec::new(), sent: 0 }
    }

    /// The socket, to be watched.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// What came of connecting, once the socket is writable.
    ///
    /// # Errors
    /// Nobody is there, or does not answer.
    pub fn connected(&self) -> io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            None => self.socket.set_nodelay(true),
        }
    }

    /// Whether what is said now goes to the other side: TLS, if there is any, is set up.
    pub fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Closes without the farewell that would keep the port busy for a minute.
    pub fn abandon(self) {
        let _ = sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
    }

    /// Reads once, as much as fits behind what is left from before.
    ///
    /// # Errors
    /// The connection broke, or TLS was broken.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let start = self.partial.len();
        let read = match &mut self.tls {
            None => self.socket.read(&mut buffer[start..]),
            Some(tls) => {
                let (plain, scratch) = buffer.split_at_mut(buffer.len() / 2);
                decrypt(tls, &mut self.socket, scratch, &mut plain[start..])
            }
        };
        match read {
            Ok(0) => Ok(Input::End),
            Ok(read) => {
                buffer[..start].copy_from_slice(&self.partial);
                self.partial.clear();
                Ok(Input::Bytes(start + read))
            }
            Err(error) if is_for_later(&error) => Ok(Input::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Keeps what is left of the input: the beginning of a message.
    #[inline]
    pub fn keep(&mut self, rest: &[u8]) {
        self.partial.extend_from_slice(rest);
    }

    /// What was kept: the beginning of a message whose end has not come yet.
    pub fn kept(&self) -> &[u8] {
        &self.partial
    }

    /// Whether so much waits to be written that the other side cannot be reading.
    pub fn is_stuck(&self) -> bool {
        self.out.len() - self.sent > MOST_WAITING
    }

    /// Whether nothing waits to be written.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.sent == self.out.len() && self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// What is to be written next may be appended here; [`flush`](Self::flush) writes it.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Writes `bytes` behind what waits; what the socket does not take waits too.
    ///
    /// # Errors
    /// The connection broke.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_some() || self.sent < self.out.len() {
            self.out.extend_from_slice(bytes);
            return self.flush();
        }
        let taken = match self.socket.write(bytes) {
            Ok(taken) => taken,
            Err(error) if is_for_later(&error) => 0,
            Err(error) => return Err(error),
        };
        self.out.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Writes what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// The connection broke.
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

/// Whether an error says no more than "not now".
fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn send(socket: &mut TcpStream, out: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < out.len() {
        match socket.write(&out[*sent..]) {
            Ok(taken) => *sent += taken,
            Err(error) if is_for_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads ciphertext once, and puts what it meant into `plain`.
fn decrypt(
    tls: &mut ClientConnection,
    socket: &mut TcpStream,
    scratch: &mut [u8],
    plain: &mut [u8],
) -> io::Result<usize> {
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
                // The other side is told what was wrong, as far as it listens.
                let _ = tls.write_tls(socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        };
        while size < plain.len() {
            match tls.reader().read(&mut plain[size..]) {
                Ok(0) => break,
                Ok(more) => size += more,
                Err(error) if is_for_later(&error) => break,
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

/// Sends `out`, encrypted, from `sent` on. Nothing is sent before the handshake is complete.
fn encrypt(
    tls: &mut ClientConnection,
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
            Err(error) if is_for_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Hands the whole messages at the start of `input` to `each`, and returns what is left.
///
/// # Errors
/// What `each` says; or a length that no message has, of which the first bytes are given.
#[inline]
pub fn cut<E: From<NoMessage>>(
    mut input: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<&[u8], E> {
    while let Some(head) = input.first_chunk::<{ Header::SIZE }>() {
        let size = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if size < Header::SIZE {
            return Err(NoMessage(*head).into());
        }
        let Some((message, rest)) = input.split_at_checked(size) else { break };
        each(message)?;
        input = rest;
    }
    Ok(input)
}

/// Bytes in the place of a header that say that the message is shorter than its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what came is no OpenFlow: {0:02x?} is no header of a message")]
pub struct NoMessage(pub [u8; Header::SIZE]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_cut_into_messages_and_the_rest_is_left() {
        let stream = [1, 2, 0, 8, 0, 0, 0, 1, 1, 2, 0, 10, 0, 0, 0, 2, 7, 7, 1, 2, 0];
        let mut sizes = Vec::new();
        let rest = cut::<NoMessage>(&stream, |message| {
            sizes.push(message.len());
            Ok(())
        });
        assert_eq!((sizes, rest), (vec![8, 10], Ok(&stream[18..])));
    }

    #[test]
    fn length_below_the_header_is_no_message() {
        let stream = *b"HTTP/1.1";
        let mut broken = stream;
        broken[3] = 7;
        broken[2] = 0;
        assert_eq!(cut::<NoMessage>(&broken, |_| Ok(())), Err(NoMessage(broken)));
    }
}

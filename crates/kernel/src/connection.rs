//! Reads and writes one switch's connection: socket, session, phase, and the bytes that wait in either direction.
//!
//! All connections of a worker read into one large buffer. A connection itself keeps only the beginning of an
//! incomplete message. Output is gathered and written with one system call per turn of the worker (`output`).
//!
//! TLS and plain TCP arrive at the same port, and the first two bytes distinguish them (`phase`). Where both are
//! allowed, the connection of a switch that waits for our hello is treated as plain TCP. Code outside this folder does
//! not see the difference.

mod holding;
mod output;
mod own_output;
mod phase;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use dal::{Closed, Session};
use openflow::Dpid;
use thiserror::Error;

use crate::admission::Progress;
use crate::memory::Share;
use crate::pool::{LoadGuard, WorkerPool};
use crate::session_shares::Payer;
use crate::switch::Switch;
use crate::tls::{self, Taken, TransportPolicy};

pub(crate) use self::output::DOES_NOT_READ;
use self::output::OutputState;
pub(crate) use self::own_output::OwnOutput;
use self::phase::Accepted;
pub(crate) use self::phase::{Claim, Phase, Up};

/// Largest buffer for a partial message that a connection keeps when it needs less, in bytes.
const SMALL: usize = 4 * 1024;

/// Most bytes that are read and discarded from a connection that is being closed.
const LAST: usize = 64 * 1024;

/// The reason why a connection cannot be read any more.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The TLS session failed.
    #[error(transparent)]
    Tls(#[from] tls::Fault),
    /// The peer speaks TLS, and there are no keys.
    #[error(
        "it speaks TLS, for which this controller has no keys; run `rosemary pki init` and start it again, or use tcp: instead of ssl: on this machine"
    )]
    NoKeys,
    /// Plain TCP is not allowed from the peer's address.
    #[error(
        "it speaks plain TCP, which is not allowed from there; use ssl: instead of tcp: (`rosemary pki switch NAME` prints the commands), or start `rosemary up` with another --plain"
    )]
    Plain,
}

/// Whether the worker should read a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Not before epoll reports new bytes.
    #[default]
    Drained,
    /// There may be bytes.
    Ready,
    /// There are bytes, but the apps have no room for them.
    Paused,
}

/// The state of the peer as epoll has reported it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// It may send more.
    #[default]
    Talks,
    /// It sends no more. The worker reads the rest, subject to back-pressure.
    HasEnded,
    /// It is gone. The worker reads the rest, however full the apps are.
    Gone,
}

/// A connection in any phase.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) address: SocketAddr,
    /// The protocol's state machine. Its timers start at the accept.
    pub(crate) session: Box<dyn Session>,
    pub(crate) phase: Phase,
    pub(crate) reading: Reading,
    /// The app whose session pays for reading this connection. It means nothing while no session reserves packet-ins.
    pub(crate) payer: Payer,
    pub(crate) peer: Peer,
    /// Counts the connection with the worker that has it.
    pub(crate) load_guard: LoadGuard,
    partial: Partial,
    /// Its shares of the pools of all connections.
    ports: Share,
    buffers: Share,
    /// Output; the bytes before `output.sent` are sent.
    pub(crate) out: Vec<u8>,
    pub(crate) output: OutputState,
}

/// The beginning of an incomplete message.
#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    /// When its first byte was received.
    since: Option<Instant>,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Bytes in the buffer.
    Bytes {
        /// Their number, including the partial message of earlier reads.
        size: usize,
        /// Whether the socket had no more.
        all: bool,
    },
    /// No bytes now.
    Nothing,
    /// The switch closed the connection.
    End,
}

impl Connection {
    /// An accepted connection on which `session` begins. `load_guard` counts it.
    pub(crate) fn new(
        (socket, address): (TcpStream, SocketAddr),
        session: Box<dyn Session>,
        transport: &TransportPolicy,
        pool: &WorkerPool,
        load_guard: LoadGuard,
    ) -> Self {
        let plain = transport.plain.allows(address.ip());
        Self {
            socket,
            address,
            session,
            phase: Phase::Accepted(Accepted { tls: transport.tls.clone(), plain }),
            reading: Reading::default(),
            payer: Payer::NONE,
            peer: Peer::default(),
            load_guard,
            partial: Partial::default(),
            ports: pool.memory().ports(),
            buffers: pool.memory().buffers(),
            out: Vec::new(),
            output: OutputState::default(),
        }
    }

    /// Whether earlier reads brought the beginning of a message.
    pub(crate) fn has_partial(&self) -> bool {
        self.partial.since.is_some()
    }

    /// Divides the connection into its phase and the output for the kernel's own messages.
    pub(crate) fn split(&mut self) -> (&mut Phase, OwnOutput<'_>) {
        (&mut self.phase, OwnOutput::new(&mut *self.session, &mut self.out))
    }

    /// Reads once, at most `most` bytes, to the position behind the partial message of earlier reads.
    pub(crate) fn read(&mut self, buffer: &mut [u8], most: usize) -> Result<Input, ReadError> {
        if let Phase::Accepted(accepted) = &self.phase {
            match accepted.detect(&self.socket)? {
                Ok(phase) => self.phase = phase,
                Err(input) => return Ok(input),
            }
        }
        let start = self.partial.bytes.len();
        let (read, all) = if let Some(tls) = self.phase.tls_mut() {
            let (plain, scratch) = buffer.split_at_mut(buffer.len() / 2);
            match tls.take_in(&mut self.socket, scratch, &mut plain[start..], most)? {
                Taken::Plaintext { size, all } => (size, all),
                Taken::Nothing => return Ok(Input::Nothing),
                Taken::End => return Ok(Input::End),
            }
        } else {
            let end = start.saturating_add(most).min(buffer.len());
            match self.read_plain(&mut buffer[start..end])? {
                None => return Ok(Input::Nothing),
                Some(0) => return Ok(Input::End),
                Some(size) => (size, size < end - start),
            }
        };
        self.phase.note_received();
        buffer[..start].copy_from_slice(&self.partial.bytes);
        self.partial.bytes.clear();
        Ok(Input::Bytes { size: start + read, all })
    }

    fn read_plain(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match io::Read::read(&mut self.socket, buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                result => return result.map(Some),
            }
        }
    }

    /// The transport, for operators.
    pub(crate) fn transport(&self) -> &'static str {
        self.phase.tls().map_or("tcp", tls::Session::version)
    }

    /// Checks that the switch's certificate, if it showed one, allows it to call itself `dpid`.
    pub(crate) fn check_claim(&self, dpid: Dpid) -> Result<(), Closed> {
        let Some(tls) = self.phase.tls() else { return Ok(()) };
        tls.may_claim(dpid).map_err(|named| Closed::Impostor { dpid, named })
    }

    /// Advances the session's timers.
    pub(crate) fn tick(&mut self, now: Instant) -> Result<(), Closed> {
        if self.phase.is_mute() {
            return self.session.check_deadline(now);
        }
        let result = self.session.tick(now, &mut self.out).map_err(|why| match why {
            Closed::Silent(time) if !self.partial.bytes.is_empty() => Closed::Unfinished(time),
            why => why,
        });
        if self.session.has_greeted() && matches!(self.phase, Phase::Accepted(_)) {
            self.phase = Phase::plain_handshake(); // the hello is in plain text
        }
        result
    }

    /// The switch, once it can be used.
    #[inline]
    pub(crate) fn switch(&self) -> Option<&Switch> {
        self.phase.switch()
    }

    /// The switch, once it can be used.
    #[inline]
    pub(crate) fn switch_mut(&mut self) -> Option<&mut Switch> {
        self.phase.switch_mut()
    }

    /// Keeps the rest of the buffer for the next read. `is_new`: the rest is the beginning of another message than the
    /// partial one of earlier reads.
    pub(crate) fn keep(&mut self, rest: &[u8], is_new: bool, now: Instant) {
        let Partial { bytes, since } = &mut self.partial;
        if rest.len() <= SMALL && bytes.capacity() > SMALL {
            *bytes = Vec::new(); // as thousands of switches may be idle
        }
        bytes.extend_from_slice(rest);
        if is_new || since.is_none() {
            *since = (!rest.is_empty()).then_some(now);
        }
    }

    /// Prepares the connection for another worker: resets the state of the previous one. Returns the bytes that were
    /// read and not handled.
    pub(crate) fn arrive(&mut self) -> Vec<u8> {
        self.output.arrive();
        self.reading = Reading::Drained; // epoll reports it there once more
        std::mem::take(&mut self.partial.bytes)
    }

    /// Whether the peer has sent no byte yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.phase.up().is_none() && self.phase.progress() == Progress::Silent
    }

    /// Closes the connection: sends the rest of the output as far as the socket accepts it. Returns the switch's state
    /// if it was up.
    ///
    /// The system resets a connection whose socket is closed with unread bytes in it, and the peer may then lose the
    /// last output: an alert, an error. So those bytes are read first.
    pub(crate) fn close(mut self) -> Option<Up> {
        let up = self.phase.drain();
        if let Some(tls) = self.phase.tls_mut() {
            tls.close();
        }
        let _ = self.flush(Instant::now());
        let _ = self.socket.shutdown(Shutdown::Write);
        let mut scrap = [0; 4096];
        for _ in 0..LAST / scrap.len() {
            if !matches!(self.read_plain(&mut scrap), Ok(Some(1..))) {
                break;
            }
        }
        up
    }
}

#[cfg(test)]
mod tests;

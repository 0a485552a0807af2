//! One switch's connection: its socket, its session, its buffers, its counters.
//!
//! Input is read into a buffer that all connections of a worker share; only a message cut short
//! is kept here. Output is gathered and written with one system call per loop (`output`).
//!
//! TLS and plain TCP come in at the same port. The first two bytes tell them apart, and where both are
//! allowed a switch that waits for our hello is taken for one that speaks plain TCP. Above this
//! file there is no difference.

mod holding;
mod output;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use dal::drivers::openflow::{Closed, Session, SwitchInfo, Timing};
use openflow::{Dpid, PortStatus};
use thiserror::Error;

use crate::admission::{AdmissionTicket, Progress};
use crate::back_pressure::BackPressure;
use crate::fair_queue::FairQueue;
use crate::memory::{Memory, Share};
use crate::pool::{DatapathClaim, LoadGuard};
use crate::switch::Switch;
use crate::tls::{self, CLIENT_HELLO, TLS_MAJOR, Taken, TransportPolicy};
use crate::transactions::TransactionTable;

pub(crate) use self::output::DOES_NOT_READ;
#[cfg(test)]
pub(crate) use self::output::FULL;

/// Room for the beginning of a message that a connection keeps when it needs less, in bytes.
const SMALL: usize = 4 * 1024;

/// What is read and thrown away of a connection that is being closed, in bytes.
const LAST: usize = 64 * 1024;

/// Why nothing more can be read.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    /// The system says so.
    #[error(transparent)]
    System(#[from] io::Error),
    /// TLS says so.
    #[error(transparent)]
    Tls(#[from] tls::Fault),
    /// There is nothing to speak TLS with.
    #[error(
        "it speaks TLS, for which this controller has no keys; run `rosemary pki init` and start it again, or use tcp: instead of ssl: on this machine"
    )]
    NoKeys,
    /// It may not speak plain TCP.
    #[error(
        "it speaks plain TCP, which is not allowed from there; use ssl: instead of tcp: (`rosemary pki switch NAME` prints the commands), or start `rosemary up` with another --plain"
    )]
    Plain,
}

/// What carries the conversation.
#[derive(Debug)]
enum Wire {
    /// Not known before the first bytes are.
    Undecided {
        tls: Option<tls::Server>,
        plain: bool,
    },
    Plain,
    Tls(Box<tls::Session>),
}

/// Whether the worker is to read a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// When epoll tells of something new.
    #[default]
    Drained,
    /// Something may be there.
    Ready,
    /// Something is there, and apps are to have room first.
    Paused,
}

/// What epoll has told of the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// It may say more.
    #[default]
    Talks,
    /// It says nothing more than what is there: that is read to its end.
    HasEnded,
    /// It is gone: the same, whoever is full.
    Gone,
}

/// A connection, whose handshake may not be complete.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) session: Session,
    /// Set when the handshake is complete.
    pub(crate) switch: Option<Switch>,
    /// Who waits for its answers.
    pub(crate) transactions: TransactionTable,
    pub(crate) pause: BackPressure,
    pub(crate) reading: Reading,
    /// What was read of it in its turn, in bytes, if that was not over when there was no more room.
    pub(crate) turn: usize,
    pub(crate) peer: Peer,
    /// Its place among those that are not switches yet.
    pub(crate) ticket: Option<AdmissionTicket>,
    /// Its place with the worker that has it.
    pub(crate) load_guard: Option<LoadGuard>,
    /// Where the datapath lives that it claims to be; set with its claim.
    pub(crate) home: Option<DatapathClaim>,
    wire: Wire,
    /// Whether anything was ever received.
    spoke: bool,
    /// The beginning of a message whose end has not come yet, and when it came.
    partial: Vec<u8>,
    partial_since: Option<Instant>,
    /// Its shares of the pools of all connections.
    ports: Share,
    buffers: Share,
    /// What is to be sent, from `sent` on.
    pub(crate) out: Vec<u8>,
    sent: usize,
    /// Messages of apps that go out behind that; while there are some, all of them do.
    queued: Option<Box<FairQueue>>,
    /// Whether the worker has noted that there is something to write.
    pub(crate) dirty: bool,
    /// Since when the socket has taken nothing, while it is full and epoll says when it is not.
    blocked: Option<Instant>,
    /// Whether the last flush wrote anything.
    wrote: bool,
    /// It has completed the handshake as a datapath that is connected already: what it said, and
    /// when, until it is known which of the two lives.
    pub(crate) claim: Option<(SwitchInfo, Instant)>,
    /// What it says of its ports until then.
    pub(crate) ports_meanwhile: Vec<PortStatus>,
}

/// What reading brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Bytes in the buffer.
    Bytes {
        /// How many, a message cut short before included.
        size: usize,
        /// The socket had no more.
        all: bool,
    },
    /// Nothing now.
    Nothing,
    /// The switch closed the connection.
    End,
}

impl Connection {
    /// A connection that came in by `entrance` at `now`.
    pub(crate) fn new(
        socket: TcpStream,
        address: SocketAddr,
        transport: &TransportPolicy,
        memory: &Memory,
        now: Instant,
    ) -> Self {
        let plain = transport.plain.allows(address.ip());
        Self {
            socket,
            address,
            session: Session::new(now, Timing::default()),
            switch: None,
            transactions: TransactionTable::default(),
            pause: BackPressure::default(),
            reading: Reading::default(),
            turn: 0,
            peer: Peer::default(),
            ticket: None,
            load_guard: None,
            home: None,
            wire: Wire::Undecided { tls: transport.tls.clone(), plain },
            spoke: false,
            partial: Vec::new(),
            partial_since: None,
            ports: memory.ports(),
            buffers: memory.buffers(),
            out: Vec::new(),
            sent: 0,
            queued: None,
            dirty: false,
            blocked: None,
            wrote: false,
            claim: None,
            ports_meanwhile: Vec::new(),
        }
    }

    /// Reads once, at most `most` bytes, as much as fits behind what is left from before.
    pub(crate) fn read(&mut self, buffer: &mut [u8], most: usize) -> Result<Input, Broken> {
        if let Some(input) = self.decide()? {
            return Ok(input);
        }
        let start = self.partial.len();
        let (read, all) = match &mut self.wire {
            Wire::Tls(tls) => {
                let (plain, scratch) = buffer.split_at_mut(buffer.len() / 2);
                match tls.take_in(&mut self.socket, scratch, &mut plain[start..], most)? {
                    Taken::Plaintext { size, all } => (size, all),
                    Taken::Nothing => return Ok(Input::Nothing),
                    Taken::End => return Ok(Input::End),
                }
            }
            Wire::Undecided { .. } | Wire::Plain => {
                let end = start.saturating_add(most).min(buffer.len());
                match self.read_plain(&mut buffer[start..end])? {
                    None => return Ok(Input::Nothing),
                    Some(0) => return Ok(Input::End),
                    Some(size) => (size, size < end - start),
                }
            }
        };
        self.spoke = true;
        buffer[..start].copy_from_slice(&self.partial);
        self.partial.clear();
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

    /// Looks at the first bytes, if that is still to be done. `Some` if there are none.
    ///
    /// A TLS record begins with its type and the major version (RFC 8446 §5.1). A hello has type 0 in
    /// the second byte, and its first byte, a version, may be the same as the record's type.
    fn decide(&mut self) -> Result<Option<Input>, Broken> {
        let Wire::Undecided { tls, plain } = &self.wire else { return Ok(None) };
        let mut first = [CLIENT_HELLO, TLS_MAJOR];
        let read = loop {
            match self.socket.peek(&mut first) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Some(Input::Nothing));
                }
                result => break result?,
            }
        };
        if read == 0 {
            return Ok(Some(Input::End));
        }
        // One byte alone decides as if the other were TLS's: a header is not sent in pieces.
        self.wire = match (first, tls) {
            ([CLIENT_HELLO, TLS_MAJOR], Some(server)) => Wire::Tls(server.session()?),
            ([CLIENT_HELLO, TLS_MAJOR], None) => return Err(Broken::NoKeys),
            _ if *plain => Wire::Plain,
            _ => return Err(Broken::Plain),
        };
        Ok(None)
    }

    /// Whether reading may take a long while: a handshake's signatures.
    pub(crate) fn is_laborious(&self) -> bool {
        match &self.wire {
            Wire::Undecided { tls, .. } => tls.is_some(),
            Wire::Plain => false,
            Wire::Tls(tls) => tls.is_handshaking(),
        }
    }

    /// How far it has come on its way to be a switch.
    pub(crate) fn progress(&self) -> Progress {
        match &self.wire {
            Wire::Tls(tls) if !tls.is_handshaking() => Progress::Proven,
            _ if self.spoke => Progress::Spoke,
            _ => Progress::Silent,
        }
    }

    /// What carries the conversation, for operators.
    pub(crate) fn transport(&self) -> &'static str {
        match &self.wire {
            Wire::Tls(tls) => tls.version(),
            Wire::Undecided { .. } | Wire::Plain => "tcp",
        }
    }

    /// Whether the switch may call itself `dpid`: by its certificate, if it showed one.
    pub(crate) fn check_claim(&self, dpid: Dpid) -> Result<(), Closed> {
        match &self.wire {
            Wire::Tls(tls) => tls.may_claim(dpid).map_err(|named| Closed::Impostor { dpid, named }),
            Wire::Undecided { .. } | Wire::Plain => Ok(()),
        }
    }

    /// Lets time pass for the session, in which nothing may be said before it is known how.
    pub(crate) fn tick(&mut self, now: Instant) -> Result<(), Closed> {
        let mute = match &self.wire {
            Wire::Undecided { plain, .. } => !plain,
            Wire::Plain => false,
            Wire::Tls(tls) => tls.is_handshaking(),
        };
        if mute {
            return self.session.check_deadline(now);
        }
        let result = self.session.tick(now, &mut self.out);
        if self.session.has_said_hello() && matches!(self.wire, Wire::Undecided { .. }) {
            self.wire = Wire::Plain; // said in plain
        }
        result
    }

    /// Whether there is something to be written.
    pub(crate) fn has_output(&self) -> bool {
        match &self.wire {
            Wire::Tls(tls) => tls.has_to_say() || !tls.is_handshaking() && self.unsent() > 0,
            Wire::Undecided { .. } | Wire::Plain => self.unsent() > 0,
        }
    }

    /// Keeps what is left of the buffer for the next read. `is_new` says whether messages before it were
    /// whole, so that another message begins here.
    pub(crate) fn keep(&mut self, rest: &[u8], is_new: bool, now: Instant) {
        if rest.len() <= SMALL && self.partial.capacity() > SMALL {
            self.partial = Vec::new(); // thousands of idle switches need not keep theirs
        }
        self.partial.extend_from_slice(rest);
        if is_new || self.partial_since.is_none() {
            self.partial_since = (!rest.is_empty()).then_some(now);
        }
    }

    /// It is with another worker now: forgets what the one before had noted. Returns the claim that
    /// is to be decided there, and what was read and not handled.
    pub(crate) fn arrive(&mut self) -> (Option<(SwitchInfo, Instant)>, Vec<u8>) {
        (self.dirty, self.blocked) = (false, None);
        (self.reading, self.turn) = (Reading::Drained, 0); // epoll tells anew there
        (self.claim.take(), std::mem::take(&mut self.partial))
    }

    /// Sends what is left to be said, as far as the socket takes it; nothing else may follow.
    ///
    /// A socket that is closed with unread bytes in it resets the connection, and the other side
    /// may then never see what we said last: an alert, an error. So what is there is read.
    pub(crate) fn say_goodbye(&mut self) {
        if let Wire::Tls(tls) = &mut self.wire {
            tls.say_goodbye();
        }
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
        let mut scrap = [0; 4096];
        for _ in 0..LAST / scrap.len() {
            if !matches!(self.read_plain(&mut scrap), Ok(Some(1..))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;

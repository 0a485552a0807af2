//! The control channel from the controller's side, over TCP or TLS, with stamps of the kernel.
//!
//! The kernel stamps segments that arrive, and on request those that it sends. A received message has the stamp of the
//! last segment of its read. All queues are bounded: a switch that sends without pause or never reads is disconnected.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use openflow::Header;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;

use super::clock::Stamp;
use super::trouble::Trouble;
use crate::connection::{InvalidHeader, cut};
use crate::tls::Server;

/// Size of a read, in bytes.
const READ: usize = 64 * 1024;

/// Room for control messages: stamps, and the cause of a stamp in the error queue.
const CONTROL: usize = 256;

/// Limit of received messages that nobody has taken, in bytes.
const MAX_PENDING: usize = 64 << 20;

/// Time limit for the switch to read what was sent.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for the kernel's stamp of a sent message.
const STAMP_PATIENCE: Duration = Duration::from_millis(2);

/// A received message.
#[derive(Debug, Clone)]
pub(super) struct Received {
    /// The whole message.
    pub(super) bytes: Vec<u8>,
    /// When its last segment arrived.
    pub(super) at: Stamp,
}

/// A connection with a switch; see the module's documentation.
pub(super) struct Channel {
    socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
    /// The incomplete message at the end of the input.
    partial: Vec<u8>,
    /// Records of the TLS session itself, such as those of its handshake, that are to be written.
    owed: Vec<u8>,
    pending: VecDeque<Received>,
    pending_size: usize,
    closed: bool,
    /// Whether the kernel stamps received and sent segments.
    stamps: (bool, bool),
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl From<InvalidHeader> for Trouble {
    fn from(error: InvalidHeader) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl Channel {
    /// Wraps an accepted connection; completes a TLS handshake within `limit`.
    ///
    /// # Errors
    /// The connection or the handshake failed.
    pub(super) fn accept(
        socket: TcpStream,
        tls: Option<&Server>,
        limit: Duration,
    ) -> Result<Self, Trouble> {
        let setup = || -> io::Result<Option<Box<ServerConnection>>> {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            tls.map(|tls| tls.session().map(Box::new)).transpose()
        };
        let tls = setup().map_err(Trouble::Connection)?;
        let receive = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        let stamped = setsockopt(&socket, sockopt::Timestamping, &receive).is_ok();
        let mut channel = Self {
            socket,
            tls,
            partial: Vec::new(),
            owed: Vec::new(),
            pending: VecDeque::new(),
            pending_size: 0,
            closed: false,
            stamps: (stamped, stamped),
        };
        let until = Instant::now() + limit;
        while channel.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            if !super::data_path::wait(&[channel.fd()], until).map_err(Trouble::Connection)? {
                return Err(Trouble::TooLate { what: "end of the TLS handshake", limit });
            }
            channel.read()?;
            channel.pay()?;
            if channel.closed {
                return Err(Trouble::Disconnected);
            }
        }
        Ok(channel)
    }

    /// Returns the TLS version and suite, if the channel uses TLS.
    pub(super) fn tls(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let (version, suite) = (tls.protocol_version()?, tls.negotiated_cipher_suite()?);
        Some(format!("{version:?} {:?}", suite.suite()))
    }

    /// Whether the kernel stamps received segments, and sent ones.
    pub(super) fn stamps(&self) -> (bool, bool) {
        self.stamps
    }

    /// Returns the socket, to wait for. Messages that were read already are not announced there.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the next message; `None` if there is none now.
    ///
    /// # Errors
    /// The switch disconnected or sent invalid bytes.
    pub(super) fn next(&mut self) -> Result<Option<Received>, Trouble> {
        if self.pending.is_empty() {
            if self.closed {
                return Err(Trouble::Disconnected);
            }
            self.read()?;
            self.pay()?;
        }
        let message = self.pending.pop_front();
        self.pending_size -= message.as_ref().map_or(0, |message| message.bytes.len());
        Ok(message)
    }

    /// Sends messages; returns when the call began.
    ///
    /// # Errors
    /// The connection failed, or the switch does not read.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<Stamp, Trouble> {
        let begun = Stamp::now();
        let Some(tls) = &mut self.tls else {
            self.write(bytes)?;
            return Ok(begun);
        };
        let mut sealed = Vec::with_capacity(bytes.len() + 256);
        for part in bytes.chunks(READ) {
            // The session's own buffer stays small: its records are taken out at once.
            let mut rest = part;
            while !rest.is_empty() {
                let taken = tls.writer().write(rest).map_err(Trouble::Connection)?;
                rest = rest.get(taken..).unwrap_or_default();
                while tls.wants_write() {
                    tls.write_tls(&mut sealed).map_err(Trouble::Connection)?;
                }
            }
        }
        self.write(&sealed)?;
        Ok(begun)
    }

    /// Like [`send`](Self::send); returns when the last segment left, or when the call began if the kernel stamps no
    /// segments that it sends.
    ///
    /// # Errors
    /// Like [`send`](Self::send).
    pub(super) fn send_stamped(&mut self, bytes: &[u8]) -> Result<Stamp, Trouble> {
        if !self.stamps.1 {
            return self.send(bytes);
        }
        let receive = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        let both = receive
            | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        while self.sent_stamp().is_some() {}
        self.stamps.1 = setsockopt(&self.socket, sockopt::Timestamping, &both).is_ok();
        let begun = self.send(bytes)?;
        let until = Instant::now() + STAMP_PATIENCE;
        let mut last = None;
        loop {
            let stamp = self.sent_stamp();
            if stamp.is_none() && (last.is_some() || Instant::now() >= until) {
                break;
            }
            last = stamp.or(last);
        }
        // Otherwise the stamps of all later messages would fill the socket's error queue.
        let _ = setsockopt(&self.socket, sockopt::Timestamping, &receive);
        self.stamps.1 &= last.is_some();
        Ok(last.unwrap_or(begun))
    }

    /// Takes a stamp out of the socket's error queue.
    fn sent_stamp(&self) -> Option<Stamp> {
        let (mut bytes, mut control) = ([0; 64], [0; CONTROL]);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message =
            recvmsg::<()>(self.socket.as_raw_fd(), &mut into, Some(&mut control), flags).ok()?;
        stamp_in(message.cmsgs().ok()?)
    }

    /// Reads what has arrived.
    fn read(&mut self) -> Result<(), Trouble> {
        let mut bytes = vec![0; READ];
        loop {
            let mut control = [0; CONTROL];
            let mut into = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let received =
                recvmsg::<()>(self.socket.as_raw_fd(), &mut into, Some(&mut control), flags);
            let (size, stamp) = match received {
                Ok(message) => (message.bytes, message.cmsgs().ok().and_then(stamp_in)),
                Err(nix::errno::Errno::EAGAIN) => return Ok(()),
                Err(nix::errno::Errno::EINTR) => continue,
                Err(nix::errno::Errno::ECONNRESET) => return Err(Trouble::Disconnected),
                Err(error) => return Err(Trouble::Connection(error.into())),
            };
            if size == 0 {
                self.closed = true;
                return Ok(());
            }
            self.stamps.0 = stamp.is_some();
            let at = stamp.unwrap_or_else(Stamp::now);
            match self.tls {
                None => self.split(bytes.get(..size).unwrap_or_default(), at)?,
                Some(_) => self.decrypt(bytes.get(..size).unwrap_or_default(), at)?,
            }
            if self.pending_size > MAX_PENDING {
                return Err(Trouble::Invalid("it sends faster than its messages are read".into()));
            }
            if size < READ {
                return Ok(());
            }
        }
    }

    fn decrypt(&mut self, mut sealed: &[u8], at: Stamp) -> Result<(), Trouble> {
        let mut plain = Vec::new();
        if let Some(tls) = &mut self.tls {
            while !sealed.is_empty() {
                if tls.read_tls(&mut sealed).map_err(Trouble::Connection)? == 0 {
                    break;
                }
                let state = tls
                    .process_new_packets()
                    .map_err(|error| Trouble::Connection(io::Error::other(error)))?;
                self.closed |= state.peer_has_closed();
                let mut part = vec![0; state.plaintext_bytes_to_read()];
                tls.reader().read_exact(&mut part).map_err(Trouble::Connection)?;
                plain.extend(part);
            }
            while tls.wants_write() {
                tls.write_tls(&mut self.owed).map_err(Trouble::Connection)?;
            }
        }
        self.split(&plain, at)
    }

    /// Writes what the TLS session itself has to send.
    fn pay(&mut self) -> Result<(), Trouble> {
        let owed = std::mem::take(&mut self.owed);
        self.write(&owed)
    }

    /// Cuts plaintext into messages.
    fn split(&mut self, bytes: &[u8], at: Stamp) -> Result<(), Trouble> {
        let mut input = std::mem::take(&mut self.partial);
        input.extend_from_slice(bytes);
        let (pending, size) = (&mut self.pending, &mut self.pending_size);
        let rest = cut(&input, |message| -> Result<(), Trouble> {
            *size += message.len();
            pending.push_back(Received { bytes: message.to_vec(), at });
            Ok(())
        })?;
        self.partial = rest.to_vec();
        Ok(())
    }

    /// Writes bytes, and reads meanwhile, so that a switch that waits for its reader goes on.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Trouble> {
        let until = Instant::now() + WRITE_PATIENCE;
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_writable(until)?;
                    self.read()?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_gone(&error) => return Err(Trouble::Disconnected),
                Err(error) => return Err(Trouble::Connection(error)),
            }
        }
        Ok(())
    }

    fn wait_writable(&self, until: Instant) -> Result<(), Trouble> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::TooLate { what: "room for more messages", limit: WRITE_PATIENCE });
        }
        let timeout: Timespec =
            left.try_into().map_err(|error| Trouble::Connection(io::Error::other(error)))?;
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::OUT)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Trouble::Connection(error.into())),
        }
    }
}

/// Whether an error means that the peer closed the connection.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn stamp_in(mut all: impl Iterator<Item = ControlMessageOwned>) -> Option<Stamp> {
    all.find_map(|it| match it {
        ControlMessageOwned::ScmTimestampsns(stamps) => Some(Stamp::from(stamps.system)),
        _ => None,
    })
    .filter(|stamp| *stamp > Stamp::EPOCH)
}

/// Returns the xid of a message, whose header was checked when the stream was cut.
pub(super) fn xid_of(message: &[u8]) -> u32 {
    Header::decode(message).map_or(0, |header| header.xid)
}

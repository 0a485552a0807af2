//! Runs TLS 1.2 and 1.3 sessions with switches, by rustls. Both sides present a certificate.
//!
//! ```text
//! socket --> Session::take_in --> plaintext, into the worker's buffer
//! socket <-- Session::send    <-- plaintext of a whole turn, in as few records as possible
//! ```
//!
//! The kernel verifies that the switch holds the key of its certificate, and that one of our authorities has issued the
//! certificate, directly or through intermediate authorities. The certificate must be valid now and allow the purpose
//! of a client. [`keys::datapaths`] reads the datapaths in it. No byte from a switch reaches OpenFlow before that.
//! Sessions are never resumed: every connection is verified at the time when it is made.
//!
//! Memory is bounded: a handshake has at most [`MAX_HANDSHAKE`] bytes, at most [`MAX_UNSENT`] bytes of ciphertext wait
//! to be sent, and plaintext is read from the session at once.

mod fault;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use keys::datapaths::CertifiedDatapaths;
use keys::{Keys, KeysError};
use openflow::Dpid;
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};

pub use fault::Fault;

use control::kernel::PlainTcp;
use control::security::KeyPurpose;

/// Most bytes of a handshake: certificates of a few intermediate authorities, with long keys.
const MAX_HANDSHAKE: usize = 32 * 1024;

/// Most ciphertext that waits in a session, in bytes. Further output waits as plaintext in the connection, which has a
/// limit too.
const MAX_UNSENT: usize = 128 * 1024;

/// Most plaintext that ciphertext of earlier reads can add to a read: one record (RFC 8446 §5.1).
pub(crate) const RECORD: usize = 18 * 1024;

/// Least size of a read of ciphertext, in bytes.
const LEAST: usize = 1024;

/// The server side of TLS: keys and trusted authorities. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<ServerConfig>);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Presents the certificate of `keys` and accepts the certificates that its authorities have issued.
    ///
    /// # Errors
    /// The keys cannot be used.
    pub fn new(keys: &Keys) -> Result<Self, KeysError> {
        Ok(Self(Arc::new(keys.server_config(KeyPurpose::Switches)?)))
    }

    /// A session for a connection whose first byte is [`CLIENT_HELLO`].
    pub(crate) fn session(&self) -> Result<Box<Session>, Fault> {
        let mut connection = ServerConnection::new(self.0.clone()).map_err(Fault::Tls)?;
        connection.set_buffer_limit(Some(MAX_UNSENT));
        Ok(Box::new(Session {
            connection,
            unfinished: Unfinished::default(),
            taken: 0,
            dpids: None,
        }))
    }
}

/// The transports that connections may use.
#[derive(Debug, Clone)]
pub struct TransportPolicy {
    /// The addresses that may use plain TCP.
    pub plain: PlainTcp,
    /// The server side of TLS; `None` without keys.
    pub tls: Option<Server>,
}

/// The first byte of TLS: the type of a record that belongs to a handshake (RFC 8446 §5.1).
pub(crate) const CLIENT_HELLO: u8 = 0x16;

/// The second byte of TLS: the major version, the same in all versions.
pub(crate) const TLS_MAJOR: u8 = 3;

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Plaintext.
    Plaintext {
        /// Number of bytes, which may be 0.
        size: usize,
        /// Whether the socket had no more.
        all: bool,
    },
    /// The socket has no bytes now.
    Nothing,
    /// The peer has closed its side.
    End,
}

/// The received part of an incomplete record (RFC 8446 §5.1): its size, and its head as far as that was received.
#[derive(Debug, Default)]
struct Unfinished {
    come: usize,
    head: [u8; HEAD],
}

/// Bytes of a record's head. Its last two bytes are the size of the rest.
const HEAD: usize = 5;

impl Unfinished {
    /// Notes received ciphertext.
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(self.end() - self.come));
            if self.come < HEAD {
                self.head[self.come..][..part.len()].copy_from_slice(part);
            }
            self.come += part.len();
            if self.come >= HEAD && self.come == self.end() {
                self.come = 0;
            }
            bytes = rest;
        }
    }

    /// The size of the record; while its head is incomplete, the size of the head.
    fn end(&self) -> usize {
        match self.come {
            0..HEAD => HEAD,
            _ => HEAD + usize::from(u16::from_be_bytes([self.head[3], self.head[4]])),
        }
    }
}

/// The TLS session of one connection.
pub(crate) struct Session {
    connection: ServerConnection,
    unfinished: Unfinished,
    /// Bytes of the handshake that were received so far.
    taken: usize,
    /// The datapaths of its certificate; set when the handshake is complete.
    dpids: Option<CertifiedDatapaths>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("dpids", &self.dpids).finish_non_exhaustive()
    }
}

impl Session {
    /// Whether the switch's certificate was not verified yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.dpids.is_none()
    }

    /// The version of TLS, such as `tls 1.3`.
    pub(crate) fn version(&self) -> &'static str {
        match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "tls 1.3",
            Some(ProtocolVersion::TLSv1_2) => "tls 1.2",
            _ => "tls",
        }
    }

    /// Checks that the certificate allows the switch to claim `dpid`.
    ///
    /// # Errors
    /// The datapaths that the certificate names instead.
    pub(crate) fn may_claim(&self, dpid: Dpid) -> Result<(), String> {
        self.dpids.as_ref().map_or(Err("nothing yet".into()), |dpids| dpids.may_claim(dpid))
    }

    /// Reads ciphertext from `socket` once, into `scratch`, and decrypts it into `plain`. Together with the incomplete
    /// record of earlier reads, these are hardly more than `most` bytes.
    ///
    /// # Errors
    /// [`Fault`]: the connection has failed. The session's output then contains an alert for the switch.
    pub(crate) fn take_in(
        &mut self,
        socket: &mut impl io::Read,
        scratch: &mut [u8],
        plain: &mut [u8],
        most: usize,
    ) -> Result<Taken, Fault> {
        // Only the end of a record makes its plaintext available, so the limit includes the incomplete record. At least
        // LEAST bytes are read, as otherwise the record would never end.
        let most = most.saturating_sub(self.unfinished.come).max(LEAST);
        let room = scratch.len().min(plain.len().saturating_sub(RECORD)).min(most);
        let read = loop {
            match socket.read(&mut scratch[..room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Taken::Nothing);
                }
                result => break result?,
            }
        };
        if read == 0 {
            return if self.is_handshaking() { Err(Fault::Interrupted) } else { Ok(Taken::End) };
        }
        self.unfinished.pass(&scratch[..read]);
        let mut rest = &scratch[..read];
        let mut size = 0;
        while !rest.is_empty() {
            let before = rest.len();
            self.connection.read_tls(&mut rest)?;
            let state = self.connection.process_new_packets().map_err(Fault::Tls)?;
            while size < plain.len() {
                match self.connection.reader().read(&mut plain[size..]) {
                    Ok(0) => break,
                    Ok(more) => size += more,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            self.progress(before - rest.len())?;
            if state.peer_has_closed() || before == rest.len() {
                return Ok(if size == 0 {
                    Taken::End
                } else {
                    Taken::Plaintext { size, all: false }
                });
            }
        }
        Ok(Taken::Plaintext { size, all: read < room })
    }

    /// Bounds the handshake, and reads the certificate when the handshake is complete.
    fn progress(&mut self, taken: usize) -> Result<(), Fault> {
        if self.dpids.is_some() {
            return Ok(());
        }
        if !self.connection.is_handshaking() {
            let certificate = self.connection.peer_certificates().and_then(<[_]>::first);
            let certificate = certificate.ok_or(Fault::Nameless)?;
            self.dpids = Some(CertifiedDatapaths::of(certificate).map_err(Fault::Names)?);
            return Ok(());
        }
        self.taken += taken;
        if self.taken > MAX_HANDSHAKE { Err(Fault::TooLong(MAX_HANDSHAKE)) } else { Ok(()) }
    }

    /// Whether the session has output of its own: handshake messages or alerts.
    pub(crate) fn has_output(&self) -> bool {
        self.connection.wants_write()
    }

    /// Encrypts and sends `plain` from `sent` on, as far as the socket accepts it.
    ///
    /// `Ok(false)` if the socket accepted only a part. During the handshake no plaintext is sent.
    pub(crate) fn send(
        &mut self,
        socket: &mut impl io::Write,
        plain: &[u8],
        sent: &mut usize,
    ) -> io::Result<bool> {
        loop {
            if !self.is_handshaking() && *sent < plain.len() {
                *sent += self.connection.writer().write(&plain[*sent..])?;
            }
            if !self.connection.wants_write() {
                return Ok(true);
            }
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds a `close_notify` alert (RFC 8446 §6.1) to the output of the next [`send`](Self::send).
    pub(crate) fn close(&mut self) {
        self.connection.send_close_notify();
    }
}

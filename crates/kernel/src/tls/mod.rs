//! TLS 1.2 and 1.3 with switches, by rustls, each side showing a certificate.
//!
//! ```text
//! socket --> Session::take_in --> plaintext, into the worker's buffer
//! socket <-- Session::send    <-- plaintext that was gathered, as few records as it fits in
//! ```
//!
//! The kernel verifies that the switch's certificate has been issued by one of our authorities, directly
//! or by authorities between, is valid now, is not for another purpose than a client's, and the
//! switch holds its key. What it says about the datapath is in [`keys::datapaths`]. Nothing that a switch
//! says reaches OpenFlow before that. Sessions are never resumed: every connection is verified,
//! with the clock as it is then.
//!
//! Memory is bounded: of a handshake [`MAX_HANDSHAKE`] bytes are taken, ciphertext that waits to be
//! sent is at most [`MAX_UNSENT`], and plaintext is taken out as soon as it is there.

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

/// Bytes of a handshake: certificates of a few intermediate authorities, with long keys.
const MAX_HANDSHAKE: usize = 32 * 1024;

/// Ciphertext that may wait in a session, in bytes; what is more waits as plaintext in its
/// connection, where there is a limit too.
const MAX_UNSENT: usize = 128 * 1024;

/// The most plaintext that ciphertext from before this read can add: one record (RFC 8446 §5.1).
pub(crate) const RECORD: usize = 18 * 1024;

/// The least ciphertext that is asked for at once, in bytes.
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
        Ok(Self(Arc::new(keys.server_config()?)))
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

/// How connections may come in.
#[derive(Debug, Clone)]
pub struct TransportPolicy {
    /// Who may speak plain TCP.
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
        /// So many bytes; perhaps none.
        size: usize,
        /// The socket had no more.
        all: bool,
    },
    /// The socket has nothing now.
    Nothing,
    /// There will be no more.
    End,
}

/// How much has come of the record whose end has not (RFC 8446 §5.1), and its head as far as that has.
#[derive(Debug, Default)]
struct Unfinished {
    come: usize,
    head: [u8; HEAD],
}

/// Bytes of a record's head. Its last two bytes are the size of the rest.
const HEAD: usize = 5;

impl Unfinished {
    /// More ciphertext has come.
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

    /// Where the record ends, or its head as long as that has not come.
    fn end(&self) -> usize {
        match self.come {
            0..HEAD => HEAD,
            _ => HEAD + usize::from(u16::from_be_bytes([self.head[3], self.head[4]])),
        }
    }
}

/// One connection's TLS.
pub(crate) struct Session {
    connection: ServerConnection,
    unfinished: Unfinished,
    /// Bytes that the handshake has brought so far.
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
    /// Whether the switch has not shown yet who it is.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.dpids.is_none()
    }

    /// Which version is spoken, as `tls 1.3`.
    pub(crate) fn version(&self) -> &'static str {
        match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "tls 1.3",
            Some(ProtocolVersion::TLSv1_2) => "tls 1.2",
            _ => "tls",
        }
    }

    /// Whether the switch may call itself `dpid`.
    ///
    /// # Errors
    /// What its certificate says instead.
    pub(crate) fn may_claim(&self, dpid: Dpid) -> Result<(), String> {
        self.dpids.as_ref().map_or(Err("nothing yet".into()), |dpids| dpids.may_claim(dpid))
    }

    /// Reads once from `socket`, with `scratch` for the ciphertext, and puts what it meant into
    /// `plain`. With what came before these are hardly more than `most` bytes.
    ///
    /// # Errors
    /// [`Fault`]: the connection is over; what is left to be sent says so to the switch.
    pub(crate) fn take_in(
        &mut self,
        socket: &mut impl io::Read,
        scratch: &mut [u8],
        plain: &mut [u8],
        most: usize,
    ) -> Result<Taken, Fault> {
        // The end of a record brings all of it. Something is read in any case: there is no other way to its end.
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

    /// Keeps the handshake within its bounds, and looks at the certificate when it is complete.
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

    /// Whether there is anything to be sent that needs no plaintext: handshake, alerts.
    pub(crate) fn has_to_say(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends `plain`, encrypted, from `sent` on, as far as the socket takes it.
    ///
    /// `Ok(false)` if the socket took only a part. While the handshake lasts no plaintext is sent.
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

    /// Says that no more will come (RFC 8446 §6.1), in what [`send`](Self::send) sends next.
    pub(crate) fn say_goodbye(&mut self) {
        self.connection.send_close_notify();
    }
}

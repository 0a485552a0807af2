//! The phases of a connection, from accept to close.
//!
//! ```text
//!  Accepted ---TLS---> TlsHandshake ---> Handshake ---> Claiming ---> Up
//!      \----------plain TCP-------------------^
//!  any phase ---> Draining
//! ```
//!
//! Each phase owns the state that exists only in it, so that a connection cannot have, say, pending transactions before
//! its handshake is complete. A connection moves between workers as `Accepted` or `Claiming`, never once it is `Up`.

use std::net::TcpStream;
use std::time::Instant;
use std::{io, mem};

use dal::SwitchInfo;
use openflow::PortStatus;

use super::{Input, ReadError};
use crate::admission::Progress;
use crate::back_pressure::BackPressure;
use crate::pool::DatapathClaim;
use crate::switch::Switch;
use crate::tls::{self, CLIENT_HELLO, TLS_MAJOR};
use crate::transactions::TransactionTable;

/// The phase of a connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all connections are up: a box would cost each turn a cache miss"
)]
pub(crate) enum Phase {
    /// No byte was received, so it is unknown whether the peer speaks TLS.
    Accepted(Accepted),
    /// The peer has not yet proven that it holds the key of a valid certificate.
    TlsHandshake(Box<tls::Session>),
    /// The session negotiates the protocol's version and requests the features.
    Handshake {
        transport: Transport,
        /// Whether the peer has sent anything.
        has_spoken: bool,
    },
    /// The handshake is complete. The worker that owns the datapath decides whether this connection gets it.
    Claiming { transport: Transport, claim: Claim },
    /// The switch can be used.
    Up { transport: Transport, up: Up },
    /// The connection is being closed: the rest of its output is sent, its input is discarded.
    Draining { transport: Transport },
}

/// The transport, once it is known.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain,
    Tls(Box<tls::Session>),
}

/// The transports that a new connection may use.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The TLS server; `None` without keys.
    pub(super) tls: Option<tls::Server>,
    /// Whether plain TCP is allowed from the peer's address.
    pub(super) plain: bool,
}

/// A completed handshake whose datapath may be connected already.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The switch's answers in the handshake.
    pub(crate) info: SwitchInfo,
    /// When the known connection of the datapath was last probed because of this claim.
    pub(crate) since: Instant,
    /// The epoch of the switch that was probed.
    pub(crate) probed: Option<u32>,
    /// The registry's entry: it names the worker that owns the datapath.
    pub(crate) datapath: DatapathClaim,
    /// Port changes that the switch reported since the handshake.
    pub(crate) ports: Vec<PortStatus>,
}

/// The state of a connection whose switch can be used.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) switch: Switch,
    /// The requests whose replies are outstanding.
    pub(crate) transactions: TransactionTable,
    pub(crate) back_pressure: BackPressure,
    /// Bytes read in the present turn, if it ended early because the apps had no room.
    pub(crate) turn: usize,
    /// Keeps the datapath with this worker.
    _datapath: DatapathClaim,
}

impl Accepted {
    /// Peeks at the first bytes and decides which phase follows.
    ///
    /// A TLS record begins with its type and the major version (RFC 8446 §5.1). A hello has type 0 in
    /// the second byte, and its first byte, a version, may be the same as the record's type.
    ///
    /// # Errors
    /// [`ReadError`]: the peer uses a transport that is not allowed from its address. `Ok(Err(_))` if there are no
    /// bytes.
    pub(super) fn detect(&self, socket: &TcpStream) -> Result<Result<Phase, Input>, ReadError> {
        let mut first = [CLIENT_HELLO, TLS_MAJOR];
        let read = loop {
            match socket.peek(&mut first) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Err(Input::Nothing));
                }
                result => break result?,
            }
        };
        if read == 0 {
            return Ok(Err(Input::End));
        }
        // A single byte decides as if the other were that of TLS: peers do not send a header in pieces.
        match (first, &self.tls) {
            ([CLIENT_HELLO, TLS_MAJOR], Some(server)) => {
                Ok(Ok(Phase::TlsHandshake(server.session()?)))
            }
            ([CLIENT_HELLO, TLS_MAJOR], None) => Err(ReadError::NoKeys),
            _ if self.plain => Ok(Ok(Phase::plain_handshake())),
            _ => Err(ReadError::Plain),
        }
    }
}

impl Phase {
    /// The OpenFlow handshake over plain TCP, before the peer has sent a byte.
    pub(super) fn plain_handshake() -> Self {
        Self::Handshake { transport: Transport::Plain, has_spoken: false }
    }

    /// Notes that bytes were received, which may have completed the TLS handshake.
    #[inline]
    pub(super) fn note_received(&mut self) {
        match self {
            Self::Handshake { has_spoken, .. } => *has_spoken = true,
            Self::TlsHandshake(tls) if !tls.is_handshaking() => {
                let placeholder = Self::Draining { transport: Transport::Plain };
                let Self::TlsHandshake(tls) = mem::replace(self, placeholder) else { return };
                *self = Self::Handshake { transport: Transport::Tls(tls), has_spoken: true };
            }
            _ => {}
        }
    }

    /// Claims the datapath of `claim` after the handshake. No effect in a later phase.
    pub(crate) fn begin_claim(&mut self, claim: Claim) {
        if matches!(self, Self::Handshake { .. })
            && let Self::Handshake { transport, .. } = self.take()
        {
            *self = Self::Claiming { transport, claim };
        }
    }

    /// Makes the switch of a successful claim usable, with its new `epoch`. Returns the port changes since the
    /// handshake; `None` if the connection does not claim a datapath.
    pub(crate) fn win_claim(&mut self, epoch: u32) -> Option<Vec<PortStatus>> {
        if !matches!(self, Self::Claiming { .. }) {
            return None;
        }
        let Self::Claiming { transport, claim } = self.take() else { return None };
        let up = Up {
            switch: Switch::new(claim.info, epoch),
            transactions: TransactionTable::default(),
            back_pressure: BackPressure::default(),
            turn: 0,
            _datapath: claim.datapath,
        };
        *self = Self::Up { transport, up };
        Some(claim.ports)
    }

    /// Begins to close the connection; returns the switch's state if it was up.
    pub(crate) fn drain(&mut self) -> Option<Up> {
        let (transport, up) = match self.take() {
            Self::Accepted(_) => (Transport::Plain, None),
            Self::TlsHandshake(tls) => (Transport::Tls(tls), None),
            Self::Handshake { transport, .. }
            | Self::Claiming { transport, .. }
            | Self::Draining { transport } => (transport, None),
            Self::Up { transport, up } => (transport, Some(up)),
        };
        *self = Self::Draining { transport };
        up
    }

    fn take(&mut self) -> Self {
        mem::replace(self, Self::Draining { transport: Transport::Plain })
    }

    #[inline]
    pub(crate) fn up(&self) -> Option<&Up> {
        if let Self::Up { up, .. } = self { Some(up) } else { None }
    }

    #[inline]
    pub(crate) fn up_mut(&mut self) -> Option<&mut Up> {
        if let Self::Up { up, .. } = self { Some(up) } else { None }
    }

    #[inline]
    pub(crate) fn switch(&self) -> Option<&Switch> {
        self.up().map(|up| &up.switch)
    }

    #[inline]
    pub(crate) fn switch_mut(&mut self) -> Option<&mut Switch> {
        self.up_mut().map(|up| &mut up.switch)
    }

    pub(crate) fn claim(&self) -> Option<&Claim> {
        if let Self::Claiming { claim, .. } = self { Some(claim) } else { None }
    }

    pub(crate) fn claim_mut(&mut self) -> Option<&mut Claim> {
        if let Self::Claiming { claim, .. } = self { Some(claim) } else { None }
    }

    pub(super) fn tls(&self) -> Option<&tls::Session> {
        match self {
            Self::TlsHandshake(tls)
            | Self::Handshake { transport: Transport::Tls(tls), .. }
            | Self::Claiming { transport: Transport::Tls(tls), .. }
            | Self::Up { transport: Transport::Tls(tls), .. }
            | Self::Draining { transport: Transport::Tls(tls) } => Some(tls),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn tls_mut(&mut self) -> Option<&mut tls::Session> {
        match self {
            Self::TlsHandshake(tls)
            | Self::Handshake { transport: Transport::Tls(tls), .. }
            | Self::Claiming { transport: Transport::Tls(tls), .. }
            | Self::Up { transport: Transport::Tls(tls), .. }
            | Self::Draining { transport: Transport::Tls(tls) } => Some(tls),
            _ => None,
        }
    }

    /// The peer's progress, for [`Admission`](crate::admission::Admission).
    pub(crate) fn progress(&self) -> Progress {
        match self {
            Self::Accepted(_)
            | Self::Handshake { transport: Transport::Plain, has_spoken: false } => {
                Progress::Silent
            }
            Self::TlsHandshake(_) => Progress::Spoke,
            _ if self.tls().is_some() => Progress::Proven,
            _ => Progress::Spoke,
        }
    }

    /// Whether the next read may compute signatures, which takes milliseconds.
    pub(crate) fn is_laborious(&self) -> bool {
        match self {
            Self::Accepted(Accepted { tls, .. }) => tls.is_some(),
            Self::TlsHandshake(_) => true,
            _ => false,
        }
    }

    /// Whether the session must send nothing yet.
    pub(super) fn is_mute(&self) -> bool {
        matches!(self, Self::Accepted(Accepted { plain: false, .. }) | Self::TlsHandshake(_))
    }
}

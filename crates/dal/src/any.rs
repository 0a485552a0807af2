//! Carries a session of any driver, without an indirect call for OpenFlow.

use std::ops::{Deref, DerefMut};

use crate::closed::Closed;
use crate::drivers::openflow;
use crate::session::{Received, Session};

/// A session of any driver.
///
/// OpenFlow sessions have a variant of their own, so that the calls for each message are direct. The other calls happen
/// once per read or more rarely, and use [`Deref`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all sessions have the large variant")]
pub enum AnySession {
    /// The switch speaks OpenFlow.
    OpenFlow(openflow::Session),
    /// The switch speaks another protocol, which a driver translates.
    Other(Box<dyn Session>),
}

impl AnySession {
    /// Whether the bytes of the connection are OpenFlow messages, so that a caller may handle packet-ins in place,
    /// without [`receive`](Session::receive).
    #[inline]
    pub fn is_openflow(&self) -> bool {
        matches!(self, Self::OpenFlow(_))
    }

    /// See [`Session::frame`].
    #[inline]
    #[expect(clippy::missing_errors_doc, reason = "documented at the trait's method")]
    pub fn frame(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, Closed> {
        match self {
            Self::OpenFlow(session) => session.frame(bytes, out),
            Self::Other(session) => session.frame(bytes, out),
        }
    }

    /// See [`Session::receive`].
    #[inline]
    #[expect(clippy::missing_errors_doc, reason = "documented at the trait's method")]
    pub fn receive<'m>(
        &mut self,
        message: &'m [u8],
        room: &'m mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Received<'m>>, Closed> {
        match self {
            Self::OpenFlow(session) => session.receive(message, room, out),
            Self::Other(session) => session.receive(message, room, out),
        }
    }

    /// A transaction id that was not used for a while.
    #[inline]
    pub fn xid(&mut self) -> u32 {
        self.xids(1)
    }

    /// See [`Session::xids`].
    #[inline]
    pub fn xids(&mut self, count: u32) -> u32 {
        match self {
            Self::OpenFlow(session) => session.xids(count),
            Self::Other(session) => session.xids(count),
        }
    }
}

impl Deref for AnySession {
    type Target = dyn Session;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::OpenFlow(session) => session,
            Self::Other(session) => &**session,
        }
    }
}

impl DerefMut for AnySession {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::OpenFlow(session) => session,
            Self::Other(session) => &mut **session,
        }
    }
}

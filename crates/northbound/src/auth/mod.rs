//! Finds out who sends a request.

pub(crate) mod peer;
pub(crate) mod session;
pub(crate) mod standing;
pub(crate) mod tokens;

use std::time::SystemTime;

use control::northbound::Role;

/// How a user is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By a token.
    Token,
    /// By a session that a one-time token began.
    Session,
    /// By a certificate of the users' authority.
    Certificate,
    /// By the mode of the Unix socket.
    Unix,
    /// By the user of a TCP connection on this machine.
    Loopback,
    /// Not at all.
    Nobody,
}

impl How {
    /// Whether a change of the credentials, or time, may end the user's standing. A connection on this machine has the same user as
    /// long as it lasts.
    pub(crate) fn may_end(self) -> bool {
        match self {
            Self::Token | Self::Session | Self::Certificate => true,
            Self::Unix | Self::Loopback | Self::Nobody => false,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Session => "session",
            Self::Certificate => "certificate",
            Self::Unix => "unix",
            Self::Loopback => "loopback",
            Self::Nobody => "nobody",
        }
    }
}

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The user, for the audit record: `token ci`, `certificate alice (0123456789abcdef)`, `user 1000`.
    pub(crate) who: String,
    /// `None` if the user may do nothing.
    pub(crate) role: Option<Role>,
    pub(crate) how: How,
    /// The session's identifier, if it is one.
    pub(crate) session: Option<String>,
    /// When the token, session or certificate expires; `None` for never.
    pub(crate) expires: Option<SystemTime>,
}

impl Principal {
    /// A sender of whom nothing is known.
    pub(crate) fn nobody() -> Self {
        Self { who: "nobody".into(), role: None, how: How::Nobody, session: None, expires: None }
    }

    /// Whether it has at least this role.
    pub(crate) fn has(&self, role: Role) -> bool {
        self.role.is_some_and(|own| own >= role)
    }
}

//! Why a measurement has no figure.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// The reason why a measurement failed.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// The switch closed the connection.
    #[error("the switch disconnected")]
    Disconnected,
    /// The connection failed.
    #[error("the connection to the switch failed: {0}")]
    Connection(io::Error),
    /// The switch sent bytes that are no message of its version.
    #[error("the switch sent an invalid message: {0}")]
    Invalid(String),
    /// The switch did not answer in time.
    #[error("the switch sent no {what} within {limit:?}")]
    TooLate {
        /// The missing message.
        what: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The switch rejected messages.
    #[error("the switch answered {count} of {sent} {what} with an error, the first: {first}")]
    Rejected {
        /// The kind of the rejected messages.
        what: &'static str,
        /// Number of error messages.
        count: usize,
        /// Number of messages that were sent.
        sent: usize,
        /// The first error.
        first: String,
    },
    /// A report of the switch contradicts an observation.
    #[error("the switch contradicts the measurement: {0}")]
    Contradiction(String),
    /// Frames did not arrive.
    #[error("{0}")]
    Lost(String),
    /// The measurement does not apply to this switch or this setup.
    #[error("{0}")]
    NotApplicable(String),
    /// An interface failed.
    #[error("an interface failed: {0}")]
    Interface(#[from] io::Error),
    /// The operator ended the measurement.
    #[error("interrupted")]
    Interrupted,
}

impl Trouble {
    /// Whether no other measurement can follow.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Disconnected
                | Self::Connection(_)
                | Self::Invalid(_)
                | Self::Interface(_)
                | Self::Interrupted
        )
    }
}

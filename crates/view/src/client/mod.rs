//! Sends operators' requests to a running Rosemary: clients of the monitor, the kernel and the log service.
//!
//! A program that does not reply within [`REPLY_TIMEOUT`] is reported, so that it does not block the operator's
//! terminal.

mod details;
pub mod entries;
mod history;
mod kernel;
mod log;
mod monitor;
mod provided;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use thiserror::Error;

pub use self::history::{History, Points};
pub use self::kernel::Kernel;
pub use self::log::Log;
pub use self::monitor::{ConfigText, Monitor};
pub use self::provided::Provided;

/// The longest time that the client waits for a reply.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request got no result.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The program closed the connection, or its reply could not be read.
    #[error("{peer} did not reply; see its log")]
    NoReply {
        /// The program.
        peer: &'static str,
        /// What happened to the connection.
        source: ChannelError,
    },
    /// The program did not reply in time.
    #[error("{peer} did not reply within {} s", .timeout.as_secs())]
    TimedOut {
        /// The program.
        peer: &'static str,
        /// The time that it had.
        timeout: Duration,
    },
    /// The kernel or the log service could not obtain the data.
    #[error("{0}")]
    Failed(String),
    /// The monitor refused the request.
    #[error("the monitor refused: {0}")]
    Refused(String),
    /// The monitor cannot connect the client to the program now.
    #[error("not available now: {0}")]
    Unavailable(String),
    /// The reply does not fit the request, as from a program of another version.
    #[error("{peer} sent an unexpected reply; check that it has the same version as this command")]
    Unexpected {
        /// The program.
        peer: &'static str,
    },
}

/// Sends a request and waits for the reply.
fn exchange<Q: Serialize, A: DeserializeOwned>(
    channel: &Channel,
    request: &Q,
    peer: &'static str,
    timeout: Duration,
) -> Result<(A, Vec<OwnedFd>), ClientError> {
    exchange_with(channel, request, &[], peer, timeout)
}

/// Sends a request with descriptors, and waits for the reply.
fn exchange_with<Q: Serialize, A: DeserializeOwned>(
    channel: &Channel,
    request: &Q,
    fds: &[BorrowedFd<'_>],
    peer: &'static str,
    timeout: Duration,
) -> Result<(A, Vec<OwnedFd>), ClientError> {
    let no_reply = |source| ClientError::NoReply { peer, source };
    channel.send(request, fds).map_err(no_reply)?;
    let deadline = Instant::now() + timeout;
    loop {
        match channel.receive() {
            Err(ChannelError::WouldBlock) => {}
            result => return result.map_err(no_reply),
        }
        wait(channel, peer, timeout, deadline)?;
    }
}

/// Waits until the socket is readable, or fails at `deadline`.
fn wait(
    socket: &impl AsFd,
    peer: &'static str,
    timeout: Duration,
    deadline: Instant,
) -> Result<(), ClientError> {
    let timed_out = || ClientError::TimedOut { peer, timeout };
    let rest = deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(timed_out());
    }
    let rest = Timespec::try_from(rest).map_err(|_| timed_out())?;
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&rest)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => {
            Err(ClientError::NoReply { peer, source: ChannelError::System(error.into()) })
        }
    }
}

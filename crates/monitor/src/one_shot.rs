//! Starts a child process for a single request and reply.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use sys::process::{Child, PidNamespace};

use crate::program::Executable;

/// The time for the start, a few namespaces, the request and the reply.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts `program`, sends it `request` with `fds`, waits for its first reply, and kills it.
///
/// Not for the thread of the event loop: this waits.
///
/// # Errors
/// The program cannot be started, or does not reply in time.
pub(crate) fn request<Q: Serialize, A: DeserializeOwned>(
    program: &Path,
    request: &Q,
    fds: &[BorrowedFd<'_>],
) -> io::Result<A> {
    request_until(&program.to_owned().into(), request, fds, |_| true)
}

/// As [`request`], but waits for the first reply that `is_last` accepts.
///
/// # Errors
/// Like [`request`].
pub(crate) fn request_until<Q: Serialize, A: DeserializeOwned>(
    executable: &Executable,
    request: &Q,
    fds: &[BorrowedFd<'_>],
    is_last: impl Fn(&A) -> bool,
) -> io::Result<A> {
    let name = executable.path.file_name().unwrap_or_default().to_string_lossy();
    let (ours, theirs) = Channel::pair()?;
    let mut command = Command::new(&executable.path);
    command.args(&executable.args).env_clear().current_dir("/");
    // Dropping the child kills it, unless it has already ended.
    let (_child, _outputs) = Child::spawn_with(PidNamespace::find(), &mut command, theirs)?;
    ours.send(request, fds).map_err(io::Error::other)?;
    let until = Instant::now() + TIMEOUT;
    loop {
        match ours.receive() {
            Ok((reply, _)) if is_last(&reply) => return Ok(reply),
            Ok(_) => continue,
            Err(ChannelError::WouldBlock) => {}
            Err(error) => return Err(io::Error::other(format!("{name}: {error}"))),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} did not reply")));
        }
        let timeout: Option<Timespec> = left.try_into().ok();
        match poll(&mut [PollFd::new(&ours, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

//! A child that is asked one thing and has then done what it is for.

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

/// For a start, a few namespaces, what it is for, and an end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts `program`, sends it `request` with `fds`, and waits for its first answer; then it is ended.
///
/// # Errors
/// It cannot be started, or does not answer, or not in time.
pub(crate) fn ask<Q: Serialize, A: DeserializeOwned>(
    program: &Path,
    request: &Q,
    fds: &[BorrowedFd<'_>],
) -> io::Result<A> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let (ours, theirs) = Channel::pair()?;
    let mut command = Command::new(program);
    command.env_clear().current_dir("/");
    // Killed when this is dropped, if it has not ended by itself.
    let (_child, _output) = Child::spawn_with(PidNamespace::find(), &mut command, theirs)?;
    ours.send(request, fds).map_err(io::Error::other)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match ours.receive() {
            Ok((answer, _)) => return Ok(answer),
            Err(ChannelError::WouldBlock) => {}
            Err(error) => return Err(io::Error::other(format!("{name}: {error}"))),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} does not answer")));
        }
        let timeout: Option<Timespec> = left.try_into().ok();
        match poll(&mut [PollFd::new(&ours, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

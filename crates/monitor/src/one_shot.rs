//! Starts a child process for a single request and reply.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use sys::process::{Child, Outputs, PidNamespace};

use crate::provenance;
use supervisor::program::Executable;

/// The time for the start, a few namespaces, the request and the reply.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A child process that has been sent its request. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct OneShot {
    name: String,
    channel: Channel,
    _child: Child,
    /// Not read: what such a process prints is of no interest, and a full pipe blocks no writer.
    _outputs: Outputs,
    until: Instant,
}

impl OneShot {
    /// Starts a process and sends it `request` with `fds`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start<Q: Serialize>(
        executable: &Executable,
        request: &Q,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<Self> {
        let name = executable.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (channel, theirs) = Channel::passing_pair()?;
        let (mut command, _checked) = provenance::command(executable)?;
        command.env_clear().current_dir("/");
        let (child, outputs) = Child::spawn_with(PidNamespace::find(), &mut command, theirs)?;
        channel.send(request, fds).map_err(io::Error::other)?;
        let until = Instant::now() + TIMEOUT;
        Ok(Self { name, channel, _child: child, _outputs: outputs, until })
    }

    /// Makes the system refuse descriptors of the process from now on, since Linux 6.16.
    pub(crate) fn refuse_descriptors(&self) {
        self.channel.refuse_descriptors();
    }

    /// Returns the next reply with its descriptors, or `None` as soon as `other` is readable.
    ///
    /// # Errors
    /// The process has ended, or does not reply in time.
    pub(crate) fn receive<A: DeserializeOwned>(
        &self,
        other: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<(A, Vec<OwnedFd>)>> {
        loop {
            match self.channel.receive_immediate() {
                Ok(reply) => return Ok(Some(reply)),
                Err(ChannelError::WouldBlock) => {}
                Err(error) => return Err(io::Error::other(format!("{}: {error}", self.name))),
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = format!("{} did not reply", self.name);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let timeout: Option<Timespec> = left.try_into().ok();
            let mut fds = vec![PollFd::new(&self.channel, PollFlags::IN)];
            fds.extend(other.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
                return Ok(None);
            }
        }
    }
}

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
    let process = OneShot::start(&program.to_owned().into(), request, fds)?;
    loop {
        if let Some((reply, _)) = process.receive(None)? {
            return Ok(reply);
        }
    }
}

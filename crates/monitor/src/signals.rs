//! Signals that ask the monitor to stop, as something to poll.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

/// SIGTERM and SIGINT, from now on and for the life of the process.
#[derive(Debug)]
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// Takes them over from their default of ending the process.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Self(read))
    }

    /// How many have come since the last call.
    pub(crate) fn count(&mut self) -> usize {
        self.0.read(&mut [0; 64]).unwrap_or(0)
    }
}

impl AsFd for Signals {
    /// Readable when one has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

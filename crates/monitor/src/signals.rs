//! Makes the signals that ask the monitor to stop readable from a socket, so that the loop can poll for them.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
};

/// Signals that have no meaning here, and whose default action would end the monitor.
const IGNORED: [i32; 6] = [SIGALRM, SIGIO, SIGPROF, SIGUSR1, SIGUSR2, SIGVTALRM];

/// Receives SIGTERM, SIGINT, SIGQUIT and SIGHUP for the life of the process.
#[derive(Debug)]
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// Replaces the signals' default action, which ends the process.
    ///
    /// SIGHUP, which reports a closed terminal, stops Rosemary too, unless it was started with nohup(1). SIGUSR1 and other
    /// signals without a meaning have no effect.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hup = (!ignores(&status, SIGHUP)).then_some(SIGHUP);
        for signal in [SIGTERM, SIGINT, SIGQUIT].into_iter().chain(hup) {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        for signal in IGNORED {
            // Caught rather than ignored: children inherit that a signal is ignored.
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(Self(read))
    }

    /// The number of signals since the last call.
    pub(crate) fn count(&mut self) -> usize {
        self.0.read(&mut [0; 64]).unwrap_or(0)
    }
}

impl AsFd for Signals {
    /// Readable when a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns whether a process with this `/proc/PID/status` ignores `signal`, by the mask `SigIgn` of proc(5).
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signal_is_found_in_the_mask() {
        assert!(ignores("Name:\tx\nSigIgn:\t0000000000001001\n", SIGHUP));
        assert!(!ignores("SigIgn:\t0000000000001000\n", SIGHUP));
        assert!(!ignores("", SIGHUP));
    }
}

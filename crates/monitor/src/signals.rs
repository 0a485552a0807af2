//! Makes the signals that ask the monitor to stop readable from a socket, so that the loop can poll for them.

use std::io::{self, IsTerminal as _, Read as _};
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
pub(crate) struct Signals {
    stop: UnixStream,
    /// SIGHUP, if it requests a reload.
    hangup: Option<UnixStream>,
}

impl Signals {
    /// Replaces the signals' default action, which ends the process.
    ///
    /// If standard input is a terminal, SIGHUP reports that it was closed and stops Rosemary, unless it was started with
    /// nohup(1). Otherwise SIGHUP requests a reload. SIGUSR1 and other signals without a meaning have no effect.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let has_terminal = io::stdin().is_terminal();
        let stops = (has_terminal && !ignores(&status, SIGHUP)).then_some(SIGHUP);
        for signal in [SIGTERM, SIGINT, SIGQUIT].into_iter().chain(stops) {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        let hangup = if has_terminal || ignores(&status, SIGHUP) {
            None
        } else {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(SIGHUP, write)?;
            Some(read)
        };
        for signal in IGNORED {
            // Caught rather than ignored: children inherit that a signal is ignored.
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(Self { stop: read, hangup })
    }

    /// Returns whether a signal arrived since the last call.
    pub(crate) fn take(&mut self) -> bool {
        self.stop.read(&mut [0; 64]).is_ok_and(|signals| signals > 0)
    }

    /// Readable when SIGHUP requests a reload.
    pub(crate) fn hangups(&self) -> Option<BorrowedFd<'_>> {
        self.hangup.as_ref().map(AsFd::as_fd)
    }

    /// Forgets the requests to reload that have arrived.
    pub(crate) fn forget_hangups(&mut self) {
        if let Some(hangup) = &mut self.hangup {
            let _ = hangup.read(&mut [0; 64]); // it is readable, or the next turn reads again
        }
    }
}

impl AsFd for Signals {
    /// Readable when a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
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

//! Writing to the terminal.
//!
//! `println!` panics when the reader has gone (`rosemary status | head -1`). Here that is nothing:
//! whoever closes the pipe has read what they wanted. Whatever else keeps data from being written (a
//! full disk, a closed descriptor) is an error: a script must not take half an answer for one.

use std::fmt::Display;
use std::io::{self, Write as _, stderr, stdout};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Writes data to standard output. Invisible characters are escaped (`\u200b`), as the data may come from switches,
/// apps and files.
///
/// # Errors
/// As [`written`].
pub fn data(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let text = text.to_string();
    let text = sys::text::shown_lines(&text);
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What writing to standard output came to.
///
/// # Errors
/// It was not written, and not because the reader closed the pipe.
pub fn written(outcome: io::Result<()>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Whether whoever reads standard output has gone, so that nothing more need be found out for them.
pub fn is_unread() -> bool {
    let out = stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

/// Writes a line that is not data to standard error.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr(), "rosemary: {}", sys::text::shown_lines(&text.to_string()));
}

/// Writes an error with its causes to standard error, each cause in a line of its own.
pub fn error(error: &anyhow::Error) {
    note(error);
    for cause in error.chain().skip(1) {
        let _ = writeln!(stderr(), "  because: {}", sys::text::shown_lines(&cause.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_that_went_away_is_nothing_and_a_full_disk_is_an_error() {
        written(Ok(())).unwrap();
        written(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        let error = written(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(error.to_string(), "cannot write to standard output");
    }
}

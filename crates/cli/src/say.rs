//! Writes to standard output and standard error.
//!
//! `println!` panics when the reader has closed the pipe (`rosemary status | head -1`). Here a
//! closed pipe is no error, because the reader has read what it needs. Any other failure (a full
//! disk, a closed descriptor) is an error, so that a script does not take partial output for the
//! whole.

use std::fmt::Display;
use std::io::{self, Write as _, stderr, stdout};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::table::Formatted;

/// Writes data to standard output. Invisible characters are escaped (`\u200b`), because the data
/// may come from switches, apps and files.
///
/// # Errors
/// Like [`written`].
pub fn data(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let text = text.to_string();
    let text = sys::text::shown_lines(&text);
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a table to standard output, and the columns that were left out to standard error.
///
/// # Errors
/// Like [`written`].
pub(crate) fn table(table: &Formatted) -> anyhow::Result<()> {
    data(&table.text)?;
    table.note().iter().for_each(note);
    Ok(())
}

/// Converts the result of writing to standard output.
///
/// # Errors
/// Writing failed for another reason than a closed pipe.
pub fn written(outcome: io::Result<()>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Whether the reader of standard output has closed it, so that further work is useless.
pub fn is_unread() -> bool {
    let out = stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

/// Writes an informational line to standard error.
pub fn note(text: impl Display) {
    // In one piece, so that the output of another process cannot come between.
    let line = format!("rosemary: {}\n", sys::text::shown_lines(&text.to_string()));
    let _ = stderr().write_all(line.as_bytes());
}

/// Writes an error to standard error, with each cause on its own line.
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
    fn closed_pipe_is_ok_and_full_disk_is_an_error() {
        written(Ok(())).unwrap();
        written(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        let error = written(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(error.to_string(), "cannot write to standard output");
    }
}

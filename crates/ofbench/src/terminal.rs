//! Writes to the terminal: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _, stderr, stdout};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// Writes data unchanged. A closed pipe is no error, a full disk is.
///
/// # Errors
/// The data was not written.
pub fn print(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr(), "ofbench: {text}");
}

/// Interval between two lines of progress where standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows the progress of a run on standard error: on a terminal as a line that is overwritten repeatedly, otherwise
/// as a new line every ten seconds.
#[derive(Debug)]
pub struct StatusLine {
    is_terminal: bool,
    /// Whether the terminal shows a line.
    shown: bool,
    /// When the last line was written without a terminal, or this value was created.
    written: Instant,
}

impl StatusLine {
    /// Creates a status line on standard error.
    pub fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), shown: false, written: Instant::now() }
    }

    /// Shows a new state of the run.
    pub fn show(&mut self, text: impl Display) {
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K{text}");
            self.shown = true;
        } else if self.is_line_due(Instant::now()) {
            note(text);
        }
    }

    /// Whether a line has to be written without a terminal; restarts the interval if so.
    fn is_line_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.written) >= LINE_INTERVAL;
        if is_due {
            self.written = now;
        }
        is_due
    }

    /// Erases the line on a terminal.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Default for StatusLine {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_due_every_ten_seconds() {
        let begin = Instant::now();
        let mut line = StatusLine { is_terminal: false, shown: false, written: begin };
        let due: Vec<u64> =
            (0..=25).filter(|s| line.is_line_due(begin + Duration::from_secs(*s))).collect();
        assert_eq!(due, [10, 20]);
    }
}

//! Writes to the terminal: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _, stderr, stdout};

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

/// A status line on a terminal that is overwritten repeatedly. Without a terminal, nothing is
/// written.
#[derive(Debug)]
pub struct StatusLine {
    on: bool,
    written: bool,
}

impl StatusLine {
    /// Creates a status line on standard error.
    pub fn new() -> Self {
        Self { on: stderr().is_terminal(), written: false }
    }

    /// Overwrites the line.
    pub fn show(&mut self, text: impl Display) {
        if self.on {
            let _ = write!(stderr(), "\r\x1b[K{text}");
            self.written = true;
        }
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.written) {
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

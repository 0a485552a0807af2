//! Writing to the terminal: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _, stderr, stdout};

use anyhow::Context as _;

/// Writes data as it is. A reader that has gone away is nothing; a full disk is an error.
///
/// # Errors
/// It was not written.
pub fn data(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes a line that is not data.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr(), "ofbench: {text}");
}

/// A line of a terminal that is written over again and again. Where there is no terminal there is
/// no line.
#[derive(Debug)]
pub struct Line {
    on: bool,
    written: bool,
}

impl Line {
    /// A line on standard error, if that is a terminal.
    pub fn new() -> Self {
        Self { on: stderr().is_terminal(), written: false }
    }

    /// Writes over it.
    pub fn show(&mut self, text: impl Display) {
        if self.on {
            let _ = write!(stderr(), "\r\x1b[K{text}");
            self.written = true;
        }
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.written) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

//! Writes lines to standard output, buffered unless each must appear immediately.

use std::fmt::Write as _;
use std::io::{self, BufWriter, StdoutLock, Write as _, stdout};

use sys::text::shown_lines;

/// Buffered standard output.
pub(super) struct Output {
    to: BufWriter<StdoutLock<'static>>,
    /// The current line.
    text: String,
    /// Whether to flush each line.
    at_once: bool,
}

impl Output {
    /// Creates the output; `at_once` flushes each line, for interactive input.
    pub(super) fn new(at_once: bool) -> Self {
        let to = BufWriter::with_capacity(64 << 10, stdout().lock());
        Self { to, text: String::new(), at_once }
    }

    /// Writes a line. Invisible characters are escaped, because the line may contain text from a
    /// switch.
    ///
    /// # Errors
    /// Writing failed.
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.text.clear();
        let _ = self.text.write_fmt(line); // a String takes everything
        self.to.write_all(shown_lines(&self.text).as_bytes())?;
        self.to.write_all(b"\n")?;
        if self.at_once { self.to.flush() } else { Ok(()) }
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Writing failed.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.to.flush()
    }
}

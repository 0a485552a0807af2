//! Standard output, for many lines: buffered where nobody waits for each of them.

use std::io::{self, BufWriter, StdoutLock, Write as _, stdout};

/// Lines on their way to standard output.
pub(super) struct Output {
    to: BufWriter<StdoutLock<'static>>,
    /// Whether each line must be seen at once.
    at_once: bool,
}

impl Output {
    /// `at_once` if the input is somebody still talking.
    pub(super) fn new(at_once: bool) -> Self {
        Self { to: BufWriter::with_capacity(64 << 10, stdout().lock()), at_once }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// What writing said.
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.to.write_fmt(line)?;
        self.to.write_all(b"\n")?;
        if self.at_once { self.to.flush() } else { Ok(()) }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// What writing said.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.to.flush()
    }
}

//! Standard output, for many lines: buffered where nobody waits for each of them.

use std::fmt::Write as _;
use std::io::{self, BufWriter, StdoutLock, Write as _, stdout};

use sys::text::shown_lines;

/// Lines on their way to standard output.
pub(super) struct Output {
    to: BufWriter<StdoutLock<'static>>,
    /// The line that is being written.
    text: String,
    /// Whether each line must be seen at once.
    at_once: bool,
}

impl Output {
    /// `at_once` if the input is somebody still talking.
    pub(super) fn new(at_once: bool) -> Self {
        let to = BufWriter::with_capacity(64 << 10, stdout().lock());
        Self { to, text: String::new(), at_once }
    }

    /// Writes a line. Invisible characters are escaped, as the line may have text of a switch.
    ///
    /// # Errors
    /// What writing said.
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.text.clear();
        let _ = self.text.write_fmt(line); // a String takes everything
        self.to.write_all(shown_lines(&self.text).as_bytes())?;
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

//! A writer that escapes what a reader of the log would not see, whatever a field's type is.

use std::io::{self, Write};

use crate::text;

/// Writes lines to `to` with [hidden](text::is_hidden) characters escaped.
#[derive(Debug)]
pub(super) struct Visible<W> {
    to: W,
    /// Whether escape characters are the log's own colours: tracing escapes those of the fields then.
    coloured: bool,
}

impl<W> Visible<W> {
    pub(super) fn new(to: W, coloured: bool) -> Self {
        Self { to, coloured }
    }
}

impl<W: Write> Write for Visible<W> {
    /// Takes a whole line; tracing writes one at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
        if line.iter().all(is_plain) {
            self.to.write_all(line)?;
            return Ok(line.len());
        }
        let text = String::from_utf8_lossy(line);
        let text = match text.strip_suffix('\n') {
            Some(line) => self.visible(line) + "\n",
            None => self.visible(&text),
        };
        self.to.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W> Visible<W> {
    fn visible(&self, line: &str) -> String {
        if !self.coloured {
            return text::shown(line).into_owned();
        }
        let parts: Vec<_> = line.split('\u{1b}').map(text::shown).collect();
        parts.join("\u{1b}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str, coloured: bool) -> String {
        let mut to = Vec::new();
        Visible::new(&mut to, coloured).write_all(line.as_bytes()).unwrap();
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn hidden_characters_of_a_line_are_escaped_and_its_end_is_kept() {
        let line = "INFO why=a\u{200b}b\u{feff}\u{e0041}\nnext\n";
        let expected = "INFO why=a\\u{200b}b\\u{feff}\\u{e0041}\\nnext\n";
        assert_eq!(written(line, false), expected);
        assert_eq!(written("INFO plain\tline\n", false), "INFO plain\tline\n");
    }

    #[test]
    fn colours_are_kept_where_the_log_has_them() {
        let line = "\u{1b}[32mINFO\u{1b}[0m \u{202e}x\n";
        assert_eq!(written(line, true), "\u{1b}[32mINFO\u{1b}[0m \\u{202e}x\n");
        assert_eq!(written(line, false), "\\u{1b}[32mINFO\\u{1b}[0m \\u{202e}x\n");
    }
}

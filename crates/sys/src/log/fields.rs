//! Formats the fields of a log line and escapes the hidden characters in each of them.
//!
//! tracing-subscriber escapes only the message and errors. This module escapes each field before the formatter adds its
//! colours, so that no field can contain colours or move the cursor.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use crate::text;

/// Writes `message field=value ...` with [hidden](text::is_hidden) characters of messages and values escaped.
#[derive(Debug, Clone, Copy)]
pub(super) struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct FieldVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl FieldVisitor<'_> {
    fn write(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        if name != "message" {
            if self.writer.has_ansi_escapes() {
                write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
            } else {
                write!(self.writer, "{name}=")?;
            }
        }
        write!(Escaping(&mut self.writer), "{value:?}")
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}")); // without quotes
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = field.name();
        // Records of the crate `log` repeat their level and target in fields with such names.
        if self.result.is_ok() && !name.starts_with("log.") {
            self.result = self.write(name.strip_prefix("r#").unwrap_or(name), value);
        }
    }
}

/// A writer that escapes hidden characters.
struct Escaping<'a, W>(&'a mut W);

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&text::shown(text))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(coloured: bool, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let to = lines.clone();
        let subscriber = fmt()
            .with_writer(move || to.clone())
            .with_ansi(coloured)
            .fmt_fields(EscapedFields)
            .without_time()
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    const HOSTILE: &str = "\x1b[31mred\x1b]0;title\x07\r\n\u{202e}\u{200b}\u{feff}\u{e0041}";
    const HARMLESS: &str =
        "\\u{1b}[31mred\\u{1b}]0;title\\u{7}\\r\\n\\u{202e}\\u{200b}\\u{feff}\\u{e0041}";

    fn log_hostile_fields() {
        let error: &dyn std::error::Error = &io::Error::other(HOSTILE);
        tracing::info!(shown = %HOSTILE, quoted = HOSTILE, error, r#type = 1, "{HOSTILE}");
    }

    #[test]
    fn hidden_characters_of_all_fields_are_escaped() {
        let quoted = format!("{HOSTILE:?}");
        assert!(quoted.is_ascii());
        let expected =
            format!(" INFO {HARMLESS} shown={HARMLESS} quoted={quoted} error={HARMLESS} type=1\n");
        assert_eq!(logged(false, log_hostile_fields), expected);
    }

    #[test]
    fn fields_of_a_coloured_log_add_no_escape_characters() {
        let coloured = |name: &str| format!("\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m");
        let log = logged(true, log_hostile_fields);
        let begin = format!("\x1b[32m INFO\x1b[0m {HARMLESS} {}{HARMLESS} ", coloured("shown"));
        assert!(log.starts_with(&begin), "{log:?}");
        assert!(log.ends_with(&format!("{}1\n", coloured("type"))), "{log:?}");
        assert_eq!(log.matches('\x1b').count(), 2 + 4 * 4, "{log:?}");
    }

    #[test]
    fn harmless_fields_are_written_as_they_are() {
        let log = logged(false, || tracing::info!(name = %"Zürich\t1", count = 2, "a b"));
        assert_eq!(log, " INFO a b name=Zürich\t1 count=2\n");
    }
}

//! Names places in the configuration file, for messages.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl Position {
    /// Returns the place of the byte `at` of `text`, the content of `file`.
    pub(super) fn of(file: &Path, text: &str, at: usize) -> Self {
        let (line, column) = line_and_column(text, at);
        Self { file: file.to_owned(), line, column }
    }
}

/// Returns the line and the character in it of the byte `at`, both counted from 1.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let end = (0..=at.min(text.len())).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let lines = before.bytes().filter(|byte| *byte == b'\n').count();
    (1 + lines, 1 + before[line_start..].chars().count())
}

/// Returns the line of the byte `at`, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    line_and_column(text, at).0
}

/// Returns the byte offset of the value of `key` in the table `section`, if `text` has it.
pub(super) fn of_key(text: &str, section: &str, key: &str) -> Option<usize> {
    let top = DeTable::parse(text).ok()?;
    let value = top.get_ref().get(section)?.get_ref().as_table()?.get(key)?;
    Some(value.span().start)
}

/// Returns the byte offset of the value of `key` in the `[[app]]` with this name, of the name if the app does not have the
/// key. `None` if `text` has no such app.
pub(super) fn of_app(text: &str, name: &str, key: &str) -> Option<usize> {
    let top = DeTable::parse(text).ok()?;
    let apps = top.get_ref().get("app")?.get_ref().as_array()?;
    apps.iter().find_map(|app| {
        let table = app.get_ref().as_table()?;
        let its_name = table.get("name").filter(|it| it.get_ref().as_str() == Some(name))?;
        Some(table.get(key).unwrap_or(its_name).span().start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = "a = 1\n\u{e9} = \"x\"\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 4), (1, 5));
        assert_eq!(line_and_column(text, text.find('"').unwrap()), (2, 5));
        assert_eq!(line_and_column(text, 1000), (3, 1));
    }

    #[test]
    fn value_of_an_app_is_found() {
        let text = "[[app]]\nname = \"a\"\n[[app]]\nname = \"b\"\nobject = \"o.so\"\ncapabilities = [\"x\", \"y\"]\n";
        let place = |name, key| of_app(text, name, key).map(|at| line_and_column(text, at));
        assert_eq!(place("b", "object"), Some((5, 10)));
        assert_eq!(place("b", "config"), Some((4, 8)));
        assert_eq!(place("c", "object"), None);
        assert_eq!(place("b", "capabilities"), Some((6, 16)));
    }
}

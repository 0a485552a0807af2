//! Formats text in columns.

use std::fmt::Write as _;

/// A table whose columns are as wide as their content.
#[derive(Debug)]
pub(crate) struct Table<const N: usize>(Vec<[String; N]>);

impl<const N: usize> Table<N> {
    /// Creates a table with column headings.
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self(vec![head.map(Into::into)])
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [&str; N]) {
        self.0.push(cells.map(Into::into));
    }

    /// Returns the text; lines have no trailing spaces.
    pub(crate) fn text(&self) -> String {
        let width = |i: usize| self.0.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: [usize; N] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &self.0 {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                let _ = write!(line, "{cell:width$}  "); // a String takes everything
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

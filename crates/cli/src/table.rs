//! Formats text in columns. Where the output is too narrow, whole columns are left out, or a column of prose is shortened.

use std::fmt::Write as _;
use std::io::stdout;

use rustix::termios::{isatty, tcgetwinsize};

/// Width of the output where it is not a terminal, in characters.
const DEFAULT_WIDTH: usize = 80;

/// Space between two columns.
const GAP: usize = 2;

/// A column of prose is not made narrower than this, in characters.
const SHORTEST: usize = 16;

/// Most characters of the list of columns in a note and of the words behind it: `rosemary: switches: left out: ` is before them
/// in a line of [`DEFAULT_WIDTH`].
const LONGEST_NOTE: usize = DEFAULT_WIDTH - 30;

/// A table whose columns are as wide as their content.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
    expendable: &'static [&'static str],
    hidden: Option<&'static str>,
    prose: Option<&'static str>,
}

/// A formatted table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Formatted {
    /// The text; lines have no trailing spaces.
    pub(crate) text: String,
    /// The headings of the columns that were left out, from left to right.
    pub(crate) left_out: Vec<String>,
    /// The heading of the column whose cells were shortened, if one was.
    pub(crate) shortened: Option<&'static str>,
}

impl Formatted {
    /// Returns the sentence about the columns that were left out or shortened, if there are any. It fits into a line of 80
    /// characters behind the words that its caller puts before it.
    pub(crate) fn note(&self) -> Option<String> {
        let ending = match self.shortened {
            None => "; --wide shows all columns".to_owned(),
            Some(prose) => format!("; shortened: {prose}; --wide shows all"),
        };
        let columns = few(&self.left_out, LONGEST_NOTE.saturating_sub(ending.chars().count()));
        match (columns.is_empty(), self.shortened) {
            (true, None) => None,
            (false, None) => Some(format!("left out: {columns}; --wide shows all columns")),
            (true, Some(prose)) => Some(format!("shortened: {prose}; --wide shows all of it")),
            (false, Some(prose)) => {
                Some(format!("left out: {columns}; shortened: {prose}; --wide shows all"))
            }
        }
    }
}

impl<const N: usize> Table<N> {
    /// Creates a table with column headings.
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(Into::into)], expendable: &[], hidden: None, prose: None }
    }

    /// Allows leaving out the columns with these headings, the least important first. Headings with | between them are left
    /// out together.
    pub(crate) fn expendable(self, expendable: &'static [&'static str]) -> Self {
        let mut headings = expendable.iter().flat_map(|it| it.split('|'));
        debug_assert!(headings.all(|it| self.rows[0].iter().any(|head| head == it)));
        Self { expendable, ..self }
    }

    /// Allows shortening the column with this heading, whose cells are phrases, once no column can be left out any more.
    pub(crate) fn prose(self, heading: &'static str) -> Self {
        debug_assert!(self.rows[0].iter().any(|it| it == heading));
        Self { prose: Some(heading), ..self }
    }

    /// Leaves out the column with this heading, which another text states.
    pub(crate) fn without(mut self, heading: &'static str) -> Self {
        self.hidden = Some(heading);
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(Into::into));
    }

    /// Formats the table with all columns.
    pub(crate) fn text(&self) -> String {
        self.format(None).text
    }

    /// Formats the table with as many columns as fit into `width` characters, or with all for `None`.
    pub(crate) fn format(&self, width: Option<usize>) -> Formatted {
        let of = |i: usize| self.rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let mut widths: [usize; N] = std::array::from_fn(of);
        let visible: [bool; N] =
            std::array::from_fn(|i| self.hidden != Some(self.rows[0][i].as_str()));
        let mut shown = visible;
        let mut expendable = self.expendable.iter();
        let needed = |widths: &[usize; N], shown: &[bool; N]| -> usize {
            let columns = widths.iter().zip(shown).filter(|(_, shown)| **shown);
            columns.map(|(width, _)| width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while let Some(width) = width
            && needed(&widths, &shown) > width
            && let Some(headings) = expendable.next()
        {
            for (cell, shown) in self.rows[0].iter().zip(&mut shown) {
                *shown &= headings.split('|').all(|heading| cell != heading);
            }
        }
        let mut shortened = None;
        if let Some(width) = width
            && let Some(prose) = self.prose
            && let Some(at) = self.rows[0].iter().position(|it| it == prose)
            && let excess @ 1.. = needed(&widths, &shown).saturating_sub(width)
            && widths[at] > SHORTEST
        {
            widths[at] = widths[at].saturating_sub(excess).max(SHORTEST);
            shortened = Some(prose);
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), _) in row.iter().zip(widths).zip(shown).filter(|(_, shown)| *shown)
            {
                let cell = fitting(cell, width);
                let _ = write!(line, "{cell:width$}  "); // a String takes everything
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let left_out = self.rows[0].iter().zip(shown).zip(visible);
        let left_out = left_out.filter(|((_, shown), visible)| *visible && !shown);
        let left_out = left_out.map(|((heading, _), _)| heading.clone()).collect();
        Formatted { text, left_out, shortened }
    }
}

/// Lists headings, as many as fit into `longest` characters, and the number of the others.
fn few(headings: &[String], longest: usize) -> String {
    let text = headings.join(", ");
    if text.chars().count() <= longest {
        return text;
    }
    let others = |shown: &[String]| {
        format!("{} and {} more", shown.join(", "), headings.len() - shown.len())
    };
    let shown = (0..headings.len()).rev().map(|count| others(&headings[..count]));
    shown.into_iter().find(|it| it.chars().count() <= longest).unwrap_or_else(|| others(&[]))
}

/// Returns `cell`, with an ellipsis in place of the characters that exceed `width`.
fn fitting(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns the width of the output: that of the terminal, 80 elsewhere, and `None` with `--wide`.
pub(crate) fn output_width(wide: bool) -> Option<usize> {
    if wide {
        return None;
    }
    let terminal = isatty(stdout()).then(|| tcgetwinsize(stdout()).ok()).flatten();
    // A terminal of unknown size reports 0.
    let columns = terminal.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    Some(columns.or_else(asked).unwrap_or(DEFAULT_WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_important_columns_are_left_out() {
        let mut table = Table::new(["NAME", "PID", "USER", "EXIT"]).expendable(&["USER", "PID"]);
        table.row(["firewall", "1234", "65534", "-"]);
        let all = "NAME      PID   USER   EXIT\nfirewall  1234  65534  -\n";
        for width in [None, Some(27)] {
            let formatted = table.format(width);
            assert_eq!((formatted.text.as_str(), formatted.note()), (all, None));
        }
        let narrow = table.format(Some(26));
        assert_eq!(narrow.text, "NAME      PID   EXIT\nfirewall  1234  -\n");
        assert_eq!(narrow.note().unwrap(), "left out: USER; --wide shows all columns");
        let narrowest = table.format(Some(5));
        assert_eq!(narrowest.text, "NAME      EXIT\nfirewall  -\n", "no name is cut");
        assert_eq!(narrowest.left_out, ["PID", "USER"]);
    }

    #[test]
    fn long_list_of_columns_fits_a_line() {
        let headings = ["SWITCH", "NAME", "OPENFLOW", "ADDRESS", "TRANSPORT", "PORTS", "FLOWS"];
        let left_out: Vec<String> = headings[1..].iter().map(ToString::to_string).collect();
        let formatted = Formatted { text: String::new(), left_out, shortened: None };
        let note = formatted.note().unwrap();
        assert_eq!(note, "left out: NAME and 5 more; --wide shows all columns");
    }

    #[test]
    fn prose_is_shortened_last() {
        let mut table = Table::new(["ID", "USER", "WHY"]).expendable(&["USER"]).prose("WHY");
        table.row(["1", "root", "its own file has a mistake in line 7"]);
        let narrow = table.format(Some(30));
        assert_eq!(narrow.text, "ID  WHY\n1   its own file has a mistak…\n");
        assert_eq!(narrow.note().unwrap(), "left out: USER; shortened: WHY; --wide shows all");
        let narrowest = table.format(Some(3));
        assert_eq!(narrowest.text, "ID  WHY\n1   its own file ha…\n", "a phrase stays readable");
        assert_eq!(table.format(None).note(), None);
    }
}

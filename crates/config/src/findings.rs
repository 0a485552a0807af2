//! Collects what reading a text finds: mistakes, for which the text is refused, and notices.
//!
//! Reading goes on after a mistake, so that the operator sees all mistakes at once. A value with a mistake reads as a missing
//! key. So a check that compares several keys runs only if their values are valid; otherwise one mistake would look like two.

use std::cell::RefCell;

/// Maximum number of mistakes that are collected: a text of another kind has one in each line.
const MOST_MISTAKES: usize = 100;

/// A mistake or a notice, and its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// Byte offset.
    pub(super) at: usize,
    /// The value found and the value expected, as a phrase.
    pub(super) what: String,
}

impl Finding {
    /// Returns the mistake that a text is not TOML.
    pub(super) fn syntax(error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Self { at, what: format!("this is not TOML: {}", error.message().replace('\n', "; ")) }
    }

    /// Returns the mistakes in a text that is not TOML: the first of each line, as the others are often its consequences.
    pub(super) fn all_syntax(text: &str, errors: &[toml::de::Error]) -> Vec<Self> {
        let mut mistakes: Vec<Self> = errors.iter().map(Self::syntax).collect();
        mistakes.sort_by_key(|mistake| mistake.at);
        // Each byte is looked at once: a file of another kind has a mistake in every byte.
        let (mut before, mut is_new_line) = (0, true);
        mistakes.retain(|mistake| {
            let at = mistake.at.min(text.len());
            is_new_line |= text.as_bytes()[before..at].contains(&b'\n');
            before = at;
            std::mem::take(&mut is_new_line)
        });
        mistakes.truncate(MOST_MISTAKES);
        mistakes
    }
}

/// The mistakes and notices so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    mistakes: RefCell<Vec<Finding>>,
    notices: RefCell<Vec<Finding>>,
}

impl Findings {
    /// Adds a mistake.
    pub(super) fn refuse(&self, at: usize, what: impl Into<String>) {
        let mut mistakes = self.mistakes.borrow_mut();
        match mistakes.len() {
            0..MOST_MISTAKES => mistakes.push(Finding { at, what: what.into() }),
            MOST_MISTAKES => {
                let what =
                    format!("there are more than {MOST_MISTAKES} mistakes; correct these first");
                mistakes.push(Finding { at: usize::MAX, what });
            }
            _ => {}
        }
    }

    /// Adds a notice.
    pub(super) fn advise(&self, at: usize, what: impl Into<String>) {
        self.notices.borrow_mut().push(Finding { at, what: what.into() });
    }

    /// Returns the number of mistakes so far.
    pub(super) fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }

    /// Returns the notices in the order of the text.
    ///
    /// # Errors
    /// The mistakes in the order of the text, if there are any.
    pub(super) fn into_notices(self) -> Result<Vec<Finding>, Vec<Finding>> {
        let sorted = |findings: RefCell<Vec<Finding>>| {
            let mut findings = findings.into_inner();
            findings.sort_by_key(|finding| finding.at);
            findings
        };
        let mistakes = sorted(self.mistakes);
        if mistakes.is_empty() { Ok(sorted(self.notices)) } else { Err(mistakes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_come_in_order_and_are_bounded() {
        let findings = Findings::default();
        findings.advise(0, "notice");
        (0..2 * MOST_MISTAKES).rev().for_each(|at| findings.refuse(at, "mistake"));
        let mistakes = findings.into_notices().unwrap_err();
        assert_eq!(mistakes.len(), MOST_MISTAKES + 1);
        assert!(mistakes.is_sorted_by_key(|it| it.at));
        assert!(mistakes[MOST_MISTAKES].what.starts_with("there are more than 100 mistakes"));
    }

    #[test]
    fn first_mistake_of_each_line_is_kept() {
        let text = "==\n==\n\na = 1\n= =\n";
        let (_, errors) = toml::de::DeTable::parse_recoverable(text);
        assert!(errors.len() > 3);
        let mistakes = Finding::all_syntax(text, &errors);
        assert_eq!(mistakes.iter().map(|it| it.at).collect::<Vec<_>>(), [0, 3, 13]);
    }

    #[test]
    fn million_mistakes_are_judged_in_a_moment() {
        for text in ["=\n".repeat(500_000), "= ".repeat(500_000)] {
            let begin = std::time::Instant::now();
            let (_, errors) = toml::de::DeTable::parse_recoverable(&text);
            let parsed = begin.elapsed();
            assert!(Finding::all_syntax(&text, &errors).len() <= MOST_MISTAKES);
            assert!(begin.elapsed().saturating_sub(parsed) < std::time::Duration::from_secs(20));
        }
    }

    #[test]
    fn notices_alone_are_no_error() {
        let findings = Findings::default();
        findings.advise(2, "second");
        findings.advise(1, "first");
        let notices = findings.into_notices().unwrap();
        assert_eq!(notices.iter().map(|it| it.at).collect::<Vec<_>>(), [1, 2]);
    }
}

//! Makes text of apps and peers fit for the log and for terminals.

use std::path::Path;

/// Cuts the text of an app or a peer to `most` characters for the log.
///
/// The log quotes and escapes a field of the type `str`, so the text can add neither lines nor colours.
pub fn shortened(text: &str, most: usize) -> String {
    let mut start: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        start.push_str("...");
    }
    start
}

/// Returns `text` with control characters and invisible characters escaped, so that a terminal only shows them.
pub fn shown(text: &str) -> String {
    sys::text::shown(text).into_owned()
}

/// As [`shortened`], with control characters escaped, for readers other than the log such as a terminal.
pub fn harmless(text: &str, most: usize) -> String {
    shown(&shortened(text, most))
}

/// Adds an app's own file to the reason for which the app cannot be loaded.
pub fn with_own_file(why: String, file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("{why} (its own file is {})", file.display()),
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_for_the_log() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened(&"x".repeat(300), 4), "xxxx...");
        assert_eq!(harmless("a\n\u{1b}[31mb\u{9b}c", 8), r"a\n\u{1b}[31mb...");
    }
}

//! Words the engine's errors for messages to the monitor. They have names that the module chose, of any length.

/// The most characters of a reason.
const LONGEST: usize = 400;

/// The most characters of a name.
#[cfg(feature = "runtime")]
const LONGEST_NAME: usize = 64;

/// The beginning of an error with its causes, in one line.
pub(crate) fn of(error: &wasmtime::Error) -> String {
    shortened(&format!("{error:#}").replace('\n', " "), LONGEST)
}

/// The beginning of a name of the module.
#[cfg(feature = "runtime")]
pub(crate) fn name(name: &str) -> String {
    shortened(name, LONGEST_NAME)
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö...");
        assert_eq!(shortened("äöü", 3), "äöü");
        let error = wasmtime::Error::msg("x\n".repeat(10_000));
        assert_eq!(of(&error).len(), LONGEST + 3);
    }
}

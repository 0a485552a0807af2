//! Writing to the terminal.
//!
//! `println!` panics when the reader has gone (`rosemary status | head -1`). Here that is nothing:
//! whoever closes the pipe has read what they wanted.

use std::fmt::Display;
use std::io::{Write as _, stderr, stdout};

/// Writes data to standard output, as it is.
pub fn data(text: impl Display) {
    let mut out = stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a line that is not data to standard error.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr(), "rosemary: {text}");
}

/// Writes an error with its causes to standard error, each cause in a line of its own.
pub fn error(error: &anyhow::Error) {
    note(error);
    for cause in error.chain().skip(1) {
        let _ = writeln!(stderr(), "  because: {cause}");
    }
}

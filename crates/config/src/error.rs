//! The errors of a configuration that cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::findings::Finding;
use super::position::Position;

/// The configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}; correct it, or name another one with --config")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The text changes what only the file itself can change.
    #[error("{what}")]
    Reserved {
        /// The file.
        path: PathBuf,
        /// The keys, and a remedy.
        what: String,
    },
    /// The file contains a mistake.
    #[error("{place}: {what}")]
    Mistake {
        /// Where it is.
        place: Position,
        /// The value found and the values allowed.
        what: String,
    },
}

impl ConfigError {
    /// Returns the error for a mistake in `text`, the content of `file`.
    pub(super) fn mistake(file: &Path, text: &str, Finding { at, what }: Finding) -> Self {
        Self::Mistake { place: Position::of(file, text, at), what }
    }
}

//! Reads the file with an app's own configuration at each start of the app.
//!
//! Its content is a byte string for Rosemary; only the app parses it.

use std::path::{Path, PathBuf};

use sdk::abi::MAX_CONFIG;

use crate::installation::read_file;

/// The path of the file, if the app has one, and the content that was read last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: Option<PathBuf>,
    content: Vec<u8>,
}

impl ConfigFile {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, content: Vec::new() }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Why it cannot be read, as a phrase.
    pub(crate) fn read(&mut self) -> Result<(), String> {
        if let Some(path) = &self.path {
            let read = read_file(path, MAX_CONFIG as u64);
            self.content =
                read.map_err(|error| format!("could not read {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// The content that was read last; empty without a file.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_too_long_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        let mut file = ConfigFile::new(Some(path.clone()));
        assert!(file.read().unwrap_err().contains("rules"));
        for text in ["one", "two"] {
            std::fs::write(&path, text).unwrap();
            file.read().unwrap();
            assert_eq!(file.content(), text.as_bytes());
        }
        std::fs::write(&path, vec![b' '; MAX_CONFIG + 1]).unwrap();
        assert!(file.read().unwrap_err().contains("longer than 65536 bytes"));
        let mut none = ConfigFile::new(None);
        none.read().unwrap();
        assert_eq!(none.content(), b"");
    }
}

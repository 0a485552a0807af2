//! An app's configuration, as the operator wrote it: bytes that only the app understands, read anew at
//! each of its starts.

use std::path::{Path, PathBuf};

use sdk::abi::MAX_CONFIG;

use crate::installation::read_file;

/// The file, if the app has one, and what was read of it last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: Option<PathBuf>,
    taken: Vec<u8>,
}

impl ConfigFile {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, taken: Vec::new() }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads it as it is now.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn take(&mut self) -> Result<(), String> {
        if let Some(path) = &self.path {
            let read = read_file(path, MAX_CONFIG as u64);
            self.taken =
                read.map_err(|error| format!("could not read {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// The last content; empty if there is no file.
    pub(crate) fn taken(&self) -> &[u8] {
        &self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_read_at_each_start_and_may_not_be_too_long_or_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        let mut file = ConfigFile::new(Some(path.clone()));
        assert!(file.take().unwrap_err().contains("rules"));
        for text in ["one", "two"] {
            std::fs::write(&path, text).unwrap();
            file.take().unwrap();
            assert_eq!(file.taken(), text.as_bytes());
        }
        std::fs::write(&path, vec![b' '; MAX_CONFIG + 1]).unwrap();
        assert!(file.take().unwrap_err().contains("longer than 65536 bytes"));
        let mut none = ConfigFile::new(None);
        none.take().unwrap();
        assert_eq!(none.taken(), b"");
    }
}

//! What identifies the files of an app.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The modules that an app in Python imports, by their files, with a hash of the content of each.
pub type ModuleHashes = BTreeMap<PathBuf, u64>;

/// Identifies the contents of an app's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// The digest of its object.
    pub sha256: String,
    /// The app's own configuration.
    pub config: Vec<u8>,
    /// The modules that it imports.
    pub modules: ModuleHashes,
}

impl Fingerprint {
    /// What differs in `new`, as phrases.
    pub fn differ(&self, new: &Self) -> impl Iterator<Item = &'static str> {
        let object = (self.sha256 != new.sha256).then_some("its object");
        let config = (self.config != new.config).then_some("its configuration");
        let modules = (self.modules != new.modules).then_some("a module that it imports");
        object.into_iter().chain(config).chain(modules)
    }
}

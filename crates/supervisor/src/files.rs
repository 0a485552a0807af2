//! The files of an app: what identifies them, and where they come from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::effects::Fd;

/// The modules that an app imports, by their files, with a hash of the content of each.
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

/// The files of an app, as they were read.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The bytes that its host runs, in sealed memory: its object, or what was made of the object.
    pub code: Fd,
    /// The digest of these bytes.
    pub code_sha256: String,
    /// What identifies the files; it has the app's own configuration.
    pub files: Fingerprint,
}

/// Where the files of an app come from.
pub trait FileSource: fmt::Debug {
    /// Reads the files of the app `app` as they are now.
    ///
    /// # Errors
    /// Why one of them cannot be read, as a phrase.
    fn read(&mut self, app: &str) -> Result<Contents, String>;

    /// Why the app cannot run before its object is another one, if so.
    fn refusal(&self) -> Option<&str>;

    /// Where the object comes from, for messages.
    fn object_path(&self) -> &Path;

    /// Whether the object is a file whose change is one of the app.
    fn is_object_watched(&self) -> bool;

    /// Where the configuration comes from, if there is one.
    fn config_path(&self) -> Option<&Path>;
}

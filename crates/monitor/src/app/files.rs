//! Reads an app's object and configuration, as the process that hosts the app receives them.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use crate::choice::Origin;
use crate::config_file::ConfigFile;
use crate::object::Object;

/// The object and the configuration of one app.
#[derive(Debug)]
pub(super) struct AppFiles {
    object: Object,
    config: ConfigFile,
    pub(super) origin: Origin,
    /// The digest of the object that was read last.
    pub(super) sha256: Option<String>,
    /// The version that the running object states, once a host has loaded it.
    pub(super) version: Option<String>,
}

/// Identifies the contents of an app's files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    sha256: String,
    config: Vec<u8>,
}

impl AppFiles {
    pub(super) fn new(object: Object, config: ConfigFile, origin: Origin) -> Self {
        Self { object, config, origin, sha256: None, version: None }
    }

    /// Reads both files as they are now. `app` is the app's name.
    ///
    /// # Errors
    /// Why one of them cannot be read, as a phrase.
    pub(super) fn read(&mut self, app: &str) -> Result<(), String> {
        self.config.read()?;
        self.forget_loaded();
        let sha256 = self.object.read(app).map(ToOwned::to_owned);
        let why = |error| format!("could not read {}: {error}", self.object.path().display());
        self.sha256 = Some(sha256.map_err(why)?);
        Ok(())
    }

    /// Forgets which object a host has loaded.
    pub(super) fn forget_loaded(&mut self) {
        (self.version, self.sha256) = (None, None);
    }

    /// The object that was read last, in sealed memory.
    pub(super) fn object(&self) -> Option<BorrowedFd<'_>> {
        self.object.sealed()
    }

    /// The configuration that was read last.
    pub(super) fn config(&self) -> &[u8] {
        self.config.content()
    }

    /// Copies the configuration that was read last into sealed memory.
    ///
    /// # Errors
    /// Why it cannot be copied, as a phrase.
    pub(super) fn sealed_config(&self) -> Result<OwnedFd, String> {
        let sealed: io::Result<OwnedFd> = sys::shm::sealed_copy("configuration", self.config());
        sealed.map_err(|error| format!("could not copy its configuration: {error}"))
    }

    /// Identifies the contents that were read last.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let sha256 = self.sha256.clone().unwrap_or_default();
        Fingerprint { sha256, config: self.config().to_owned() }
    }

    /// Where the object comes from, for messages.
    pub(super) fn object_path(&self) -> &Path {
        self.object.path()
    }

    /// Where the configuration comes from, for messages.
    pub(super) fn config_path(&self) -> Option<&Path> {
        self.config.path()
    }
}

//! Keeps the files of an app, as the process that hosts the app receives them.

use std::path::{Path, PathBuf};

use crate::effects::Fd;
use crate::files::{Contents, FileSource, Fingerprint};

/// The object and the configuration of one app.
#[derive(Debug)]
pub(super) struct AppFiles {
    source: Box<dyn FileSource>,
    /// The files as they were read last.
    last: Option<Contents>,
    /// The files with which the app last ran.
    good: Option<Contents>,
    /// Whether these are used instead of the last ones.
    uses_good: bool,
    /// The digest of the object that was read last.
    pub(super) sha256: Option<String>,
    /// The version that the running object states, once a host has loaded it.
    pub(super) version: Option<String>,
}

impl AppFiles {
    pub(super) fn new(source: Box<dyn FileSource>) -> Self {
        let (last, good, uses_good) = (None, None, false);
        Self { source, last, good, uses_good, sha256: None, version: None }
    }

    /// Notes that the app runs with the files that were read last.
    pub(super) fn note_good(&mut self) {
        if !self.uses_good {
            self.good.clone_from(&self.last);
        }
    }

    /// Notes that the app cannot run with the files that were read last.
    pub(super) fn note_bad(&mut self) {
        let files = self.fingerprint();
        self.good.take_if(|good| good.files == files);
    }

    /// Whether the app ran with other files than those with which it cannot run.
    pub(super) fn has_good(&self) -> bool {
        self.good.is_some()
    }

    /// Uses the files with which the app last ran, if it did. Returns whether they are used.
    pub(super) fn use_good(&mut self) -> bool {
        self.uses_good = self.good.is_some();
        if let Some(good) = &self.good {
            self.sha256 = Some(good.files.sha256.clone());
        }
        self.uses_good
    }

    /// Reads the files as they are now. `app` is the app's name.
    ///
    /// # Errors
    /// Why one of them cannot be read, as a phrase.
    pub(super) fn read(&mut self, app: &str) -> Result<(), String> {
        self.uses_good = false;
        if let Some(why) = self.refusal() {
            return Err(why.to_owned());
        }
        let contents = self.source.read(app)?;
        self.forget_loaded();
        self.sha256 = Some(contents.files.sha256.clone());
        self.last = Some(contents);
        Ok(())
    }

    /// Forgets which object a host has loaded.
    pub(super) fn forget_loaded(&mut self) {
        (self.version, self.sha256) = (None, None);
    }

    fn in_use(&self) -> Option<&Contents> {
        let good = self.good.as_ref().filter(|_| self.uses_good);
        good.or(self.last.as_ref())
    }

    /// The object to run, in sealed memory.
    pub(super) fn object(&self) -> Option<Fd> {
        self.in_use().map(|contents| contents.code.clone())
    }

    /// The digest of [`object`](Self::object).
    pub(super) fn object_sha256(&self) -> String {
        self.in_use().map(|contents| contents.code_sha256.clone()).unwrap_or_default()
    }

    /// The configuration to run with.
    pub(super) fn config(&self) -> &[u8] {
        self.in_use().map_or(&[], |contents| &contents.files.config)
    }

    /// Identifies the files to run with.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let files = self.in_use().map(|contents| contents.files.clone()).unwrap_or_default();
        Fingerprint { sha256: self.sha256.clone().unwrap_or_default(), ..files }
    }

    /// The files whose change is one of the app.
    pub(super) fn own_files(&self) -> impl Iterator<Item = &Path> {
        let object = self.source.is_object_watched().then(|| self.source.object_path());
        let modules = self.last.iter().flat_map(|contents| contents.files.modules.keys());
        let modules = modules.map(PathBuf::as_path);
        object.into_iter().chain(self.source.config_path()).chain(modules)
    }

    /// Why the app cannot run before its object is another one, if so.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.source.refusal()
    }

    /// Where the object comes from, for messages.
    pub(super) fn object_path(&self) -> &Path {
        self.source.object_path()
    }

    /// Where the configuration comes from, for messages.
    pub(super) fn config_path(&self) -> Option<&Path> {
        self.source.config_path()
    }
}

//! Reads an app's object and configuration, as the process that hosts the app receives them.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::config_file::ConfigFile;
use crate::modules::Modules;
use crate::object::Object;
use supervisor::effects::Fd;
use supervisor::files::{Fingerprint, ModuleHashes};

/// The object and the configuration of one app.
#[derive(Debug)]
pub(crate) struct AppFiles {
    object: Object,
    config: ConfigFile,
    /// The modules that it imports, if it is in Python.
    modules: Option<Modules>,
    /// The modules as they were read last.
    contents: ModuleHashes,
    /// The contents with which the app last ran.
    good: Option<Good>,
    /// Whether these are used instead of the files.
    uses_good: bool,
    /// The digest of the object that was read last.
    pub(super) sha256: Option<String>,
    /// The version that the running object states, once a host has loaded it.
    pub(super) version: Option<String>,
}

/// Contents of the files with which the app ran.
#[derive(Debug)]
struct Good {
    object: Fd,
    files: Fingerprint,
}

impl AppFiles {
    pub(super) fn new(object: Object, config: ConfigFile, modules: Option<Modules>) -> Self {
        let (good, uses_good, contents) = (None, false, ModuleHashes::new());
        let (sha256, version) = (None, None);
        Self { object, config, modules, contents, good, uses_good, sha256, version }
    }

    /// Reads the files of an app as they are now, without keeping them.
    ///
    /// # Errors
    /// Why one of them cannot be read, as a phrase.
    pub(crate) fn fingerprint_of(
        object: &mut Object,
        mut config: ConfigFile,
        modules: Option<&Modules>,
        app: &str,
    ) -> Result<Fingerprint, String> {
        config.read()?;
        let modules = modules.map(Modules::read).unwrap_or_default();
        let path = object.path().display().to_string();
        let sha256 = object.read(app).map(ToOwned::to_owned);
        let sha256 = sha256.map_err(|error| format!("could not read {path}: {error}"))?;
        Ok(Fingerprint { sha256, config: config.content().to_owned(), modules })
    }

    /// Notes that the app runs with the contents that were read last.
    pub(super) fn note_good(&mut self) {
        if self.uses_good {
            return;
        }
        let object = self.object.sealed();
        self.good = object.map(|object| Good { object, files: self.fingerprint() });
    }

    /// Notes that the app cannot run with the contents that were read last.
    pub(super) fn note_bad(&mut self) {
        let files = self.fingerprint();
        self.good.take_if(|good| good.files == files);
    }

    /// Whether the app ran with other contents than those with which it cannot run.
    pub(super) fn has_good(&self) -> bool {
        self.good.is_some()
    }

    /// Uses the contents with which the app last ran, if it did and they differ. Returns whether they are used.
    pub(super) fn use_good(&mut self) -> bool {
        self.uses_good = self.good.is_some();
        if let Some(good) = &self.good {
            self.sha256 = Some(good.files.sha256.clone());
        }
        self.uses_good
    }

    /// Reads both files as they are now. `app` is the app's name.
    ///
    /// # Errors
    /// Why one of them cannot be read, as a phrase.
    pub(super) fn read(&mut self, app: &str) -> Result<(), String> {
        self.uses_good = false;
        if let Some(why) = self.refusal() {
            return Err(why.to_owned());
        }
        self.config.read()?;
        self.forget_loaded();
        self.contents = self.modules.as_ref().map(Modules::read).unwrap_or_default();
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
    pub(super) fn object(&self) -> Option<Fd> {
        match self.good.as_ref().filter(|_| self.uses_good) {
            Some(good) => Some(good.object.clone()),
            None => self.object.sealed(),
        }
    }

    /// The configuration that was read last.
    pub(super) fn config(&self) -> &[u8] {
        match self.good.as_ref().filter(|_| self.uses_good) {
            Some(good) => &good.files.config,
            None => self.config.content(),
        }
    }

    /// Copies the configuration that was read last into sealed memory.
    ///
    /// # Errors
    /// Why it cannot be copied, as a phrase.
    pub(super) fn sealed_config(&self) -> Result<Fd, String> {
        let sealed: io::Result<OwnedFd> = sys::shm::sealed_copy("configuration", self.config());
        sealed.map(Fd::new).map_err(|error| format!("could not copy its configuration: {error}"))
    }

    /// Identifies the contents that were read last.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let sha256 = self.sha256.clone().unwrap_or_default();
        Fingerprint { sha256, config: self.config().to_owned(), modules: self.contents.clone() }
    }

    /// The files whose change is one of the app.
    pub(super) fn own_files(&self) -> impl Iterator<Item = &Path> {
        let object = matches!(self.object, Object::File(_)).then(|| self.object.path());
        let modules = self.contents.keys().map(PathBuf::as_path);
        object.into_iter().chain(self.config.path()).chain(modules)
    }

    /// Why the app cannot run before its object is another one, if so.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.object.refusal()
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

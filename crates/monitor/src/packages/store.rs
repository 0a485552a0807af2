//! Reads package files, and manages the directory of installed packages.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use package::{EXTENSION, MAX_PACKAGE, MAX_SIGNATURE, SIGNATURE_EXTENSION, Signature};
use tracing::warn;

use super::{PackageFiles, Refused, Version, lock};
use crate::installation::read_file;
use config::is_name;

/// The name of the directory, in the state directory.
const DIR: &str = "apps";

/// The name of the note of guards, in that directory: their names, in JSON.
const GUARDS: &str = "guards.json";

/// The most bytes of the note.
const MAX_GUARDS: u64 = 1024 * 1024;

/// The directory of installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
}

/// What follows the name of the package's file of a version.
fn suffix(version: Version) -> &'static str {
    match version {
        Version::Installed => "",
        Version::Staged => ".next",
        Version::Previous => ".previous",
        Version::Older => ".older",
    }
}

/// The apps that were guards which fail closed.
#[derive(Debug)]
pub(crate) enum Guards {
    These(Vec<String>),
    /// The note cannot be read: each app may have been one.
    Unknown,
}

impl Guards {
    /// Whether the app of this name may have been such a guard.
    pub(crate) fn contains(&self, app: &str) -> bool {
        match self {
            Self::These(names) => names.iter().any(|name| name == app),
            Self::Unknown => true,
        }
    }
}

/// Reads the package at `path`, and the signature beside it.
///
/// # Errors
/// [`Refused::Unreadable`] or [`Refused::Unsigned`].
pub fn read_package(path: &Path) -> Result<PackageFiles, Refused> {
    let signature_path = signature_of(path);
    let read = |path: &Path, most| {
        let bytes = read_file(path, most as u64);
        let bytes = bytes.and_then(|bytes| sys::shm::sealed_copy("package", &bytes));
        bytes.map_err(|why| Refused::Unreadable { path: path.to_owned(), why })
    };
    let package = read(path, MAX_PACKAGE)?;
    match read(&signature_path, MAX_SIGNATURE) {
        Err(Refused::Unreadable { why, .. }) if why.kind() == io::ErrorKind::NotFound => {
            Err(Refused::Unsigned { signature: signature_path })
        }
        signature => Ok(PackageFiles { package, signature: signature? }),
    }
}

impl Store {
    /// The store in this state directory.
    pub fn of(state_dir: &Path) -> Self {
        Self { dir: state_dir.join(DIR) }
    }

    /// The path of the package of the app `name`, whether or not it is installed.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{EXTENSION}"))
    }

    /// The path of a version of the package.
    fn path_of(&self, name: &str, version: Version) -> PathBuf {
        let mut path = self.path(name).into_os_string();
        path.push(suffix(version));
        path.into()
    }

    /// Returns whether the app `name` is installed.
    pub fn has(&self, name: &str) -> bool {
        self.has_version(name, Version::Installed)
    }

    /// Returns whether there is this version of the app `name`.
    pub fn has_version(&self, name: &str, version: Version) -> bool {
        // If this is unknown, the answer is yes: reading the package then reports why.
        !matches!(self.path_of(name, version).symlink_metadata(),
            Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Reads the package of the app `name`.
    ///
    /// # Errors
    /// As [`read_package`].
    pub fn read(&self, name: &str) -> Result<PackageFiles, Refused> {
        self.read_version(name, Version::Installed)
    }

    /// Reads a version of the package of the app `name`.
    ///
    /// # Errors
    /// As [`read_package`].
    pub fn read_version(&self, name: &str, version: Version) -> Result<PackageFiles, Refused> {
        let _held = lock::to_read(&self.dir)
            .map_err(|why| Refused::Unreadable { path: self.dir.clone(), why })?;
        read_package(&self.path_of(name, version))
    }

    /// The names of the installed apps, in alphabetical order.
    ///
    /// # Errors
    /// The directory exists and cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = PathBuf::from(entry?.file_name());
            let name = file.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
            if file.extension().is_some_and(|it| it == EXTENSION) {
                names.extend(name.map(ToOwned::to_owned));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Installs the package of the app `name`, which replaces an installed one. `files` must be admitted.
    ///
    /// # Errors
    /// The package cannot be written. The previous one is unchanged.
    pub fn install(&self, name: &str, files: &PackageFiles) -> io::Result<()> {
        self.put(name, Version::Installed, files)
    }

    /// Puts a package beside the installed one of the app `name`, for [`use_staged`](Self::use_staged). `files` must be
    /// admitted.
    ///
    /// # Errors
    /// The package cannot be written.
    pub fn stage(&self, name: &str, files: &PackageFiles) -> io::Result<()> {
        self.put(name, Version::Staged, files)
    }

    /// Makes the staged package the installed one, and keeps the installed one as the previous one. The previous one becomes the
    /// older one.
    ///
    /// # Errors
    /// A file cannot be renamed. After a power failure between two files the package is refused.
    pub fn use_staged(&self, name: &str) -> io::Result<()> {
        let (dir, _held) = lock::to_write(&self.dir)?;
        self.unlink(name, Version::Older)?;
        if self.has(name) {
            if self.has_version(name, Version::Previous) {
                self.rename(name, Version::Previous, Version::Older)?;
            }
            self.rename(name, Version::Installed, Version::Previous)?;
        }
        self.rename(name, Version::Staged, Version::Installed)?;
        dir.sync_all()
    }

    /// Makes the previous package the installed one and the other way round.
    ///
    /// # Errors
    /// As [`use_staged`](Self::use_staged).
    pub fn use_previous(&self, name: &str) -> io::Result<()> {
        let (dir, _held) = lock::to_write(&self.dir)?;
        self.rename(name, Version::Installed, Version::Staged)?;
        self.rename(name, Version::Previous, Version::Installed)?;
        self.rename(name, Version::Staged, Version::Previous)?;
        dir.sync_all()
    }

    /// Takes the last upgrade back, because the installed package failed: removes it, and makes the previous package the installed
    /// one and the older one the previous one. The failed package can only be installed again.
    ///
    /// # Errors
    /// As [`use_staged`](Self::use_staged).
    pub fn take_back(&self, name: &str) -> io::Result<()> {
        let (dir, _held) = lock::to_write(&self.dir)?;
        self.rename(name, Version::Previous, Version::Installed)?;
        if self.has_version(name, Version::Older) {
            self.rename(name, Version::Older, Version::Previous)?;
        }
        dir.sync_all()
    }

    /// Removes a staged package, if there is one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn drop_staged(&self, name: &str) -> io::Result<()> {
        let _held = lock::to_write(&self.dir)?;
        self.unlink(name, Version::Staged)
    }

    /// The apps of packages that were guards which fail closed, when their packages were admitted last.
    pub(crate) fn guards(&self) -> Guards {
        let text = match read_file(&self.dir.join(GUARDS), MAX_GUARDS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => text.and_then(|text| Ok(serde_json::from_slice(&text)?)),
        };
        match text {
            Ok(names) => Guards::These(names),
            Err(error) => {
                let path = self.dir.join(GUARDS);
                warn!(path = %path.display(), %error, "could not read which packages contain guards, so a refused package counts as one");
                Guards::Unknown
            }
        }
    }

    /// Replaces the note of the apps that are such guards. Of the apps in `unusable` nothing is known now, so they stay in the note
    /// if they are in it.
    ///
    /// # Errors
    /// The note cannot be written; the former one is unchanged.
    pub(crate) fn note_guards(
        &self,
        mut guards: BTreeSet<String>,
        unusable: &BTreeSet<&str>,
    ) -> io::Result<()> {
        let before = self.guards();
        guards.extend(unusable.iter().filter(|app| before.contains(app)).map(|app| (*app).into()));
        if matches!(&before, Guards::These(before) if guards.iter().eq(before)) {
            return Ok(());
        }
        let _held = lock::to_write(&self.dir)?;
        let path = self.dir.join(GUARDS);
        write(&beside(&path), &serde_json::to_vec(&guards)?)?;
        std::fs::rename(beside(&path), path)
    }

    fn rename(&self, name: &str, from: Version, to: Version) -> io::Result<()> {
        let (from, to) = (self.path_of(name, from), self.path_of(name, to));
        std::fs::rename(&from, &to)?;
        std::fs::rename(signature_of(&from), signature_of(&to))
    }

    fn unlink(&self, name: &str, version: Version) -> io::Result<()> {
        let path = self.path_of(name, version);
        for path in [signature_of(&path), path] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&self, name: &str, version: Version, files: &PackageFiles) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o755).create(&self.dir)?;
        let (dir, _held) = lock::to_write(&self.dir)?;
        let path = self.path_of(name, version);
        let signature = String::from_utf8(bytes_of(&files.signature)?).map_err(io::Error::other)?;
        let signature: Signature = signature.parse().map_err(io::Error::other)?;
        let contents = [
            (path.clone(), bytes_of(&files.package)?),
            (signature_of(&path), signature.installed().into_bytes()),
        ];
        for (path, bytes) in &contents {
            write(&beside(path), bytes)?;
        }
        // After a power failure between the two, the package does not match its signature and is refused.
        for (path, _) in &contents {
            std::fs::rename(beside(path), path)?;
        }
        dir.sync_all()
    }

    /// Removes the package of the app `name`. Returns whether it was installed.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        if !self.has(name) {
            return Ok(false);
        }
        let (dir, _held) = lock::to_write(&self.dir)?;
        let path = self.path(name);
        std::fs::remove_file(&path)?;
        match std::fs::remove_file(signature_of(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.unlink(name, Version::Staged)?;
        self.unlink(name, Version::Previous)?;
        self.unlink(name, Version::Older)?;
        dir.sync_all()?;
        Ok(true)
    }
}

/// Returns the path of the signature of the package at `path`.
pub fn signature_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{SIGNATURE_EXTENSION}"));
    name.into()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Reads sealed memory.
fn bytes_of(memory: &OwnedFd) -> io::Result<Vec<u8>> {
    sys::shm::read_sealed(memory.try_clone()?, MAX_PACKAGE)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // an interrupted command may have left it
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    fn files(package: &[u8], signature: &str) -> PackageFiles {
        let sealed = |bytes: &[u8]| sys::shm::sealed_copy("package", bytes).unwrap();
        PackageFiles { package: sealed(package), signature: sealed(signature.as_bytes()) }
    }

    fn signature() -> String {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        minisign::sign(None, &pair.sk, &b"package"[..], None, None).unwrap().into_string()
    }

    #[test]
    fn package_is_installed_replaced_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::of(&parent.path().join("new"));
        assert!(!store.has("hub") && store.names().unwrap().is_empty());
        let signature = signature();
        store.install("hub", &files(b"one", &signature)).unwrap();
        store.install("hub", &files(b"two", &signature)).unwrap();
        store.install("a", &files(b"a", &signature)).unwrap();
        assert_eq!(store.names().unwrap(), ["a", "hub"]);
        let read = store.read("hub").unwrap();
        assert_eq!(bytes_of(&read.package).unwrap(), b"two");
        let text = String::from_utf8(bytes_of(&read.signature).unwrap()).unwrap();
        assert!(text.parse::<Signature>().unwrap().is_installed());
        assert!(store.remove("hub").unwrap());
        assert!(!store.remove("hub").unwrap());
        assert_eq!(std::fs::read_dir(&store.dir).unwrap().count(), 2, "of a");
    }

    #[test]
    fn lock_of_another_user_delays_nobody() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::of(parent.path());
        std::fs::create_dir(&store.dir).unwrap();
        // The most that another user can open.
        let theirs = File::open(&store.dir).unwrap();
        flock(&theirs, FlockOperation::LockExclusive).unwrap();
        store.install("hub", &files(b"one", &signature())).unwrap();
        store.read("hub").unwrap();
        let lock = std::fs::metadata(parent.path().join("apps.lock")).unwrap();
        assert_eq!(lock.mode() & 0o777, 0o600);
    }

    #[test]
    fn lock_belongs_to_the_owner_of_the_packages() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::of(parent.path());
        std::fs::create_dir(&store.dir).unwrap();
        if sys::process::is_root() {
            std::os::unix::fs::chown(&store.dir, Some(54_321), None).unwrap();
        }
        let path = parent.path().join("apps.lock");
        assert!(
            lock::to_read(&store.dir).unwrap().is_none() && !path.exists(),
            "a reader makes none"
        );
        drop(lock::to_write(&store.dir).unwrap());
        let owner = std::fs::metadata(&store.dir).unwrap().uid();
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), owner);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/nowhere", &path).unwrap();
        let error = lock::to_write(&store.dir).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot lock {}", path.display())), "{error}");
    }

    #[test]
    fn staged_package_is_used_and_taken_back() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::of(parent.path());
        let signature = signature();
        let installed = || bytes_of(&store.read("hub").unwrap().package).unwrap();
        store.install("hub", &files(b"one", &signature)).unwrap();
        store.stage("hub", &files(b"two", &signature)).unwrap();
        assert_eq!((installed(), store.names().unwrap()), (b"one".to_vec(), vec!["hub".into()]));
        store.use_staged("hub").unwrap();
        assert_eq!(installed(), b"two");
        assert!(!store.has_version("hub", Version::Staged));
        store.use_previous("hub").unwrap();
        assert_eq!(installed(), b"one");
        store.use_previous("hub").unwrap();
        assert_eq!(installed(), b"two");
        store.stage("hub", &files(b"three", &signature)).unwrap();
        store.drop_staged("hub").unwrap();
        store.drop_staged("hub").unwrap();
        assert!(store.remove("hub").unwrap());
        assert_eq!(std::fs::read_dir(&store.dir).unwrap().count(), 0);
    }

    #[test]
    fn package_that_was_taken_back_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::of(parent.path());
        let signature = signature();
        let read =
            |version| bytes_of(&store.read_version("hub", version).unwrap().package).unwrap();
        let upgrade = |package: &[u8]| {
            store.stage("hub", &files(package, &signature)).unwrap();
            store.use_staged("hub").unwrap();
        };
        store.install("hub", &files(b"one", &signature)).unwrap();
        upgrade(b"failed");
        store.take_back("hub").unwrap();
        assert_eq!(read(Version::Installed), b"one");
        assert!(!store.has_version("hub", Version::Previous), "no rollback leads to it");
        upgrade(b"two");
        upgrade(b"failed");
        store.take_back("hub").unwrap();
        assert_eq!(
            (read(Version::Installed), read(Version::Previous)),
            (b"two".into(), b"one".into())
        );
        upgrade(b"three");
        assert_eq!((read(Version::Previous), read(Version::Older)), (b"two".into(), b"one".into()));
        assert!(store.remove("hub").unwrap());
        assert_eq!(std::fs::read_dir(&store.dir).unwrap().count(), 0);
    }

    #[test]
    fn note_of_guards_outlives_a_package_that_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::of(parent.path());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        store.note_guards(BTreeSet::new(), &BTreeSet::new()).unwrap();
        assert!(!store.dir.exists() && !store.guards().contains("wall"));
        store.install("wall", &files(b"one", &signature())).unwrap();
        store.note_guards(names(&["wall", "gate"]), &BTreeSet::new()).unwrap();
        store.note_guards(names(&[]), &BTreeSet::from(["wall", "hub"])).unwrap();
        let guards = store.guards();
        assert_eq!(["wall", "gate", "hub"].map(|it| guards.contains(it)), [true, false, false]);
        assert_eq!(store.names().unwrap(), ["wall"], "the note is no package");
        std::fs::write(store.dir.join(GUARDS), "{").unwrap();
        assert!(store.guards().contains("hub"), "whoever cannot know is strict");
    }

    #[test]
    fn package_without_signature_is_unsigned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub.rosemary");
        let error = read_package(&path).unwrap_err();
        assert!(
            matches!(error, Refused::Unreadable { .. }) && error.to_string().contains("No such")
        );
        assert!(std::error::Error::source(&error).is_none(), "the reason would appear twice");
        std::fs::write(&path, "package").unwrap();
        let error = read_package(&path).unwrap_err().to_string();
        assert!(error.contains("hub.rosemary.minisig") && error.contains("app sign"), "{error}");
    }

    #[test]
    fn pipes_devices_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for path in [pipe, "/dev/zero".into(), dir.path().to_owned()] {
            assert!(matches!(read_package(&path), Err(Refused::Unreadable { .. })), "{path:?}");
        }
    }
}

//! An app's object, in sealed memory and with its digest, as a process receives it.
//!
//! The file is read again only if it has changed, so an app that dies again and again costs the monitor no reading and no
//! hashing.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sys::digest::sealed_with_sha256;

use crate::installation::read_object;
use crate::provenance;
use supervisor::effects::Fd;

/// A file that changed so recently may change again without a change of its times.
const SETTLED: Duration = Duration::from_secs(2);

/// Where an app's object comes from.
#[derive(Debug)]
pub(crate) enum Object {
    /// A file, which is read again when it has changed.
    File(ObjectFile),
    /// The name of a module in Python, which is on the import path.
    Module {
        /// The name, for messages.
        name: PathBuf,
        /// The name, sealed.
        object: Fd,
        /// The digest of the name.
        sha256: String,
    },
    /// A package, which was admitted when Rosemary started.
    Packaged {
        /// The package, for messages.
        path: PathBuf,
        /// The object, sealed.
        object: Fd,
        /// The digest of the object.
        sha256: String,
    },
    /// An object that cannot be used: its app is held.
    Unusable {
        /// Where it should be, for messages.
        path: PathBuf,
        /// The reason, as a phrase.
        why: String,
    },
}

impl Object {
    /// The module in Python with this name.
    ///
    /// # Errors
    /// The system is out of memory.
    pub(crate) fn module(name: &str) -> io::Result<Self> {
        let (object, sha256) = sealed_with_sha256("module", name.as_bytes())?;
        Ok(Self::Module { name: name.into(), object: object.into(), sha256 })
    }

    /// Whether it is a package with an archive of modules in Python.
    ///
    /// # Errors
    /// The object cannot be read.
    pub(crate) fn is_archive(&self) -> io::Result<bool> {
        let Self::Packaged { object, .. } = self else { return Ok(false) };
        let mut beginning = [0; 4];
        // Not `read`: other processes share the offset.
        let size = rustix::io::pread(object, &mut beginning, 0)?;
        Ok(package::is_archive(&beginning[..size]))
    }

    /// Why it cannot be used, if that is certain before it is read.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Unusable { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Where the object comes from, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(file) => &file.path,
            Self::Module { name: path, .. }
            | Self::Packaged { path, .. }
            | Self::Unusable { path, .. } => path,
        }
    }

    /// Reads the object of the app `app` as it is now, and returns its digest.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&mut self, app: &str) -> io::Result<&str> {
        match self {
            Self::File(file) => file.read(app),
            Self::Module { sha256, .. } | Self::Packaged { sha256, .. } => Ok(sha256),
            Self::Unusable { why, .. } => Err(io::Error::other(why.clone())),
        }
    }

    /// The object that was read last, in sealed memory.
    pub(crate) fn sealed(&self) -> Option<Fd> {
        match self {
            Self::File(file) => file.sealed(),
            Self::Module { object, .. } | Self::Packaged { object, .. } => Some(object.clone()),
            Self::Unusable { .. } => None,
        }
    }
}

/// The file of an object, and the copy that was read last.
#[derive(Debug)]
pub(crate) struct ObjectFile {
    path: PathBuf,
    copy: Option<SealedObject>,
}

#[derive(Debug)]
struct SealedObject {
    /// Identifies the file's contents; `None` if a change soon after would give the same stamp.
    stamp: Option<Stamp>,
    object: Fd,
    sha256: String,
}

/// Metadata of a file that a change alters.
type Stamp = [i64; 7];

impl ObjectFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, copy: None }
    }

    /// Reads the file, unless it is unchanged, and returns the object's digest.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&mut self, app: &str) -> io::Result<&str> {
        let found = stamp(&std::fs::metadata(&self.path)?, SystemTime::now());
        let known = self.copy.take().filter(|copy| found.is_some() && copy.stamp == found);
        let copy = if let Some(known) = known {
            known
        } else {
            let sealed = read_object(&self.path).and_then(|it| sealed_with_sha256(app, &it));
            let found = sealed.as_ref().map(|(_, sha256)| sha256.as_str());
            let (object, sha256) = match provenance::instead(&self.path, found)? {
                Some(released) => sealed_with_sha256(app, &released)?,
                None => sealed?,
            };
            SealedObject { stamp: found, sha256, object: object.into() }
        };
        Ok(&self.copy.insert(copy).sha256)
    }

    /// The object that was read last, in sealed memory.
    pub(crate) fn sealed(&self) -> Option<Fd> {
        self.copy.as_ref().map(|copy| copy.object.clone())
    }
}

/// The stamp of a file, or `None` if the file changed too recently.
fn stamp(file: &Metadata, now: SystemTime) -> Option<Stamp> {
    let changed = Duration::from_secs(u64::try_from(file.ctime()).ok()?);
    let since = now.duration_since(SystemTime::UNIX_EPOCH + changed).ok()?;
    let number = |number: u64| number.cast_signed();
    let [dev, ino, size] = [file.dev(), file.ino(), file.size()].map(number);
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    let [a, b, c, d] = times;
    (since > SETTLED).then_some([dev, ino, size, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("object.so");
        std::fs::write(&path, "one").unwrap();
        let mut file = ObjectFile::new(path.clone());
        assert!(file.sealed().is_none());
        let one = file.read("object").unwrap().to_owned();
        // The same size, and so soon that the times may not change.
        std::fs::write(&path, "two").unwrap();
        assert_ne!(file.read("object").unwrap(), one);
        std::fs::remove_file(&path).unwrap();
        assert!(file.read("object").is_err());
    }

    #[test]
    fn settled_file_has_a_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("object.so");
        std::fs::write(&path, "one").unwrap();
        let file = std::fs::metadata(&path).unwrap();
        let now = SystemTime::now();
        assert_eq!(stamp(&file, now), None);
        let later = now + Duration::from_secs(10);
        let settled = stamp(&file, later);
        assert!(settled.is_some());
        assert_eq!(stamp(&file, later), settled);
        std::fs::write(&path, "three").unwrap();
        assert_ne!(stamp(&std::fs::metadata(&path).unwrap(), later), settled);
    }
}

//! An app's object, as processes are given it: sealed, with its digest, read anew when its file has
//! changed and not before. An app that dies again and again costs the loop no reading and no hashing.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zone::sandbox::sha256;

use crate::places::read_object;

/// A file that was changed so short a time before it was read may have been changed again without its
/// times showing it.
const SETTLED: Duration = Duration::from_secs(2);

/// Where an app's object comes from.
#[derive(Debug)]
pub(crate) enum Object {
    /// A file, as it is at each start of the app.
    File(ObjectFile),
    /// A package, as it was let in when Rosemary started.
    Packaged {
        /// The package, for messages.
        path: PathBuf,
        /// The object, sealed.
        object: OwnedFd,
        /// Its digest.
        sha256: String,
    },
}

impl Object {
    /// Where it comes from, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(file) => &file.path,
            Self::Packaged { path, .. } => path,
        }
    }

    /// Takes the object as it is now; returns its digest.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn take(&mut self, name: &str) -> io::Result<&str> {
        match self {
            Self::File(file) => file.take(name),
            Self::Packaged { sha256, .. } => Ok(sha256),
        }
    }

    /// The object that was taken last.
    pub(crate) fn taken(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::File(file) => file.taken(),
            Self::Packaged { object, .. } => Some(object.as_fd()),
        }
    }
}

/// The file of an object, and what was read of it last.
#[derive(Debug)]
pub(crate) struct ObjectFile {
    path: PathBuf,
    read: Option<Read>,
}

#[derive(Debug)]
struct Read {
    /// What the file was then; `None` if that could be the same after a change.
    stamp: Option<[i64; 7]>,
    object: OwnedFd,
    sha256: String,
}

impl ObjectFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: None }
    }

    /// Takes the object as it is in its file now; returns its digest.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn take(&mut self, name: &str) -> io::Result<&str> {
        let found = stamp(&std::fs::metadata(&self.path)?, SystemTime::now());
        let known = self.read.take().filter(|read| found.is_some() && read.stamp == found);
        let read = if let Some(read) = known {
            read
        } else {
            let object = sys::shm::sealed_copy(name, &read_object(&self.path)?)?;
            let object = File::from(object);
            Read { stamp: found, sha256: sha256(&object)?, object: object.into() }
        };
        Ok(&self.read.insert(read).sha256)
    }

    /// The object that was taken last.
    pub(crate) fn taken(&self) -> Option<BorrowedFd<'_>> {
        self.read.as_ref().map(|read| read.object.as_fd())
    }
}

/// What cannot stay as it is when the file changes, if that was long enough ago.
fn stamp(file: &Metadata, now: SystemTime) -> Option<[i64; 7]> {
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
    fn object_is_read_again_when_its_file_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("object.so");
        std::fs::write(&path, "one").unwrap();
        let mut file = ObjectFile::new(path.clone());
        assert!(file.taken().is_none());
        let one = file.take("object").unwrap().to_owned();
        std::fs::write(&path, "two").unwrap(); // as long, and so soon that no time may show it
        assert_ne!(file.take("object").unwrap(), one);
        std::fs::remove_file(&path).unwrap();
        assert!(file.take("object").is_err());
    }

    #[test]
    fn file_that_has_rested_is_known_again_and_one_just_changed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("object.so");
        std::fs::write(&path, "one").unwrap();
        let file = std::fs::metadata(&path).unwrap();
        let now = SystemTime::now();
        assert_eq!(stamp(&file, now), None);
        let later = now + Duration::from_secs(10);
        let rested = stamp(&file, later);
        assert!(rested.is_some());
        assert_eq!(stamp(&file, later), rested);
        std::fs::write(&path, "three").unwrap();
        assert_ne!(stamp(&std::fs::metadata(&path).unwrap(), later), rested);
    }
}

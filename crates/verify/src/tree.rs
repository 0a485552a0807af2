//! Opens and replaces files below a directory, without ever following a symbolic link out of it.
//!
//! Each part of a path is opened by itself, and a symbolic link is refused. The monitor's list of system calls has no `openat2(2)`,
//! which would do that in one call.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fsync, mkdirat, openat, readlinkat,
    renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::manifest::Entry;

/// The bytes that are read at once.
const CHUNK: usize = 256 * 1024;

/// The permission bits that a file on disk may not have: others than its owner could write it.
const WRITABLE: u32 = 0o022;

/// How a file differs from the release.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is none.
    #[error("is missing")]
    Missing,
    /// The path is no regular file, or no symbolic link, or leads through one.
    #[error("is not the kind of file that was released")]
    Kind,
    /// The content differs.
    #[error("was changed: its SHA-256 is {0}")]
    Content(String),
    /// The size differs, so the content was not read.
    #[error("was changed: it has {0} bytes")]
    Size(u64),
    /// The permissions differ.
    #[error("was changed: its permissions are {0:o}")]
    Mode(u32),
    /// A user could change the file after it was checked.
    #[error("belongs to user {0}, who could change it; chown it to root")]
    Owner(u32),
    /// The directory may contain listed files only.
    #[error("is not part of the release")]
    Unlisted,
    /// The system refused to read it.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Missing,
            Errno::LOOP | Errno::XDEV | Errno::NOTDIR => Self::Kind,
            other => Self::System(other.into()),
        }
    }
}

/// The operations that replace a file, so that a test can cut the power between two of them. Paths are below one directory.
pub(crate) trait Disk {
    /// Makes the missing directories above a path, durably.
    fn make_parents(&mut self, path: &str) -> io::Result<()>;
    /// Makes a file with this content and these permissions, in place of one with the same path.
    fn write(&mut self, path: &str, content: &[u8], mode: u32) -> io::Result<()>;
    /// Makes a symbolic link, in place of a file with the same path.
    fn link(&mut self, path: &str, target: &[u8]) -> io::Result<()>;
    /// Makes the content of a file durable.
    fn sync(&mut self, path: &str) -> io::Result<()>;
    /// Reads a file of at most `most` bytes.
    fn read(&mut self, path: &str, most: u64) -> io::Result<Vec<u8>>;
    /// Renames a file, in place of one with the new path.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Makes the names in the directory of a path durable.
    fn sync_parent(&mut self, path: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &str) -> io::Result<()>;
}

/// A directory and what is below it.
#[derive(Debug)]
pub(crate) struct Tree(OwnedFd);

impl Tree {
    /// Opens the directory, whose own path may contain symbolic links.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens a path below it with these flags.
    fn at(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let open = |dir: BorrowedFd<'_>, name: &str, flags: OFlags| {
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if name == ".." { Err(Errno::XDEV) } else { openat(dir, name, flags, Mode::empty()) }
        };
        let (dirs, name) = path.rsplit_once('/').unwrap_or((".", path));
        let mut dir = open(self.0.as_fd(), ".", OFlags::PATH | OFlags::DIRECTORY)?;
        for part in dirs.split('/') {
            dir = open(dir.as_fd(), part, OFlags::PATH | OFlags::DIRECTORY)?;
        }
        open(dir.as_fd(), name, flags)
    }

    /// The directory of a path, and the path's last part.
    fn parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Errno> {
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        Ok((self.at(dir, OFlags::RDONLY | OFlags::DIRECTORY)?, name))
    }

    /// Opens a regular file. A pipe or a device does not make the caller wait.
    pub(crate) fn file(&self, path: &str) -> Result<File, Fault> {
        let file = File::from(self.at(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(Fault::Kind) }
    }

    /// Reads a regular file of at most `most` bytes.
    pub(crate) fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, Fault> {
        let file = self.file(path)?;
        let size = file.metadata()?.len();
        if size > most {
            return Err(Fault::Size(size));
        }
        let mut content = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Reads the target of a symbolic link.
    pub(crate) fn target(&self, path: &str) -> Result<Vec<u8>, Fault> {
        let (dir, name) = self.parent(path)?;
        match readlinkat(&dir, name, Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            Err(Errno::INVAL) => Err(Fault::Kind),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file of an entry and checks it on the open descriptor. A symbolic link yields `None`.
    pub(crate) fn checked(&self, entry: &Entry) -> Result<Option<File>, Fault> {
        let Some(mode) = entry.mode else {
            let target = self.target(&entry.path)?;
            let found = package::sha256(&target);
            return if found == entry.sha256 { Ok(None) } else { Err(Fault::Content(found)) };
        };
        let file = self.file(&entry.path)?;
        let metadata = file.metadata()?;
        own(metadata.uid())?;
        if metadata.mode() & 0o7777 != mode {
            return Err(Fault::Mode(metadata.mode() & 0o7777));
        }
        if metadata.len() != entry.size {
            return Err(Fault::Size(metadata.len()));
        }
        let found = sha256(&file)?;
        if found != entry.sha256 {
            return Err(Fault::Content(found));
        }
        Ok(Some(file))
    }

    /// Adds the paths of all files and links below a directory, at most `most` of them. A missing directory has none.
    pub(crate) fn list(
        &self,
        dir: &str,
        most: usize,
        found: &mut Vec<String>,
    ) -> Result<(), Errno> {
        let opened = match self.at(dir, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if matches!(&*name, "." | "..") {
                continue;
            }
            let path = format!("{dir}/{name}");
            if found.len() >= most {
                return Ok(());
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            if kind == FileType::Directory && path.len() < crate::manifest::MAX_PATH {
                self.list(&path, most, found)?;
            } else {
                found.push(path);
            }
        }
        Ok(())
    }
}

impl Disk for &Tree {
    fn make_parents(&mut self, path: &str) -> io::Result<()> {
        for (at, _) in path.match_indices('/') {
            let dir = path.get(..at).unwrap_or_default();
            match self.parent(dir).and_then(|(parent, name)| {
                mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
                fsync(&parent)
            }) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &str, content: &[u8], mode: u32) -> io::Result<()> {
        self.remove(path)?;
        let (dir, name) = self.parent(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&dir, name, flags, Mode::from_raw_mode(0o600))?);
        file.write_all(content)?;
        // Not at the creation, as the process may have a umask.
        fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(())
    }

    fn link(&mut self, path: &str, target: &[u8]) -> io::Result<()> {
        self.remove(path)?;
        let (dir, name) = self.parent(path)?;
        Ok(symlinkat(target, &dir, name)?)
    }

    fn sync(&mut self, path: &str) -> io::Result<()> {
        Ok(fsync(self.at(path, OFlags::RDONLY)?)?)
    }

    fn read(&mut self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        Tree::read(self, path, most).map_err(io::Error::other)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.parent(from)?, self.parent(to)?);
        Ok(renameat(from_dir.as_fd(), from, to_dir.as_fd(), to)?)
    }

    fn sync_parent(&mut self, path: &str) -> io::Result<()> {
        Ok(fsync(self.parent(path)?.0)?)
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        match unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Checks the owner of a file: root, or the user of this process, could do anything anyway.
fn own(uid: u32) -> Result<(), Fault> {
    let is_own = uid == 0 || uid == rustix::process::geteuid().as_raw();
    if is_own { Ok(()) } else { Err(Fault::Owner(uid)) }
}

/// Checks that only root and the user of this process can change this file.
pub(crate) fn protected(file: &File) -> Result<(), Fault> {
    let metadata = file.metadata()?;
    own(metadata.uid())?;
    if metadata.mode() & WRITABLE != 0 {
        return Err(Fault::Mode(metadata.mode() & 0o7777));
    }
    Ok(())
}

/// The SHA-256 of a file from its beginning, in hexadecimal digits.
fn sha256(file: &File) -> io::Result<String> {
    let (mut hash, mut at, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let size = file.read_at(&mut buffer, at)?;
        if size == 0 {
            break;
        }
        hash.update(buffer.get(..size).unwrap_or_default());
        at += size as u64;
    }
    Ok(hex(&hash.finalize()))
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

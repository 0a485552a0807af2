//! The lock of the directory of packages: writers exclude each other and readers, for moments.
//!
//! The file that is locked is beside the directory (`apps.lock`). Only the owner of the directory and root can open it: whoever can open a
//! file or directory can lock it for as long as he likes, and everybody can open the directory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

/// The longest wait for the lock, which another process holds for moments only.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Locks `dir` for a writer. Returns the directory, and the lock.
///
/// # Errors
/// The directory or the lock cannot be opened, or another process holds the lock for longer than [`TIMEOUT`].
pub(super) fn to_write(dir: &Path) -> io::Result<(File, File)> {
    let opened = File::open(dir)?;
    let file = open(dir, true)?;
    wait(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok((opened, file))
}

/// Prevents reading a package and the signature of its replacement. Without the lock file no package was written yet. A user without
/// the right to open it reads without the lock; he finds that a package does not match its signature if they are of two versions.
///
/// # Errors
/// As [`to_write`], except a lock file that is missing or that this user may not open.
pub(super) fn to_read(dir: &Path) -> io::Result<Option<File>> {
    File::open(dir)?;
    match open(dir, false) {
        Ok(file) => wait(&file, FlockOperation::NonBlockingLockShared).map(|()| Some(file)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem => Ok(None),
            _ => Err(error),
        },
    }
}

/// Opens the lock file; makes it if `create`.
fn open(dir: &Path, create: bool) -> io::Result<File> {
    let path = dir.with_extension("lock");
    let at = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot lock {}: {error}", path.display()))
    };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags);
    let owner = dir.metadata()?.uid();
    let file = match options.clone().create_new(create).mode(0o600).open(&path) {
        Ok(file) if create => {
            // Otherwise the user that Rosemary runs as could not write after a command of root.
            if sys::process::is_root() {
                std::os::unix::fs::fchown(&file, Some(owner), None).map_err(at)?;
            }
            file
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.open(&path).map_err(at)?
        }
        opened => opened.map_err(at)?,
    };
    if !file.metadata()?.is_file() {
        return Err(at(io::Error::other("it is not a regular file; remove it")));
    }
    Ok(file)
}

/// Locks a file with a non-blocking operation, which is repeated until [`TIMEOUT`].
fn wait(file: &File, operation: FlockOperation) -> io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match flock(file, operation) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return Ok(result?),
        }
    }
}

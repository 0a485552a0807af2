//! The state files of services.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// Opens and locks the state file of a service, which is created if it is missing. Only `owner` may access it.
pub(super) fn open(path: &Path, owner: Option<u32>) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // The service inherits the lock with the descriptor. The lock ends with the service.
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            io::Error::other("another process has locked it; end that process")
        }
        error => error.into(),
    })?;
    if let Some(owner) = owner {
        fchown(&file, Some(owner), Some(owner))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_file_is_locked_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let first = open(&path, None).unwrap();
        assert_eq!(first.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = open(&path, None).unwrap_err().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(first);
        open(&path, None).unwrap();
        assert!(open(dir.path(), None).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open(&link, None).is_err());
    }
}

//! Locks a file, so that only one instance uses a directory.
//!
//! The lock, not the file, shows that an instance runs: the system releases it however the instance ends, and no program that
//! an instance starts inherits it. The file contains the pid as a note. The actual holder is found in `/proc/locks`, where that is readable.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// How often `/proc/locks` is read until the lock is found in it.
const ATTEMPTS: usize = 8;

/// Why the file could not be locked.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// A process holds the lock.
    Held {
        /// The process, if it is visible from here.
        pid: Option<u32>,
        /// Whether the process is an instance of Rosemary: the note names it, or is still empty.
        is_instance: bool,
    },
    /// The system refused the lock.
    System(io::Error),
}

impl From<io::Error> for NotLocked {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A file that is locked until this is dropped.
///
/// A child that another thread has forked has a copy of the descriptor until it executes its program. The lock is released
/// explicitly, because closing the file would leave it to that child.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Replaces the content of the file by a note for an instance that finds it locked.
    pub(crate) fn set_note(&mut self, note: &str) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        self.0.write_all(note.as_bytes())
    }

    /// The note of the instance that had the lock before, at most 1,000 bytes of it; empty if it cannot be read.
    pub(crate) fn old_note(&mut self) -> String {
        let mut note = String::new();
        let _ = (&mut self.0).take(1_000).read_to_string(&mut note);
        note
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // The system releases the lock anyway when the last copy of the descriptor is closed.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Opens and locks the file at `path`, which is created if it is missing.
///
/// The file is made accessible to its owner only, because whoever can read it can lock it. When this returns, the locked
/// file is the one at `path`.
///
/// # Errors
/// [`NotLocked`].
pub(crate) fn take(path: &Path) -> Result<LockedFile, NotLocked> {
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(path)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(NotLocked::System(error.into()));
            }
            let mut text = String::new();
            let _ = (&mut file).take(1_000).read_to_string(&mut text);
            let metadata = file.metadata()?;
            let note = text.lines().next().and_then(|line| line.parse().ok());
            let pid = (0..ATTEMPTS)
                .find_map(|_| holder(&locks(), (metadata.dev(), metadata.ino()), note));
            // An instance that is just starting has no note yet.
            let is_instance = pid.is_some() && (text.is_empty() || note == pid);
            return Err(NotLocked::Held { pid, is_instance });
        }
        // A file that an older version made may be accessible to others.
        file.set_permissions(Permissions::from_mode(0o600))?;
        // Between the open and the lock, another instance may have stopped and removed the file.
        let ours = file.metadata()?;
        let named = std::fs::symlink_metadata(path);
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            return Ok(LockedFile(file));
        }
    }
}

/// The text of `/proc/locks`, which is empty if it cannot be read.
///
/// The system produces at most a page of it for each read(2), and continues by line number. If an earlier lock is released
/// between two reads, a line is skipped. Large reads make that rare, and the caller tries again.
fn locks() -> String {
    let mut text = String::with_capacity(65_536);
    let _ = File::open("/proc/locks").and_then(|mut file| file.read_to_string(&mut text));
    text
}

/// The process that holds the flock(2) lock of the file (device, inode), by the text of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 708 00:13:16827 0 EOF`, `proc_locks(5)`.
///
/// On some file systems the device there differs from that of stat(2). Then only the process in the note is accepted. The
/// text does not list locks of processes that are not visible from here.
fn holder(locks: &str, (device, inode): (u64, u64), note: Option<u32>) -> Option<u32> {
    let device = format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device));
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        (fields.next() == Some("FLOCK")).then_some(())?;
        let pid = fields.nth(2)?.parse().ok()?;
        let (its_device, its_inode) = fields.next()?.rsplit_once(':')?;
        let is_it = its_inode.parse() == Ok(inode);
        (is_it && (its_device == device || note == Some(pid))).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_ends_although_a_child_has_a_copy_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = take(&path).unwrap();
        let copy = lock.0.try_clone().unwrap();
        assert!(matches!(take(&path), Err(NotLocked::Held { .. })));
        drop(lock);
        take(&path).unwrap();
        drop(copy);
    }

    #[test]
    fn holder_is_found_by_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 8 fe:00:421 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 9 fe:00:42 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 10 fe:00:42 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(holder(locks, (device, 42), None), Some(9));
        assert_eq!(holder(locks, (device + 1, 42), None), None);
        assert_eq!(holder(locks, (device + 1, 42), Some(9)), Some(9));
        let waits = "3: -> FLOCK  ADVISORY  WRITE 10 fe:00:42 0 EOF\n";
        assert_eq!(holder(waits, (device, 42), Some(10)), None);
        assert_eq!(holder("", (device, 42), Some(9)), None);
    }
}

//! Lock files: who may be the only instance in a directory.
//!
//! The lock, not the file, says that an instance runs: the system lets go of it however the instance
//! ends, and no child gets it. In the file stands the pid, as a note: who holds the lock is known from
//! `/proc/locks`, where that can be seen.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// How often `/proc/locks` is read for a lock that is held and does not stand in it.
const LOOKS: usize = 8;

/// Why there is no lock.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Somebody has it.
    Held {
        /// Whose lock it is, if it is of a process that can be seen from here.
        pid: Option<u32>,
        /// Whether the note says the same, or nothing yet: then it is an instance of Rosemary.
        ours: bool,
    },
    /// The system refused it.
    System(io::Error),
}

impl From<io::Error> for NotLocked {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Opens and locks a lock file, which is made if it is not there and closed to others, as who may read it
/// may lock it. The file that is locked is the one that has the name.
///
/// # Errors
/// [`NotLocked`].
pub(crate) fn take(path: &Path) -> Result<File, NotLocked> {
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
            let pid =
                (0..LOOKS).find_map(|_| holder(&locks(), (metadata.dev(), metadata.ino()), note));
            // No note: it is just starting.
            let ours = pid.is_some() && (text.is_empty() || note == pid);
            return Err(NotLocked::Held { pid, ours });
        }
        // One that an older version made may be open to others.
        file.set_permissions(Permissions::from_mode(0o600))?;
        // Between our open and our lock an instance may have stopped and removed the file.
        let ours = file.metadata()?;
        let named = std::fs::symlink_metadata(path);
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file);
        }
    }
}

/// The text of `/proc/locks`, which is empty if it cannot be read.
///
/// The kernel writes a page of it at most for each read(2), anew, and goes on by number: if a lock that stands
/// before is given up between two reads, one that is held is left out. So few large reads; and who does not
/// find one looks again.
fn locks() -> String {
    let mut text = String::with_capacity(65_536);
    let _ = File::open("/proc/locks").and_then(|mut file| file.read_to_string(&mut text));
    text
}

/// Who holds the flock(2) lock of the file (device, inode), by the text of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 708 00:13:16827 0 EOF`, `proc_locks(5)`.
///
/// On some file systems the device there is another than stat(2) gives: then only the process in
/// our note is believed. Locks of processes that cannot be seen from here are not listed.
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
    fn holder_is_found_by_the_inode_and_only_if_it_has_the_lock() {
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

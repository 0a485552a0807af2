//! Claims the runtime directory for one instance, and makes and removes the files in it.
//!
//! ```text
//! /run/rosemary/              0755
//!     rosemary.lock           0600, locked with flock(2); the instance's pid, and a note if an instance made the directory
//!     admin.sock              0660 root:rosemary, or 0600 without that group
//!     api.sock                the same, for the HTTP interface
//! ```
//!
//! An instance is a monitor (`rosemary up`) with the processes that it starts. The lock, not the file, shows that an
//! instance runs: the system releases it however the instance ends. An instance that holds the lock takes over the files of
//! a killed instance. A clean stop removes both files, and the directory if an instance made it, while the lock is still
//! held. So a lock file with text in it, which nobody has locked, is that of a killed instance.
//!
//! Only the owner may read the lock file, because whoever can read it can lock it.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use sys::named::Listener;

use crate::error::StartError;
use crate::lock::{self, LockedFile, NotLocked};
use crate::options::LOCK_FILE;
use control::northbound::API_SOCKET;
use control::operator::ADMIN_SOCKET;

/// The group whose members may use the admin socket.
const GROUP: &str = "rosemary";

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// The second line of the lock file if an instance made the directory: an instance that takes over then removes it, too.
const MADE_DIR_NOTE: &str = "made the directory";

/// The remedy if the directory cannot be used.
const OTHER_DIR_HINT: &str = "name a directory of your own with --runtime-dir";

/// The claimed directory. Dropping it removes the files, and the directory if an instance made it.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    dir: PathBuf,
    /// Whether this instance made the directory, or the killed one that it took over.
    made: bool,
    took_over: bool,
    _lock: LockedFile,
}

impl RuntimeDir {
    /// Makes the directory if it is missing, and becomes the only instance in it.
    ///
    /// # Errors
    /// * [`StartError::AlreadyRunning`]: another instance runs there. It is not disturbed.
    /// * [`StartError::Locked`]: another program holds the lock.
    /// * [`StartError::UnsafeRuntimeDir`]: another user could put files there.
    /// * [`StartError::Path`]: the system refused an operation on the directory or the lock file.
    pub(crate) fn claim(dir: &Path) -> Result<Self, StartError> {
        let failed = |what, source| StartError::Path {
            what,
            path: dir.into(),
            hint: OTHER_DIR_HINT,
            source,
        };
        match DirBuilder::new().mode(0o755).create(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Self::claim_existing(dir, false);
            }
            Err(error) => return Err(failed("make", error)),
        }
        // Regardless of the umask, operators of the group must reach the socket.
        let mode_set = std::fs::set_permissions(dir, Permissions::from_mode(0o755));
        let mode_set = mode_set.map_err(|error| failed("set the mode of", error));
        mode_set.and_then(|()| Self::claim_existing(dir, true)).inspect_err(|_| {
            // This fails, as it should, if another instance has claimed the directory meanwhile and put its files there.
            let _ = std::fs::remove_dir(dir);
        })
    }

    /// Becomes the only instance in an existing directory. `made_now`: this instance has just made it.
    fn claim_existing(dir: &Path, made_now: bool) -> Result<Self, StartError> {
        check_safe(dir)?;
        let path = dir.join(LOCK_FILE);
        let failed = |what, source| StartError::Path {
            what,
            path: path.clone(),
            hint: OTHER_DIR_HINT,
            source,
        };
        let mut lock_file = lock::take(&path).map_err(|error| match error {
            NotLocked::Held { pid: Some(pid), is_instance: true } => {
                StartError::AlreadyRunning { dir: dir.to_owned(), pid }
            }
            NotLocked::Held { pid, .. } => StartError::Locked { lock: path.clone(), pid },
            NotLocked::System(error) => failed("lock", error),
        })?;
        // If the note of a killed instance cannot be read, the directory stays.
        let old_note = lock_file.old_note();
        let made = made_now || old_note.contains(MADE_DIR_NOTE);
        let note = format!("{}\n{}\n", std::process::id(), if made { MADE_DIR_NOTE } else { "" });
        let written = lock_file.set_note(&note);
        // From here on, dropping the value removes the files, even if this start fails.
        let claimed =
            Self { dir: dir.to_owned(), made, took_over: !old_note.is_empty(), _lock: lock_file };
        written.map_err(|error| failed("write", error))?;
        Ok(claimed)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns whether the directory had the files of a killed instance.
    pub(crate) fn took_over(&self) -> bool {
        self.took_over
    }

    /// Binds the admin socket, and gives it to the group [`GROUP`] if that exists. Returns the group's id with it if the
    /// group may use the socket.
    ///
    /// This changes the umask of the process for a moment, so the caller must not let another thread make files meanwhile.
    ///
    /// # Errors
    /// [`StartError::Path`]: the socket could not be bound.
    pub(crate) fn bind_admin(&self) -> Result<(Listener, Option<u32>), StartError> {
        let path = self.dir.join(ADMIN_SOCKET);
        // Only a killed instance can have left a socket, because this one holds the lock.
        let _ = std::fs::remove_file(&path);
        let old_umask = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = Listener::bind(&path, BACKLOG);
        rustix::process::umask(old_umask);
        let listener = bound.map_err(|source| StartError::Path {
            what: "bind the admin socket",
            path: path.clone(),
            hint: bind_hint(&path, &source),
            source,
        })?;
        let groups = std::fs::read_to_string("/etc/group").ok();
        // Without root, only a member of the group can do this. Otherwise only the owner can use the socket.
        let admitted = groups.and_then(|text| group_id(&text)).filter(|&id| {
            std::os::unix::fs::chown(&path, None, Some(id)).is_ok()
                && std::fs::set_permissions(&path, Permissions::from_mode(0o660)).is_ok()
        });
        Ok((listener, admitted))
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        // The lock file comes last: once it is gone, another instance can claim the directory and bind a socket there.
        for name in [API_SOCKET, ADMIN_SOCKET, LOCK_FILE] {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
        if self.made {
            // This fails, as it should, if another program has put files into the directory.
            let _ = std::fs::remove_dir(&self.dir);
        }
    }
}

/// A remedy when the admin socket could not be bound.
fn bind_hint(path: &Path, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidFilename => {
            "its path may have at most 107 bytes; name another directory with --runtime-dir"
        }
        io::ErrorKind::AddrInUse if path.is_dir() => "that is a directory; remove it",
        io::ErrorKind::AddrInUse => "a file of that name could not be removed; remove it",
        _ => OTHER_DIR_HINT,
    }
}

/// Checks that no other user can put a socket of their own into the directory.
fn check_safe(dir: &Path) -> Result<(), StartError> {
    let refuse = |why| Err(StartError::UnsafeRuntimeDir { dir: dir.to_owned(), why });
    let metadata = std::fs::metadata(dir).map_err(|source| StartError::Path {
        what: "look at",
        path: dir.to_owned(),
        hint: OTHER_DIR_HINT,
        source,
    })?;
    if !metadata.is_dir() {
        return refuse("is not a directory");
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        return refuse("belongs to another user");
    }
    // The sticky bit does not help: it keeps others from removing files, not from making them first.
    if metadata.mode() & 0o022 != 0 {
        return refuse("is writable by users other than its owner");
    }
    Ok(())
}

/// Returns the id of [`GROUP`] in the text of `/etc/group` (`group(5)`).
///
/// `getgrnam(3)` would load foreign libraries into the monitor (`nsswitch.conf(5)`) and may wait for the network.
fn group_id(text: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(GROUP)).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn second_instance_is_refused_with_pid() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("rosemary");
        let first = RuntimeDir::claim(&dir).unwrap();
        let _admin = first.bind_admin().unwrap();
        let error = RuntimeDir::claim(&dir).unwrap_err().to_string();
        assert!(error.contains(&format!("kill {}", std::process::id())), "{error}");
        assert!(error.contains(dir.to_str().unwrap()), "{error}");
        assert_eq!(names(&dir), ["admin.sock", "rosemary.lock"]);
        sys::named::connect_to(&dir.join(ADMIN_SOCKET)).unwrap();
    }

    #[test]
    fn clean_stop_removes_only_own_files() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("rosemary");
        let claimed = RuntimeDir::claim(&dir).unwrap();
        assert!(!claimed.took_over());
        claimed.bind_admin().unwrap();
        drop(claimed);
        assert!(!dir.exists());
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("note"), "somebody else's").unwrap();
        drop(RuntimeDir::claim(&dir).unwrap());
        assert_eq!(names(&dir), ["note"]);
    }

    #[test]
    fn files_of_killed_instance_are_taken_over() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("rosemary");
        let killed = RuntimeDir::claim(&dir).unwrap();
        killed.bind_admin().unwrap();
        let note = std::fs::read(dir.join(LOCK_FILE)).unwrap();
        drop(killed);
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(LOCK_FILE), note).unwrap();
        drop(Listener::bind(&dir.join(ADMIN_SOCKET), 1).unwrap());
        let next = RuntimeDir::claim(&dir).unwrap();
        assert!(next.took_over());
        let _admin = next.bind_admin().unwrap();
        sys::named::connect_to(&dir.join(ADMIN_SOCKET)).unwrap();
        drop(next);
        assert!(!dir.exists());
    }

    #[test]
    fn bind_error_has_a_fitting_hint() {
        let parent = tempfile::tempdir().unwrap();
        let says = |dir: PathBuf| {
            let claimed = RuntimeDir::claim(&dir).unwrap();
            claimed.bind_admin().unwrap_err().to_string()
        };
        let long = says(parent.path().join("x".repeat(120)));
        assert!(long.contains("107 bytes"), "{long}");
        let dir = parent.path().join("rosemary");
        std::fs::create_dir_all(dir.join(ADMIN_SOCKET)).unwrap();
        let taken = says(dir);
        assert!(taken.contains("that is a directory") && !taken.contains("107"), "{taken}");
        let full = bind_hint(Path::new("/x"), &io::ErrorKind::StorageFull.into());
        assert_eq!(full, OTHER_DIR_HINT);
    }

    #[test]
    fn admin_socket_is_closed_to_others() {
        let parent = tempfile::tempdir().unwrap();
        let claimed = RuntimeDir::claim(&parent.path().join("rosemary")).unwrap();
        let (_listener, group) = claimed.bind_admin().unwrap();
        let mode = std::fs::metadata(claimed.dir.join(ADMIN_SOCKET)).unwrap().mode() & 0o777;
        assert_eq!(mode, if group.is_some() { 0o660 } else { 0o600 });
    }

    #[test]
    fn directory_writable_by_others_is_refused() {
        for mode in [0o777, 0o1777, 0o775, 0o1770] {
            let parent = tempfile::tempdir().unwrap();
            std::fs::set_permissions(parent.path(), Permissions::from_mode(mode)).unwrap();
            let error = RuntimeDir::claim(parent.path()).unwrap_err().to_string();
            assert!(error.contains("than its owner; name a directory of your own"), "{error}");
            assert_eq!(names(parent.path()), Vec::<String>::new());
        }
    }

    #[test]
    fn existing_lock_file_is_closed_to_others() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(LOCK_FILE);
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _claimed = RuntimeDir::claim(parent.path()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn foreign_lock_error_names_the_holder() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(LOCK_FILE);
        std::fs::write(&path, "999999999\n").unwrap();
        let somebody = File::open(&path).unwrap();
        flock(&somebody, FlockOperation::LockShared).unwrap();
        let error = RuntimeDir::claim(parent.path()).unwrap_err().to_string();
        let ours = format!("is locked by process {} (", std::process::id());
        assert!(error.contains(&ours) && !error.contains("999999999"), "{error}");
    }

    #[test]
    fn lock_file_that_is_a_link_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("target");
        std::os::unix::fs::symlink(&target, parent.path().join(LOCK_FILE)).unwrap();
        assert!(RuntimeDir::claim(parent.path()).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn group_is_found_by_exact_name() {
        assert_eq!(group_id("root:x:0:\nrosemary2:x:7:\nrosemary:x:42:ann,bob\n"), Some(42));
        assert_eq!(group_id("root:x:0:\n"), None);
        assert_eq!(group_id("rosemary:x:not a number:\n"), None);
    }
}

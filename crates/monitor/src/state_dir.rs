//! Claims the state directory, whose files outlive a run.
//!
//! ```text
//! /var/lib/rosemary/
//!     state.lock              locked with flock(2) while an instance runs; the pid as a note
//!     apps.json               the apps' numbers (numbers.rs)
//!     demoted.json            apps that must not run in the kernel (demotions.rs)
//!     incidents/              records of what went wrong (incident_store.rs)
//!     configurations/         the configurations that were applied (config_store.rs)
//!     unconfirmed.json        the time for a confirmation, while a configuration waits for one
//!     enabled.json            operators' decisions on which apps run (overrides.rs)
//!     apps/                   installed packages (packages/store.rs), which operators' commands write, too
//!     apps.lock               0600, locked while packages are read or written
//!     log.redb, storage.redb, history.redb  the state of services (service.rs)
//! ```

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::StartError;
use crate::lock::{self, LockedFile, NotLocked};

/// Not the name of the lock in the runtime directory, because both may be the same directory.
const LOCK_FILE: &str = "state.lock";

const HINT: &str = "let the user that Rosemary runs as read and write there, or name another directory \
                    with --state-dir";

/// The claimed directory. No other instance uses it meanwhile.
#[derive(Debug)]
pub(crate) struct StateDir {
    dir: PathBuf,
    _lock: LockedFile,
}

impl StateDir {
    /// Makes the directory if it is missing, and becomes the only instance that uses it.
    ///
    /// # Errors
    /// [`StartError::StateInUse`] if another instance uses it, which is not disturbed; [`StartError::Path`] if it cannot be
    /// read or written.
    pub(crate) fn claim(dir: &Path) -> Result<Self, StartError> {
        let refuse =
            |what, source| StartError::Path { what, path: dir.to_owned(), hint: HINT, source };
        // Recursive, because without root `.local/state` may not exist yet.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(|error| refuse("make the state directory", error))?;
        dir.read_dir().map_err(|error| refuse("read the state directory", error))?;
        let path = dir.join(LOCK_FILE);
        let mut lock = lock::take(&path).map_err(|error| match error {
            NotLocked::Held { pid, .. } => StartError::StateInUse { dir: dir.to_owned(), pid },
            NotLocked::System(source)
                if path.symlink_metadata().is_ok_and(|there| !there.is_file()) =>
            {
                let hint = "it is not a regular file; remove it";
                StartError::Path { what: "lock", path: path.clone(), hint, source }
            }
            NotLocked::System(error) => refuse("write into the state directory", error),
        })?;
        // A full disk must not keep Rosemary from starting.
        let _ = lock.set_note(&format!("{}\n", std::process::id()));
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_in_use_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("made/for/us");
        let first = StateDir::claim(&dir).unwrap();
        let error = StateDir::claim(&dir).unwrap_err().to_string();
        let process = format!("process {}", std::process::id());
        for part in [dir.to_str().unwrap(), &process, "--state-dir"] {
            assert!(error.contains(part), "{error}");
        }
        drop(first);
        StateDir::claim(&dir).unwrap();
    }

    #[test]
    fn state_and_runtime_directory_may_be_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = crate::runtime_dir::RuntimeDir::claim(dir.path()).unwrap();
        let state = StateDir::claim(dir.path()).unwrap();
        let file = state.path().join("kept");
        std::fs::write(&file, "kept").unwrap();
        drop((state, runtime));
        assert!(file.exists());
    }

    #[test]
    fn unusable_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Not even root can make files in the second.
        let cases = [
            (file.path(), "cannot make the state directory"),
            (Path::new("/proc/self"), "cannot write into the state directory"),
        ];
        for (dir, what) in cases {
            let error = StateDir::claim(dir).unwrap_err().to_string();
            assert!(error.contains(&format!("{what} {}; let the user", dir.display())), "{error}");
        }
    }

    #[test]
    fn lock_that_is_no_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join(LOCK_FILE);
        let refused = || {
            let error = StateDir::claim(dir.path()).unwrap_err().to_string();
            let expected =
                format!("cannot lock {}; it is not a regular file; remove it", lock.display());
            assert_eq!(error, expected);
        };
        std::os::unix::fs::symlink("/nowhere", &lock).unwrap();
        refused();
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        refused();
    }
}

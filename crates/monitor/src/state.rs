//! The state directory: what outlives a run, and the lock that keeps a second instance off it.
//!
//! ```text
//! /var/lib/rosemary/
//!     state.lock              held with flock(2) as long as an instance runs; the pid as a note
//!     apps.json               the apps' numbers (numbers.rs)
//!     apps/                   installed packages (packages/store.rs), which the operator's commands write, too
//!     log.redb, storage.redb  what the services keep (service.rs)
//! ```

use std::fs::{DirBuilder, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::StartError;
use crate::lock::{self, NotLocked};

/// Another name than that in the runtime directory, which may be the same directory.
const LOCK_FILE: &str = "state.lock";

const HINT: &str = "let the user that Rosemary runs as read and write there, or name another directory \
                    with --state-dir";

/// The directory, held: no other instance uses it meanwhile.
#[derive(Debug)]
pub(crate) struct StateDir {
    dir: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Makes the directory if it is not there, and becomes the only instance that uses it.
    ///
    /// # Errors
    /// [`StartError::StateInUse`] if another one does, which is not disturbed; [`StartError::Path`] if it
    /// cannot be read or written.
    pub(crate) fn claim(dir: &Path) -> Result<Self, StartError> {
        let refuse =
            |what, source| StartError::Path { what, path: dir.to_owned(), hint: HINT, source };
        // Also what is above it: without root, `.local/state` may be new.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(|error| refuse("make the state directory", error))?;
        dir.read_dir().map_err(|error| refuse("read the state directory", error))?;
        let mut lock = lock::take(&dir.join(LOCK_FILE)).map_err(|error| match error {
            NotLocked::Held { pid, .. } => StartError::StateInUse { dir: dir.to_owned(), pid },
            NotLocked::System(error) => refuse("write into the state directory", error),
        })?;
        let _ = note(&mut lock); // a full disk keeps nobody from starting
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

/// Who we are, for who finds the lock taken.
fn note(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_another_instance_is_refused_with_its_name_and_process_until_that_has_ended() {
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
    fn directory_may_also_be_the_runtime_directory() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = crate::runtime::RuntimeDir::claim(dir.path()).unwrap();
        let state = StateDir::claim(dir.path()).unwrap();
        let file = state.path().join("kept");
        std::fs::write(&file, "kept").unwrap();
        drop((state, runtime));
        assert!(file.exists());
    }

    #[test]
    fn directory_that_cannot_be_written_or_is_none_is_told_as_that() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Nobody, root included, makes files in the second.
        let cases = [
            (file.path(), "cannot make the state directory"),
            (Path::new("/proc/self"), "cannot write into the state directory"),
        ];
        for (dir, what) in cases {
            let error = StateDir::claim(dir).unwrap_err().to_string();
            assert!(error.contains(&format!("{what} {}; let the user", dir.display())), "{error}");
        }
    }
}

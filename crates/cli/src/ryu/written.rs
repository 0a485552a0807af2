//! The temporary directory with the configuration of `rosemary ryu` and `rosemary faucet`.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

/// The name of the directory with a temporary configuration, before the process id.
const PREFIX: &str = "rosemary-ryu-";

/// The name of the file in it.
const FILE: &str = "rosemary.toml";

/// The most names that are tried for the directory.
const MOST_ATTEMPTS: u32 = 16;

/// The time after which a monitor has locked its directory.
const START_TIME: Duration = Duration::from_secs(60);

/// A new directory with the configuration, which only this user can read.
///
/// The monitor locks the directory, reads the file again for a reload, and removes both when it ends. The lock shows that a monitor
/// uses them, also to processes that cannot see it. Until the monitor has it, this process does.
#[derive(Debug)]
pub(super) struct Written {
    dir: PathBuf,
    _lock: File,
}

impl Written {
    /// Writes a configuration into a new directory within this one, and removes directories that are left there.
    ///
    /// # Errors
    /// The directory or the file cannot be made.
    pub(super) fn new(within: &Path, config: &str) -> anyhow::Result<Self> {
        remove_left(within);
        let dir = make_dir(within)?;
        let locked = File::open(&dir).and_then(|lock| {
            flock(&lock, FlockOperation::NonBlockingLockShared)?;
            Ok(lock)
        });
        let lock = locked.with_context(|| format!("cannot lock {}", dir.display()))?;
        let written = Self { dir, _lock: lock };
        let file = written.file();
        std::fs::write(&file, config)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(written)
    }

    /// The file.
    pub(super) fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Removes the directory, for no monitor has taken it over.
    pub(super) fn remove(self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Makes a new directory; what another user has put in its place is left alone.
fn make_dir(within: &Path) -> anyhow::Result<PathBuf> {
    let own = format!("{PREFIX}{}", std::process::id());
    // Another process of the same number may be in a namespace that shares the directory.
    let more = (1..MOST_ATTEMPTS).map(|attempt| format!("{own}-{attempt}"));
    let mut last = None;
    for name in std::iter::once(own.clone()).chain(more) {
        let dir = within.join(name);
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", dir.display()));
            }
        }
    }
    let why = last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into());
    Err(why).with_context(|| format!("cannot make {}; remove it", within.join(own).display()))
}

/// Removes the directories of this user whose monitors were killed: nobody has locked them.
fn remove_left(within: &Path) {
    let Ok(entries) = std::fs::read_dir(within) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|it| it.strip_prefix(PREFIX)).unwrap_or_default();
        let is_named = number.starts_with(|it: char| it.is_ascii_digit())
            && number.chars().all(|it| it.is_ascii_digit() || it == '-');
        if is_named && is_left(&entry.path()).unwrap_or(false) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a directory is this user's, nobody has locked it, and it is so old that its monitor must have begun.
fn is_left(dir: &Path) -> io::Result<bool> {
    let about = std::fs::symlink_metadata(dir)?;
    let age = about.modified()?.elapsed().unwrap_or_default();
    if !about.is_dir() || about.uid() != geteuid().as_raw() || age < START_TIME {
        return Ok(false);
    }
    let lock = File::open(dir)?;
    Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::time::SystemTime;

    use super::*;

    /// Makes a directory look as if its monitor had begun long ago.
    fn age(dir: &Path) {
        let times = FileTimes::new().set_modified(SystemTime::now() - 2 * START_TIME);
        File::open(dir).unwrap().set_times(times).unwrap();
    }

    #[test]
    fn configurations_without_a_monitor_are_removed() {
        let within = tempfile::tempdir().unwrap();
        let used = Written::new(within.path(), "used").unwrap();
        let killed = Written::new(within.path(), "killed").unwrap().dir;
        assert_ne!(used.dir, killed, "a directory of the same name is there");
        assert_eq!(std::fs::metadata(&used.dir).unwrap().mode() & 0o777, 0o700);
        let new = Written::new(within.path(), "new").unwrap().dir;
        let others = ["rosemary-ryu-my", "rosemary-ryu-", "other"].map(|it| within.path().join(it));
        for dir in &others {
            std::fs::create_dir(dir).unwrap();
        }
        let link = within.path().join("rosemary-ryu-1");
        std::os::unix::fs::symlink(&others[2], &link).unwrap();
        for dir in [&used.dir, &killed].into_iter().chain(&others) {
            age(dir);
        }
        remove_left(within.path());
        assert!(!killed.exists());
        assert_eq!(std::fs::read_to_string(used.file()).unwrap(), "used");
        assert!(new.exists(), "its monitor may be about to begin");
        assert!(others.iter().chain([&link]).all(|dir| dir.exists()));
    }
}

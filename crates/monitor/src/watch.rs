//! Watches the files of apps while a developer changes them: `rosemary up --watch`.
//!
//! The monitor looks at the metadata of each file several times per second. A change requests a reload once the file stays as
//! it is for a period: an editor or a compiler may write it in several steps. A notification of the kernel would arrive sooner,
//! but would need a watch for each directory, and editors replace files in different ways.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(300);

/// Metadata that a change of a file alters; `None` if there is no file.
type Stamp = Option<[i64; 5]>;

/// The files and their last known state.
#[derive(Debug)]
pub(crate) struct Watch {
    look_at: Instant,
    seen: BTreeMap<PathBuf, Stamp>,
    /// Files that have changed and may change further.
    unsettled: Vec<PathBuf>,
}

impl Watch {
    /// Begins; files as they are at the first look have not changed.
    pub(crate) fn new(now: Instant) -> Self {
        Self { look_at: now, seen: BTreeMap::new(), unsettled: Vec::new() }
    }

    /// When it is to look again.
    pub(crate) fn next_due(&self) -> Instant {
        self.look_at
    }

    /// Looks at the files if it is time, and returns those that have changed and stayed as they are for a period.
    pub(crate) fn changed<'f>(
        &mut self,
        files: impl IntoIterator<Item = &'f Path>,
        now: Instant,
    ) -> Vec<PathBuf> {
        if now < self.look_at {
            return Vec::new();
        }
        self.look_at = now + PERIOD;
        let found: BTreeMap<PathBuf, Stamp> =
            files.into_iter().map(|file| (file.to_owned(), stamp(file))).collect();
        let has_changed = |file: &&PathBuf| {
            self.seen.get(*file).is_some_and(|seen| found.get(*file) != Some(seen))
        };
        let changed: Vec<PathBuf> = found.keys().filter(has_changed).cloned().collect();
        // A file that is gone for now is being replaced.
        let is_settled = |file: &PathBuf| {
            !changed.contains(file) && found.get(file).is_some_and(Option::is_some)
        };
        let (settled, unsettled): (Vec<PathBuf>, Vec<PathBuf>) =
            std::mem::take(&mut self.unsettled).into_iter().partition(is_settled);
        self.unsettled = unsettled;
        for file in changed {
            if !self.unsettled.contains(&file) {
                self.unsettled.push(file);
            }
        }
        self.unsettled.retain(|file| found.contains_key(file));
        self.seen = found;
        settled
    }
}

fn stamp(file: &Path) -> Stamp {
    let file = std::fs::metadata(file).ok()?;
    let number = u64::cast_signed;
    Some([
        number(file.ino()),
        number(file.size()),
        file.mtime(),
        file.mtime_nsec(),
        file.ctime_nsec(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_is_reported_once_it_is_settled() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("a.py"), dir.path().join("b.py"));
        let files = [one.as_path(), other.as_path()];
        std::fs::write(&one, "1").unwrap();
        let mut now = Instant::now();
        let mut watch = Watch::new(now);
        let mut look = |watch: &mut Watch| {
            now += PERIOD;
            watch.changed(files, now)
        };
        let nothing: [&Path; 0] = [];
        assert_eq!(look(&mut watch), nothing);
        assert_eq!(look(&mut watch), nothing);
        std::fs::write(&one, "11").unwrap();
        assert_eq!(look(&mut watch), nothing, "it may change further");
        std::fs::write(&one, "111").unwrap();
        assert_eq!(look(&mut watch), nothing, "it changed further");
        assert_eq!(look(&mut watch), [&*one]);
        assert_eq!(look(&mut watch), nothing);
        // An editor replaces the file, and another file appears.
        std::fs::remove_file(&one).unwrap();
        assert_eq!(look(&mut watch), nothing);
        assert_eq!(look(&mut watch), nothing, "there is nothing to load");
        std::fs::write(&one, "new").unwrap();
        std::fs::write(&other, "new").unwrap();
        assert_eq!(look(&mut watch), nothing);
        assert_eq!(look(&mut watch), files);
    }

    #[test]
    fn look_before_its_time_does_nothing() {
        let now = Instant::now();
        let mut watch = Watch::new(now);
        assert!(watch.changed([Path::new("/nowhere")], now).is_empty());
        assert_eq!(watch.next_due(), now + PERIOD);
        assert!(watch.changed([Path::new("/nowhere")], now).is_empty());
        assert_eq!(watch.next_due(), now + PERIOD);
    }
}

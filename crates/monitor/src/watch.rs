//! Watches the files of apps while a developer changes them: `rosemary up --watch`.
//!
//! The monitor looks at the metadata of each file several times per second. A change requests a reload once the file stays as
//! it is for a period: an editor or a compiler may write it in several steps. A notification of the kernel would arrive sooner,
//! but would need a watch for each directory, and editors replace files in different ways.
//!
//! A file that is new in the list may have changed after the app read it. It counts as changed if that was after the look before:
//! a reload without a difference does nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(300);

/// How far the times of files may be behind the clock: a tick of the kernel, and some slack.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// Metadata that a change of a file alters; `None` if there is no file.
type Stamp = Option<[i64; 6]>;

/// The files and their last known state.
#[derive(Debug)]
pub(crate) struct Watch {
    look_at: Instant,
    /// The time of the last look, or of the beginning.
    looked: SystemTime,
    seen: BTreeMap<PathBuf, Stamp>,
    /// Files that have changed and may change further.
    unsettled: Vec<PathBuf>,
}

impl Watch {
    /// Begins, before the apps' files are read.
    pub(crate) fn new(now: Instant) -> Self {
        let (seen, unsettled) = (BTreeMap::new(), Vec::new());
        Self { look_at: now, looked: SystemTime::now(), seen, unsettled }
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
        let looked = std::mem::replace(&mut self.looked, SystemTime::now());
        let has_changed = |file: &&PathBuf| match (self.seen.get(*file), found.get(*file)) {
            (Some(seen), now) => now != Some(seen),
            (None, now) => now.is_some_and(|stamp| is_after(stamp, looked)),
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
        file.ctime(),
        file.ctime_nsec(),
    ])
}

/// Whether a file changed after this time, or so shortly before that the clock of the file system may be behind.
fn is_after(stamp: &Stamp, time: SystemTime) -> bool {
    let Some([.., seconds, nanoseconds]) = *stamp else { return false };
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
    else {
        return false;
    };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    changed + CLOCK_TICK >= time
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
        std::thread::sleep(2 * CLOCK_TICK);
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
    fn change_before_the_first_look_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("a.py"), dir.path().join("b.py"));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&other, "1").unwrap();
        std::thread::sleep(2 * CLOCK_TICK);
        let mut now = Instant::now();
        let mut watch = Watch::new(now);
        // The app reads its files, and one changes.
        std::fs::write(&one, "2").unwrap();
        let files = [one.as_path(), other.as_path()];
        assert!(watch.changed(files, now).is_empty(), "it may change further");
        now += PERIOD;
        assert_eq!(watch.changed(files, now), [&*one]);
        // The same holds for a file that joins the list.
        let third = dir.path().join("c.py");
        std::fs::write(&third, "1").unwrap();
        let files = [one.as_path(), other.as_path(), third.as_path()];
        now += PERIOD;
        assert!(watch.changed(files, now).is_empty());
        now += PERIOD;
        assert_eq!(watch.changed(files, now), [&*third]);
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

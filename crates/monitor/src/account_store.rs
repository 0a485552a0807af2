//! The files of accounts, and the thread that writes them.
//!
//! ```text
//! /var/lib/rosemary/accounts/
//!     0.json             the sum of the hours that have no file any more, and the last one of these
//!     1796025600.json    the accounts of the hour that began then, in seconds since 1970
//!     *.new              the next content of a file, while it is written
//! ```
//!
//! A file is written under another name, synced and renamed, so each is always complete. The sum names the last hour that is a part of
//! it, so an hour whose file was not removed before a kill is not added twice.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::account::StoredHour;
use rustix::fs::OFlags;
use tracing::{error, info, warn};

const DIR: &str = "accounts";

/// The time between two writes. A monitor that is killed loses what was used since the last one.
const PERIOD: Duration = Duration::from_secs(10);

/// The time until the writer tries again after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The most bytes of a file that is read: more than this instance ever writes.
const LONGEST_FILE: u64 = 1 << 20;

/// What to do if accounts cannot be stored.
const HINT: &str = "make room or allow writing there; they are stored then";

/// The event loop's side of the store.
#[derive(Debug)]
pub(crate) struct AccountStore {
    /// If accounts are kept in memory only, why, as a phrase with a remedy.
    jobs: Result<Sender<Job>, String>,
    failure: Failure,
    write_at: Option<Instant>,
}

/// Why the last attempt of the writer failed, if it did.
type Failure = Arc<Mutex<Option<String>>>;

/// A job of the writer.
#[derive(Debug)]
enum Job {
    /// Write these hours.
    Write(Vec<StoredHour>),
    /// Answer when all earlier jobs are done, or could not be done.
    Flush(SyncSender<()>),
}

impl AccountStore {
    /// Reads the accounts in `state_dir`, and stores further ones there. If they cannot be read, the log says so, and accounts are
    /// kept in memory only: writing would replace them.
    pub(crate) fn load(state_dir: &Path) -> (Vec<StoredHour>, Self) {
        let dir = state_dir.join(DIR);
        let failure = Failure::default();
        let (hours, jobs) = match read_all(&dir) {
            Ok(hours) => (hours, start(dir, failure.clone()).map_err(|error| error.to_string())),
            Err(error) => {
                let hint = "move the directory away and start Rosemary again";
                (Vec::new(), Err(format!("{}: {error}; {hint}", dir.display())))
            }
        };
        if let Err(why) = &jobs {
            error!(why, "could not read the stored accounts; new ones are lost at the next stop");
        }
        (hours, Self { jobs, failure, write_at: None })
    }

    /// Whether accounts are to be written now.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.write_at.is_none_or(|at| at <= now);
        if is_due {
            self.write_at = Some(now + PERIOD);
        }
        is_due
    }

    /// Queues hours. Never blocks: the writer keeps only the last content of each hour.
    pub(crate) fn write(&self, hours: Vec<StoredHour>) {
        if let Ok(jobs) = &self.jobs
            && !hours.is_empty()
        {
            let _ = jobs.send(Job::Write(hours)); // fails if the thread has ended
        }
    }

    /// Why accounts cannot be stored now, as a phrase with a remedy, if so.
    pub(crate) fn not_stored(&self) -> Option<String> {
        let why = match &self.jobs {
            Ok(_) => self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()?,
            Err(why) => why.clone(),
        };
        Some(format!("accounts cannot be stored: {why}"))
    }

    /// Waits until all accounts are stored, for at most `most`.
    pub(crate) fn flush(&self, most: Duration) {
        let (done, wait) = mpsc::sync_channel(1);
        if let Ok(jobs) = &self.jobs
            && jobs.send(Job::Flush(done)).is_ok()
        {
            let _ = wait.recv_timeout(most); // the monitor ends in either case
        }
    }
}

/// Starts the writer's thread, which ends when the sender is dropped.
fn start(dir: PathBuf, failure: Failure) -> io::Result<Sender<Job>> {
    let (jobs, theirs) = mpsc::channel();
    let writer = Writer { dir, waiting: BTreeMap::new(), failure };
    std::thread::Builder::new().name("accounts".into()).spawn(move || writer.serve(&theirs))?;
    Ok(jobs)
}

/// The state of the writer's thread.
#[derive(Debug)]
struct Writer {
    dir: PathBuf,
    /// The hours that are not in their files yet.
    waiting: BTreeMap<u64, StoredHour>,
    failure: Failure,
}

impl Writer {
    fn serve(mut self, jobs: &Receiver<Job>) {
        loop {
            let first = if self.waiting.is_empty() {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(RETRY)
            };
            let ended = matches!(first, Err(RecvTimeoutError::Disconnected));
            let mut flushed = Vec::new();
            for job in first.into_iter().chain(jobs.try_iter()) {
                match job {
                    Job::Write(hours) => {
                        self.waiting.extend(hours.into_iter().map(|it| (it.hour, it)));
                    }
                    Job::Flush(done) => flushed.push(done),
                }
            }
            self.write();
            for done in flushed {
                let _ = done.try_send(()); // the event loop may have given up
            }
            if ended {
                return;
            }
        }
    }

    /// Writes what waits, the sum of earlier hours first, and logs a failure or the end of one.
    fn write(&mut self) {
        while let Some((_, hour)) = self.waiting.first_key_value() {
            let written = write(&self.dir, hour);
            let dir = self.dir.display();
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            match written {
                Ok(()) => {
                    if failure.take().is_some() {
                        info!(%dir, "accounts are stored again");
                    }
                }
                Err(error) => {
                    if failure.is_none() {
                        error!(%dir, %error, hint = HINT, "could not store accounts");
                    }
                    *failure = Some(format!("{error} ({dir}); {HINT}"));
                    return;
                }
            }
            drop(failure);
            self.waiting.pop_first();
        }
    }
}

/// Replaces the file of an hour. With the sum of earlier hours, the files of these are removed.
fn write(dir: &Path, hour: &StoredHour) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = dir.join(format!("{}.json", hour.hour));
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new); // a killed instance may have left it
    let mut file = options().write(true).create_new(true).open(&new)?;
    let json = serde_json::to_vec(hour).map_err(io::Error::other)?;
    let written = file.write_all(&json).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&new, &path)) {
        let _ = fs::remove_file(&new); // it would keep a full disk full
        return Err(error);
    }
    File::open(dir)?.sync_all()?;
    if hour.hour == 0 {
        for (earlier, path) in files(dir)? {
            if (1..=hour.through).contains(&earlier) {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// The files of hours; none if the directory is missing.
fn files(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_json = path.extension().is_some_and(|it| it == "json");
        let hour = path.file_stem().and_then(|it| it.to_str()?.parse().ok());
        files.extend(hour.filter(|_| is_json).map(|hour| (hour, path)));
    }
    Ok(files)
}

/// Reads all files. One that is damaged is ignored with a warning, and stays.
fn read_all(dir: &Path) -> io::Result<Vec<StoredHour>> {
    let mut hours = Vec::new();
    for (hour, path) in files(dir)? {
        let mut text = Vec::new();
        options().read(true).open(&path)?.take(LONGEST_FILE).read_to_end(&mut text)?;
        match serde_json::from_slice::<StoredHour>(&text) {
            Ok(stored) if stored.hour == hour => hours.push(stored),
            _ => warn!(path = %path.display(), "ignored a damaged file of accounts"),
        }
    }
    Ok(hours)
}

#[cfg(test)]
mod tests {
    use control::account::{Account, Amounts};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn hour(hour: u64, through: u64, cpu_ns: u64) -> StoredHour {
        let amounts = Amounts { cpu_ns, ..Amounts::default() };
        let account = Account { session: "s".into(), member: "a".into(), amounts };
        StoredHour { hour, through, accounts: vec![account] }
    }

    fn stored(dir: &Path) -> Vec<StoredHour> {
        let mut hours = AccountStore::load(dir).0;
        hours.sort_by_key(|it| it.hour);
        hours
    }

    #[test]
    fn accounts_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (hours, store) = AccountStore::load(dir.path());
        assert!(hours.is_empty());
        store.write(vec![hour(3_600, 0, 1), hour(7_200, 0, 2)]);
        store.write(vec![hour(7_200, 0, 3)]);
        store.flush(LONG);
        assert_eq!(stored(dir.path()), [hour(3_600, 0, 1), hour(7_200, 0, 3)]);
        store.write(vec![hour(0, 3_600, 1)]);
        store.flush(LONG);
        assert_eq!(stored(dir.path()), [hour(0, 3_600, 1), hour(7_200, 0, 3)]);
    }

    #[test]
    fn accounts_of_a_full_disk_are_stored_later() {
        let dir = tempfile::tempdir().unwrap();
        // No file can be made below a file, for root neither.
        let (_, store) = AccountStore::load(dir.path());
        let blocked = dir.path().join(DIR);
        fs::write(&blocked, "").unwrap();
        store.write(vec![hour(3_600, 0, 1)]);
        store.flush(LONG);
        assert!(store.not_stored().unwrap().contains("make room"));
        fs::remove_file(&blocked).unwrap();
        store.write(vec![hour(3_600, 0, 2)]);
        store.flush(LONG);
        assert_eq!((store.not_stored(), stored(dir.path())), (None, vec![hour(3_600, 0, 2)]));
    }

    #[test]
    fn unreadable_accounts_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(DIR), "").unwrap();
        let (hours, store) = AccountStore::load(dir.path());
        assert!(hours.is_empty() && store.not_stored().unwrap().contains("move the directory"));
    }

    #[test]
    fn damaged_file_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let (_, store) = AccountStore::load(dir.path());
        store.write(vec![hour(3_600, 0, 1), hour(7_200, 0, 2)]);
        store.flush(LONG);
        fs::write(dir.path().join(DIR).join("3600.json"), "{").unwrap();
        assert_eq!(stored(dir.path()), [hour(7_200, 0, 2)]);
    }
}

//! The file of incidents, and the thread that writes it.
//!
//! ```text
//! /var/lib/rosemary/incidents/
//!     incidents.log       lines of "CRC JSON": the CRC-32 of the JSON in eight hexadecimal digits, a space, an
//!                         incident. A later line replaces an earlier one with the same number.
//!     incidents.log.new   the next file, while it is written
//! ```
//!
//! A process that is killed, or a machine that loses power, leaves at most one incomplete line at the end, because
//! lines are only appended and the file is synced after each batch. The loader ignores lines whose CRC is wrong. When
//! outdated lines make up most of the file, it is written again under another name and renamed.
//!
//! If the disk is full, the writer logs that once, keeps the lines and tries again. Meanwhile operators still see the
//! incidents, which are in memory.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use control::incident::{FORMAT, Incident};
use rustix::fs::OFlags;
use tracing::{error, info, warn};

use supervisor::incidents::{Change, Incidents, MOST_BYTES, Records};

const DIR: &str = "incidents";
const FILE: &str = "incidents.log";

/// The most bytes of outdated lines in the file, besides as many bytes as the incidents have.
const OUTDATED: usize = 256 * 1024;

/// The most bytes of a file that is read: more than this instance ever writes.
const LONGEST_FILE: u64 = 4 * (MOST_BYTES + OUTDATED) as u64;

/// The most bytes that wait for a disk that is full.
const MOST_WAITING: usize = MOST_BYTES + OUTDATED;

/// The most jobs that wait for the writer.
const JOBS: usize = 256;

/// What to do if incidents cannot be stored.
const HINT: &str = "make room or allow writing there; they are stored then";

/// The time until the writer tries again after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The incidents and the file that keeps them.
#[derive(Debug)]
pub(crate) struct IncidentStore {
    incidents: Incidents,
    /// If incidents are kept in memory only, why, as a phrase with a remedy.
    store: Result<Store, String>,
}

impl IncidentStore {
    /// Loads the incidents in `state_dir`, and stores further ones there.
    ///
    /// Incidents that still lasted when the earlier instance ended are closed. If the file cannot be read, the log says
    /// so, and incidents are kept in memory only.
    pub(crate) fn load(state_dir: &Path) -> Self {
        let (records, store) = load(state_dir);
        let mut loaded = Self { incidents: Incidents::new(records), store };
        loaded.write();
        loaded
    }

    /// The incidents.
    pub(crate) fn incidents(&self) -> &Incidents {
        &self.incidents
    }

    /// Says what time it is, for incidents that are recorded from now on.
    pub(crate) fn set_time(&self) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.incidents.set_time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Queues what has changed. Never blocks.
    pub(crate) fn write(&mut self) {
        let changes = self.incidents.take_changes();
        if let Ok(store) = &mut self.store {
            store.write(&changes, &self.incidents.records());
        }
    }

    /// Why incidents cannot be stored now, as a phrase with a remedy, if so.
    pub(crate) fn not_stored(&self) -> Option<String> {
        let why = match &self.store {
            Ok(store) => store.failure()?,
            Err(why) => why.clone(),
        };
        Some(format!("incidents cannot be stored: {why}"))
    }

    /// Waits until all incidents are stored, for at most `most`.
    pub(crate) fn flush(&mut self, most: Duration) {
        self.write();
        if let Ok(store) = &mut self.store {
            store.flush(most);
        }
    }
}

#[cfg(test)]
impl std::ops::Deref for IncidentStore {
    type Target = Incidents;

    fn deref(&self) -> &Incidents {
        &self.incidents
    }
}

/// A job of the writer.
#[derive(Debug)]
enum Job {
    /// Append these lines.
    Append(Vec<u8>),
    /// Replace the file by these lines.
    Replace(Vec<u8>),
    /// Answer when all earlier jobs are done, or could not be done.
    Flush(SyncSender<()>),
}

/// The event loop's side of the store.
#[derive(Debug)]
pub(super) struct Store {
    jobs: SyncSender<Job>,
    /// The bytes in the file, as far as the writer could write them.
    file_size: usize,
    /// Whether the writer lacks lines, so that the whole file must be written again.
    is_behind: Arc<AtomicBool>,
    failure: Failure,
}

/// Why the last attempt of the writer failed, if it did.
type Failure = Arc<Mutex<Option<String>>>;

/// Reads the incidents in `state_dir` and starts the writer. There is no writer if the file cannot be read: writing would
/// replace it. The error is a phrase with a remedy.
fn load(state_dir: &Path) -> (Records, Result<Store, String>) {
    let dir = state_dir.join(DIR);
    let path = dir.join(FILE);
    let text = match read(&path) {
        Ok(text) => text,
        Err(error) => {
            let (path, hint) = (path.display(), "move the file away and start Rosemary again");
            error!(%path, %error, hint, "could not read the stored incidents; new ones are lost at the next stop");
            return (Records::default(), Err(format!("{path}: {error}; {hint}")));
        }
    };
    let (records, ignored) = parse(&text);
    if ignored > 0 {
        warn!(path = %path.display(), lines = ignored, "ignored damaged lines of stored incidents");
    }
    let is_behind = Arc::new(AtomicBool::new(ignored > 0));
    let failure = Failure::default();
    match start(dir, text.len() as u64, is_behind.clone(), failure.clone()) {
        Ok(jobs) => (records, Ok(Store { jobs, file_size: text.len(), is_behind, failure })),
        Err(error) => {
            error!(%error, "could not start the thread that stores incidents");
            (records, Err(format!("the thread that stores them did not start: {error}")))
        }
    }
}

impl Store {
    /// Queues `changes`, or all of `records` if most of the file is outdated. Never blocks.
    fn write(&mut self, changes: &[Change], records: &Records) {
        if changes.is_empty() {
            return;
        }
        let lines: Vec<u8> = changes.iter().flat_map(|Change(json)| line(json)).collect();
        let is_outdated = self.file_size + lines.len() > 2 * records.bytes() + OUTDATED;
        let job = if is_outdated || self.is_behind.swap(false, Ordering::AcqRel) {
            let all: Vec<u8> = records.lines().flat_map(|json| line(&json)).collect();
            self.file_size = all.len();
            Job::Replace(all)
        } else {
            self.file_size += lines.len();
            Job::Append(lines)
        };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.jobs.try_send(job)
        {
            self.is_behind.store(true, Ordering::Release);
        }
    }

    /// Why incidents cannot be stored now, as a phrase, if so.
    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the writer has done its jobs, for at most `most`.
    fn flush(&mut self, most: Duration) {
        let (done, wait) = mpsc::sync_channel(1);
        if self.jobs.try_send(Job::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(most); // the caller goes on in either case
        }
    }
}

/// Starts the writer's thread, which ends when the sender is dropped.
fn start(
    dir: PathBuf,
    size: u64,
    is_behind: Arc<AtomicBool>,
    failure: Failure,
) -> io::Result<SyncSender<Job>> {
    let (jobs, theirs) = mpsc::sync_channel(JOBS);
    let writer = Writer { dir, size, waiting: Vec::new(), replaces: false, failure };
    std::thread::Builder::new()
        .name("incidents".into())
        .spawn(move || writer.serve(&theirs, &is_behind))?;
    Ok(jobs)
}

/// The state of the writer's thread.
#[derive(Debug)]
struct Writer {
    dir: PathBuf,
    /// The size of the file up to the last complete line.
    size: u64,
    /// Lines that are not in the file yet.
    waiting: Vec<u8>,
    /// Whether `waiting` replaces the file.
    replaces: bool,
    /// Why the last attempt failed, if it did, which the log already says.
    failure: Failure,
}

impl Writer {
    fn serve(mut self, jobs: &Receiver<Job>, is_behind: &AtomicBool) {
        loop {
            let first = if self.waiting.is_empty() && !self.replaces {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(RETRY)
            };
            let ended = matches!(first, Err(RecvTimeoutError::Disconnected));
            let mut flushed = Vec::new();
            // One sync serves all jobs that wait.
            for job in first.into_iter().chain(jobs.try_iter()) {
                match job {
                    Job::Append(lines) if self.waiting.len() + lines.len() > MOST_WAITING => {
                        is_behind.store(true, Ordering::Release);
                    }
                    Job::Append(lines) => self.waiting.extend(lines),
                    Job::Replace(lines) => (self.waiting, self.replaces) = (lines, true),
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

    /// Writes what waits, and logs a failure or the end of one.
    fn write(&mut self) {
        if self.waiting.is_empty() && !self.replaces {
            return;
        }
        let path = self.dir.join(FILE);
        let written = if self.replaces { self.replace(&path) } else { self.append(&path) };
        match written {
            Ok(size) => {
                (self.size, self.replaces) = (size, false);
                self.waiting.clear();
                if self.note(None).is_some() {
                    info!(path = %path.display(), "incidents are stored again");
                }
            }
            Err(error) => {
                let why = format!("{error} ({}); {HINT}", path.display());
                if self.note(Some(why)).is_none() {
                    error!(path = %path.display(), %error, hint = HINT, "could not store incidents");
                }
            }
        }
    }

    /// Notes why the last attempt failed, if it did. Returns why the one before failed.
    fn note(&self, failure: Option<String>) -> Option<String> {
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, failure)
    }

    /// Appends what waits after the last complete line. Returns the file's size.
    fn append(&self, path: &Path) -> io::Result<u64> {
        self.make_dir()?;
        let is_new = !path.exists();
        let mut file = options().append(true).create(true).open(path)?;
        // A part of a line that an earlier attempt wrote.
        if file.metadata()?.len() > self.size {
            file.set_len(self.size)?;
        }
        file.write_all(&self.waiting)?;
        file.sync_data()?;
        if is_new {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(self.size + self.waiting.len() as u64)
    }

    /// Replaces the file by what waits. Returns its size.
    fn replace(&self, path: &Path) -> io::Result<u64> {
        self.make_dir()?;
        let new = self.dir.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&new); // a killed instance may have left it
        let mut file = options().write(true).create_new(true).open(&new)?;
        let written = file.write_all(&self.waiting).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| std::fs::rename(&new, path)) {
            let _ = std::fs::remove_file(&new); // it would keep a full disk full
            return Err(error);
        }
        File::open(&self.dir)?.sync_all()?;
        Ok(self.waiting.len() as u64)
    }

    fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = match options().read(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other(format!("it is longer than {LONGEST_FILE} bytes")));
    }
    Ok(text)
}

/// Reads the lines of a file. Returns the incidents, and the number of lines that were ignored.
fn parse(text: &[u8]) -> (Records, usize) {
    let (mut records, mut ignored) = (Records::default(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match parse_line(line) {
            Some(incident) => records.restore(incident),
            None => ignored += 1,
        }
    }
    (records, ignored)
}

fn parse_line(line: &[u8]) -> Option<Incident> {
    let (crc, json) = line.strip_suffix(b"\n")?.split_at_checked(9)?;
    let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?.strip_suffix(' ')?, 16).ok()?;
    let incident: Incident = serde_json::from_slice(json).ok().filter(|_| crc == crc32(json))?;
    (incident.version <= FORMAT).then_some(incident)
}

/// A line of the file.
fn line(json: &[u8]) -> Vec<u8> {
    let mut line = format!("{:08x} ", crc32(json)).into_bytes();
    line.extend_from_slice(json);
    line.push(b'\n');
    line
}

/// CRC-32 as in IEEE 802.3, bit by bit, as lines are short and rare.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod day;
#[cfg(test)]
mod tests;

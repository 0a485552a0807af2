//! The files of the history of the configuration, and of the time until which a configuration waits for its confirmation.
//!
//! ```text
//! /var/lib/rosemary/
//!     unconfirmed.json        what returns without a confirmation, and when; it exists while a configuration waits
//!     configurations/         0700
//!         17.json             0600: a configuration with its text, which may have secrets
//!         17.json.damaged     a file that could not be read
//!         *.new               the next content of a file, while it is written
//! ```
//!
//! A file is written under another name, synced and renamed, so each is always complete. A damaged file is renamed, with a warning: the
//! history is no reason not to start.
//!
//! The end of the time is stored twice. After a restart of the monitor the clock since the boot counts, which nobody sets. After a
//! restart of the machine the wall clock counts, and never for longer than the whole time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use config::Config;
use control::change::{ConfigChange, Outcome};
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use supervisor::change::deployment::StoredConfirmation;
use supervisor::change::history::{Applied, Configuration, History, MOST};
use supervisor::change::{AtStart, ITSELF, Unconfirmed, at_start};
use tracing::{error, info, warn};

use crate::deployment::new_config;
use crate::installation::read_file;

/// The directory's name in the state directory.
const DIR: &str = "configurations";

/// The name of the file with the time for a confirmation, in the state directory.
const UNCONFIRMED: &str = "unconfirmed.json";

/// The version of both formats.
const FORMAT: u32 = 1;

/// The most bytes of a file: a configuration of 1 MiB, each of whose bytes takes six as JSON.
const LONGEST: u64 = 7 << 20;

/// The most files that are read at a start: all that are kept, and leftovers of a killed instance.
const MOST_FILES: usize = MOST + 16;

/// Identifies the boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A configuration, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    change: ConfigChange,
    previous: Option<u64>,
    text: String,
}

/// The clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// Milliseconds since 1970.
    wall_ms: u64,
    /// Milliseconds since the boot, with the time of a suspension.
    boot_ms: u64,
    /// The boot; `None` if the system does not say it.
    boot: Option<String>,
}

/// The time for a confirmation, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirmation {
    format: u32,
    /// The number of the configuration that returns.
    before: u64,
    /// The whole time in milliseconds.
    time_ms: u64,
    /// Its end, in milliseconds since 1970.
    wall_ms: u64,
    /// Its end, in milliseconds since the boot.
    boot_ms: u64,
    boot: Option<String>,
}

/// The result of a start.
#[derive(Debug)]
pub(crate) struct Started {
    /// The configuration with which Rosemary starts.
    pub(crate) config: Config,
    /// The history; its last configuration is `config`.
    pub(crate) history: History,
    /// The confirmation for which `config` waits, if it does.
    pub(crate) unconfirmed: Option<Unconfirmed>,
}

/// The directory of the history.
pub(crate) fn dir(state_dir: &Path) -> PathBuf {
    state_dir.join(DIR)
}

fn file(state_dir: &Path, id: u64) -> PathBuf {
    dir(state_dir).join(format!("{id}.json"))
}

/// Stores a configuration.
///
/// # Errors
/// It cannot be written; a former file is unchanged.
pub(crate) fn write(state_dir: &Path, kept: &Configuration) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir(state_dir))?;
    let Configuration { change, previous, text } = kept;
    let stored = Stored {
        format: FORMAT,
        change: change.clone(),
        previous: *previous,
        text: text.to_string(),
    };
    replace(&file(state_dir, change.id), &stored)
}

/// Removes configurations. One that stays is dropped at the next start.
pub(crate) fn remove(state_dir: &Path, ids: &[u64]) {
    for id in ids {
        let path = file(state_dir, *id);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(path = %path.display(), %error, "could not remove an old configuration");
        }
    }
}

fn replace<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new); // a killed instance may have left it
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let json = serde_json::to_vec(content)?;
    let written = file.write_all(&json).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        let _ = fs::remove_file(&new); // it would keep a full disk full
        return Err(error);
    }
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Reads a file; `None` if there is none. A damaged one is renamed.
fn read<T: DeserializeOwned>(path: &Path, is_valid: impl Fn(&T) -> bool) -> Option<T> {
    let why = match read_file(path, LONGEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => error.to_string(),
        Ok(json) => match serde_json::from_slice(&json) {
            Ok(content) if is_valid(&content) => return Some(content),
            Ok(_) => "it is of another version or has another number".into(),
            Err(error) => error.to_string(),
        },
    };
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let renamed = fs::rename(path, &aside).is_ok();
    warn!(path = %path.display(), why, renamed, "put a damaged file aside, whose name now ends with .damaged");
    None
}

/// Reads the history. Files beyond those that a history keeps are removed.
fn load(state_dir: &Path) -> History {
    let dir = dir(state_dir);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return History::default(),
        Err(error) => {
            warn!(dir = %dir.display(), %error, "could not read the history of the configuration");
            return History::default();
        }
    };
    let number = |name: &str| name.split_once(".json")?.0.parse::<u64>().ok();
    let names = entries.filter_map(|it| it.ok()?.file_name().into_string().ok());
    let names: Vec<(u64, String)> = names.filter_map(|it| Some((number(&it)?, it))).collect();
    let highest = names.iter().map(|(id, _)| *id).max().unwrap_or_default();
    let is_whole = |(id, name): &&(u64, String)| *name == format!("{id}.json");
    let mut ids: Vec<u64> = names.iter().filter(is_whole).map(|(id, _)| *id).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a)); // the newest first
    let old = ids.split_off(ids.len().min(MOST_FILES));
    remove(state_dir, &old);
    let kept = ids.iter().filter_map(|id| {
        let is_valid = |it: &Stored| it.format == FORMAT && it.change.id == *id;
        let Stored { change, previous, text, .. } = read(&file(state_dir, *id), is_valid)?;
        Some(Configuration { change, previous, text: text.into() })
    });
    let history = History::new(kept.collect(), highest);
    let is_dropped = |id: &u64| history.get(*id).is_none();
    let dropped: Vec<u64> = ids.iter().copied().filter(is_dropped).collect();
    // A damaged file has another name now.
    remove(state_dir, &dropped);
    history
}

impl Clocks {
    /// Reads the clocks.
    pub(crate) fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let boot = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(boot.tv_sec).unwrap_or_default();
        let ms = u64::try_from(boot.tv_nsec).unwrap_or_default() / 1_000_000;
        let boot = read_boot_id();
        Self {
            wall_ms: millis(since_1970.unwrap_or_default()),
            boot_ms: seconds * 1_000 + ms,
            boot,
        }
    }
}

fn read_boot_id() -> Option<String> {
    let id = fs::read_to_string(BOOT_ID).ok()?;
    let id = id.trim();
    (!id.is_empty() && id.len() <= 64).then(|| id.to_owned())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Confirmation {
    /// The configuration `before` returns after `time`.
    pub(crate) fn new(before: u64, time: Duration, now: &Clocks) -> Self {
        let time_ms = millis(time);
        Self {
            format: FORMAT,
            before,
            time_ms,
            wall_ms: now.wall_ms.saturating_add(time_ms),
            boot_ms: now.boot_ms.saturating_add(time_ms),
            boot: now.boot.clone(),
        }
    }

    /// The rest of the time.
    fn left(&self, now: &Clocks) -> Duration {
        let left = if self.boot.is_some() && self.boot == now.boot {
            self.boot_ms.saturating_sub(now.boot_ms)
        } else {
            self.wall_ms.saturating_sub(now.wall_ms)
        };
        Duration::from_millis(left.min(self.time_ms))
    }

    /// Stores it in the state directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn store(&self, state_dir: &Path) -> io::Result<()> {
        replace(&state_dir.join(UNCONFIRMED), self)
    }

    /// Removes the stored one, if there is one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn remove(state_dir: &Path) -> io::Result<()> {
        match fs::remove_file(state_dir.join(UNCONFIRMED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => File::open(state_dir)?.sync_all(),
        }
    }

    fn load(state_dir: &Path) -> Option<Self> {
        read(&state_dir.join(UNCONFIRMED), |it: &Self| it.format == FORMAT)
    }
}

/// Compares the configuration that was loaded at the start with the history, and takes it back if the time for its confirmation is over.
/// `fits` says why Rosemary cannot start with an earlier configuration instead, as a phrase.
pub(crate) fn start(
    mut config: Config,
    state_dir: &Path,
    fits: impl Fn(&Config) -> Result<(), String>,
) -> Started {
    let mut history = load(state_dir);
    let (mut waiting, mut what) = (None, "start with another file");
    let stored = Confirmation::load(state_dir)
        .map(|it| StoredConfirmation { before: it.before, time: it.left(&Clocks::now()) });
    match at_start(&history, config.text(), stored) {
        AtStart::Nothing => {}
        AtStart::Forget => forget(state_dir),
        AtStart::Lost => {
            warn!(
                "the configuration stays although nobody confirmed it, as the one before is lost"
            );
            forget(state_dir);
        }
        AtStart::Wait(StoredConfirmation { before, time }) => waiting = Some((before, time)),
        AtStart::TakeBack { before } => match take_back(before, &config, &history, &fits) {
            Ok(earlier) => {
                warn!(
                    before,
                    "nobody confirmed the configuration in time; Rosemary starts with the one before"
                );
                config = earlier;
                what = "start with the configuration before, as nobody confirmed the last one";
                forget(state_dir);
                taken_back(&mut history, state_dir);
            }
            Err(why) => {
                error!(why, "an unconfirmed configuration could not be taken back yet");
                waiting = Some((before, Duration::ZERO));
            }
        },
    }
    record(&mut history, &config, state_dir, what, waiting.is_some());
    let unconfirmed = waiting.zip(history.last()).map(|((before, left), last)| {
        info!(
            change = last.change.id,
            seconds = left.as_secs(),
            "the configuration waits for a confirmation"
        );
        Unconfirmed { id: last.change.id, before, until: Instant::now() + left, failure: None }
    });
    Started { config, history, unconfirmed }
}

fn forget(state_dir: &Path) {
    if let Err(error) = Confirmation::remove(state_dir) {
        warn!(dir = %state_dir.display(), %error, "could not remove the time of a confirmation");
    }
}

/// The last configuration was taken back, if it waited.
fn taken_back(history: &mut History, state_dir: &Path) {
    let last = history.last().filter(|it| it.change.outcome == Outcome::Waiting);
    let Some(id) = last.map(|it| it.change.id) else { return };
    if let Some(kept) = history.set_outcome(id, Outcome::TakenBack)
        && let Err(error) = write(state_dir, &kept)
    {
        warn!(change = id, %error, "could not store that a configuration was taken back");
    }
}

/// Makes an earlier configuration the file's again.
fn take_back(
    before: u64,
    present: &Config,
    history: &History,
    fits: impl Fn(&Config) -> Result<(), String>,
) -> Result<Config, String> {
    let file = present.file.clone().ok_or("the configuration has no file")?;
    let earlier = history.get(before).ok_or("it is not kept")?;
    let earlier = Config::parse(file, earlier.text.to_string()).map_err(|it| it.to_string())?;
    fits(&earlier)?;
    let loaded = history.last().map_or("", |it| &it.text);
    if let Some(edited) = new_config::restore(&earlier, loaded, true)? {
        warn!(file = %edited.display(), "kept the text of a configuration that somebody edited");
    }
    Ok(earlier)
}

/// Adds the configuration of a start to the history, unless it is the last one.
fn record(history: &mut History, config: &Config, state_dir: &Path, what: &str, waits: bool) {
    let what = match history.last() {
        Some(last) if *last.text == *config.text() => return,
        Some(_) => what,
        None => "first start",
    };
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let applied = Applied { who: ITSELF, what, time, waits, text: config.text() };
    let (new, dropped) = history.add(&applied);
    let stored = write(state_dir, &new);
    if let Err(error) = &stored {
        warn!(dir = %dir(state_dir).display(), %error, "could not store a configuration in the history");
    } else {
        remove(state_dir, &dropped);
    }
    history.set_stored(stored.map_err(|error| error.to_string()));
}

#[cfg(test)]
mod tests;

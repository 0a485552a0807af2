//! Assigns a permanent number to each app, identified by its name and its developer's key.
//!
//! The kernel marks flows with the number of the app that wrote them, and a zone's user id depends on it. So no number is
//! ever used for another app, even if apps are added, removed or renamed. The numbers of an installation begin at a random one, so
//! that flows of another installation in the same switches are not taken for those of its apps. One that an earlier version began
//! keeps its numbers, which begin at 1.
//!
//! ```text
//! /var/lib/rosemary/apps.json     { "format": 1, "installation": 123, "first": 4711,
//!                                   "apps": [ { "name": ..., "key": ..., "number": 4711 }, ... ] }
//! ```
//!
//! Only the instance that holds the [state directory](crate::state_dir) replaces the file: it writes a new file beside it,
//! synchronises that and renames it. A damaged file prevents the start, because new numbers would give one app's flows to
//! another app.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use control::app::{AbsentApp, AppId, Installation, MOST_NUMBERS, RANDOM_NUMBERS};
use control::kernel::MOST_ABSENT;
use package::PublicKey;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::error::StartError;
use crate::state_dir::StateDir;
use config::{Config, Orphans, is_name};

/// The file's name in the state directory.
const FILE: &str = "apps.json";

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The valid numbers; 0 and 0xffff are reserved.
const NUMBERS: std::ops::RangeInclusive<u16> = 1..=0xfffe;

/// The most bytes of the file: enough for all numbers.
const LONGEST: u64 = 8 * 1024 * 1024;

const HINT: &str = "name a directory of your own with --state-dir";

/// The remedy if the disk is full.
const FULL_HINT: &str = "free space there, or name a directory on another disk with --state-dir";

#[derive(Debug, Serialize, Deserialize)]
struct NumberFile {
    format: u32,
    /// Missing if an earlier version wrote the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    installation: Option<Installation>,
    /// The first number; missing if an earlier version assigned numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<u16>,
    apps: Vec<Entry>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// The public key of its developer; `None` for an app that ships with Rosemary and for a bare file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<PublicKey>,
    number: u16,
}

/// Returns the numbers of the apps with these names and keys, in their order. New apps get new numbers.
///
/// # Errors
/// [`StartError::Numbers`] if the file is damaged or no number is free; [`StartError::Path`] if it cannot be read or
/// written.
pub(crate) fn of<'n>(
    state: &StateDir,
    apps: impl IntoIterator<Item = (&'n str, Option<&'n PublicKey>)>,
) -> Result<Vec<AppId>, StartError> {
    identify(state)?;
    assign(state.path(), apps, true)
}

/// Returns the identity of the installation, which [`of`] has stored.
///
/// # Errors
/// As [`of`].
pub(crate) fn installation(state: &StateDir) -> Result<Installation, StartError> {
    identify(state)
}

/// Returns the identity of the installation. Stores one, and the first number, if there is none.
///
/// # Errors
/// As [`of`]. A full disk is none where apps have numbers already: the identity is then that of this run.
fn identify(state: &StateDir) -> Result<Installation, StartError> {
    let path = state.path().join(FILE);
    let refuse = |what, source: io::Error| {
        let hint = remedy(source.kind());
        StartError::Path { what, path: path.clone(), hint, source }
    };
    let text = read(&path).map_err(|error| refuse("read", error))?;
    let damaged = |why| StartError::Numbers { file: path.clone(), why };
    let file = text.map(|text| parse(&text).map_err(damaged)).transpose()?;
    let mut file = file.unwrap_or_default();
    if let (Some(installation), true) =
        (file.installation, file.first.is_some() || !file.apps.is_empty())
    {
        return Ok(installation);
    }
    let system = |source| StartError::System { what: "read random numbers", source };
    let installation = file.identify(random().map_err(system)?);
    match write_file(state.path(), &file) {
        Err(error) if file.apps.is_empty() => return Err(refuse("write", error)),
        Err(error) => {
            warn!(path = %path.display(), %error, "could not store the identity of this installation");
        }
        Ok(()) => {}
    }
    Ok(installation)
}

/// Returns 64 random bits.
fn random() -> io::Result<u64> {
    let digits = sys::random::hex_digits(size_of::<u64>())?;
    u64::from_str_radix(&digits, 16).map_err(io::Error::other)
}

/// Like [`of`], in the directory of the state that this instance has claimed. The numbers of new apps are stored only if
/// `write` is set; otherwise they may change.
///
/// # Errors
/// As [`of`].
pub(crate) fn assign<'n>(
    state_dir: &Path,
    apps: impl IntoIterator<Item = (&'n str, Option<&'n PublicKey>)>,
    write: bool,
) -> Result<Vec<AppId>, StartError> {
    let path = state_dir.join(FILE);
    let refuse = |what, source: io::Error| {
        let hint = remedy(source.kind());
        StartError::Path { what, path: path.clone(), hint, source }
    };
    let text = read(&path).map_err(|error| refuse("read", error))?;
    let damaged = |why| StartError::Numbers { file: path.clone(), why };
    let mut file = match text {
        None => NumberFile::default(),
        Some(text) => parse(&text).map_err(damaged)?,
    };
    let known = file.apps.len();
    let numbers =
        apps.into_iter().map(|(name, key)| file.number(name, key)).collect::<Result<_, _>>();
    let numbers = numbers.map_err(damaged)?;
    if write && file.apps.len() > known {
        write_file(state_dir, &file).map_err(|error| refuse("write", error))?;
    }
    Ok(numbers)
}

/// Returns the key of the app that last got a number under this name. If the file cannot be read, [`of`] reports why.
pub(crate) fn last_key(state: &StateDir, name: &str) -> Option<PublicKey> {
    let file = parse(&read(&state.path().join(FILE)).ok()??).ok()?;
    let of_name = file.apps.into_iter().filter(|entry| entry.name == name);
    of_name.max_by_key(|entry| entry.number)?.key
}

/// What to do if the file cannot be read or written.
fn remedy(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FULL_HINT,
        _ => HINT,
    }
}

/// Returns the apps that have a number and do not run. Their entries in switches are removed, unless the configuration has
/// an app of that name, which is not enabled or not chosen, or keeps all orphans.
///
/// # Errors
/// As [`of`].
pub(crate) fn absent(
    state: &StateDir,
    running: &[(AppId, &str)],
    config: &Config,
) -> Result<Vec<AbsentApp>, StartError> {
    let path = state.path().join(FILE);
    let refuse = |what, source| StartError::Path { what, path: path.clone(), hint: HINT, source };
    let text = read(&path).map_err(|error| refuse("read", error))?;
    let damaged = |why| StartError::Numbers { file: path.clone(), why };
    let file = text.map(|text| parse(&text).map_err(damaged)).transpose()?;
    let known = file.map_or_else(Vec::new, |file| file.apps);
    let absent = known.into_iter().filter_map(|Entry { name, number, .. }| {
        let app = AppId(number);
        let runs = running.iter().any(|(other, _)| *other == app);
        let rests = config.app(&name).is_some() && !running.iter().any(|(_, it)| *it == name);
        let remove = config.orphans == Orphans::Remove && !rests;
        (!runs).then_some(AbsentApp { app, name, remove })
    });
    let mut absent: Vec<AbsentApp> = absent.collect();
    if absent.len() > MOST_ABSENT {
        // The oldest ones have most likely left nothing.
        warn!(
            apps = absent.len(),
            most = MOST_ABSENT,
            "looks in switches only for flows of the apps with the highest numbers"
        );
        absent.sort_unstable_by_key(|absent| std::cmp::Reverse(absent.app));
        absent.truncate(MOST_ABSENT);
    }
    Ok(absent)
}

impl Default for NumberFile {
    fn default() -> Self {
        Self { format: FORMAT, installation: None, first: None, apps: Vec::new() }
    }
}

impl NumberFile {
    /// Adds what is missing of the identity: an installation, and a first number if no app has a number. Returns the installation.
    fn identify(&mut self, random: u64) -> Installation {
        if self.apps.is_empty() && self.first.is_none() {
            let (least, most) =
                (*RANDOM_NUMBERS.start(), *RANDOM_NUMBERS.end() - (MOST_NUMBERS - 1));
            let [high, low, ..] = random.to_be_bytes();
            self.first = Some(least + u16::from_be_bytes([high, low]) % (most - least + 1));
        }
        *self.installation.get_or_insert_with(|| Installation::of_random(random))
    }

    fn number(&mut self, name: &str, key: Option<&PublicKey>) -> Result<AppId, String> {
        let is_it = |entry: &&Entry| entry.name == name && entry.key.as_ref() == key;
        if let Some(entry) = self.apps.iter().find(is_it) {
            return Ok(AppId(entry.number));
        }
        let first = self.first.unwrap_or(*NUMBERS.start());
        let last = self.apps.iter().map(|entry| entry.number).max();
        let number = last.map_or(first, |last| last.saturating_add(1));
        let is_free = |number: &u16| {
            NUMBERS.contains(number) && (self.first.is_none() || number - first < MOST_NUMBERS)
        };
        let number = Some(number).filter(is_free);
        let number = number.ok_or("no number is free")?;
        self.apps.push(Entry { name: name.to_owned(), key: key.cloned(), number });
        Ok(AppId(number))
    }
}

fn parse(text: &[u8]) -> Result<NumberFile, String> {
    let file: Result<NumberFile, _> = serde_json::from_slice(text);
    let file = file.map_err(|error| format!("it is damaged: {error}"))?;
    if file.format != FORMAT {
        return Err(format!("its format is {}, and this version reads only {FORMAT}", file.format));
    }
    if file.installation.is_some_and(|it| !it.is_valid()) {
        return Err("its installation is not one".into());
    }
    if let Some(first) = file.first
        && (!NUMBERS.contains(&first)
            || file
                .apps
                .iter()
                .any(|it| it.number.checked_sub(first).is_none_or(|it| it >= MOST_NUMBERS)))
    {
        return Err(format!("its first number, {first}, does not fit its apps"));
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for Entry { name, key, number } in &file.apps {
        if !is_name(name) {
            return Err(format!("{name:?} is not an app's name"));
        }
        if !NUMBERS.contains(number) {
            return Err(format!("{number} is not an app's number"));
        }
        if !names.insert((name, key.as_ref().map(ToString::to_string))) || !numbers.insert(number) {
            return Err(format!("it contains {name:?} or {number} twice"));
        }
    }
    Ok(file)
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?; // a truncated file does not parse
    Ok(Some(bytes))
}

fn write_file(state_dir: &Path, content: &NumberFile) -> io::Result<()> {
    let new = state_dir.join(format!("{FILE}.new"));
    let _ = std::fs::remove_file(&new); // a killed instance may have left it
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    file.write_all(&serde_json::to_vec_pretty(content)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&new, state_dir.join(FILE))?;
    File::open(state_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(dir: &Path, names: &[&str]) -> Result<Vec<u16>, String> {
        let state = StateDir::claim(dir).unwrap();
        let numbers = of(&state, names.iter().map(|name| (*name, None)))
            .map_err(|error| error.to_string())?;
        let path = dir.join(FILE);
        let first = parse(&read(&path).unwrap().unwrap()).unwrap().first;
        let place = |AppId(number)| number - first.map_or(0, |first| first - 1);
        Ok(numbers.into_iter().map(place).collect())
    }

    #[test]
    fn full_disk_has_a_remedy_of_its_own() {
        let full = io::Error::from_raw_os_error(28).kind(); // ENOSPC
        assert!(remedy(full).contains("free space"));
        assert_eq!(remedy(io::ErrorKind::PermissionDenied), HINT);
    }

    #[test]
    fn numbers_are_permanent() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("made/for/us");
        assert_eq!(numbers(&dir, &["b", "a"]), Ok(vec![1, 2]));
        assert_eq!(numbers(&dir, &["a"]), Ok(vec![2]));
        assert_eq!(numbers(&dir, &["c", "a", "b"]), Ok(vec![3, 2, 1]));
        assert!(!dir.join(format!("{FILE}.new")).exists());
    }

    #[test]
    fn app_of_another_developer_gets_another_number() {
        let dir = tempfile::tempdir().unwrap();
        let key = || -> PublicKey {
            let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
            pair.pk.to_base64().parse().unwrap()
        };
        let (one, other) = (key(), key());
        let apps = [("a", None), ("a", Some(&one)), ("a", Some(&other)), ("b", Some(&one))];
        let numbers = |apps: &[(&'static str, Option<&PublicKey>)]| {
            of(&StateDir::claim(dir.path()).unwrap(), apps.iter().copied()).unwrap()
        };
        let all = numbers(&apps);
        assert!(all.is_sorted_by(|one, next| one.0 + 1 == next.0), "{all:?}");
        assert_eq!(numbers(&apps[2..]), all[2..]);
        assert_eq!(numbers(&apps[..1]), all[..1]);
    }

    #[test]
    fn new_installation_has_other_numbers_than_one_whose_state_was_lost() {
        let mut firsts = BTreeSet::new();
        for random in [0, 1 << 48, 1 << 63, u64::MAX, 0x1234_5678_9abc_def0] {
            let mut file = NumberFile::default();
            assert!(file.identify(random).is_valid());
            let first = file.first.unwrap();
            assert!(RANDOM_NUMBERS.contains(&first), "numbers below are those of earlier versions");
            assert!(RANDOM_NUMBERS.contains(&(first + (MOST_NUMBERS - 1))));
            assert_eq!(file.number("a", None).unwrap(), AppId(first));
            firsts.insert(first);
        }
        assert_eq!(firsts.len(), 5, "{firsts:?}");
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let installation = |dir: &Path| installation(&StateDir::claim(dir).unwrap()).unwrap();
        assert_ne!(installation(one.path()), installation(other.path()));
        assert_eq!(installation(one.path()), installation(one.path()));
    }

    #[test]
    fn installation_of_an_earlier_version_keeps_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let text = br#"{"format":1,"apps":[{"name":"a","number":1},{"name":"b","number":2}]}"#;
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let state = StateDir::claim(dir.path()).unwrap();
        let numbers =
            |names: &[&'static str]| of(&state, names.iter().map(|it| (*it, None))).unwrap();
        let first = installation(&state).unwrap();
        assert_eq!(numbers(&["b", "c", "a"]), [2, 3, 1].map(AppId));
        assert_eq!(installation(&state).unwrap(), first, "it is stored");
    }

    #[test]
    fn apps_beyond_the_meters_have_no_number() {
        let mut file = NumberFile { first: Some(0x2000), ..NumberFile::default() };
        for place in 0..MOST_NUMBERS {
            assert_eq!(file.number(&format!("a{place}"), None), Ok(AppId(0x2000 + place)));
        }
        assert!(file.number("one-more", None).is_err());
        assert_eq!(file.number("a7", None), Ok(AppId(0x2007)));
    }

    #[test]
    fn number_of_removed_app_is_not_reused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(numbers(dir.path(), &["gone", "also-gone"]), Ok(vec![1, 2]));
        assert_eq!(numbers(dir.path(), &["new"]), Ok(vec![3]));
    }

    #[test]
    fn absent_apps_lose_their_flows_unless_they_are_configured() {
        let dir = tempfile::tempdir().unwrap();
        numbers(dir.path(), &["runs", "gone", "rests"]).unwrap();
        let state = StateDir::claim(dir.path()).unwrap();
        let absent = |text: &str| -> Vec<(u16, String, bool)> {
            let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
            let runs = of(&state, [("runs", None)]).unwrap()[0];
            let absent = absent(&state, &[(runs, "runs")], &config).unwrap();
            absent.into_iter().map(|it| (it.app.0 - runs.0 + 1, it.name, it.remove)).collect()
        };
        let apps = "[[app]]\nname = \"runs\"\n[[app]]\nname = \"rests\"\nenabled = false";
        assert_eq!(absent(apps), [(2, "gone".into(), true), (3, "rests".into(), false)]);
        let keep = format!("[controller]\norphans = \"keep\"\n{apps}");
        assert_eq!(absent(&keep), [(2, "gone".into(), false), (3, "rests".into(), false)]);
    }

    #[test]
    fn damaged_file_error_names_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        numbers(dir.path(), &["a", "b"]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let half = whole[..whole.len() / 2].to_vec();
        let twice = br#"{"format":1,"apps":[{"name":"a","number":1},{"name":"b","number":1}]}"#;
        for text in [
            Vec::new(),
            half,
            b"\0\0\0\0".to_vec(),
            twice.to_vec(),
            br#"{"format":2,"apps":[]}"#.to_vec(),
            br#"{"format":1,"apps":[{"name":"a","number":0}]}"#.to_vec(),
            br#"{"format":1,"apps":[{"name":"../a","number":1}]}"#.to_vec(),
            br#"{"format":1,"apps":[{"name":"a","number":65535}]}"#.to_vec(),
            br#"{"format":1,"installation":0,"apps":[{"name":"a","number":1}]}"#.to_vec(),
            br#"{"format":1,"first":5000,"apps":[{"name":"a","number":1}]}"#.to_vec(),
            br#"{"format":1,"first":5000,"apps":[{"name":"a","number":6023}]}"#.to_vec(),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = numbers(dir.path(), &["a"]).unwrap_err();
            assert!(error.contains("from a backup") && error.contains("del-flows"), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn numbers_end_before_the_reserved_one() {
        let dir = tempfile::tempdir().unwrap();
        let text = br#"{"format":1,"apps":[{"name":"last","number":65533}]}"#;
        std::fs::write(dir.path().join(FILE), text).unwrap();
        assert_eq!(numbers(dir.path(), &["x"]), Ok(vec![0xfffe]));
        assert!(numbers(dir.path(), &["y"]).unwrap_err().contains("no number is free"));
    }

    #[test]
    fn half_written_file_of_killed_instance_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        numbers(dir.path(), &["a"]).unwrap();
        std::fs::write(dir.path().join("apps.json.new"), "{\"for").unwrap();
        assert_eq!(numbers(dir.path(), &["b", "a"]), Ok(vec![2, 1]));
    }
}

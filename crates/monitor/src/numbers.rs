//! Assigns a permanent number to each app, identified by its name and its developer's key.
//!
//! The kernel marks flows with the number of the app that wrote them, and a zone's user id depends on it. So no number is
//! ever used for another app, even if apps are added, removed or renamed.
//!
//! ```text
//! /var/lib/rosemary/apps.json     { "format": 1, "apps": [ { "name": ..., "key": ..., "number": 1 }, ... ] }
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

use control::app::{AbsentApp, AppId};
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
    assign(state.path(), apps, true)
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
        None => NumberFile { format: FORMAT, apps: Vec::new() },
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

impl NumberFile {
    fn number(&mut self, name: &str, key: Option<&PublicKey>) -> Result<AppId, String> {
        let is_it = |entry: &&Entry| entry.name == name && entry.key.as_ref() == key;
        if let Some(entry) = self.apps.iter().find(is_it) {
            return Ok(AppId(entry.number));
        }
        let last = self.apps.iter().map(|entry| entry.number).max().unwrap_or(0);
        let number = Some(last + 1).filter(|number| NUMBERS.contains(number));
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
        Ok(numbers.into_iter().map(|AppId(number)| number).collect())
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
        assert_eq!(numbers(&apps), [1, 2, 3, 4].map(AppId));
        assert_eq!(numbers(&apps[2..]), [3, 4].map(AppId));
        assert_eq!(numbers(&apps[..1]), [AppId(1)]);
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
            let absent = absent(&state, &[(AppId(1), "runs")], &config).unwrap();
            absent.into_iter().map(|it| (it.app.0, it.name, it.remove)).collect()
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

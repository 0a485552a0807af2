//! Operators' decisions on which apps run. They override `enabled` in the configuration and outlive a run.
//!
//! ```text
//! /var/lib/rosemary/enabled.json     { "format": 1, "apps": { "firewall": false } }
//! ```
//!
//! The file is replaced as a whole: a new file is written beside it, synchronised and renamed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use config::is_name;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::error::StartError;

/// The file's name in the state directory.
const FILE: &str = "enabled.json";

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The most bytes of the file.
const LONGEST: u64 = 1024 * 1024;

const HINT: &str =
    "correct or remove the file; without it the configuration alone decides which apps run";

/// The operators' decisions, by the names of the apps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Overrides(BTreeMap<String, bool>);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideFile {
    format: u32,
    apps: BTreeMap<String, bool>,
}

impl Overrides {
    /// Reads the decisions in the state directory; none if there is no file.
    ///
    /// # Errors
    /// [`StartError::Path`] if the file cannot be read or is damaged.
    pub(crate) fn load(state_dir: &Path) -> Result<Self, StartError> {
        let path = state_dir.join(FILE);
        read(&path).map(Self).map_err(|source| StartError::Path {
            what: "read",
            path,
            hint: HINT,
            source,
        })
    }

    /// The decision on an app, if there is one.
    pub(crate) fn get(&self, app: &str) -> Option<bool> {
        self.0.get(app).copied()
    }

    /// The apps with a decision.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().map(|(app, enabled)| (app.as_str(), *enabled))
    }

    /// These decisions with another one.
    pub(crate) fn with(&self, app: &str, enabled: bool) -> Self {
        let mut apps = self.0.clone();
        apps.insert(app.to_owned(), enabled);
        Self(apps)
    }

    /// Replaces the file in the state directory.
    ///
    /// # Errors
    /// It cannot be written; the former file is unchanged.
    pub(crate) fn store(&self, state_dir: &Path) -> io::Result<()> {
        let new = state_dir.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&new); // a killed instance may have left it
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        let content = OverrideFile { format: FORMAT, apps: self.0.clone() };
        file.write_all(&serde_json::to_vec_pretty(&content)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&new, state_dir.join(FILE))?;
        File::open(state_dir)?.sync_all()
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<String, bool>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        result => result?,
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?; // a truncated file does not parse
    let file: OverrideFile = serde_json::from_slice(&bytes)?;
    if file.format != FORMAT {
        let why = format!("its format is {}, and this version reads only {FORMAT}", file.format);
        return Err(io::Error::other(why));
    }
    match file.apps.keys().find(|name| !is_name(name)) {
        Some(name) => Err(io::Error::other(format!("{name:?} is not an app's name"))),
        None => Ok(file.apps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_outlive_a_run() {
        let dir = tempfile::tempdir().unwrap();
        let none = Overrides::load(dir.path()).unwrap();
        assert_eq!((none.get("firewall"), none.iter().count()), (None, 0));
        none.with("firewall", true).with("firewall", false).store(dir.path()).unwrap();
        std::fs::write(dir.path().join("enabled.json.new"), "{").unwrap();
        let one = Overrides::load(dir.path()).unwrap();
        assert_eq!(one.get("firewall"), Some(false));
        one.with("hub", true).store(dir.path()).unwrap();
        let two = Overrides::load(dir.path()).unwrap();
        assert_eq!(two.iter().collect::<Vec<_>>(), [("firewall", false), ("hub", true)]);
    }

    #[test]
    fn damaged_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", r#"{"format":2,"apps":{}}"#, r#"{"format":1,"apps":{"../a":true}}"#] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let error = Overrides::load(dir.path()).unwrap_err().to_string();
            assert!(error.contains("the configuration alone"), "{error}");
        }
    }
}

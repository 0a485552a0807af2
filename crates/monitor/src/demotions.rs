//! Remembers, across restarts of Rosemary, the apps in which a kernel ended: they stay user apps until the operator
//! promotes them.
//!
//! ```text
//! /var/lib/rosemary/demoted.json     { "format": 1, "apps": { "NAME": "why, as a phrase", ... } }
//! ```
//!
//! As for the apps' numbers, a new file is written beside the old one, synchronised and renamed. A damaged file prevents
//! the start, because without it such an app would end the kernel again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::error;

use crate::error::StartError;
use crate::installation::read_file;

/// The file's name in the state directory.
const FILE: &str = "demoted.json";

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The most bytes of the file.
const LONGEST: u64 = 1024 * 1024;

/// The most apps in the file. A name leaves it with the operator's promotion; apps that are long gone do not grow it
/// without bound.
const MOST: usize = 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    apps: BTreeMap<String, String>,
}

/// The demoted apps.
#[derive(Debug)]
pub(crate) struct Demotions {
    dir: PathBuf,
    apps: BTreeMap<String, String>,
}

impl Demotions {
    /// Reads the file in the state directory `dir`.
    ///
    /// # Errors
    /// [`StartError::Path`]: it cannot be read, or is damaged.
    pub(crate) fn load(dir: &Path) -> Result<Self, StartError> {
        let path = dir.join(FILE);
        let apps = match read_file(&path, LONGEST) {
            Ok(text) => parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let hint = "put it back from a backup; without the file, every app with host = \"kernel\" runs in the kernel again";
        let apps = apps.map_err(|source| StartError::Path { what: "read", path, hint, source })?;
        Ok(Self { dir: dir.to_owned(), apps })
    }

    fn write(&self) -> io::Result<()> {
        let new = self.dir.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&new); // a killed instance may have left it
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        let content = Content { format: FORMAT, apps: self.apps.clone() };
        file.write_all(&serde_json::to_vec_pretty(&content)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&new, self.dir.join(FILE))?;
        File::open(&self.dir)?.sync_all()
    }
}

impl supervisor::programs::Demotions for Demotions {
    fn why(&self, app: &str) -> Option<&str> {
        self.apps.get(app).map(String::as_str)
    }

    fn record(&mut self, app: &str, why: &str) {
        if self.apps.len() < MOST || self.apps.contains_key(app) {
            self.apps.insert(app.to_owned(), why.to_owned());
        }
        if let Err(error) = self.write() {
            let hint = "make room in the state directory; until then the kernel hosts the app again after a restart of Rosemary";
            error!(app, %error, hint, "could not store that an app must not run in the kernel");
        }
    }

    fn clear(&mut self, app: &str) -> io::Result<bool> {
        let Some(why) = self.apps.remove(app) else { return Ok(false) };
        if let Err(error) = self.write() {
            self.apps.insert(app.to_owned(), why);
            return Err(error);
        }
        Ok(true)
    }
}

fn parse(text: &[u8]) -> io::Result<BTreeMap<String, String>> {
    let damaged = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let content: Content =
        serde_json::from_slice(text).map_err(|error| damaged(format!("it is damaged: {error}")))?;
    if content.format != FORMAT {
        let format = content.format;
        return Err(damaged(format!(
            "its format is {format}, and this version reads only {FORMAT}"
        )));
    }
    Ok(content.apps)
}

#[cfg(test)]
mod tests {
    use supervisor::programs::Demotions as _;

    use super::*;

    #[test]
    fn demotion_lasts_until_it_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let mut demotions = Demotions::load(dir.path()).unwrap();
        assert_eq!(demotions.why("a"), None);
        demotions.record("a", "the kernel ended in it");
        demotions.record("b", "it hung");
        let mut demotions = Demotions::load(dir.path()).unwrap();
        assert_eq!(demotions.why("a"), Some("the kernel ended in it"));
        assert!(demotions.clear("a").unwrap() && !demotions.clear("a").unwrap());
        let demotions = Demotions::load(dir.path()).unwrap();
        assert_eq!((demotions.why("a"), demotions.why("b")), (None, Some("it hung")));
    }

    #[test]
    fn damaged_file_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        for (text, part) in [("{\"format\":1,", "damaged"), ("{\"format\":2,\"apps\":{}}", "is 2")]
        {
            std::fs::write(&file, text).unwrap();
            let error = Demotions::load(dir.path()).unwrap_err();
            assert!(error.to_string().contains("demoted.json"), "{error}");
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains(part), "{source}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn failed_clearing_keeps_the_demotion() {
        let dir = tempfile::tempdir().unwrap();
        let mut demotions = Demotions::load(dir.path()).unwrap();
        demotions.record("a", "it hung");
        drop(dir);
        assert!(demotions.clear("a").is_err());
        assert_eq!(demotions.why("a"), Some("it hung"));
    }
}

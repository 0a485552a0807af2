//! Simulates app developers and an operator who trusts some of them: keys, packages, signatures,
//! rejections.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, LabError};
use serde_json::Value;

use crate::net::SOON;
use crate::rosemary_binary;

/// The configuration of root's Rosemary.
pub const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// Path of the installed package of the app `hub`.
pub const INSTALLED: &str = "/var/lib/rosemary/apps/hub.rosemary";

/// Default capabilities of a developer's apps.
pub const GRANTED: &str = "capabilities = [\"packet-out\", \"flow.write\"]\n";

/// How good a version of an app is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quality {
    /// It works.
    Good,
    /// It cannot be created.
    Unfit,
    /// It aborts when a packet arrives.
    Crashing,
}

/// A developer with a key pair.
#[derive(Debug)]
pub struct Developer {
    /// Name in the operator's configuration.
    pub name: &'static str,
    /// Home directory.
    pub home: PathBuf,
    /// Path of the secret key.
    pub key: String,
    /// Path of the password file.
    pub password: String,
}

impl Developer {
    /// Creates a developer with a new key pair, in a directory of that name.
    ///
    /// # Errors
    /// `rosemary` failed.
    pub fn new(lab: &Lab, name: &'static str) -> anyhow::Result<Self> {
        let home = lab.files().join(name);
        fs::create_dir(&home)?;
        let path = |file: &str| home.join(file).display().to_string();
        let (key, password) = (path("developer.key"), path("password"));
        fs::write(&password, "mauve otter lights nine lamps\n")?;
        let made = rosemary(lab, &["key", "new", "--key", &key, "--password-file", &password])?;
        ensure!(made.starts_with("[[trust]]\n"), "{made}");
        Ok(Self { name, home, key, password })
    }

    /// Creates, compiles, packages and signs the app `name` with additional manifest lines `keys`;
    /// returns the package's path.
    ///
    /// # Errors
    /// `rosemary` failed.
    pub fn package(&self, lab: &Lab, name: &str, keys: &str) -> anyhow::Result<String> {
        let dir = self.dir(name);
        let path = dir.display().to_string();
        let home = self.home.display().to_string();
        rosemary(lab, &["app", "new", name, "--c", "--dir", &path])?;
        let manifest = dir.join("app.toml");
        fs::write(&manifest, fs::read_to_string(&manifest)? + keys)?;
        let package = rosemary(lab, &["app", "build", &path, "--out", &home])?;
        let package = package.trim().to_owned();
        self.sign(lab, &package)?;
        Ok(package)
    }

    /// Makes and signs a package of the observing app `hub` with this version; returns the package's path. The app's directory
    /// was made by [`package`](Self::package).
    ///
    /// # Errors
    /// `rosemary` failed.
    pub fn version(&self, lab: &Lab, version: &str, quality: Quality) -> anyhow::Result<String> {
        let dir = self.dir("hub");
        let source = include_str!("../apps/watcher.c").replace("watcher", "hub");
        let mut source = source.replace("0.1.0", version);
        match quality {
            Quality::Good => {}
            Quality::Unfit => source = source.replace("return &host;", "return NULL;"),
            Quality::Crashing => {
                let skip = "            continue;";
                source = source.replace(skip, &format!("{skip}\nabort();"));
            }
        }
        fs::write(dir.join("hub.c"), format!("#include <stdlib.h>\n{source}"))?;
        let manifest = format!("name = \"hub\"\nversion = \"{version}\"\nstage = \"observe\"\n");
        fs::write(dir.join("app.toml"), manifest)?;
        let (dir, home) = (dir.display().to_string(), self.home.display().to_string());
        let package = rosemary(lab, &["app", "build", &dir, "--out", &home])?;
        let package = package.trim().to_owned();
        self.sign(lab, &package)?;
        Ok(package)
    }

    /// Signs a package with the developer's key.
    ///
    /// # Errors
    /// `rosemary` failed.
    pub fn sign(&self, lab: &Lab, package: &str) -> anyhow::Result<()> {
        let by = ["--key", &self.key, "--password-file", &self.password];
        rosemary(lab, &[&["app", "sign", package], &by[..]].concat())?;
        Ok(())
    }

    /// Returns the source directory of the app `name`.
    #[must_use]
    pub fn dir(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Returns the public key as in the configuration.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn public(&self) -> anyhow::Result<String> {
        let text = fs::read_to_string(Path::new(&self.key).with_extension("pub"))?;
        Ok(text.lines().nth(1).context("a key")?.to_owned())
    }

    /// Returns the operator's `[[trust]]` entry, with additional lines `keys`.
    #[must_use]
    pub fn trust(&self, keys: &str) -> String {
        let key = self.public().unwrap_or_default();
        entry(self.name, &key, &format!("{GRANTED}{keys}"))
    }
}

/// Returns the operator's `[[trust]]` entry for a key.
#[must_use]
pub fn entry(name: &str, key: &str, keys: &str) -> String {
    format!("[[trust]]\nname = \"{name}\"\nkey = \"{key}\"\n{keys}")
}

/// Writes the operator's configuration.
///
/// # Errors
/// It cannot be written.
pub fn trust(entries: &[&str], apps: &str) -> std::io::Result<()> {
    fs::write(CONFIG, entries.concat() + apps)
}

/// Runs `rosemary`; returns its output.
///
/// # Errors
/// It cannot be run or fails.
pub fn rosemary(lab: &Lab, args: &[&str]) -> Result<String, LabError> {
    lab.run(&rosemary_binary().display().to_string(), args)
}

/// Runs `rosemary`, which must fail with the exit code for configuration errors; returns its error.
///
/// # Errors
/// It did not fail so.
pub fn refused(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    Ok(refused_with(lab, args)?.1)
}

/// Waits until there are exactly these audit records: who did what, and the state before and after. Their order is free, because
/// the programs write them independently of each other. `...` in an expected record stands for any text.
///
/// # Errors
/// They differ.
pub fn must_have_audited(lab: &Lab, expected: &[&str]) -> anyhow::Result<()> {
    wait_for_records(lab, expected, |records| {
        let mut left: Vec<_> = records.iter().collect();
        expected.iter().all(|expected| {
            let place = left.iter().position(|record| fits(record, expected));
            place.map(|place| left.remove(place)).is_some()
        }) && left.is_empty()
    })
}

/// Waits until each of these audit records is among those that there are. `...` stands for any text.
///
/// # Errors
/// One is missing.
pub fn must_be_audited(lab: &Lab, expected: &[&str]) -> anyhow::Result<()> {
    wait_for_records(lab, expected, |records| {
        expected.iter().all(|expected| records.iter().any(|record| fits(record, expected)))
    })
}

fn wait_for_records(
    lab: &Lab,
    expected: &[&str],
    are_right: impl Fn(&[String]) -> bool,
) -> anyhow::Result<()> {
    // A line is on its way to the log store for a moment.
    lab.wait_for(format!("the audit records are {expected:#?}"), SOON, |evidence| {
        let records = audit_records(lab);
        evidence.0 = format!("{records:#?}");
        Ok(are_right(&records).then_some(()))
    })?;
    Ok(())
}

/// The audit records.
pub fn audit_records(lab: &Lab) -> Vec<String> {
    let lines = rosemary(lab, &["logs", "audit", "--json"]).unwrap_or_default();
    let records = lines.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
    records.filter_map(|it| it["text"].as_str().map(str::to_owned)).collect()
}

/// Whether `text` is `pattern`, in which `...` stands for any text.
fn fits(text: &str, pattern: &str) -> bool {
    match pattern.split_once("...") {
        None => text == pattern,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .any(|at| fits(&text[at..], rest))
        }),
    }
}

/// Runs `rosemary` with `args`. Returns its exit code, 1 or 78, and what it said on standard error.
///
/// # Errors
/// It did not fail so.
pub fn refused_with(lab: &Lab, args: &[&str]) -> anyhow::Result<(i32, String)> {
    let mut command: Command = lab.command("timeout");
    let output = command.arg("20").arg(rosemary_binary()).args(args).output()?;
    let said = String::from_utf8(output.stderr)?;
    // 78: a mistake in the configuration.
    let code = output.status.code().filter(|code| matches!(code, 1 | 78));
    let code = code.with_context(|| format!("{args:?}: {}: {said}", output.status))?;
    ensure!(output.stdout.is_empty() && !said.contains("panicked"), "{said}");
    Ok((code, said))
}

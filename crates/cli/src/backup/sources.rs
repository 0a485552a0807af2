//! Finds the files that a backup saves.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::restore::is_place_of_apps;
use super::{BackupPaths, CONFIG_NAME, is_left_out, read_config};

/// The most files and directories of a backup.
pub(super) const MOST_ENTRIES: usize = 100_000;

/// The most directories within each other.
pub(super) const DEEPEST: usize = 16;

/// A file or directory, and its name in the archive.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// The permissions, without the bits for others to write.
    pub(super) mode: u32,
}

impl Source {
    pub(super) fn is_file(&self) -> bool {
        self.kind == Kind::File
    }
}

/// The kinds of entries; an archive has no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The files to save, and notes for the operator on files that are left out.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) sources: Vec<Source>,
    pub(super) notices: Vec<String>,
}

/// Finds the files of an instance.
///
/// # Errors
/// The configuration has a mistake, or a directory cannot be read.
pub(super) fn find(places: &BackupPaths) -> anyhow::Result<Found> {
    let file = places.file()?;
    let config = read_config(&file)?;
    let mut found = Found::default();
    if file.exists() {
        found.add(&file, &format!("config/{CONFIG_NAME}"), 1)?;
        let dir = file.parent().unwrap_or(Path::new("/"));
        for app in config.apps.iter().flatten() {
            let Some(its) = &app.config else { continue };
            match its.strip_prefix(dir) {
                Ok(below) if is_place_of_apps(below) => {
                    let name = format!("config/{}", text(below)?);
                    // Apps may share a file.
                    if !found.sources.iter().any(|source| source.name == name) {
                        found.add(its, &name, 1)?;
                    }
                }
                _ => found.notices.push(format!(
                    "{}, the configuration of {}, is not in the backup, because it is outside of {} or at a path that Rosemary reserves; save it yourself",
                    its.display(),
                    app.name,
                    dir.display()
                )),
            }
            if let Some(object) = &app.object {
                found.notices.push(format!(
                    "{}, the unsigned object of {}, is not in the backup; save it yourself",
                    object.display(),
                    app.name
                ));
            }
        }
    }
    if let Some(dir) = places.tls.resolve(&config).filter(|dir| dir.exists()) {
        found.add_tree(&dir, "pki", |_| false)?;
    }
    let state = places.state.resolve(&config)?;
    if state.exists() {
        found.add_tree(&state, "state", is_left_out)?;
    }
    Ok(found)
}

impl Found {
    /// Adds the contents of the directory `dir`, except for names for which `is_left_out` holds.
    fn add_tree(
        &mut self,
        dir: &Path,
        name: &str,
        is_left_out: fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        for entry in entries(dir)? {
            let its = text(Path::new(entry.file_name().unwrap_or_default()))?;
            if !is_left_out(&its) {
                self.add(&entry, &format!("{name}/{its}"), 1)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, name: &str, depth: usize) -> anyhow::Result<()> {
        let metadata =
            path.symlink_metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if depth > DEEPEST || self.sources.len() >= MOST_ENTRIES {
            bail!(
                "{} has too many files or directories for a backup; is it the right directory?",
                path.display()
            );
        }
        let kind = if metadata.is_file() {
            Kind::File
        } else if metadata.is_dir() {
            Kind::Directory
        } else {
            self.notices.push(format!(
                "{} is not in the backup: it is neither a file nor a directory",
                path.display()
            ));
            return Ok(());
        };
        self.sources.push(Source {
            name: name.to_owned(),
            path: path.to_owned(),
            kind,
            mode: metadata.mode() & 0o755,
        });
        if kind == Kind::Directory {
            for entry in entries(path)? {
                let its = text(Path::new(entry.file_name().unwrap_or_default()))?;
                self.add(&entry, &format!("{name}/{its}"), depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The paths in a directory, in order.
fn entries(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let mut paths: Vec<_> =
            dir.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.sort();
        Ok(paths)
    };
    read().with_context(|| format!("cannot read the directory {}", dir.display()))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let name = path
        .to_str()
        .with_context(|| format!("the name {} is not UTF-8; rename the file", path.display()))?;
    Ok(name.to_owned())
}

//! Puts the contents of a backup in their places.
//!
//! All is read and checked into new directories beside the places first. Only then the old files move aside and the new ones
//! take their names. So a bad file changes nothing.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use config::Config;
use monitor::keys::{API_DIR, REVOKED, keep_revoked, read_revoked, revoked_text};
use tempfile::TempDir;

use super::sources::Kind;
use super::{BackupPaths, CONFIG_NAME, archive, is_left_out, protect_memory, read_config};
use crate::packages::password::PasswordArgs;
use crate::pki::files::{self, New};
use crate::say;

/// The directory into which files move that a restore replaces. A number follows it.
pub(super) const BEFORE: &str = "before-restore-";

/// The name of the default directory of the keys, in the directory of the configuration.
const KEYS_DIR: &str = "pki";

/// Options of `rosemary restore`.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// A file that `rosemary backup` made
    pub file: PathBuf,
    /// Replace existing files; they move to a directory before-restore-N beside them
    #[arg(long)]
    pub force: bool,
    /// Where the contents go.
    #[command(flatten)]
    pub places: BackupPaths,
    /// Source of the password.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// Where the contents of a part of the archive go, and where they are until all was read.
struct Part {
    name: &'static str,
    /// The directory that will have the contents.
    dir: PathBuf,
    /// A new directory on the same file system.
    staged: TempDir,
}

/// Runs `rosemary restore`.
///
/// # Errors
/// Rosemary runs, files exist already, or the backup cannot be read or written. Then nothing was changed, unless the message
/// says so.
pub fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    protect_memory()?;
    let file = args.places.file()?;
    // A mistake in a configuration that is going to be replaced does not matter.
    let present =
        if args.force { read_config(&file).unwrap_or_default() } else { read_config(&file)? };
    let state = args.places.state.resolve(&present)?;
    let keys = args
        .places
        .tls
        .resolve(&present)
        .context("there is no directory for the keys; name one with --tls-dir")?;
    let config_dir = file.parent().unwrap_or(Path::new("/")).to_owned();
    let _lock = monitor::lock_state(&state).map_err(|error| match error {
        monitor::error::StartError::StateInUse { pid, .. } => running(pid),
        other => anyhow::Error::new(other),
    })?;

    let password = args.password.of_backup(&args.file)?;
    let parts =
        [Part::new("config", config_dir)?, Part::new("pki", keys)?, Part::new("state", state)?];
    archive::read(&args.file, &password, |mut entry| {
        let part = parts
            .iter()
            .find(|part| part.name == entry.part)
            .context("an archive has three parts")?;
        let path = part.staged.path().join(entry.path);
        let cannot = || format!("cannot write {}", path.display());
        match entry.kind {
            Kind::Directory => {
                DirBuilder::new().mode(entry.mode | 0o700).create(&path).with_context(cannot)
            }
            Kind::File => {
                if let Some(dir) = path.parent() {
                    DirBuilder::new()
                        .recursive(true)
                        .mode(0o700)
                        .create(dir)
                        .with_context(cannot)?;
                }
                let new = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(entry.mode | 0o600)
                    .open(&path);
                let mut new = new.with_context(cannot)?;
                entry.copy_to(&mut new, &path)?;
                new.sync_all().with_context(cannot)
            }
        }
    })?;

    for part in &parts {
        part.check(args, &file)?;
    }
    if !args.force
        && let Some(there) = first_existing(&parts, &file)?
    {
        bail!(
            "{} exists already; --force replaces it, and keeps the old file in a directory {BEFORE}N beside it",
            there.display()
        );
    }
    for part in &parts {
        let replace = || part.replace(&file);
        replace().with_context(|| {
            format!(
                "the restore stopped in the middle: files of {} are in a directory {BEFORE}N there; repair the cause, then type the command again with --force",
                part.dir.display()
            )
        })?;
    }
    say::note(format_args!(
        "restored {}; start Rosemary: systemctl start rosemary",
        args.file.display()
    ));
    Ok(())
}

/// Refuses a restored configuration that names directories which the operator did not name: a backup must not choose where
/// files go.
pub(super) fn check_dirs(
    restored: &Config,
    places: &BackupPaths,
    backup: &Path,
) -> anyhow::Result<()> {
    let dirs = [
        ("--state-dir", &restored.state_dir, &places.state.state_dir),
        ("--tls-dir", &restored.tls_dir, &places.tls.tls_dir),
    ];
    for (option, named, given) in dirs {
        if let (Some(dir), None) = (named, given) {
            let (backup, dir) = (backup.display(), dir.display());
            bail!(
                "the configuration in {backup} names a directory of its own, {dir}; add {option} {dir} to restore there"
            );
        }
    }
    Ok(())
}

/// A file or directory that must not be replaced without the operator's word.
fn first_existing(parts: &[Part], file: &Path) -> anyhow::Result<Option<PathBuf>> {
    for part in parts {
        if let Some(path) = part.replaced(file)?.into_iter().next() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn running(pid: Option<u32>) -> anyhow::Error {
    let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    anyhow::anyhow!(
        "Rosemary runs{process}, and would overwrite what is restored; stop it first: systemctl stop rosemary"
    )
}

impl Part {
    fn new(name: &'static str, dir: PathBuf) -> anyhow::Result<Self> {
        // A directory for keys without keys would keep Rosemary from starting. So it is made only when there are keys.
        let on = match dir.parent() {
            Some(parent) if !dir.exists() => parent,
            _ => &dir,
        };
        let cannot = || format!("cannot write into {}", on.display());
        DirBuilder::new().recursive(true).mode(0o755).create(on).with_context(cannot)?;
        let staged = tempfile::Builder::new()
            .prefix(".restore-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(on)
            .with_context(cannot)?;
        Ok(Self { name, dir, staged })
    }

    /// The files and directories that were read for this part.
    fn names(&self) -> anyhow::Result<Vec<String>> {
        names(self.staged.path())
    }

    /// Checks that the contents belong where they would go.
    fn check(&self, args: &RestoreArgs, file: &Path) -> anyhow::Result<()> {
        let shown = args.file.display();
        match self.name {
            "state" => {
                if let Some(name) = self.names()?.iter().find(|name| is_left_out(name)) {
                    bail!("{shown} has an impossible entry, state/{name}: no backup contains it");
                }
            }
            "config" => self.check_config(args, file)?,
            _ => self.keep_revocations(args)?,
        }
        Ok(())
    }

    /// Checks that the configuration belongs where it would go, and that an app in it names each other file.
    fn check_config(&self, args: &RestoreArgs, file: &Path) -> anyhow::Result<()> {
        let shown = args.file.display();
        let paths = tree(self.staged.path())?;
        if paths.is_empty() {
            return Ok(());
        }
        let text = std::fs::read_to_string(self.staged.path().join(CONFIG_NAME))
            .with_context(|| format!("{shown} has no configuration that can be read"))?;
        let restored = Config::parse(file.to_owned(), text)
            .with_context(|| format!("the configuration in {shown} has a mistake"))?;
        check_dirs(&restored, &args.places, &args.file)?;
        // Where the present configuration has a mistake, no file that exists counts as named by it.
        let present = read_config(file).unwrap_or_default();
        let state = args.places.state.resolve(&restored)?;
        let keys = args.places.tls.resolve(&restored);
        for path in paths.iter().filter(|path| *path != Path::new(CONFIG_NAME)) {
            let there = self.dir.join(path);
            let is_ours = |dir: &Path| dir.starts_with(&there) || there.starts_with(dir);
            let why = if there == file || is_ours(&state) || keys.iter().any(|dir| is_ours(dir)) {
                Some("it is in the place of the configuration, the keys or the state")
            } else if there.is_file() && !names_file(&present, &there) {
                Some("another file is in its place; move that away first")
            } else {
                why_foreign(path, &restored, &self.dir)
            };
            if let Some(why) = why {
                let path = path.display();
                bail!("{shown} has an impossible entry, config/{path}: {why}");
            }
        }
        Ok(())
    }

    /// Adds the revocations of users' certificates that are in effect now: an older list must not make certificates valid again.
    fn keep_revocations(&self, args: &RestoreArgs) -> anyhow::Result<()> {
        let staged = self.staged.path().join(API_DIR);
        if !staged.is_dir() {
            return Ok(());
        }
        let present = read_revoked(&self.dir.join(API_DIR))?;
        let mut users =
            read_revoked(&staged).with_context(|| format!("in {}", args.file.display()))?;
        let kept = keep_revoked(&mut users, &present);
        if kept.is_empty() {
            return Ok(());
        }
        let path = staged.join(REVOKED);
        let content = revoked_text(&users).context("cannot write JSON")?;
        files::write(&[New { path, content: &content, secret: true }], true, "")?;
        say::note(format_args!(
            "kept what {} does not have: the certificates of {} are revoked",
            args.file.display(),
            kept.join(", ")
        ));
        Ok(())
    }

    /// The files and directories that the restore replaces. The state and the keys are replaced as a whole, so that a key that
    /// is newer than the backup, for example, does not mix with it; of the configuration only files of the same name.
    fn replaced(&self, file: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let new = self.names()?;
        if new.is_empty() {
            return Ok(Vec::new());
        }
        if self.name == "config" {
            let targets = new.iter().map(|name| self.target(name, file));
            return Ok(targets.filter(|path| path.symlink_metadata().is_ok()).collect());
        }
        let stays = |name: &String| match self.name {
            "state" => is_left_out(name),
            _ => name.starts_with(BEFORE) || name.starts_with('.'),
        };
        let there = if self.dir.exists() { names(&self.dir)? } else { Vec::new() };
        Ok(there.into_iter().filter(|name| !stays(name)).map(|name| self.dir.join(name)).collect())
    }

    /// The path of a restored file or directory.
    fn target(&self, name: &str, file: &Path) -> PathBuf {
        if self.name == "config" && name == CONFIG_NAME {
            file.to_owned()
        } else {
            self.dir.join(name)
        }
    }

    /// Moves the old files aside and the new ones into their place.
    fn replace(&self, file: &Path) -> anyhow::Result<()> {
        let old = self.replaced(file)?;
        let new = self.names()?;
        if new.is_empty() {
            return Ok(());
        }
        let mode = if self.name == "pki" { 0o700 } else { 0o755 };
        DirBuilder::new().recursive(true).mode(mode).create(&self.dir)?;
        if !old.is_empty() {
            let aside = (1..1000)
                .map(|number| self.dir.join(format!("{BEFORE}{number}")))
                .find(|dir| !dir.exists());
            let aside = aside
                .with_context(|| format!("there are 1000 directories {BEFORE}N; remove some"))?;
            DirBuilder::new().mode(0o700).create(&aside)?;
            for path in old {
                std::fs::rename(
                    &path,
                    aside.join(path.file_name().context("a path without a name")?),
                )?;
            }
        }
        for name in new {
            std::fs::rename(self.staged.path().join(&name), self.target(&name, file))?;
        }
        File::open(&self.dir)?.sync_all()?;
        Ok(())
    }
}

/// Whether an app's file may be at this path below the directory of the configuration.
pub(super) fn is_place_of_apps(path: &Path) -> bool {
    let first = path.components().next().map(Component::as_os_str).unwrap_or_default();
    let first = first.to_string_lossy();
    if first.is_empty() {
        return false; // the directory itself
    }
    // The directory of the keys is in that of the configuration, and has checks of its own.
    ![KEYS_DIR, CONFIG_NAME].contains(&&*first)
        && !first.starts_with('.')
        && !first.starts_with(BEFORE)
}

/// Whether an app of this configuration has this file of its own.
fn names_file(config: &Config, file: &Path) -> bool {
    config.apps.iter().flatten().any(|app| app.config.as_deref() == Some(file))
}

/// Why a file or directory of the configuration, named by its path below `dir`, is none that a backup of Rosemary contains; `None` if
/// it is one.
fn why_foreign(path: &Path, restored: &Config, dir: &Path) -> Option<&'static str> {
    if !is_place_of_apps(path) {
        return Some("no file of an app is in that place");
    }
    let mut named = restored.apps.iter().flatten().filter_map(|app| app.config.as_deref());
    let is_named = named.any(|its| {
        let its = its.strip_prefix(dir).unwrap_or(Path::new("/"));
        its.starts_with(path) || is_place_of_apps(its) && path.starts_with(its)
    });
    (!is_named).then_some("no app names it in the configuration")
}

/// The paths of all files and directories below `dir`, relative to it.
fn tree(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = names(dir)?.into_iter().map(PathBuf::from).collect();
    let mut at = 0;
    while let Some(path) = paths.get(at).cloned() {
        if dir.join(&path).is_dir() {
            paths.extend(names(&dir.join(&path))?.iter().map(|name| path.join(name)));
        }
        at += 1;
    }
    Ok(paths)
}

fn names(dir: &Path) -> anyhow::Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in dir.read_dir()? {
            // Names that are not UTF-8 are none of Rosemary's.
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    };
    read().with_context(|| format!("cannot read {}", dir.display()))
}

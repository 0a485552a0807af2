//! `rosemary backup` and `rosemary restore`: one encrypted file with all that an operator cannot make again.
//!
//! The file is a tar archive, encrypted with a password in the format of age (<https://age-encryption.org/v1>), so that
//! `age --decrypt FILE | tar --list` shows it without Rosemary:
//!
//! | path in the archive | what it is |
//! | --- | --- |
//! | `config/rosemary.toml`, `config/...` | the configuration with the trusted developers, and the files that its apps name |
//! | `pki/...` | the keys and certificates for TLS |
//! | `state/...` | installed packages, numbers of apps, operators' decisions, the storage |
//!
//! Logs and incidents are not in it. Only whoever knows the password can make a file that `restore` accepts. Nevertheless the
//! paths in it are checked as hostile input.

mod archive;
mod restore;
mod sources;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::{StateDir, TlsDir};
use config::{Config, default_file};

pub use self::restore::{RestoreArgs, restore};
use self::sources::Source;
use crate::packages::password::PasswordArgs;
use crate::say;

/// The name of the configuration in the archive.
const CONFIG_NAME: &str = "rosemary.toml";

/// Files of the state directory that a backup leaves out: logs, records of what went wrong, the time for a confirmation, which must not
/// end long after it, and the locks of instances.
fn is_left_out(name: &str) -> bool {
    let lock = Path::new(name).extension().is_some_and(|extension| extension == "lock");
    lock || ["log.redb", "history.redb", "history.redb.damaged"].contains(&name)
        || name == "incidents"
        || name == "unconfirmed.json"
        || name.starts_with(restore::BEFORE)
        || name.starts_with('.')
}

/// The directories of an instance.
#[derive(Debug, Clone, Default, Args)]
pub struct BackupPaths {
    /// The configuration, unless the default one.
    #[arg(
        long,
        value_name = "FILE",
        env = "ROSEMARY_CONFIG",
        hide_env_values = true,
        help = "Configuration [default: as for `rosemary up`]"
    )]
    pub config: Option<PathBuf>,
    /// The state directory.
    #[command(flatten)]
    pub state: StateDir,
    /// The directory of the keys for TLS.
    #[command(flatten)]
    pub tls: TlsDir,
}

impl BackupPaths {
    /// The file of the configuration, which need not exist.
    fn file(&self) -> anyhow::Result<PathBuf> {
        let file = self.config.clone().or_else(default_file);
        let file = file.context(
            "neither XDG_CONFIG_HOME nor HOME is set; name the configuration with --config",
        )?;
        Ok(std::path::absolute(&file).unwrap_or(file))
    }
}

/// Options of `rosemary backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// The file to create; only its owner may read it
    pub file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// The directories of the instance.
    #[command(flatten)]
    pub places: BackupPaths,
    /// Source of the password.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// Runs `rosemary backup`. Rosemary may run meanwhile.
///
/// # Errors
/// The file exists, or a file could not be read or written; then no file is left behind.
pub fn backup(args: &BackupArgs) -> anyhow::Result<()> {
    protect_memory()?;
    if !args.force && args.file.symlink_metadata().is_ok() {
        bail!("{} exists already; --force replaces it", args.file.display());
    }
    let found = sources::find(&args.places)?;
    if found.sources.is_empty() {
        bail!(
            "there is nothing to save: no configuration, keys or state were found; name them with --config, --tls-dir and --state-dir"
        );
    }
    let password = args.password.of_new_backup()?;
    archive::write(&args.file, args.force, &password, &found.sources)?;
    for notice in &found.notices {
        say::note(notice);
    }
    say::note(format_args!(
        "{} has {}; keep the password, nobody can restore the file without it",
        args.file.display(),
        contents(&found.sources)
    ));
    Ok(())
}

/// Lists what a backup contains, as a phrase.
fn contents(sources: &[Source]) -> String {
    let count = |part: &str| {
        sources.iter().filter(|source| source.name.starts_with(part) && source.is_file()).count()
    };
    format!(
        "{} files of the configuration, {} of the keys and {} of the state",
        count("config/"),
        count("pki/"),
        count("state/")
    )
}

/// Keeps other processes from reading the password and the keys in this one's memory.
fn protect_memory() -> anyhow::Result<()> {
    sys::process::forbid_new_privileges().context("cannot protect the memory of the process")
}

/// Reads the configuration, or the default settings where there is none.
fn read_config(file: &Path) -> anyhow::Result<Config> {
    if file.try_exists().unwrap_or(true) {
        Ok(Config::load(Some(file))?)
    } else {
        Ok(Config::default())
    }
}

#[cfg(test)]
mod tests;

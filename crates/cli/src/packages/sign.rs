//! `rosemary app sign`: signs a package in minisign's format.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::Args;
use config::Manifest;
use minisign::SecretKey;
use monitor::packages::signature_of;

use super::key::KeyArgs;
use crate::say;

/// Options of `rosemary app sign`.
#[derive(Debug, Clone, Args)]
pub struct SignArgs {
    /// The package, as written by `rosemary app build`
    pub package: PathBuf,
    /// Location of the key.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// Signs the package.
///
/// # Errors
/// The package or the key cannot be read, or the signature cannot be written.
pub fn run(args: &SignArgs) -> anyhow::Result<()> {
    // The secret key passes through this process: keep other processes from reading its memory.
    sys::process::forbid_new_privileges().context("cannot protect the memory of the process")?;
    let path = &args.package;
    let package = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let contents = package::open(&package)
        .with_context(|| format!("{} is not signed: it is not a package", path.display()))?;
    let manifest = Manifest::parse(contents.manifest)?;
    let key = args.key.open()?;
    let (name, version) = (&manifest.app.name, &manifest.version);
    let comment = format!("timestamp:{}\tapp:{name} {version}\thashed", now().as_secs());
    let signature = signature(&key, &package, &comment)?;
    let to = signature_of(path);
    fs::write(&to, signature).with_context(|| format!("cannot write {}", to.display()))?;
    say::note(format_args!(
        "signed {name} {version}; operators need both files, and the [[trust]] that `rosemary key new` \
         showed: rosemary app install {}",
        path.display()
    ));
    say::data(format_args!("{}\n", to.display()))
}

fn signature(key: &SecretKey, package: &[u8], comment: &str) -> anyhow::Result<String> {
    let untrusted = "signature from rosemary app sign";
    Ok(minisign::sign(None, key, package, Some(comment), Some(untrusted))?.into_string())
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

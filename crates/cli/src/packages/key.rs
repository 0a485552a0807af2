//! `rosemary key new`: a developer's keys, in minisign's formats.
//!
//! ```text
//! ~/.config/rosemary/developer.key       the secret key, encrypted with a password; 0600
//! ~/.config/rosemary/developer.pub       the public key, for operators
//! ```

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use config::user_dir;
use minisign::{KeyPair, SecretKey, SecretKeyBox};
use package::PublicKey;
use serde::Serialize;
use zeroize::Zeroizing;

use super::password::PasswordArgs;
use crate::pki::files::{self, New};
use crate::say;

/// What `rosemary key` does.
#[derive(Debug, Clone, Subcommand)]
pub enum KeyCommand {
    /// Make the keys that you sign your apps' packages with
    New(NewArgs),
}

/// Where the secret key is.
#[derive(Debug, Clone, Default, Args)]
pub struct KeyArgs {
    /// The file, if it is not the default.
    #[arg(
        long,
        value_name = "FILE",
        help = "File of the secret key; the public one is beside it and ends in .pub [default: \
                $XDG_CONFIG_HOME/rosemary/developer.key]"
    )]
    pub key: Option<PathBuf>,
    /// Where its password is.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// The options of `rosemary key new`.
#[derive(Debug, Clone, Args)]
pub struct NewArgs {
    /// Where it is to be.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Replace what is there: packages that were signed with it stay signed with the old one
    #[arg(long)]
    pub force: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// What is printed as JSON; a promise to programs.
#[derive(Debug, Serialize)]
struct Made<'a> {
    key: &'a Path,
    public: &'a Path,
    id: String,
    public_key: String,
}

/// Does it.
///
/// # Errors
/// There is a key already, or it cannot be written.
pub fn run(command: &KeyCommand) -> anyhow::Result<()> {
    // A secret passes through this process; nobody is to look into it.
    sys::process::forbid_new_privileges().context("cannot close the process to others")?;
    let KeyCommand::New(args) = command;
    let path = &args.key.path()?;
    let public = &path.with_extension("pub");
    if !args.force && path.symlink_metadata().is_ok() {
        bail!("{} is there already; --force replaces it", path.display()); // before asking anything
    }
    let password = args.key.password.get_new()?;
    let pair = KeyPair::generate_encrypted_keypair(Some(password.to_string()))?;
    let key: PublicKey = pair.pk.to_base64().parse().map_err(anyhow::Error::msg)?;
    let id = key.id().to_string();
    let secret = pair.sk.to_box(Some(&format!("Rosemary developer's secret key {id}")))?;
    let secret = Zeroizing::new(secret.into_string());
    let text = format!("untrusted comment: minisign public key {id}\n{key}\n");
    if let Some(dir) = path.parent().filter(|dir| *dir != Path::new("") && !dir.exists()) {
        files::make_dir(dir)?;
    }
    files::write(
        &[
            New { path: path.clone(), content: &secret, secret: true },
            New { path: public.clone(), content: &text, secret: false },
        ],
        args.force,
    )?;
    if args.json {
        let made = Made { key: path, public, id, public_key: key.to_string() };
        let json = serde_json::to_string(&made).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::note(format_args!("made {} and {}", path.display(), public.display()));
    say::note(
        "this is for the rosemary.toml of operators who trust you, with as much of it as they like:",
    );
    say::data(format_args!(
        "[[trust]]\nname = \"{}\"\nkey = \"{key}\"\ncapabilities = [\"packet-out\", \"flow.write\"]\n",
        developer()
    ))
}

impl KeyArgs {
    /// The file that is meant.
    fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.key {
            Some(path) => Ok(path.clone()),
            None => user_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("developer.key")).context(
                "there is no place for the key: neither XDG_CONFIG_HOME nor HOME is set; name a file \
                 with --key",
            ),
        }
    }

    /// The secret key.
    ///
    /// # Errors
    /// It is not there, others may read it, or the password is not its.
    pub(super) fn open(&self) -> anyhow::Result<SecretKey> {
        let path = self.path()?;
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("{} is missing; `rosemary key new` makes it", path.display())
            }
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let text = Zeroizing::new(text);
        if std::fs::metadata(&path)?.mode() & 0o077 != 0 {
            bail!("others may read {0}; type: chmod 600 {0}", path.display());
        }
        let password = self.password.get(&path)?;
        let key = SecretKeyBox::from_string(&text)?.into_secret_key(Some(password.to_string()));
        key.with_context(|| {
            format!("cannot use {}; it must be a minisign key with a password", path.display())
        })
    }
}

/// What operators may call the developer; theirs to change.
fn developer() -> String {
    let name = std::env::var("USER").unwrap_or_default();
    let good = |it: char| it.is_ascii_alphanumeric() || ".-@_".contains(it);
    if (1..=40).contains(&name.len()) && name.chars().all(good) { name } else { "developer".into() }
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::*;

    pub(in crate::packages) fn new(dir: &Path) -> KeyArgs {
        let file = dir.join("password");
        std::fs::write(&file, "a password\n").unwrap();
        let password = PasswordArgs { password_file: Some(file) };
        KeyArgs { key: Some(dir.join("developer.key")), password }
    }

    #[test]
    fn key_that_was_made_opens_with_its_password_alone_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let key = new(dir.path());
        let args = NewArgs { key: key.clone(), force: false, json: true };
        run(&KeyCommand::New(args.clone())).unwrap();
        key.open().unwrap();
        let before = std::fs::read(dir.path().join("developer.key")).unwrap();
        assert!(run(&KeyCommand::New(args)).unwrap_err().to_string().contains("--force"));
        assert_eq!(std::fs::read(dir.path().join("developer.key")).unwrap(), before);
        std::fs::write(dir.path().join("password"), "another\n").unwrap();
        let error = format!("{:#}", key.open().unwrap_err());
        assert!(error.contains("Wrong password"), "{error}");
        let public = std::fs::read_to_string(dir.path().join("developer.pub")).unwrap();
        let text = format!(
            "[[trust]]\nname = \"{}\"\nkey = \"{}\"",
            developer(),
            public.lines().nth(1).unwrap()
        );
        assert_eq!(Config::parse("/r.toml".into(), text).unwrap().trust.len(), 1);
    }

    #[test]
    fn key_that_others_may_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let key = new(dir.path());
        let path = dir.path().join("developer.key");
        std::fs::write(&path, "a key").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
        assert!(key.open().unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn key_without_a_password_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let key = new(dir.path());
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let text = pair.sk.to_box(None).unwrap().into_string();
        files::write(
            &[New { path: dir.path().join("developer.key"), content: &text, secret: true }],
            true,
        )
        .unwrap();
        let error = format!("{:#}", key.open().unwrap_err());
        assert!(error.contains("with a password") && error.contains("not encrypted"), "{error}");
    }
}

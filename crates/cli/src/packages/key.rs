//! `rosemary key`: creates and shows a developer's key pair in minisign's formats.
//!
//! ```text
//! ~/.config/rosemary/developer.key       the secret key, encrypted with a password; 0600
//! ~/.config/rosemary/developer.pub       the public key, for operators
//! ```

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use config::user_dir;
use minisign::{ErrorKind, KeyPair, SecretKey, SecretKeyBox};
use package::PublicKey;
use serde::Serialize;
use zeroize::Zeroizing;

use super::password::PasswordArgs;
use crate::pki::files::{self, New};
use crate::say;

/// Subcommands of `rosemary key`.
#[derive(Debug, Clone, Subcommand)]
pub enum KeyCommand {
    /// Create the key pair that signs your apps' packages
    New(NewArgs),
    /// Show the public key, for operators who trust you
    Show(ShowArgs),
}

/// Location of the secret key.
#[derive(Debug, Clone, Default, Args)]
pub struct KeyArgs {
    /// The file, unless the default.
    #[arg(
        long,
        value_name = "FILE",
        help = "File of the secret key; the public one is beside it and ends in .pub [default: \
                $XDG_CONFIG_HOME/rosemary/developer.key]"
    )]
    pub key: Option<PathBuf>,
    /// Source of its password.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// Options of `rosemary key new`.
#[derive(Debug, Clone, Args)]
pub struct NewArgs {
    /// Location of the new key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Replace an existing key; packages signed with it keep the old signature
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `rosemary key show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// File of the secret key, which is not read; the public one is beside it.
    #[arg(
        long,
        value_name = "FILE",
        help = "File of the secret key, which is not read; the public one is beside it and ends in .pub [default: \
                $XDG_CONFIG_HOME/rosemary/developer.key]"
    )]
    pub key: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The JSON output; a stable interface.
#[derive(Debug, Serialize)]
struct CreatedKeys<'a> {
    key: &'a Path,
    public: &'a Path,
    id: String,
    public_key: String,
}

/// Runs the subcommand.
///
/// # Errors
/// A key exists already, is missing, or cannot be read or written.
pub fn run(command: &KeyCommand) -> anyhow::Result<()> {
    match command {
        KeyCommand::New(args) => create(args),
        KeyCommand::Show(args) => show(args),
    }
}

fn create(args: &NewArgs) -> anyhow::Result<()> {
    // The secret key passes through this process: keep other processes from reading its memory.
    sys::process::forbid_new_privileges().context("cannot protect the memory of the process")?;
    let path = &args.key.path()?;
    let public = &path.with_extension("pub");
    if !args.force && path.symlink_metadata().is_ok() {
        bail!("{} exists already; --force replaces it", path.display()); // before the prompt for a password
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
        "A replaced key can sign no more packages, unless you have a copy",
    )?;
    if !args.json {
        say::note(format_args!("created {} and {}", path.display(), public.display()));
    }
    print(path, public, &key, args.json)
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let path = &key_path(args.key.as_deref())?;
    let public = &path.with_extension("pub");
    let text = match std::fs::read_to_string(public) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{} is missing; `rosemary key new` creates it", public.display())
        }
        text => text.with_context(|| format!("cannot read {}", public.display()))?,
    };
    let key = text.lines().nth(1).unwrap_or_default().parse();
    let key = key.map_err(anyhow::Error::msg).with_context(|| {
        format!(
            "{} is no public key of minisign: its second line must be the key",
            public.display()
        )
    })?;
    print(path, public, &key, args.json)
}

/// Prints a public key, with the lines that operators add to their configuration.
fn print(path: &Path, public: &Path, key: &PublicKey, json: bool) -> anyhow::Result<()> {
    if json {
        let id = key.id().to_string();
        let keys = CreatedKeys { key: path, public, id, public_key: key.to_string() };
        let json = serde_json::to_string(&keys).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::note(
        "operators who trust you add this to their rosemary.toml, with the capabilities that they grant you:",
    );
    say::data(format_args!(
        "[[trust]]\nname = \"{}\"\nkey = \"{key}\"\ncapabilities = [\"packet-in\", \"packet-out\", \"flow.write\"]\n",
        developer()
    ))
}

/// Returns the path of the file of the secret key: `named`, or the default.
fn key_path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => user_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("developer.key")).context(
            "there is no directory for the key, as neither XDG_CONFIG_HOME nor HOME is set; name a file \
             with --key",
        ),
    }
}

impl KeyArgs {
    /// Returns the path of the key file.
    fn path(&self) -> anyhow::Result<PathBuf> {
        key_path(self.key.as_deref())
    }

    /// Opens the secret key.
    ///
    /// # Errors
    /// It does not exist, others may read it, or the password is wrong.
    pub(super) fn open(&self) -> anyhow::Result<SecretKey> {
        let path = self.path()?;
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("{} is missing; `rosemary key new` creates it", path.display())
            }
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let text = Zeroizing::new(text);
        if std::fs::metadata(&path)?.mode() & 0o077 != 0 {
            bail!("others may read {0}; type: chmod 600 {0}", path.display());
        }
        let password = self.password.get(&path)?;
        let key = SecretKeyBox::from_string(&text)?.into_secret_key(Some(password.to_string()));
        key.map_err(|error| match error.kind() {
            ErrorKind::Verify => anyhow!("the password is not that of {}", path.display()),
            _ => anyhow::Error::new(error).context(format!(
                "cannot use {}; it must be a minisign key with a password",
                path.display()
            )),
        })
    }
}

/// Returns a suggestion for the developer's name in the operator's configuration.
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
        std::fs::write(&file, "mauve otter lights nine lamps\n").unwrap();
        let password = PasswordArgs { password_file: Some(file) };
        KeyArgs { key: Some(dir.join("developer.key")), password }
    }

    #[test]
    fn new_key_opens_with_its_password_only() {
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
        assert!(error.starts_with("the password is not that of /"), "{error}");
        let show = ShowArgs { key: key.key.clone(), json: false };
        run(&KeyCommand::Show(show.clone())).unwrap();
        let public = std::fs::read_to_string(dir.path().join("developer.pub")).unwrap();
        std::fs::write(dir.path().join("developer.pub"), "a comment\nno key\n").unwrap();
        let error = run(&KeyCommand::Show(show.clone())).unwrap_err().to_string();
        assert!(error.contains("is no public key"), "{error}");
        std::fs::remove_file(dir.path().join("developer.pub")).unwrap();
        let error = run(&KeyCommand::Show(show)).unwrap_err().to_string();
        assert!(error.contains("rosemary key new"), "{error}");
        let text = format!(
            "[[trust]]\nname = \"{}\"\nkey = \"{}\"",
            developer(),
            public.lines().nth(1).unwrap()
        );
        assert_eq!(Config::parse("/r.toml".into(), text).unwrap().trust.len(), 1);
    }

    #[test]
    fn readable_key_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let key = new(dir.path());
        let path = dir.path().join("developer.key");
        std::fs::write(&path, "a key").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
        assert!(key.open().unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn key_without_password_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let key = new(dir.path());
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let text = pair.sk.to_box(None).unwrap().into_string();
        files::write(
            &[New { path: dir.path().join("developer.key"), content: &text, secret: true }],
            true,
            "",
        )
        .unwrap();
        let error = format!("{:#}", key.open().unwrap_err());
        assert!(error.contains("with a password") && error.contains("not encrypted"), "{error}");
    }
}

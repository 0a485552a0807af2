//! `rosemary release`: makes and signs the manifest of an installation, and its recovery copy.
//!
//! `make install` and `make deb` call `rosemary release make`. A release is signed with the key of its maker. Without one, the command
//! signs with a new key, which it forgets: the installation can then be checked against later changes, and no other release can be signed
//! another one with the same key.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use minisign::{KeyPair, PublicKey, SecretKey};
use verify::manifest::{Entry, MAX_FILE, Manifest, Part};
use verify::{RECOVERY, key_file};

use super::key::KeyArgs;
use crate::say;

/// Subcommands of `rosemary release`.
#[derive(Debug, Clone, Subcommand)]
pub enum ReleaseCommand {
    /// Write the manifest of an installation and the recovery copy
    Make(MakeArgs),
    /// Sign the manifests of an installation
    Sign(SignArgs),
}

/// Options of `rosemary release make`.
#[derive(Debug, Clone, Args)]
pub struct MakeArgs {
    /// The root of the installation, with DESTDIR
    pub root: PathBuf,
    /// Which part of it
    #[arg(long, value_enum, default_value = "rosemary")]
    pub part: PartName,
    /// The number of the release: a greater one than of all before [default: from the version of this program]
    #[arg(long, value_name = "NUMBER")]
    pub number: Option<u64>,
    /// A file below the root, or a directory with all files below it; repeatable
    #[arg(long = "file", value_name = "PATH", required = true)]
    pub files: Vec<String>,
    /// A directory below the root that may contain these files only; repeatable
    #[arg(long = "whole", value_name = "PATH")]
    pub whole: Vec<String>,
    /// Make no recovery copy
    #[arg(long)]
    pub no_copy: bool,
}

/// Options of `rosemary release sign`.
#[derive(Debug, Clone, Args)]
pub struct SignArgs {
    /// The root of the installation, with DESTDIR
    pub root: PathBuf,
    /// Where the public key is written [default: where `rosemary up` and rosemary-verify look for it]
    #[arg(long, value_name = "FILE")]
    pub public: Option<PathBuf>,
    /// Sign with a new key, which is forgotten
    #[arg(long, conflicts_with_all = ["key", "password_file"])]
    pub new_key: bool,
    /// The key of your releases.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// A part of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartName {
    /// The programs and the apps that ship with them.
    Rosemary,
    /// The environment for apps in Python.
    Python,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Rosemary => Self::Rosemary,
            PartName::Python => Self::Python,
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// A file cannot be read or written, or cannot be part of a release.
pub fn run(command: &ReleaseCommand) -> anyhow::Result<()> {
    match command {
        ReleaseCommand::Make(args) => make(args),
        ReleaseCommand::Sign(args) => sign(args),
    }
}

fn make(args: &MakeArgs) -> anyhow::Result<()> {
    let root = &args.root;
    let mut paths = BTreeSet::new();
    for path in &args.files {
        collect(root, path.trim_end_matches('/'), &mut paths)?;
    }
    let entries = paths.iter().map(|path| entry(root, path)).collect::<anyhow::Result<Vec<_>>>()?;
    let number = args.number.map_or_else(own_number, Ok)?;
    let part = Part::from(args.part);
    let manifest = Manifest::new(part, number, args.whole.clone(), entries)?;
    write(&root.join(part.file()), manifest.to_text().as_bytes())?;
    // A signature of an earlier manifest would not fit.
    let signature = root.join(part.signature());
    if signature.symlink_metadata().is_ok() {
        fs::remove_file(&signature)
            .with_context(|| format!("cannot remove {}", signature.display()))?;
    }
    if !args.no_copy {
        copy(root, &manifest)?;
    }
    let (files, name) = (manifest.entries().len(), part.name());
    say::note(format_args!("wrote the manifest of {name} {number} with {files} files"));
    say::data(format_args!("{}\n", root.join(part.file()).display()))
}

/// Adds the paths of a file, or of all files below a directory.
fn collect(root: &Path, path: &str, paths: &mut BTreeSet<String>) -> anyhow::Result<()> {
    let full = root.join(path);
    let metadata =
        full.symlink_metadata().with_context(|| format!("cannot read {}", full.display()))?;
    if !metadata.is_dir() {
        paths.insert(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(&full).with_context(|| format!("cannot read {}", full.display()))?;
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_str().with_context(|| {
            format!("{}: {name:?} is not Unicode, so no manifest can list it", full.display())
        })?;
        collect(root, &format!("{path}/{name}"), paths)?;
    }
    Ok(())
}

fn entry(root: &Path, path: &str) -> anyhow::Result<Entry> {
    let full = root.join(path);
    let metadata = full.symlink_metadata()?;
    let (mode, content) = if metadata.is_symlink() {
        (None, fs::read_link(&full)?.into_os_string().into_encoded_bytes())
    } else {
        ensure!(metadata.is_file(), "{} is no file and no symbolic link", full.display());
        ensure!(metadata.len() <= MAX_FILE, "{} has more than {MAX_FILE} bytes", full.display());
        let mode = metadata.mode() & 0o7777;
        ensure!(
            mode & 0o7022 == 0,
            "{} has the permissions {mode:o}, so others could change it or it has special rights; type: chmod 755 {0}",
            full.display()
        );
        let content = fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
        (Some(mode), content)
    };
    let (size, sha256) = (content.len() as u64, package::sha256(&content));
    Ok(Entry { path: path.to_owned(), mode, size, sha256 })
}

/// The number of this release, which grows with the version of this program.
fn own_number() -> anyhow::Result<u64> {
    let version = env!("CARGO_PKG_VERSION");
    let parts: Option<Vec<u64>> = version.split('.').map(|it| it.parse().ok()).collect();
    match parts.as_deref() {
        Some([major, minor, patch]) => Ok(major * 1_000_000 + minor * 1_000 + patch),
        _ => bail!("{version} makes no number of a release; name one with --number"),
    }
}

/// Copies the listed files, and the manifest, to the recovery copy.
fn copy(root: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let to = root.join(RECOVERY);
    for Entry { path, mode, .. } in manifest.entries() {
        let (from, to) = (root.join(path), to.join(path));
        make_parent(&to)?;
        if to.symlink_metadata().is_ok() {
            fs::remove_file(&to).with_context(|| format!("cannot replace {}", to.display()))?;
        }
        let copied = match mode {
            Some(_) => fs::copy(&from, &to).map(drop),
            None => fs::read_link(&from).and_then(|target| symlink(target, &to)),
        };
        copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    let text = manifest.to_text();
    write(&to.join(manifest.part.file()), text.as_bytes())
}

fn sign(args: &SignArgs) -> anyhow::Result<()> {
    // The secret key passes through this process: keep other processes from reading its memory.
    sys::process::forbid_new_privileges().context("cannot protect the memory of the process")?;
    let root = &args.root;
    let (public, secret): (PublicKey, SecretKey) = if args.new_key {
        let KeyPair { pk, sk } = KeyPair::generate_unencrypted_keypair()?;
        (pk, sk)
    } else {
        let secret = args.key.open()?;
        (PublicKey::from_secret_key(&secret)?, secret)
    };
    let mut signed = Vec::new();
    for part in Part::ALL {
        let file = root.join(part.file());
        let Ok(text) = fs::read(&file) else { continue };
        let manifest = Manifest::parse(&text).with_context(|| format!("{}", file.display()))?;
        // Without the time, so that the same release has the same signature.
        let comment = format!("rosemary release:{} {}", part.name(), manifest.version);
        let untrusted = "signature from rosemary release sign";
        let signature =
            minisign::sign(None, &secret, text.as_slice(), Some(&comment), Some(untrusted))?;
        let signature = signature.into_string();
        write(&root.join(part.signature()), signature.as_bytes())?;
        let copy = root.join(RECOVERY);
        if copy.join(part.file()).exists() {
            write(&copy.join(part.signature()), signature.as_bytes())?;
        }
        signed.push(part.name());
    }
    ensure!(
        !signed.is_empty(),
        "{} has no manifest; make one with `rosemary release make`",
        root.display()
    );
    let file = args.public.clone().unwrap_or_else(|| key_file(root));
    let key: package::PublicKey = public.to_base64().parse().map_err(anyhow::Error::msg)?;
    let id = key.id();
    let text = format!("untrusted comment: public key {id} of Rosemary's releases\n{key}\n");
    write(&file, text.as_bytes())?;
    let how = if args.new_key {
        "a new key, which is forgotten: whoever installs checks later changes only"
    } else {
        "your key"
    };
    say::note(format_args!("signed {} with {how}", signed.join(" and ")));
    say::data(format_args!("{}\n", file.display()))
}

fn make_parent(path: &Path) -> anyhow::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.with_context(|| format!("cannot make {}", dir.display()))
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    make_parent(path)?;
    let written = fs::write(path, content)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o644)));
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(dir: &Path) -> MakeArgs {
        for (path, mode) in
            [("libexec/rosemary/rosemary-kernel", 0o755), ("lib/rosemary/apps/a.so", 0o644)]
        {
            write(&dir.join(path), path.as_bytes()).unwrap();
            fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("/usr/bin/python3", dir.join("lib/rosemary/apps/link")).unwrap();
        MakeArgs {
            root: dir.to_owned(),
            part: PartName::Rosemary,
            number: Some(3),
            files: vec!["libexec/rosemary/".into(), "lib/rosemary/apps".into()],
            whole: vec!["lib/rosemary/apps".into()],
            no_copy: false,
        }
    }

    #[test]
    fn made_and_signed_installation_verifies() {
        let dir = tempfile::tempdir().unwrap();
        let args = installed(dir.path());
        make(&args).unwrap();
        let first = fs::read(dir.path().join(Part::Rosemary.file())).unwrap();
        let sign_args = SignArgs {
            root: dir.path().to_owned(),
            public: None,
            new_key: true,
            key: KeyArgs::default(),
        };
        sign(&sign_args).unwrap();
        let key = verify::read_key(&key_file(dir.path())).unwrap();
        let (release, found) = verify::Release::open(dir.path(), &key, false).unwrap();
        assert!(found.is_empty() && release.check_all(false).is_empty());
        assert_eq!(release.parts()[0].manifest.entries().len(), 3);
        // Each file comes back, the signature too.
        fs::remove_dir_all(dir.path().join("libexec")).unwrap();
        fs::remove_file(dir.path().join("lib/rosemary/apps/link")).unwrap();
        fs::remove_file(dir.path().join(Part::Rosemary.signature())).unwrap();
        let (release, found) = verify::Release::open(dir.path(), &key, true).unwrap();
        assert_eq!((found.len(), release.check_all(true).len()), (1, 2));
        assert!(release.check_all(false).is_empty());
        // The same files give the same manifest.
        make(&args).unwrap();
        assert_eq!(fs::read(dir.path().join(Part::Rosemary.file())).unwrap(), first);
        assert!(!dir.path().join(Part::Rosemary.signature()).exists());
    }

    #[test]
    fn file_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let args = installed(dir.path());
        let file = dir.path().join("lib/rosemary/apps/a.so");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        let error = make(&args).unwrap_err().to_string();
        assert!(error.contains("chmod 755"), "{error}");
    }

    #[test]
    fn installation_without_manifest_is_not_signed() {
        let dir = tempfile::tempdir().unwrap();
        let args = SignArgs {
            root: dir.path().to_owned(),
            public: None,
            new_key: true,
            key: KeyArgs::default(),
        };
        assert!(sign(&args).unwrap_err().to_string().contains("release make"));
    }

    #[test]
    fn version_makes_a_number_that_grows() {
        assert!(own_number().unwrap() >= 1_000);
    }
}

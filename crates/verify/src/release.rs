//! Opens an installation with its signed manifests, and checks and replaces its files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use package::{KeyId, MAX_SIGNATURE, PublicKey, Signature};
use rustix::io::Errno;
use thiserror::Error;

use crate::manifest::{Entry, MAX_MANIFEST, Malformed, Manifest, Part};
use crate::recovery;
use crate::tree::{Fault, Tree, protected};

/// Where the recovery copy is, below the root of an installation.
pub const RECOVERY: &str = "lib/rosemary/recovery";

/// Where the public key is, for an installation in [`SYSTEM_ROOT`]; for others it is below their root.
const KEY: &str = "/etc/rosemary/release.pub";

/// The root where packages of distributions install.
const SYSTEM_ROOT: &str = "/usr";

/// The most bytes of a file with a public key.
const MAX_KEY: u64 = 4096;

/// The most files below a directory that contains listed files only, listed or not.
const MOST_FOUND: usize = 4 * crate::manifest::MAX_ENTRIES;

/// The most files that are reported as unlisted.
const MOST_UNLISTED: usize = 100;

/// A file that changed so recently may change again without a change of its times.
const SETTLED: Duration = Duration::from_secs(2);

/// Why nothing can be said about the files of an installation.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no public key.
    #[error(
        "{} is missing, so no signature can be checked; put the public key of the release there", path.display()
    )]
    NoKey {
        /// Where it should be.
        path: PathBuf,
    },
    /// The public key cannot be used.
    #[error("{}: {why}; put the public key of the release there", path.display())]
    Key {
        /// Its file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// There is no manifest, or no signature of it.
    #[error("{} is missing; install Rosemary again", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The manifest is none.
    #[error("{} is damaged: {why}; install Rosemary again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: Malformed,
    },
    /// The signature is not that of the key.
    #[error("{}: {why}; install Rosemary again, or correct the public key", path.display())]
    Signature {
        /// The manifest.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The system refused to read a file.
    #[error("{} {why}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: Fault,
    },
}

/// A manifest whose signature fits.
#[derive(Debug, Clone)]
pub struct SignedManifest {
    /// The manifest.
    pub manifest: Manifest,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// A file that differs from the release.
#[derive(Debug)]
pub struct Finding {
    /// Its path below the root.
    pub path: String,
    /// The fault.
    pub fault: Fault,
    /// Whether the file was replaced; `None` if that was not tried.
    pub replaced: Option<Result<(), NotReplaced>>,
}

/// Why a file could not be replaced from the recovery copy.
#[derive(Debug, Error)]
pub enum NotReplaced {
    /// The copy is not the released file either.
    #[error("its copy in {} {why}", dir.display())]
    Copy {
        /// The directory of the recovery copy.
        dir: PathBuf,
        /// The problem.
        why: Fault,
    },
    /// The system refuses to write it.
    #[error("it could not be written: {0}")]
    System(#[from] io::Error),
}

/// Identifies the content of a file that has not changed lately: device, inode, size, and the times of the last changes.
///
/// Permission to write the file does not suffice to set the time of the inode's last change. That takes the right to set the clock, or
/// to write to the disk directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp([i64; 7]);

impl Stamp {
    /// The stamp of a file; `None` if it changed so recently that a further change might give the same one.
    pub fn of(file: &Metadata, now: SystemTime) -> Option<Self> {
        let changed = Duration::from_secs(u64::try_from(file.ctime()).ok()?);
        let since = now.duration_since(SystemTime::UNIX_EPOCH + changed).ok()?;
        let [dev, ino, size] = [file.dev(), file.ino(), file.size()].map(u64::cast_signed);
        let [mtime, mtime_ns] = [file.mtime(), file.mtime_nsec()];
        let [ctime, ctime_ns] = [file.ctime(), file.ctime_nsec()];
        let stamp = Self([dev, ino, size, mtime, mtime_ns, ctime, ctime_ns]);
        (since > SETTLED).then_some(stamp)
    }
}

/// An installation whose manifests are signed by the key of its releases.
#[derive(Debug)]
pub struct Release {
    root: PathBuf,
    tree: Tree,
    key: KeyId,
    parts: Vec<SignedManifest>,
}

/// The file of the public key that signs the releases installed in `root`.
pub fn key_file(root: &Path) -> PathBuf {
    if root == Path::new(SYSTEM_ROOT) { KEY.into() } else { root.join(KEY.trim_start_matches('/')) }
}

/// Reads a public key in minisign's form: a comment, and the key.
///
/// # Errors
/// [`Error::NoKey`], or [`Error::Key`] if others could replace the key, or it is none.
pub fn read_key(path: &Path) -> Result<PublicKey, Error> {
    let wrong = |why: String| Error::Key { path: path.to_owned(), why };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::NoKey { path: path.to_owned() });
        }
        file => file.map_err(|error| wrong(format!("it cannot be read: {error}")))?,
    };
    protected(&file).map_err(|fault| wrong(format!("it {fault}")))?;
    let mut text = String::new();
    let read = io::Read::read_to_string(&mut io::Read::take(file, MAX_KEY), &mut text);
    read.map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    let key = text.lines().nth(1).unwrap_or_default();
    key.parse().map_err(|form| wrong(format!("its second line is not {form}")))
}

impl Release {
    /// Opens the installation in `root`, whose manifests `key` must have signed.
    ///
    /// With `replace`, a damaged manifest is replaced by the one of the recovery copy, if that is signed. The findings say so. The
    /// release then has that manifest even if the disk does not take it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(
        root: &Path,
        key: &PublicKey,
        replace: bool,
    ) -> Result<(Self, Vec<Finding>), Error> {
        let tree = tree(root)?;
        let copy = root.join(RECOVERY);
        let (mut parts, mut findings) = (Vec::new(), Vec::new());
        for part in Part::ALL {
            let found = match signed(&tree, root, part, key) {
                Ok(found) => {
                    parts.push(found.0);
                    continue;
                }
                Err(error) => error,
            };
            let spare = if replace || part != Part::Rosemary {
                Tree::open(&copy).ok().and_then(|tree| signed(&tree, &copy, part, key).ok())
            } else {
                None
            };
            match (found, spare) {
                // Not every installation has this part.
                (Error::Missing { .. }, None) if part != Part::Rosemary => {}
                (_, Some((signed, files))) if replace => {
                    findings.extend(replace_manifest(&tree, part, &files));
                    parts.push(signed);
                }
                (error, _) => return Err(error),
            }
        }
        Ok((Self { root: root.to_owned(), tree, key: key.id(), parts }, findings))
    }

    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The key that signed it.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Its parts.
    pub fn parts(&self) -> &[SignedManifest] {
        &self.parts
    }

    /// The manifest of this part; `None` if the part is not installed.
    pub fn part(&self, part: Part) -> Option<&Manifest> {
        self.parts.iter().map(|it| &it.manifest).find(|it| it.part == part)
    }

    /// The entry with this path below the root.
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.parts.iter().find_map(|it| it.manifest.get(path))
    }

    /// Opens the file of an entry, and checks the open descriptor: owner, permissions, size and digest. `None`: it is a link.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn check(&self, entry: &Entry) -> Result<Option<File>, Fault> {
        self.tree.checked(entry)
    }

    /// Opens the file of an entry without a check, for its [`Stamp`].
    ///
    /// # Errors
    /// [`Fault`].
    pub fn open_unchecked(&self, entry: &Entry) -> Result<File, Fault> {
        self.tree.file(&entry.path)
    }

    /// Opens and checks the copy of an entry in the recovery copy, as [`check`](Self::check) does.
    ///
    /// # Errors
    /// [`NotReplaced::Copy`].
    pub fn check_copy(&self, entry: &Entry) -> Result<Option<File>, NotReplaced> {
        let dir = self.root.join(RECOVERY);
        let checked = Tree::open(&dir).map_err(Fault::from).and_then(|it| it.checked(entry));
        checked.map_err(|why| NotReplaced::Copy { dir, why })
    }

    /// Replaces the file of an entry by its copy.
    ///
    /// # Errors
    /// [`NotReplaced`]. The file is then as it was.
    pub fn replace(&self, entry: &Entry) -> Result<(), NotReplaced> {
        let dir = self.root.join(RECOVERY);
        let content = Tree::open(&dir).map_err(Fault::from).and_then(|tree| match entry.mode {
            Some(_) => tree.read(&entry.path, entry.size),
            None => tree.target(&entry.path),
        });
        let content = content.and_then(|content| {
            // Of these bytes, as the file may change after a check of it.
            let found = package::sha256(&content);
            if found == entry.sha256 { Ok(content) } else { Err(Fault::Content(found)) }
        });
        let content = content.map_err(|why| NotReplaced::Copy { dir, why })?;
        Ok(recovery::replace(&mut &self.tree, entry, &content)?)
    }

    /// Checks all files of the parts, and replaces damaged ones with `replace`.
    pub fn check_all(&self, replace: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        for SignedManifest { manifest, .. } in &self.parts {
            for entry in manifest.entries() {
                if let Err(fault) = self.check(entry) {
                    let replaced = replace.then(|| self.replace(entry));
                    findings.push(Finding { path: entry.path.clone(), fault, replaced });
                }
            }
            findings.extend(self.unlisted(manifest));
        }
        findings
    }

    /// The files that are in a directory for listed files only, and are not listed.
    pub fn unlisted(&self, manifest: &Manifest) -> Vec<Finding> {
        let finding = |path, fault| Finding { path, fault, replaced: None };
        let (mut found, mut findings) = (Vec::new(), Vec::new());
        for dir in manifest.whole() {
            if let Err(error) = self.tree.list(dir, MOST_FOUND, &mut found) {
                findings.push(finding(dir.clone(), error.into()));
            }
        }
        let unlisted = found.into_iter().filter(|path| manifest.get(path).is_none());
        findings.extend(unlisted.take(MOST_UNLISTED).map(|it| finding(it, Fault::Unlisted)));
        findings
    }
}

/// The bytes of a manifest and of its signature.
type Files = (Vec<u8>, Vec<u8>);

fn tree(root: &Path) -> Result<Tree, Error> {
    Tree::open(root).map_err(|error| match error {
        Errno::NOENT => Error::Missing { path: root.join(Part::Rosemary.file()) },
        error => Error::System { path: root.to_owned(), why: error.into() },
    })
}

/// Reads the manifest of a part and checks its signature.
fn signed(
    tree: &Tree,
    root: &Path,
    part: Part,
    key: &PublicKey,
) -> Result<(SignedManifest, Files), Error> {
    let path = root.join(part.file());
    let read = |name: &str, most: u64| {
        tree.read(name, most).map_err(|fault| match fault {
            Fault::Missing => Error::Missing { path: root.join(name) },
            why => Error::System { path: root.join(name), why },
        })
    };
    let text = read(part.file(), MAX_MANIFEST)?;
    let signature = read(&part.signature(), MAX_SIGNATURE as u64)?;
    let wrong = |why: String| Error::Signature { path: path.clone(), why };
    let parsed = std::str::from_utf8(&signature).ok().and_then(|text| text.parse().ok());
    let parsed: Signature = parsed.ok_or_else(|| wrong("its signature is damaged".into()))?;
    if parsed.key_id() != key.id() {
        let (of, not) = (parsed.key_id(), key.id());
        return Err(wrong(format!("the key {of} signed it, and releases are signed by {not}")));
    }
    parsed.verify(&text, key).map_err(|_| wrong("its signature does not fit".into()))?;
    // Bytes without a valid signature are not parsed.
    let malformed = |why| Error::Malformed { path: path.clone(), why };
    let manifest = Manifest::parse(&text).map_err(malformed)?;
    if manifest.part != part {
        return Err(wrong(format!("it is the manifest of the part {}", manifest.part.name())));
    }
    let sha256 = package::sha256(&text);
    Ok((SignedManifest { manifest, sha256 }, (text, signature)))
}

/// Replaces a manifest and its signature if they differ, and reports both as one file.
fn replace_manifest(tree: &Tree, part: Part, (text, signature): &Files) -> Option<Finding> {
    let files = [(part.file().to_owned(), text), (part.signature(), signature)];
    let found = |path: &str| tree.read(path, MAX_MANIFEST);
    let differs = |(path, content): &&(String, &Vec<u8>)| {
        found(path).map_or(true, |found| found != **content)
    };
    let changed: Vec<_> = files.iter().filter(differs).collect();
    let (path, _) = changed.first()?;
    let fault =
        found(path).map_or_else(|fault| fault, |found| Fault::Content(package::sha256(&found)));
    let replaced = changed.iter().try_for_each(|(path, content)| {
        let (size, sha256) = (content.len() as u64, package::sha256(content));
        let entry = Entry { path: path.clone(), mode: Some(0o644), size, sha256 };
        recovery::replace(&mut &*tree, &entry, content)
    });
    Some(Finding { path: path.clone(), fault, replaced: Some(replaced.map_err(Into::into)) })
}

#[cfg(test)]
mod tests;

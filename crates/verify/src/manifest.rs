//! Reads and writes the manifest of a release: which files an installation has, and their digests.
//!
//! ```text
//! rosemary manifest 1                        the format
//! part rosemary                              which part of a release: rosemary, or python
//! version 1000                               grows with each release
//! whole lib/rosemary/python                  a directory that contains listed files only; any number, sorted
//! file 755 53102816 SHA256 libexec/rosemary/rosemary-kernel
//! link 16 SHA256 lib/rosemary/python/bin/python3
//! ```
//!
//! Paths are relative to the root of the installation (`/usr`). A line `file` has the mode in octal digits, the size in bytes and
//! the SHA-256 of the content; a line `link` has those of the target of a symbolic link. Both are sorted by path, byte by byte.
//! [`Manifest::parse`] accepts only the bytes that [`Manifest::to_text`] writes, so no two texts mean the same release.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use thiserror::Error;

/// The most bytes of a manifest.
pub const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

/// The most files and links of a manifest.
pub const MAX_ENTRIES: usize = 20_000;

/// The most bytes of a path.
pub const MAX_PATH: usize = 512;

/// The most bytes of a file.
pub const MAX_FILE: u64 = 1024 * 1024 * 1024;

/// The most directories that contain listed files only.
const MAX_WHOLE: usize = 64;

const FORMAT: &str = "rosemary manifest 1";

/// The permissions that a listed file may have: its owner can read it, and only its owner can write it.
const POSSIBLE_MODES: u32 = 0o755;
const READABLE: u32 = 0o400;

/// A part of a release, which has a manifest of its own as it may be a package of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The programs, the apps that ship with them, and the examples of configurations.
    Rosemary,
    /// The environment for apps in Python, with Faucet.
    Python,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 2] = [Self::Rosemary, Self::Python];

    /// Its name in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rosemary => "rosemary",
            Self::Python => "python",
        }
    }

    /// The path of its manifest below the root of an installation.
    pub fn file(self) -> &'static str {
        match self {
            Self::Rosemary => "lib/rosemary/MANIFEST",
            Self::Python => "lib/rosemary/MANIFEST.python",
        }
    }

    /// The path of the manifest's signature.
    pub fn signature(self) -> String {
        format!("{}.{}", self.file(), package::SIGNATURE_EXTENSION)
    }

    /// The part with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A file or a symbolic link of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the root of the installation.
    pub path: String,
    /// The permissions of a file; `None` for a symbolic link.
    pub mode: Option<u32>,
    /// The bytes of the content, or of the link's target.
    pub size: u64,
    /// The SHA-256 of the content, or of the link's target, in hexadecimal digits.
    pub sha256: String,
}

/// The files of one part of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The part.
    pub part: Part,
    /// The number of the release: later ones have greater numbers.
    pub version: u64,
    whole: Vec<String>,
    entries: Vec<Entry>,
}

/// Why bytes are not a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It is too long, or no text.
    #[error("{0}")]
    Text(&'static str),
    /// A line is wrong; lines are counted from 1.
    #[error("line {line}: {why}")]
    Line {
        /// The line's number.
        line: usize,
        /// The problem.
        why: &'static str,
    },
    /// The entries do not fit together.
    #[error("{path}: {why}")]
    Path {
        /// The path of one of them.
        path: String,
        /// The problem.
        why: &'static str,
    },
}

impl Manifest {
    /// The manifest with these directories and entries in any order.
    ///
    /// # Errors
    /// [`Malformed`]: [`parse`](Self::parse) would refuse it.
    pub fn new(
        part: Part,
        version: u64,
        mut whole: Vec<String>,
        mut entries: Vec<Entry>,
    ) -> Result<Self, Malformed> {
        whole.sort();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let manifest = Self { part, version, whole, entries };
        manifest.check()?;
        if manifest.to_text().len() as u64 > MAX_MANIFEST {
            return Err(Malformed::Text("it is too long"));
        }
        Ok(manifest)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`Malformed`] for all bytes that [`to_text`](Self::to_text) does not write.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() as u64 > MAX_MANIFEST {
            return Err(Malformed::Text("it is too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Text("it is not UTF-8"))?;
        let text = text.strip_suffix('\n').ok_or(Malformed::Text("its last line is incomplete"))?;
        let mut lines = (1..).zip(text.split('\n'));
        let mut head = |word: &str, why| {
            let (line, text) = lines.next().unwrap_or((0, ""));
            text.strip_prefix(word).ok_or(Malformed::Line { line, why })
        };
        if !head(FORMAT, "it must be `rosemary manifest 1`")?.is_empty() {
            return Err(Malformed::Line { line: 1, why: "it must be `rosemary manifest 1`" });
        }
        let part = head("part ", "it must name the part")?;
        let part = Part::named(part).ok_or(Malformed::Line { line: 2, why: "unknown part" })?;
        let version = head("version ", "it must have the version")?;
        let version = number(version, 10).ok_or(Malformed::Line { line: 3, why: "no number" })?;
        let (mut whole, mut entries) = (Vec::new(), Vec::new());
        for (line, text) in lines {
            let wrong = |why| Malformed::Line { line, why };
            if let Some(path) = text.strip_prefix("whole ") {
                if !entries.is_empty() {
                    return Err(wrong("directories come before files"));
                }
                whole.push(path.to_owned());
            } else {
                entries.push(entry(text).ok_or_else(|| wrong("it describes no file"))?);
            }
            if entries.len() > MAX_ENTRIES || whole.len() > MAX_WHOLE {
                return Err(wrong("too many lines"));
            }
        }
        let manifest = Self { part, version, whole, entries };
        manifest.check()?;
        Ok(manifest)
    }

    /// Writes the manifest. The same release always gives the same bytes.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FORMAT}\npart {}\nversion {}\n", self.part.name(), self.version);
        for path in &self.whole {
            let _ = writeln!(text, "whole {path}"); // writing to a String cannot fail
        }
        for Entry { path, mode, size, sha256 } in &self.entries {
            let _ = match mode {
                Some(mode) => writeln!(text, "file {mode:o} {size} {sha256} {path}"),
                None => writeln!(text, "link {size} {sha256} {path}"),
            };
        }
        text
    }

    /// The entry with this path.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|it| it.path.as_str().cmp(path)).ok()?;
        self.entries.get(at)
    }

    /// All entries in the order of their paths.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The directories that contain listed files only.
    pub fn whole(&self) -> &[String] {
        &self.whole
    }

    fn check(&self) -> Result<(), Malformed> {
        let wrong = |path: &str, why| Err(Malformed::Path { path: path.to_owned(), why });
        if self.entries.len() > MAX_ENTRIES || self.whole.len() > MAX_WHOLE {
            return Err(Malformed::Text("it has too many lines"));
        }
        let paths = || self.entries.iter().map(|it| it.path.as_str());
        let whole = self.whole.iter().map(String::as_str);
        if let Some(path) = whole.clone().chain(paths()).find(|path| !is_path(path)) {
            return wrong(path, "a path must be relative, without `..`, and may not be that long");
        }
        for (one, next) in paths().zip(paths().skip(1)).chain(whole.clone().zip(whole.skip(1))) {
            if one >= next {
                return wrong(next, "paths must be sorted, and each may occur once");
            }
        }
        // A listed path that is also the directory of another one would have to be both.
        let dirs: BTreeSet<&str> = paths().flat_map(parents).collect();
        if let Some(path) = paths().find(|path| dirs.contains(path)) {
            return wrong(path, "it is a file and a directory");
        }
        let own: Vec<String> =
            Part::ALL.iter().flat_map(|it| [it.file().to_owned(), it.signature()]).collect();
        for entry in &self.entries {
            let bad_mode = |mode: u32| mode & !POSSIBLE_MODES != 0 || mode & READABLE == 0;
            if entry.mode.is_some_and(bad_mode) {
                return wrong(&entry.path, "others could write it, or its owner could not read it");
            }
            if entry.size > MAX_FILE || (entry.mode.is_none() && entry.size > MAX_PATH as u64) {
                return wrong(&entry.path, "it is too long");
            }
            if !is_digest(&entry.sha256) {
                return wrong(&entry.path, "its digest is not a SHA-256");
            }
            if own.contains(&entry.path) {
                return wrong(&entry.path, "a manifest cannot list a manifest");
            }
        }
        Ok(())
    }
}

/// Reads a line about a file or a link.
fn entry(text: &str) -> Option<Entry> {
    let (word, rest) = text.split_once(' ')?;
    let (mode, rest) = match word {
        "file" => {
            let (mode, rest) = rest.split_once(' ')?;
            (Some(u32::try_from(number(mode, 8)?).ok()?), rest)
        }
        "link" => (None, rest),
        _ => return None,
    };
    let (size, rest) = rest.split_once(' ')?;
    let (sha256, path) = rest.split_once(' ')?;
    Some(Entry { path: path.into(), mode, size: number(size, 10)?, sha256: sha256.into() })
}

/// Reads a number as [`Manifest::to_text`] writes it: without sign and leading zeros.
fn number(text: &str, radix: u32) -> Option<u64> {
    let is_canonical = text == "0" || !text.starts_with(['0', '+']);
    u64::from_str_radix(text, radix).ok().filter(|_| is_canonical)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a path names something below a directory, in one way only.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    path.len() <= MAX_PATH && !path.contains(char::is_control) && path.split('/').all(is_part)
}

/// The directories above a path, without the root.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str) -> Entry {
        Entry { path: path.into(), mode: Some(0o755), size: 7, sha256: "0a".repeat(32) }
    }

    fn manifest() -> Manifest {
        let link = Entry { mode: None, ..file("lib/rosemary/python/bin/python3") };
        let entries = vec![link, file("libexec/rosemary/rosemary-kernel"), file("bin/rosemary")];
        Manifest::new(Part::Rosemary, 1000, vec!["lib/rosemary/python".into()], entries).unwrap()
    }

    #[test]
    fn text_is_sorted_and_reads_back() {
        let text = manifest().to_text();
        let digest = "0a".repeat(32);
        let expected = format!(
            "rosemary manifest 1\npart rosemary\nversion 1000\nwhole lib/rosemary/python\n\
             file 755 7 {digest} bin/rosemary\nlink 7 {digest} lib/rosemary/python/bin/python3\n\
             file 755 7 {digest} libexec/rosemary/rosemary-kernel\n"
        );
        assert_eq!(text, expected);
        assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), manifest());
        assert_eq!(manifest().get("bin/rosemary"), Some(&file("bin/rosemary")));
        assert_eq!(manifest().get("bin"), None);
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["", "/bin/sh", "../x", "a/../b", "a//b", "a/", "./a", "a/.", "a\nb", "a\0b"] {
            let refused = Manifest::new(Part::Rosemary, 1, Vec::new(), vec![file(path)]);
            assert!(matches!(refused, Err(Malformed::Path { .. })), "{path:?}");
            let text = manifest().to_text().replace("bin/rosemary", path);
            assert!(Manifest::parse(text.as_bytes()).is_err(), "{path:?}");
            let refused = Manifest::new(Part::Rosemary, 1, vec![path.into()], Vec::new());
            assert!(refused.is_err(), "{path:?} as a directory");
        }
        let long = "a".repeat(MAX_PATH + 1);
        assert!(Manifest::new(Part::Rosemary, 1, Vec::new(), vec![file(&long)]).is_err());
    }

    #[test]
    fn entries_that_contradict_each_other_are_refused() {
        let refused = |entries: Vec<Entry>| {
            Manifest::new(Part::Rosemary, 1, Vec::new(), entries).unwrap_err().to_string()
        };
        assert!(refused(vec![file("a"), file("a")]).contains("may occur once"));
        // "a-" sorts between the two.
        assert!(refused(vec![file("a"), file("a-"), file("a/b")]).contains("file and a directory"));
        for mode in [0o775, 0o4755, 0o300, 0o757] {
            assert!(refused(vec![Entry { mode: Some(mode), ..file("a") }]).contains("write it"));
        }
        assert!(refused(vec![Entry { size: MAX_FILE + 1, ..file("a") }]).contains("too long"));
        assert!(refused(vec![Entry { mode: None, size: 513, ..file("a") }]).contains("too long"));
        for sha256 in ["", &"0A".repeat(32), &"0".repeat(65)] {
            let entry = Entry { sha256: sha256.into(), ..file("a") };
            assert!(refused(vec![entry]).contains("SHA-256"), "{sha256}");
        }
        assert!(refused(vec![file("lib/rosemary/MANIFEST.minisig")]).contains("list a manifest"));
        let many = (0..=MAX_ENTRIES).map(|it| file(&it.to_string())).collect();
        assert!(refused(many).contains("too many"));
    }

    #[test]
    fn other_spellings_of_a_manifest_are_refused() {
        let text = manifest().to_text();
        for (from, to) in [
            ("manifest 1\n", "manifest 1 \n"),
            ("manifest 1\n", "manifest 2\n"),
            ("part rosemary", "part other"),
            ("version 1000", "version 01000"),
            ("version 1000", "version +1000"),
            ("version 1000", "version 18446744073709551616"),
            ("file 755", "file 0755"),
            ("file 755", "file  755"),
            ("file 755", "dir 755"),
            (" 7 ", " 07 "),
            ("whole lib", "\nwhole lib"),
            ("\n", "\r\n"),
        ] {
            let other = text.replace(from, to);
            assert_ne!(other, text);
            assert!(Manifest::parse(other.as_bytes()).is_err(), "{to:?}");
        }
        for cut in [&text[..text.len() - 1], "", "\n", "rosemary manifest 1\n"] {
            assert!(Manifest::parse(cut.as_bytes()).is_err(), "{cut:?}");
        }
        let too_long = vec![b'\n'; usize::try_from(MAX_MANIFEST).unwrap() + 1];
        assert_eq!(Manifest::parse(&too_long), Err(Malformed::Text("it is too long")));
    }

    proptest! {
        #[test]
        fn accepted_bytes_are_those_of_the_writer(
            at in 0..400_usize, byte: u8, cut in 0..400_usize, bytes in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut changed = manifest().to_text().into_bytes();
            let size = changed.len();
            changed[at % size] = byte;
            changed.truncate(size - cut % 3);
            for text in [changed, bytes] {
                if let Ok(manifest) = Manifest::parse(&text) {
                    prop_assert_eq!(manifest.to_text().into_bytes(), text);
                }
            }
        }
    }
}

//! Reads and writes the file of a package: an uncompressed archive that `tar` can list and unpack.
//!
//! ```text
//! SHA256SUMS     the digests of the other two, in the format of sha256sum(1)
//! app.toml       the manifest: the name of the app and its requests
//! app.so         the object
//! ```
//!
//! The format is POSIX.1-2017, pax, "ustar Interchange Format": for each file a header of 512 bytes, its content, and
//! zeros up to a multiple of 512, and 1024 zeros at the end. All header fields except names and sizes are fixed, so the
//! same manifest and object always give the same bytes. [`open`] reads only the size from a header and requires all
//! other bytes to be those that [`pack`] writes. So all programs that read the archive find the same content in it.

use std::fmt::Write as _;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Maximum size of a manifest, in bytes.
pub const MAX_MANIFEST: usize = 16 * 1024;

/// Maximum size of an object, in bytes.
pub const MAX_OBJECT: usize = 256 * 1024 * 1024;

/// Maximum size of a package, in bytes.
pub const MAX_PACKAGE: usize = MAX_OBJECT + MAX_MANIFEST + 8 * BLOCK;

const SUMS: &str = "SHA256SUMS";
const MANIFEST: &str = "app.toml";
const OBJECT: &str = "app.so";

/// Size of a block of the archive, in bytes.
const BLOCK: usize = 512;

/// Position of the file's size in a header: 11 octal digits.
const SIZE: Range<usize> = 124..135;

/// Modification time of all files, in seconds since 1970. For the time 0, `tar` prints a warning.
const MODIFIED: u64 = 1_000_000_000;

/// The contents of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents<'a> {
    /// The text of the manifest.
    pub manifest: &'a str,
    /// Position of the object in the package.
    pub object: Range<usize>,
    /// The object's SHA-256 in hexadecimal digits.
    pub object_sha256: String,
}

/// Why bytes are not a package.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Malformed {
    /// A file is missing, or differs from what [`pack`] writes.
    #[error("{file} is missing, or is not stored as `rosemary app build` stores it")]
    Layout {
        /// The file.
        file: String,
    },
    /// A file is too long.
    #[error("{file} is longer than {most} bytes")]
    TooLong {
        /// The file.
        file: String,
        /// The maximum.
        most: usize,
    },
    /// The digests do not match the files.
    #[error("its files do not match its digests in {SUMS}")]
    Digests,
    /// The manifest is not text.
    #[error("{MANIFEST} is not UTF-8 text")]
    Manifest,
    /// The end is missing, or bytes follow it.
    #[error("its end is missing, or bytes follow it")]
    End,
}

/// Returns the package with this manifest and this object.
///
/// # Errors
/// [`Malformed::TooLong`].
pub fn pack(manifest: &str, object: &[u8]) -> Result<Vec<u8>, Malformed> {
    too_long(MANIFEST, manifest.len(), MAX_MANIFEST)?;
    too_long(OBJECT, object.len(), MAX_OBJECT)?;
    let sums = sums(&sha256(manifest.as_bytes()), &sha256(object));
    let mut package = Vec::with_capacity(object.len() + manifest.len() + 8 * BLOCK);
    for (name, content) in
        [(SUMS, sums.as_bytes()), (MANIFEST, manifest.as_bytes()), (OBJECT, object)]
    {
        package.extend_from_slice(&header(name, content.len()));
        package.extend_from_slice(content);
        package.resize(package.len().next_multiple_of(BLOCK), 0);
    }
    package.resize(package.len() + 2 * BLOCK, 0);
    Ok(package)
}

/// Reads a package.
///
/// # Errors
/// [`Malformed`] for bytes that [`pack`] does not write.
pub fn open(package: &[u8]) -> Result<Contents<'_>, Malformed> {
    let at = &mut 0;
    let sums_are = file(package, at, SUMS, 2 * BLOCK)?;
    let manifest = file(package, at, MANIFEST, MAX_MANIFEST)?;
    let object = file(package, at, OBJECT, MAX_OBJECT)?;
    let rest = package.get(*at..).unwrap_or_default();
    if rest.len() != 2 * BLOCK || rest.iter().any(|byte| *byte != 0) {
        return Err(Malformed::End);
    }
    let content = |range: Range<usize>| package.get(range).unwrap_or_default();
    let object_sha256 = sha256(content(object.clone()));
    let manifest = content(manifest);
    if content(sums_are) != sums(&sha256(manifest), &object_sha256).as_bytes() {
        return Err(Malformed::Digests);
    }
    let manifest = std::str::from_utf8(manifest).map_err(|_| Malformed::Manifest)?;
    Ok(Contents { manifest, object, object_sha256 })
}

/// Returns the SHA-256 of `bytes` in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

fn sums(manifest: &str, object: &str) -> String {
    format!("{manifest}  {MANIFEST}\n{object}  {OBJECT}\n")
}

fn too_long(file: &str, size: usize, most: usize) -> Result<(), Malformed> {
    if size > most { Err(Malformed::TooLong { file: file.into(), most }) } else { Ok(()) }
}

/// Returns the position of the content of the file `name`, whose header is at `at`. Advances `at` to the next header.
fn file(
    package: &[u8],
    at: &mut usize,
    name: &str,
    most: usize,
) -> Result<Range<usize>, Malformed> {
    let layout = || Malformed::Layout { file: name.into() };
    let found = package.get(*at..*at + BLOCK).ok_or_else(layout)?;
    let digits = found.get(SIZE).and_then(|digits| std::str::from_utf8(digits).ok());
    let size = digits.and_then(|digits| usize::from_str_radix(digits, 8).ok());
    let size = size.ok_or_else(layout)?;
    too_long(name, size, most)?;
    if found != header(name, size) {
        return Err(layout());
    }
    let content = *at + BLOCK..*at + BLOCK + size;
    *at = content.end.next_multiple_of(BLOCK);
    let padding = package.get(content.end..*at).ok_or_else(layout)?;
    if padding.iter().any(|byte| *byte != 0) {
        return Err(layout());
    }
    Ok(content)
}

/// Returns the header of the file `name` with `size` bytes.
fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        for (to, from) in header.iter_mut().skip(at).zip(text.bytes()) {
            *to = from;
        }
    };
    put(0, name);
    put(100, "0000644"); // mode
    put(108, "0000000"); // user and group: root
    put(116, "0000000");
    put(SIZE.start, &format!("{size:011o}"));
    put(136, &format!("{MODIFIED:011o}"));
    put(148, "        "); // the checksum is computed as if its own field held spaces
    put(156, "0"); // a regular file
    put(257, "ustar");
    put(263, "00"); // the format's version
    put(329, "0000000"); // device numbers
    put(337, "0000000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    for (to, from) in header.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *to = from;
    }
    header
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "name = \"hub\"\nversion = \"1.0.0\"\n";

    fn object(package: &[u8]) -> &[u8] {
        &package[open(package).unwrap().object]
    }

    #[test]
    fn packing_is_deterministic_and_reversible() {
        let package = pack(TEXT, b"object").unwrap();
        let contents = open(&package).unwrap();
        assert_eq!(contents.manifest, TEXT);
        assert_eq!(contents.object_sha256, sha256(b"object"));
        assert_eq!(object(&package), b"object");
        assert_eq!(pack(TEXT, b"object").unwrap(), package);
        assert_eq!(package.len(), 8 * BLOCK);
    }

    #[test]
    fn tar_and_sha256sum_accept_package() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("p"), pack(TEXT, &[7; 5000]).unwrap()).unwrap();
        let run = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).current_dir(dir.path()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success() && said.is_empty(), "{program}: {said}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run("tar", &["-xvf", "p"]), "SHA256SUMS\napp.toml\napp.so\n");
        assert_eq!(run("sha256sum", &["-c", "SHA256SUMS"]), "app.toml: OK\napp.so: OK\n");
        assert_eq!(std::fs::read_to_string(dir.path().join("app.toml")).unwrap(), TEXT);
    }

    #[test]
    fn package_with_changed_byte_is_refused() {
        let package = pack(TEXT, b"object").unwrap();
        for at in 0..package.len() {
            for flip in [0x01, 0x20, 0x80, 0xff] {
                let mut changed = package.clone();
                changed[at] ^= flip;
                assert!(open(&changed).is_err(), "byte {at} ^ {flip:#x}");
            }
        }
    }

    #[test]
    fn truncated_or_extended_package_is_refused() {
        let package = pack(TEXT, b"object").unwrap();
        for len in 0..package.len() {
            assert!(open(&package[..len]).is_err(), "{len}");
        }
        for more in [1, BLOCK, 20 * BLOCK] {
            let mut longer = package.clone();
            longer.resize(package.len() + more, 0);
            assert_eq!(open(&longer), Err(Malformed::End));
        }
    }

    #[test]
    fn archive_made_by_tar_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, package) = (dir.path(), pack(TEXT, b"object").unwrap());
        let text = sums(&sha256(TEXT.as_bytes()), &sha256(b"object"));
        for (name, content) in [(SUMS, text.as_str()), (MANIFEST, TEXT), (OBJECT, "object")] {
            std::fs::write(path.join(name), content).unwrap();
        }
        let args = ["--format=ustar", "-cf", "t", SUMS, MANIFEST, OBJECT];
        assert!(Command::new("tar").args(args).current_dir(path).status().unwrap().success());
        let error = open(&std::fs::read(path.join("t")).unwrap()).unwrap_err();
        assert_eq!(error, Malformed::Layout { file: SUMS.into() });
        assert!(open(&package).is_ok());
    }

    #[test]
    fn too_long_manifest_is_refused() {
        let long = "#".repeat(MAX_MANIFEST + 1);
        let expected = Malformed::TooLong { file: MANIFEST.into(), most: MAX_MANIFEST };
        assert_eq!(pack(&long, b"").unwrap_err(), expected);
        let mut package = pack(TEXT, b"").unwrap();
        package.splice(1024..1536, header(MANIFEST, MAX_MANIFEST + 1));
        assert_eq!(open(&package).unwrap_err(), expected);
    }

    #[test]
    fn binary_manifest_is_refused() {
        let mut package = pack(TEXT, b"object").unwrap();
        package[1536] = 0xff;
        let (manifest, object) = (&package[1536..1536 + TEXT.len()], b"object");
        let text = sums(&sha256(manifest), &sha256(object));
        package.splice(BLOCK..BLOCK + text.len(), text.bytes());
        assert_eq!(open(&package), Err(Malformed::Manifest));
    }

    proptest! {
        #[test]
        fn any_content_is_unpacked_unchanged(text in ".{0,600}", object_is in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let package = pack(&text, &object_is).unwrap();
            prop_assert_eq!(open(&package).unwrap().manifest, text);
            prop_assert_eq!(object(&package), object_is);
        }

        #[test]
        fn any_bytes_are_refused_and_no_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..3000), digits in "[0-7]{11}") {
            let _ = open(&bytes);
            bytes.resize(8 * BLOCK, 0);
            bytes.splice(..BLOCK, header(SUMS, 146));
            bytes.splice(BLOCK + SIZE.start..BLOCK + SIZE.end, digits.bytes());
            prop_assert!(open(&bytes).is_err());
        }
    }
}

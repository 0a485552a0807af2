//! Fuzzes app packages and their signatures.
//!
//! No panic. An opened package equals the package built from its contents, so every byte of a
//! package is checked. An unchanged package opens, and the parsed signature consists of parts of
//! its text.
//!
//! Input: a manifest and an object to pack, changes to the package, and the parts of a signature.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rosemary_package::{PublicKey, Signature, open, pack, sha256};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    manifest: &'a str,
    object: &'a [u8],
    changes: Vec<Change>,
    /// Whether the digests are recomputed after the changes.
    digests_fit: bool,
    /// Comment lines of a signature, and the bytes that its base64 lines encode.
    untrusted: &'a str,
    trusted: &'a str,
    signature: [u8; 72],
    global: [u8; 64],
    key: &'a str,
    /// Raw bytes, usually no valid package.
    raw: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum Change {
    Byte { at: u16, value: u8 },
    /// Corrects the header's tar checksum, which is computed with blanks in its place.
    HeaderSum { block: u8 },
    Cut { size: u16 },
    Append { value: u8, size: u16 },
    Move { from: u16, to: u16, size: u16 },
}

const BLOCK: usize = 512;

fuzz_target!(|input: Input<'_>| {
    check(input.raw);
    let Ok(packed) = pack(input.manifest, input.object) else { return };
    let opened = open(&packed).expect("it was packed by this program");
    assert_eq!(opened.manifest, input.manifest);
    assert_eq!(&packed[opened.object], input.object);
    let mut changed = packed.clone();
    input.changes.iter().for_each(|change| change.make(&mut changed));
    if input.digests_fit {
        fit_digests(&mut changed, input.manifest.len(), input.object.len());
    }
    check(&changed);
    check_signature(&input, &packed);
});

/// An opened package equals the package built from its contents.
fn check(bytes: &[u8]) {
    let Ok(opened) = open(bytes) else { return };
    assert_eq!(opened.object_sha256, sha256(&bytes[opened.object.clone()]));
    let again = pack(opened.manifest, &bytes[opened.object]).expect("it is not larger");
    assert!(again == bytes, "two packages have the same contents");
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len().max(1);
        match *self {
            Self::Byte { at, value } => {
                if let Some(byte) = bytes.get_mut(usize::from(at) % len) {
                    *byte = value;
                }
            }
            Self::HeaderSum { block } => {
                let at = usize::from(block) * BLOCK;
                let Some(header) = bytes.get_mut(at..at + BLOCK) else { return };
                header[148..156].fill(b' ');
                let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
                header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            }
            Self::Cut { size } => bytes.truncate(len - usize::from(size) % len),
            Self::Append { value, size } => bytes.resize(len + usize::from(size), value),
            Self::Move { from, to, size } => {
                let (from, to) = (usize::from(from) % len, usize::from(to) % len);
                let size = usize::from(size).min(bytes.len() - from.max(to).min(bytes.len()));
                bytes.copy_within(from..from + size, to);
            }
        }
    }
}

/// Writes the digests of the bytes at the positions of manifest and object.
fn fit_digests(bytes: &mut [u8], manifest: usize, object: usize) {
    let manifest_at = 3 * BLOCK; // after the digests and its own header
    let object_at = manifest_at + manifest.next_multiple_of(BLOCK) + BLOCK;
    let digest = |at: usize, size: usize| bytes.get(at..at + size).map(sha256);
    let (Some(manifest), Some(object)) = (digest(manifest_at, manifest), digest(object_at, object))
    else {
        return;
    };
    let sums = format!("{manifest}  app.toml\n{object}  app.so\n");
    if let Some(place) = bytes.get_mut(BLOCK..BLOCK + sums.len()) {
        place.copy_from_slice(sums.as_bytes());
    }
}

fn check_signature(input: &Input<'_>, package: &[u8]) {
    let _ = input.untrusted.parse::<Signature>();
    let text = format!(
        "untrusted comment: {}\n{}\ntrusted comment: {}\n{}\n",
        input.untrusted,
        base64(&[&b"ED"[..], &input.signature].concat()),
        input.trusted,
        base64(&input.global)
    );
    let key = input.key.parse::<PublicKey>();
    let key = key.unwrap_or_else(|_| KEY.parse().expect("it is a key"));
    assert_eq!(key.to_string().parse::<PublicKey>().map(|key| key.id()), Ok(key.id()));
    let Ok(signature) = text.parse::<Signature>() else { return };
    assert!(signature.verify(package, &key).is_err(), "it is not signed");
    let installed: Signature = signature.installed().parse().expect("the installed form parses");
    assert!(installed.is_installed() && installed.key_id() == signature.key_id());
}

/// A public key whose secret key is unknown.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for letter in 0..4 {
            let value = number >> (18 - 6 * letter) & 63;
            text.push(if letter <= three.len() { LETTERS[value as usize].into() } else { '=' });
        }
    }
    text
}

//! Parses keys and signatures in minisign's formats, and verifies signatures: <https://jedisct1.github.io/minisign/>.
//!
//! ```text
//! untrusted comment: anything                    not signed
//! BASE64                                         "ED", the key's id (8 bytes), Ed25519 of BLAKE2b-512
//! trusted comment: anything                      signed
//! BASE64                                         Ed25519 of the signature above and the comment
//! ```
//!
//! Only the prehashed form ("ED") is accepted, which the minisign tool has written since 2021. The text must consist of
//! exactly four lines with canonical base64. The first line is not signed. For an installed package it is fixed
//! ([`INSTALLED_COMMENT`]), so that every changed byte is detected.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum size of a signature's text, in bytes.
pub const MAX_SIGNATURE: usize = 4096;

/// The first line of an installed package's signature.
pub const INSTALLED_COMMENT: &str = "untrusted comment: installed by rosemary app install";

const UNTRUSTED: &str = "untrusted comment: ";
const TRUSTED: &str = "trusted comment: ";

/// The algorithm of keys and of signatures without a hash; the algorithm of signatures of a hash.
const KEY: &[u8] = b"Ed";
const PREHASHED: &[u8] = b"ED";

/// Sizes in bytes: of an algorithm's name, of a key's id, and of an Ed25519 signature.
const ALGORITHM_SIZE: usize = 2;
const KEY_ID_SIZE: usize = 8;
const ED25519_SIZE: usize = 64;

/// A developer's public key, in the form of the second line of minisign's `.pub` files.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey {
    text: String,
    id: KeyId,
    key: minisign_verify::PublicKey,
}

/// A key's id: 8 random bytes, which its signatures contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId([u8; 8]);

/// A signature of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    text: String,
    id: KeyId,
}

/// Why a text is not a signature that can be verified.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignatureFormat {
    /// It is damaged, or no signature of minisign at all.
    #[error("{0}")]
    Malformed(&'static str),
    /// It is a signature without a hash, as the minisign tool made them before 2021.
    #[error("it has minisign's old form without a hash")]
    OldForm,
    /// Its algorithm is another one than minisign's two.
    #[error("its algorithm is \"{0}\", which is unknown")]
    UnknownAlgorithm(String),
}

/// The signature does not belong to these bytes and this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the signature does not fit")]
pub struct BadSignature;

impl FromStr for PublicKey {
    type Err = &'static str;

    /// Parses the key alone, without the line of the comment.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "a public key of 56 letters, as `rosemary key new` or minisign prints it";
        let bytes = STANDARD.decode(text).map_err(|_| FORM)?;
        if bytes.len() != 42 || !bytes.starts_with(KEY) {
            return Err(FORM);
        }
        let id = bytes[2..].first_chunk().copied().map(KeyId).ok_or(FORM)?;
        let key = minisign_verify::PublicKey::from_base64(text).map_err(|_| FORM)?;
        Ok(Self { text: text.to_owned(), id, key })
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.text
    }
}

impl TryFrom<String> for PublicKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl PublicKey {
    /// Returns the key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Display for KeyId {
    /// Formats the id as the minisign tool does: without leading zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}", u64::from_le_bytes(self.0))
    }
}

impl FromStr for Signature {
    type Err = SignatureFormat;

    fn from_str(text: &str) -> Result<Self, SignatureFormat> {
        let no = |why| Err(SignatureFormat::Malformed(why));
        if text.len() > MAX_SIGNATURE {
            return no("it is too long");
        }
        let lines: Vec<&str> = text.split('\n').collect();
        let [untrusted, signature, trusted, global, ""] = lines.as_slice() else {
            return no("it does not consist of the four lines of minisign's format");
        };
        if !untrusted.starts_with(UNTRUSTED)
            || !trusted.starts_with(TRUSTED)
            || text.contains(|letter: char| letter.is_control() && !"\n\t".contains(letter))
        {
            return no("its lines differ from minisign's format");
        }
        let (Ok(signature), Ok(global)) = (STANDARD.decode(signature), STANDARD.decode(global))
        else {
            return no("it is not valid base64");
        };
        // The algorithm comes before the lengths, which depend on it.
        let rest = match signature.split_at_checked(ALGORITHM_SIZE) {
            None => return no("it does not name an algorithm"),
            Some((PREHASHED, rest)) => rest,
            Some((KEY, _)) => return Err(SignatureFormat::OldForm),
            Some((other, _)) => {
                return Err(SignatureFormat::UnknownAlgorithm(other.escape_ascii().to_string()));
            }
        };
        if rest.len() != KEY_ID_SIZE + ED25519_SIZE || global.len() != ED25519_SIZE {
            return no("its parts have other lengths than in minisign's format");
        }
        let id = rest.first_chunk().copied().map_or(KeyId([0; 8]), KeyId); // 72 bytes, so the id is always present
        Ok(Self { text: text.to_owned(), id })
    }
}

impl Signature {
    /// Returns the id of the key that it claims to be made with.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Returns the text of this signature with the first line of an installed package's signature.
    pub fn installed(&self) -> String {
        let signed = self.text.split_once('\n').map_or("", |(_, signed)| signed);
        format!("{INSTALLED_COMMENT}\n{signed}")
    }

    /// Whether the first line is that of an installed package's signature.
    pub fn is_installed(&self) -> bool {
        self.text.lines().next() == Some(INSTALLED_COMMENT)
    }

    /// Verifies that the owner of `key` made the signature of `package`.
    ///
    /// # Errors
    /// [`BadSignature`]: the package was changed, or another key made the signature.
    pub fn verify(&self, package: &[u8], key: &PublicKey) -> Result<(), BadSignature> {
        let signature = minisign_verify::Signature::decode(&self.text).map_err(|_| BadSignature)?;
        key.key.verify(package, &signature, false).map_err(|_| BadSignature)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use minisign::KeyPair;

    use super::*;

    const DATA: &[u8] = b"a package";

    fn pair() -> (KeyPair, PublicKey) {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let key = pair.pk.to_base64().parse().unwrap();
        (pair, key)
    }

    fn signed(pair: &KeyPair, data: &[u8]) -> String {
        minisign::sign(None, &pair.sk, data, Some("trusted"), None).unwrap().into_string()
    }

    #[test]
    fn signature_fits_only_its_bytes_and_key() {
        let ((pair, key), (_, other)) = (pair(), pair());
        let signature: Signature = signed(&pair, DATA).parse().unwrap();
        assert_eq!(signature.key_id(), key.id());
        signature.verify(DATA, &key).unwrap();
        assert_eq!(signature.verify(b"A package", &key), Err(BadSignature));
        assert_eq!(signature.verify(DATA, &other), Err(BadSignature));
    }

    #[test]
    fn installed_signature_with_changed_bit_is_refused() {
        let (pair, key) = pair();
        let signature: Signature = signed(&pair, DATA).parse().unwrap();
        assert!(!signature.is_installed());
        let text = signature.installed();
        let takes = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok()?;
            let signature: Signature = text.parse().ok()?;
            (signature.is_installed() && signature.verify(DATA, &key).is_ok()).then_some(())
        };
        assert_eq!(takes(text.as_bytes()), Some(()));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                assert_eq!(takes(&changed), None, "byte {at}, bit {bit}");
            }
            assert_eq!(takes(&text.as_bytes()[..at]), None, "cut at {at}");
        }
        assert_eq!(takes(format!("{text}\n").as_bytes()), None);
    }

    #[test]
    fn unknown_algorithm_of_any_length_is_named() {
        let (pair, _) = pair();
        let text = signed(&pair, DATA);
        let lines: Vec<&str> = text.split('\n').collect();
        let with = |part: &[u8]| {
            let part = STANDARD.encode(part);
            let text = [lines[0], &part, lines[2], lines[3], ""].join("\n");
            text.parse::<Signature>().unwrap_err()
        };
        let known = STANDARD.decode(lines[1]).unwrap();
        for size in [2, 74, 2500] {
            let mut other = known.clone();
            other.resize(size, 7);
            other[..2].copy_from_slice(b"M\x01");
            let unknown = SignatureFormat::UnknownAlgorithm("M\\x01".into());
            assert_eq!(with(&other), unknown, "{size} bytes");
        }
        let old = [b"Ed", &known[2..]].concat();
        assert_eq!(with(&old), SignatureFormat::OldForm);
        let lengths = "its parts have other lengths than in minisign's format";
        assert_eq!(with(&known[..73]), SignatureFormat::Malformed(lengths));
        assert!(matches!(with(b"E"), SignatureFormat::Malformed(_)));
    }

    #[test]
    fn signature_of_key_with_same_id_is_refused() {
        let ((mut forger, _), (_, key)) = (pair(), pair());
        let number = STANDARD.decode(key.to_string()).unwrap();
        forger.sk = {
            let mut bytes = forger.sk.to_bytes();
            let at = bytes.len() - 104; // number, secret key, checksum
            bytes[at..at + 8].copy_from_slice(&number[2..10]);
            minisign::SecretKey::from_bytes(&bytes).unwrap()
        };
        let signature: Signature = signed(&forger, DATA).parse().unwrap();
        assert_eq!(signature.key_id(), key.id());
        assert_eq!(signature.verify(DATA, &key), Err(BadSignature));
    }

    #[test]
    fn prehashed_signatures_of_minisign_tool_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let run = |args: &[&str]| {
            let output = Command::new("minisign").args(args).current_dir(path).output();
            output.map(|output| assert!(output.status.success(), "{output:?}"))
        };
        if run(&["-GW", "-p", "p", "-s", "s"]).is_err() {
            eprintln!("SKIPPED: the minisign tool is not installed");
            assert!(std::env::var_os("ROSEMARY_REQUIRE_ALL").is_none());
            return;
        }
        std::fs::write(path.join("f"), DATA).unwrap();
        let text = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
        let key: PublicKey = text("p").lines().nth(1).unwrap().parse().unwrap();
        assert!(text("p").lines().next().unwrap().ends_with(&key.id().to_string()));
        run(&["-SW", "-s", "s", "-m", "f"]).unwrap();
        text("f.minisig").parse::<Signature>().unwrap().verify(DATA, &key).unwrap();
        run(&["-SlW", "-s", "s", "-m", "f"]).unwrap();
        let error = text("f.minisig").parse::<Signature>().unwrap_err().to_string();
        assert!(error.contains("old form"), "{error}");
    }

    #[test]
    fn invalid_key_error_describes_the_form() {
        let (_, key) = pair();
        let text = key.to_string();
        for wrong in ["", "RWQ", &text[1..], &text.replace("RWQ", "RWR")[..55], &format!("{text} ")]
        {
            assert!(wrong.parse::<PublicKey>().unwrap_err().contains("56 letters"), "{wrong}");
        }
    }
}

//! Verifies a package: its signature first, then its contents.

use control::security::SignedPackage;
use package::{Malformed, PublicKey, Signature, SignatureFormat};
use thiserror::Error;

/// The package is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PackageFault {
    /// The signature file holds no signature.
    #[error(
        "its signature cannot be read: {why}; get the file that ends in .minisig from its developer again, \
         or sign it with `rosemary app sign`"
    )]
    NoSignature {
        /// The mistake in the file.
        why: &'static str,
    },
    /// The signature has minisign's old form. The same file from its developer would have it again.
    #[error(
        "its signature has minisign's old form without a hash; its developer must sign it again, with \
         `rosemary app sign` or minisign 0.10 or later"
    )]
    OldSignature,
    /// The signature uses an algorithm that this version does not know.
    #[error(
        "its signature uses the algorithm \"{algorithm}\", which this version of Rosemary does not know; install \
         a version that knows it, or ask its developer to sign it with `rosemary app sign`"
    )]
    UnknownAlgorithm {
        /// The name of the algorithm, with other bytes than ASCII letters escaped.
        algorithm: String,
    },
    /// The signature beside an installed package is not in the form that the installation writes.
    #[error("its signature was changed since it was installed; install the package again")]
    NotInstalled,
    /// The key is not among the trusted ones.
    #[error(
        "it is signed with the key {key}, which no [[trust]] in the configuration has; if you trust that \
         developer, add one with their public key (docs/packages.md shows it)"
    )]
    UnknownKey {
        /// The key's number.
        key: String,
    },
    /// The named key did not make this signature, or not of these bytes.
    #[error(
        "its signature does not fit: the package was changed after it had been signed with the key {key}, \
         or somebody signed it who does not have that key; get both files from its developer again"
    )]
    Tampered {
        /// The key's number.
        key: String,
    },
    /// The signed file is not a package.
    #[error("it is signed, but it is not a package: {0}; build it with `rosemary app build`")]
    NotAPackage(Malformed),
}

impl From<SignatureFormat> for PackageFault {
    fn from(error: SignatureFormat) -> Self {
        match error {
            SignatureFormat::Malformed(why) => Self::NoSignature { why },
            SignatureFormat::OldForm => Self::OldSignature,
            SignatureFormat::UnknownAlgorithm(algorithm) => Self::UnknownAlgorithm { algorithm },
        }
    }
}

/// Finds the key of `keys` that signed `package`, and reads the package's contents.
///
/// # Errors
/// [`PackageFault`]: the reason to refuse the package.
pub fn verify(
    package: &[u8],
    signature: &[u8],
    keys: &[PublicKey],
) -> Result<SignedPackage, PackageFault> {
    verify_signed(package, &parse(signature)?, keys)
}

/// The same for an installed package, in which no byte of the signature's file may be changed either.
///
/// # Errors
/// [`PackageFault`].
pub fn verify_installed(
    package: &[u8],
    signature: &[u8],
    keys: &[PublicKey],
) -> Result<SignedPackage, PackageFault> {
    let signature = parse(signature)?;
    if !signature.is_installed() {
        return Err(PackageFault::NotInstalled);
    }
    verify_signed(package, &signature, keys)
}

fn parse(signature: &[u8]) -> Result<Signature, PackageFault> {
    // Bytes that are not text become characters that no signature contains.
    Ok(String::from_utf8_lossy(signature).parse()?)
}

fn verify_signed(
    package: &[u8],
    signature: &Signature,
    keys: &[PublicKey],
) -> Result<SignedPackage, PackageFault> {
    let id = signature.key_id();
    let Some((number, key)) = keys.iter().enumerate().find(|(_, key)| key.id() == id) else {
        return Err(PackageFault::UnknownKey { key: id.to_string() });
    };
    let tampered = |_| PackageFault::Tampered { key: id.to_string() };
    signature.verify(package, key).map_err(tampered)?;
    let contents = package::open(package).map_err(PackageFault::NotAPackage)?;
    Ok(SignedPackage {
        key: number,
        sha256: package::sha256(package),
        manifest: contents.manifest.to_owned(),
        object: (contents.object.start, contents.object.len()),
        object_sha256: contents.object_sha256,
    })
}

#[cfg(test)]
mod tests {
    use minisign::KeyPair;

    use super::*;

    fn pair() -> (KeyPair, PublicKey) {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let key = pair.pk.to_base64().parse().unwrap();
        (pair, key)
    }

    fn sign(pair: &KeyPair, data: &[u8]) -> String {
        minisign::sign(None, &pair.sk, data, None, None).unwrap().into_string()
    }

    #[test]
    fn signed_package_is_described() {
        let ((_, other), (pair, key)) = (pair(), pair());
        let package = package::pack("name", b"object").unwrap();
        let text = sign(&pair, &package);
        let signed = verify(&package, text.as_bytes(), &[other, key]).unwrap();
        assert_eq!((signed.key, signed.manifest.as_str()), (1, "name"));
        let (at, size) = signed.object;
        assert_eq!(&package[at..at + size], b"object");
        assert_eq!(signed.object_sha256, package::sha256(b"object"));
    }

    #[test]
    fn each_fault_has_its_own_message() {
        let ((other, _), (pair, key)) = (pair(), pair());
        let package = package::pack("name", b"object").unwrap();
        let text = sign(&pair, &package);
        let keys = [key];
        let says = |package: &[u8], signature: &str| {
            verify(package, signature.as_bytes(), &keys).unwrap_err().to_string()
        };
        assert!(says(&package, "").contains("cannot be read"));
        let fault = verify_installed(&package, text.as_bytes(), &keys).unwrap_err();
        assert!(fault.to_string().contains("install the package again"));
        assert!(says(&package, &sign(&other, &package)).contains("no [[trust]]"));
        // The second line begins with the algorithm in base64: "RU" for "ED", "QU" for "AD".
        let unknown = says(&package, &text.replacen("\nRU", "\nQU", 1));
        assert!(unknown.contains("does not know") && !unknown.contains("again"), "{unknown}");
        let mut changed = package.clone();
        changed[600] ^= 1;
        assert!(says(&changed, &text).contains("was changed after"));
        assert!(says(b"junk", &sign(&pair, b"junk")).contains("is not a package"));
    }

    #[test]
    fn changed_installed_package_is_refused() {
        let (pair, key) = pair();
        let package = package::pack("name", &[7; 700]).unwrap();
        let text = sign(&pair, &package).parse::<Signature>().unwrap().installed();
        let keys = [key];
        verify_installed(&package, text.as_bytes(), &keys).unwrap();
        for at in 0..package.len() {
            let mut changed = package.clone();
            changed[at] ^= 0x10;
            let result = verify_installed(&changed, text.as_bytes(), &keys);
            assert!(result.is_err(), "package, {at}");
        }
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                let result = verify_installed(&package, &changed, &keys);
                assert!(result.is_err(), "signature, {at}, {bit}");
            }
        }
    }
}

//! Reads and writes packages of apps, and verifies their signatures.
//!
//! ```text
//! hub-1.0.0.rosemary             the package: an archive of three files (archive.rs)
//! hub-1.0.0.rosemary.minisig     the signature, in minisign's format (signature.rs)
//! ```
//!
//! [`open`] accepts only bytes that [`pack`] can write. So no two packages have the same contents, and no package has
//! hidden contents. This crate reads no files and does not decide whom to trust.

#![forbid(unsafe_code)]

mod archive;
mod signature;

pub use archive::{Contents, MAX_MANIFEST, MAX_OBJECT, MAX_PACKAGE, Malformed, open, pack, sha256};
pub use signature::{
    BadSignature, INSTALLED_COMMENT, KeyId, MAX_SIGNATURE, PublicKey, Signature, SignatureFormat,
};

/// The suffix of a package's file name.
pub const EXTENSION: &str = "rosemary";

/// The suffix of the signature's file name, as in the minisign tool.
pub const SIGNATURE_EXTENSION: &str = "minisig";

/// Returns whether an object is an archive of modules in Python: a ZIP file.
pub fn is_archive(object: &[u8]) -> bool {
    object.starts_with(b"PK\x03\x04")
}

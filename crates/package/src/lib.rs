//! Reads and writes packages, in which apps are shipped: one file, and beside it its signature.
//!
//! ```text
//! hub-1.0.0.rosemary             the package: an archive of three files (archive.rs)
//! hub-1.0.0.rosemary.minisig     the signature, in minisign's format (signature.rs)
//! ```
//!
//! [`pack`] writes packages; the only bytes that [`open`] takes are those that `pack` would have
//! written, so no two packages hold the same and none holds what nobody looks at. Nothing here reads a
//! file or decides whom to trust.

#![forbid(unsafe_code)]

mod archive;
mod signature;

pub use archive::{Contents, MAX_MANIFEST, MAX_OBJECT, MAX_PACKAGE, Malformed, open, pack, sha256};
pub use signature::{
    BadSignature, INSTALLED_COMMENT, KeyId, MAX_SIGNATURE, PublicKey, Signature, SignatureFormat,
};

/// How a package's file is named.
pub const EXTENSION: &str = "rosemary";

/// The suffix of the signature's file name, as in the minisign tool.
pub const SIGNATURE_EXTENSION: &str = "minisig";

//! The reasons to refuse a package, each with a remedy.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use config::{ExcessiveRequest, ManifestMistake};

/// Why a package is not installed or does not run.
#[derive(Debug, Error)]
pub enum Refused {
    /// It is missing or cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason. It is part of the text, so it is no source.
        why: io::Error,
    },
    /// No signature is beside it.
    #[error(
        "it is not signed: there is no {}; get that file from its developer, or sign the package with \
         `rosemary app sign` if it is yours", signature.display()
    )]
    Unsigned {
        /// The expected path of the signature.
        signature: PathBuf,
    },
    /// Its signature or its content is invalid.
    #[error("{0}")]
    Package(String),
    /// The operator revoked the key.
    #[error(
        "it is signed with the key {key}, which was revoked: [[trust]] {trust:?} has revoked = true; get \
         the package with a signature by the new key, or remove it with `rosemary app remove`"
    )]
    RevokedKey {
        /// The name of the trust policy.
        trust: String,
        /// The id of the key.
        key: String,
    },
    /// The operator revoked this package.
    #[error(
        "this package was revoked: the revoked-packages of [[trust]] {trust:?} have its SHA-256, {sha256}; \
         install another version"
    )]
    RevokedPackage {
        /// The name of the trust policy.
        trust: String,
        /// The SHA-256 of the package.
        sha256: String,
    },
    /// Its manifest is invalid.
    #[error("it is signed, but {0}; its developer must correct that")]
    Manifest(#[from] ManifestMistake),
    /// The package contains another app than its file name says.
    #[error(
        "it is the package of the app {found}, not of {expected}, so the file was renamed: install it again"
    )]
    OtherApp {
        /// The app in the package.
        found: String,
        /// The app of this file name.
        expected: String,
    },
    /// It requests more than the trust policy of its developer allows.
    #[error(
        "it asks to {}: more than [[trust]] {trust:?} allows, whose `{}` are {}. Add it there to allow it \
         for all apps of that developer, or do not run this app", .more.what, .more.key, .more.allowed
    )]
    ExcessiveRequest {
        /// The name of the trust policy.
        trust: String,
        /// The request.
        more: ExcessiveRequest,
    },
    /// The check failed.
    #[error("it could not be checked, so it is not trusted: {0}")]
    Unknown(#[source] io::Error),
}

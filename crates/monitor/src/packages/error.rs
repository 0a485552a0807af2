//! Why a package is refused, each with what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use config::{ExcessiveRequest, ManifestMistake};

/// Why a package is not installed, or not run.
#[derive(Debug, Error)]
pub enum Refused {
    /// It is not there, or cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason, which is in the text already.
        why: io::Error,
    },
    /// There is no signature beside it.
    #[error(
        "it is not signed: there is no {}; get that file from its developer, or sign the package with \
         `rosemary app sign` if it is yours", signature.display()
    )]
    Unsigned {
        /// Where the signature should be.
        signature: PathBuf,
    },
    /// Its signature or its contents are not right.
    #[error("{0}")]
    Package(String),
    /// The key is good for nothing any more.
    #[error(
        "it is signed with the key {key}, which was revoked: [[trust]] {trust:?} has revoked = true; get \
         the package signed with their new key, or remove it with `rosemary app remove`"
    )]
    RevokedKey {
        /// Whose key.
        trust: String,
        /// Its number.
        key: String,
    },
    /// This very package is refused.
    #[error(
        "this package was revoked: the revoked-packages of [[trust]] {trust:?} have its SHA-256, {sha256}; \
         install another version"
    )]
    RevokedPackage {
        /// Whose.
        trust: String,
        /// Its digest.
        sha256: String,
    },
    /// Its manifest is not right.
    #[error("it is signed, but {0}; its developer has to correct that")]
    Manifest(#[from] ManifestMistake),
    /// It is another app than its place says.
    #[error(
        "it is the package of the app {found}, not of {expected}; somebody gave it another name: install \
         it anew"
    )]
    OtherApp {
        /// The app in the package.
        found: String,
        /// The app of this file name.
        expected: String,
    },
    /// It asks for more than its developer is trusted with.
    #[error(
        "it asks to {}: more than [[trust]] {trust:?} allows, whose `{}` are {}. Add it there if you want \
         that developer's apps to, or do without this app", .more.what, .more.key, .more.allowed
    )]
    ExcessiveRequest {
        /// By whose entry.
        trust: String,
        /// What.
        more: ExcessiveRequest,
    },
    /// It could not be looked into.
    #[error("it could not be looked into, so it is not trusted: {0}")]
    Unknown(#[source] io::Error),
}

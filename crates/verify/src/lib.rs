//! Checks that an installation is what was released, and replaces damaged files from a recovery copy.
//!
//! ```text
//! /usr                                      the root of an installation
//!     lib/rosemary/MANIFEST                 its files and their digests (manifest.rs)
//!     lib/rosemary/MANIFEST.minisig         the signature of the manifest
//!     lib/rosemary/MANIFEST.python          the same for the environment of apps in Python
//!     lib/rosemary/recovery/                the recovery copy: the same files again, with the manifests
//! /etc/rosemary/release.pub                 the public key that signs releases; for another root, below it
//! ```
//!
//! `release.rs` opens and checks an installation, `recovery.rs` replaces a file, `tree.rs` reads and writes below a directory. The
//! program `rosemary-verify` is the whole check; the monitor uses the library for each program that it starts.
//!
//! The crate reads no configuration, uses no network and starts no program. It never decides what becomes of a fault.

#![forbid(unsafe_code)]

pub mod manifest;
mod recovery;
mod release;
mod tree;

pub use release::{
    Error, Finding, NotReplaced, RECOVERY, Release, SignedManifest, Stamp, key_file, read_key,
};
pub use tree::Fault;

//! Messages to `rosemary-security`, the confined process that parses untrusted or secret files.
//!
//! The monitor and `rosemary app` start one process per request. It answers once and exits. The sender
//! believes the reply about these files and about nothing else, because the process has parsed their bytes.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::incident::Frame;

/// Sent to `rosemary-security`, which confines itself before it reads a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityRequest {
    /// Verify an app's package. Descriptors: the package and the text of its signature, each in sealed
    /// memory. Answered by [`SecurityReply::Signed`], [`SecurityReply::Refused`] or
    /// [`SecurityReply::Failed`].
    InspectPackage {
        /// The user and group to become, if the sender is root.
        run_as: Option<u32>,
        /// The public keys of the developers that the operator trusts, as text.
        keys: Vec<String>,
        /// Whether the package is installed. The signature of an installed package has one form only.
        installed: bool,
    },
    /// Check a set of the controller's TLS keys. Descriptors: certificate, private key and authorities as PEM, each
    /// in sealed memory. Answered by [`SecurityReply::KeysUsable`], [`SecurityReply::KeysUnusable`] or
    /// [`SecurityReply::Failed`].
    CheckKeys {
        /// The user and group to become, if the sender is root.
        run_as: Option<u32>,
        /// Whose connections the keys are for.
        purpose: KeyPurpose,
        /// The time since 1970, for the certificate's validity.
        now: Duration,
    },
    /// Find the functions that were being called when the kernel crashed. Descriptors: the files of those modules that
    /// have one, in their order. Answered by [`SecurityReply::Backtrace`] or [`SecurityReply::Failed`].
    Unwind {
        /// The user and group to become, if the sender is root.
        run_as: Option<u32>,
        /// The values of [`sys::crash::REGISTERS`].
        registers: Vec<u64>,
        /// The stack from the stack pointer on, as words.
        stack: Vec<u64>,
        /// The modules that the kernel had loaded.
        modules: Vec<CrashedModule>,
    },
}

/// A program, library or object that a crashed process had loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashedModule {
    /// The name for the backtrace.
    pub name: String,
    /// Where its code lay in memory.
    pub range: Range<u64>,
    /// The difference between an address in memory and in the file's headers.
    pub bias: u64,
    /// Whether a descriptor of its file comes with the request.
    pub has_file: bool,
}

/// Sent by `rosemary-security`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityReply {
    /// The owner of a trusted key has signed the package.
    Signed(SignedPackage),
    /// The package is refused.
    Refused {
        /// The reason and its remedy, as a phrase about "it".
        why: String,
    },
    /// The keys can be used.
    KeysUsable {
        /// The reason why clients refuse the controller's certificate now or soon, if they do.
        warning: Option<String>,
    },
    /// The keys cannot be used.
    KeysUnusable {
        /// The file at fault.
        file: KeyFile,
        /// The fault and its remedy, as a phrase about "it".
        why: String,
    },
    /// The functions that were being called, the innermost first.
    Backtrace {
        /// At least the crashed instruction, if registers came with the request.
        frames: Vec<Frame>,
    },
    /// The process could not confine itself or read the descriptors.
    Failed {
        /// The reason, as a phrase.
        why: String,
    },
}

/// The contents of a package with a valid signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedPackage {
    /// The index of the request's key that made the signature.
    pub key: usize,
    /// The package's SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// The text of its manifest, unparsed.
    pub manifest: String,
    /// The object's offset in the package and its size, in bytes.
    pub object: (usize, usize),
    /// The object's SHA-256.
    pub object_sha256: String,
}

/// Whose connections a set of keys is for. Each set has an authority of its own, so that no certificate is good for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyPurpose {
    /// Switches, over TLS 1.2 or 1.3. Each must present a certificate.
    Switches,
    /// Users of the HTTP interface, over TLS 1.3. A user without a certificate shows a token.
    Users,
}

/// One of the files with the controller's TLS keys, in the order of their descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyFile {
    /// The controller's certificate.
    Certificate,
    /// The private key of the certificate.
    Key,
    /// The authorities that issue certificates to clients.
    Authorities,
}

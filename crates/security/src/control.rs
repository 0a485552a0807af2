//! What is said over the control socket: one request, one answer, and the process ends.
//!
//! Who asks believes the answer about the package and nothing else: it was the package's bytes that
//! were looked at here.

use serde::{Deserialize, Serialize};

use crate::verify::Doubt;

/// To the process. Descriptors: the package, then the text of its signature, each in a sealed memfd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The user and group to become, if root asks.
    pub run_as: Option<u32>,
    /// The keys of the developers that the operator knows, as text.
    pub keys: Vec<String>,
    /// Whether it is an installed package, whose signature has one form only.
    pub installed: bool,
}

/// From the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The package is what the owner of a key has signed.
    Signed(Signed),
    /// It is refused.
    Refused(Doubt),
    /// It could not be looked at, or the process not be confined.
    Failed {
        /// Why, as a phrase.
        why: String,
    },
}

/// What is in a package whose signature fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// Which of the request's keys it was signed with.
    pub key: usize,
    /// The package's own SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// The text of its manifest, as it is.
    pub manifest: String,
    /// Where in the package the object begins, and its length, in bytes.
    pub object: (usize, usize),
    /// The object's SHA-256.
    pub object_sha256: String,
}

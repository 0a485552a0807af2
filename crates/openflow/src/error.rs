//! The two ways this crate can fail: bytes that are not a message, and a message that cannot be
//! bytes.
//!
//! A [`DecodeError`] is the peer's fault and says where in the message the fault is; an
//! [`EncodeError`] is the caller's and says what to change.

use crate::Version;
use thiserror::Error;

/// Why received bytes are not the message they claim to be.
///
/// Every variant is the sender's fault. `offset` counts bytes from the first byte of the message's
/// header, so that a capture can be read beside the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes ran out inside a field.
    #[error("{field} at byte {offset} needs {need} bytes, {have} are left")]
    Truncated {
        /// The field being read, by its name in the specification.
        field: &'static str,
        /// Where the field begins.
        offset: usize,
        /// Bytes the field takes.
        need: usize,
        /// Bytes that were left.
        have: usize,
    },
    /// A length field says something the format cannot mean.
    #[error("{field} at byte {offset} is {found}, expected {expected}")]
    BadLength {
        /// The length field, by its name in the specification.
        field: &'static str,
        /// Where the field begins.
        offset: usize,
        /// What was sent.
        found: usize,
        /// The rule it broke, as a phrase.
        expected: &'static str,
    },
    /// A field holds a value that the specification does not allow there.
    #[error("{field} at byte {offset} is {found:#x}, expected {expected}")]
    BadValue {
        /// The field, by its name in the specification.
        field: &'static str,
        /// Where the field begins.
        offset: usize,
        /// What was sent.
        found: u64,
        /// The rule it broke, as a phrase.
        expected: &'static str,
    },
    /// The version byte names an OpenFlow version this crate does not speak.
    #[error(
        "unsupported version: the version byte is {found:#04x}, expected 0x01 (OpenFlow 1.0) or \
         0x04 (OpenFlow 1.3)"
    )]
    UnsupportedVersion {
        /// The version byte.
        found: u8,
    },
    /// The version has no message of this type.
    #[error("header.type at byte 1 is {found}, expected a message type of OpenFlow {version}")]
    UnknownKind {
        /// The version whose list was looked at.
        version: Version,
        /// The type byte.
        found: u8,
    },
    /// The message is sound so far, but not the one the caller wanted to decode.
    #[error("header.type at byte 1 is {found} (version byte {version:#04x}), expected {expected}")]
    WrongKind {
        /// The version byte.
        version: u8,
        /// The type byte.
        found: u8,
        /// The wanted message, by its name.
        expected: &'static str,
    },
}

/// Why a message cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer is too small for the message.
    #[error("the message takes {need} bytes, the buffer has {size}")]
    NoRoom {
        /// Bytes the whole message takes.
        need: usize,
        /// Bytes the buffer has.
        size: usize,
    },
    /// The version cannot express what was asked.
    #[error("OpenFlow {version} cannot express {field}")]
    Unsupported {
        /// What cannot be said, as the field's name.
        field: &'static str,
        /// The version that lacks it.
        version: Version,
    },
    /// A part of the message is longer than its length field can count.
    #[error("{field} is {size} bytes long, its length field counts at most {max}")]
    TooLong {
        /// The part, by its name.
        field: &'static str,
        /// How long it is, in bytes.
        size: usize,
        /// The most that fits.
        max: usize,
    },
}

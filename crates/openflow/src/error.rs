//! The two kinds of failure: bytes that do not decode, and a message that does not encode.
//!
//! A [`DecodeError`] is the peer's fault and locates the fault in the message. An [`EncodeError`]
//! is the caller's fault and says what to change.

use crate::Version;
use thiserror::Error;

/// Why received bytes are not a valid message.
///
/// Every variant is the sender's fault. `offset` counts bytes from the first byte of the message's
/// header, so a capture can be read beside the error.
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
    /// A length field has an invalid value.
    #[error("{field} at byte {offset} is {found}, expected {expected}")]
    BadLength {
        /// The length field, by its name in the specification.
        field: &'static str,
        /// Where the field begins.
        offset: usize,
        /// The received value.
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
        /// The received value.
        found: u64,
        /// The rule it broke, as a phrase.
        expected: &'static str,
    },
    /// The version byte names an OpenFlow version this crate does not speak.
    #[error(
        "unsupported version: the version byte is {found:#04x}, expected 0x01 (OpenFlow 1.0) to \
         0x06 (OpenFlow 1.5)"
    )]
    UnsupportedVersion {
        /// The version byte.
        found: u8,
    },
    /// The version has no message of this type.
    #[error("header.type at byte 1 is {found}, expected a message type of OpenFlow {version}")]
    UnknownKind {
        /// The version whose message types were searched.
        version: Version,
        /// The type byte.
        found: u8,
    },
    /// The message is valid so far but has another type than the caller expects.
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
    /// The version cannot express the message.
    #[error("OpenFlow {version} cannot express {field}")]
    Unsupported {
        /// Name of the field or feature.
        field: &'static str,
        /// The version that lacks it.
        version: Version,
    },
    /// A value does not fit in the message, or contradicts another one.
    #[error("{field} is invalid: expected {expected}")]
    Invalid {
        /// Name of the field or action.
        field: &'static str,
        /// The rule it broke, as a phrase.
        expected: &'static str,
    },
    /// A part of the message is longer than its length field can count.
    #[error("{field} is {size} bytes long, its length field counts at most {max}")]
    TooLong {
        /// Name of the part.
        field: &'static str,
        /// Its size, in bytes.
        size: usize,
        /// Maximum size that the length field can express.
        max: usize,
    },
}

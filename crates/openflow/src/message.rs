//! A message of either version, decoded without loss.

use crate::header::check_version;
use crate::{DecodeError, EncodeError, Kind, Version, v1_0, v1_3};

/// A message of either version that encodes to the same bytes.
///
/// For tools that show, check or forward any message. To use a message's content independently of
/// its version, decode it with the type named after its [`Kind`].
///
/// ```
/// use rosemary_openflow::{Kind, Message, Version};
///
/// let bytes = [1, 18, 0, 8, 0, 0, 0, 7];
/// let message = Message::decode(&bytes)?;
/// assert_eq!(message.version(), Version::V1_0);
/// assert_eq!(message.kind(), Some(Kind::BarrierRequest));
/// assert_eq!(message.xid(), 7);
///
/// let mut out = [0; 8];
/// message.encode(&mut out)?;
/// assert_eq!(out, bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// Of OpenFlow 1.0.
    V1_0(v1_0::Message<'a>),
    /// Of OpenFlow 1.3.
    V1_3(v1_3::Message<'a>),
}

impl<'a> Message<'a> {
    /// Decodes a whole message.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedVersion`] if its version is not supported, another [`DecodeError`]
    /// if the bytes are not exactly one message.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(match check_version(message)? {
            Version::V1_0 => Self::V1_0(v1_0::Message::decode(message)?),
            Version::V1_3 => Self::V1_3(v1_3::Message::decode(message)?),
        })
    }

    /// Encodes the message; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        match self {
            Self::V1_0(message) => message.encode(out),
            Self::V1_3(message) => message.encode(out),
        }
    }

    /// Returns the version.
    pub fn version(&self) -> Version {
        match self {
            Self::V1_0(_) => Version::V1_0,
            Self::V1_3(_) => Version::V1_3,
        }
    }

    /// Returns the kind; `None` for a type that the specification does not define.
    pub fn kind(&self) -> Option<Kind> {
        let wire = match self {
            Self::V1_0(message) => message.body.kind(),
            Self::V1_3(message) => message.body.kind(),
        };
        Kind::from_wire(self.version(), wire).ok()
    }

    /// Returns the transaction id.
    pub fn xid(&self) -> u32 {
        match self {
            Self::V1_0(message) => message.xid,
            Self::V1_3(message) => message.xid,
        }
    }
}

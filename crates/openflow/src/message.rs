//! A message of any version, decoded without loss.

use crate::header::check_version;
use crate::{DecodeError, EncodeError, Kind, Version, v1_0, v1_1, v1_2, v1_3, v1_4, v1_5};

/// A message of any version that encodes to the same bytes.
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
    /// Of OpenFlow 1.1.
    V1_1(v1_1::Message<'a>),
    /// Of OpenFlow 1.2.
    V1_2(v1_2::Message<'a>),
    /// Of OpenFlow 1.3.
    V1_3(v1_3::Message<'a>),
    /// Of OpenFlow 1.4.
    V1_4(v1_4::Message<'a>),
    /// Of OpenFlow 1.5.
    V1_5(v1_5::Message<'a>),
}

/// Evaluates an expression with the message of the version that it has.
macro_rules! in_its_version {
    ($any:expr, $message:ident => $value:expr) => {
        match $any {
            $crate::Message::V1_0($message) => $value,
            $crate::Message::V1_1($message) => $value,
            $crate::Message::V1_2($message) => $value,
            $crate::Message::V1_3($message) => $value,
            $crate::Message::V1_4($message) => $value,
            $crate::Message::V1_5($message) => $value,
        }
    };
}
pub(crate) use in_its_version;

impl<'a> Message<'a> {
    /// Decodes a whole message.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedVersion`] if its version is not known, another [`DecodeError`]
    /// if the bytes are not exactly one message.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(match check_version(message)? {
            Version::V1_0 => Self::V1_0(v1_0::Message::decode(message)?),
            Version::V1_1 => Self::V1_1(v1_1::Message::decode(message)?),
            Version::V1_2 => Self::V1_2(v1_2::Message::decode(message)?),
            Version::V1_3 => Self::V1_3(v1_3::Message::decode(message)?),
            Version::V1_4 => Self::V1_4(v1_4::Message::decode(message)?),
            Version::V1_5 => Self::V1_5(v1_5::Message::decode(message)?),
        })
    }

    /// Encodes the message; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        in_its_version!(self, message => message.encode(out))
    }

    /// Returns the version.
    pub fn version(&self) -> Version {
        match self {
            Self::V1_0(_) => Version::V1_0,
            Self::V1_1(_) => Version::V1_1,
            Self::V1_2(_) => Version::V1_2,
            Self::V1_3(_) => Version::V1_3,
            Self::V1_4(_) => Version::V1_4,
            Self::V1_5(_) => Version::V1_5,
        }
    }

    /// Returns the kind; `None` for a type that the specification does not define.
    pub fn kind(&self) -> Option<Kind> {
        let wire = in_its_version!(self, message => message.body.kind());
        Kind::from_wire(self.version(), wire).ok()
    }

    /// Returns the transaction id.
    pub fn xid(&self) -> u32 {
        in_its_version!(self, message => message.xid)
    }
}

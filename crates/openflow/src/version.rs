//! The supported OpenFlow versions.

use crate::DecodeError;
use core::fmt;

/// An OpenFlow version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// OpenFlow 1.0, version byte 1.
    V1_0,
    /// OpenFlow 1.3, version byte 4.
    V1_3,
}

impl Version {
    /// Every supported version, oldest first.
    pub const ALL: &'static [Self] = &[Self::V1_0, Self::V1_3];

    /// Returns the version byte.
    #[inline]
    pub fn wire(self) -> u8 {
        match self {
            Self::V1_0 => 1,
            Self::V1_3 => 4,
        }
    }

    /// Returns the version of a version byte.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedVersion`] for every byte except 1 and 4.
    #[inline]
    pub fn from_wire(found: u8) -> Result<Self, DecodeError> {
        match found {
            1 => Ok(Self::V1_0),
            4 => Ok(Self::V1_3),
            _ => Err(DecodeError::UnsupportedVersion { found }),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V1_0 => "1.0",
            Self::V1_3 => "1.3",
        })
    }
}

//! The supported OpenFlow versions, and the tables of what each version has.
//!
//! A version is a row in each of two tables: [`features`] lists its abilities, [`layout`] the places of fields in its messages.
//! Code outside of this crate asks for these, so it does not name versions.

mod features;
mod layout;

pub use self::features::ProtocolFeatures;
pub use self::layout::Layout;

use crate::DecodeError;
use core::fmt;
use core::str::FromStr;
use thiserror::Error;

/// An OpenFlow version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// OpenFlow 1.0, version byte 1.
    V1_0,
    /// OpenFlow 1.3, version byte 4.
    V1_3,
}

/// A text that names no supported version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a supported OpenFlow version; expected one of {}", Version::NAMES.join(", "))]
pub struct UnknownVersion;

impl Version {
    /// Every supported version, oldest first.
    pub const ALL: &'static [Self] = &Self::EACH;

    /// The number of supported versions.
    pub const COUNT: usize = Self::EACH.len();

    const EACH: [Self; 2] = [Self::V1_0, Self::V1_3];

    /// The newest supported version, which can express the most.
    pub const NEWEST: Self = Self::V1_3;

    /// The names of all supported versions, in the order of [`Version::ALL`].
    pub const NAMES: &'static [&'static str] = &[Self::V1_0.name(), Self::V1_3.name()];

    /// Returns the name, as in "OpenFlow 1.3".
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_3 => "1.3",
        }
    }

    /// Makes a value for every version, in the order of [`Version::ALL`].
    pub fn each<T>(make: impl FnMut(Self) -> T) -> [T; Self::COUNT] {
        Self::EACH.map(make)
    }

    /// Returns the place of the version in [`Version::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

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

    /// Returns the abilities of the version.
    #[inline]
    pub const fn features(self) -> &'static ProtocolFeatures {
        match self {
            Self::V1_0 => &features::V1_0,
            Self::V1_3 => &features::V1_3,
        }
    }

    /// Returns the places of fields in the version's messages.
    #[inline]
    pub const fn layout(self) -> &'static Layout {
        match self {
            Self::V1_0 => &layout::V1_0,
            Self::V1_3 => &layout::V1_3,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(name: &str) -> Result<Self, UnknownVersion> {
        Self::ALL.iter().copied().find(|version| version.name() == name).ok_or(UnknownVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_versions_are_listed_in_order() {
        assert!(Version::ALL.is_sorted());
        assert_eq!(Version::ALL.last(), Some(&Version::NEWEST));
        for (index, version) in Version::ALL.iter().enumerate() {
            assert_eq!((version.index(), Version::NAMES[index]), (index, version.name()));
            assert_eq!(version.to_string().parse(), Ok(*version));
            assert_eq!(Version::from_wire(version.wire()), Ok(*version));
        }
        assert_eq!("1.1".parse::<Version>(), Err(UnknownVersion));
    }
}

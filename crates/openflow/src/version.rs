//! The OpenFlow versions that the codec knows, and the tables of what each version has.
//!
//! A version is a row in each of two tables: [`features`] lists its abilities, [`layout`] the places of fields in its messages.
//! Code outside of this crate asks for these, so it does not name versions.

mod features;
mod layout;
mod offered;

pub use self::features::ProtocolFeatures;
pub use self::layout::Layout;
pub use self::offered::{InvalidVersions, OfferedVersions};

use crate::DecodeError;
use core::fmt;
use core::str::FromStr;
use thiserror::Error;

/// An OpenFlow version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// OpenFlow 1.0, version byte 1.
    V1_0,
    /// OpenFlow 1.1, version byte 2.
    V1_1,
    /// OpenFlow 1.2, version byte 3.
    V1_2,
    /// OpenFlow 1.3, version byte 4.
    V1_3,
    /// OpenFlow 1.4, version byte 5.
    V1_4,
    /// OpenFlow 1.5, version byte 6.
    V1_5,
}

/// A text that names no known version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a known OpenFlow version; expected one of {}", Version::NAMES.join(", "))]
pub struct UnknownVersion;

impl Version {
    /// Every version that this crate encodes and decodes, oldest first.
    pub const ALL: &'static [Self] = &Self::EACH;

    /// The number of versions in [`Version::ALL`].
    pub const COUNT: usize = Self::EACH.len();

    const EACH: [Self; 6] =
        [Self::V1_0, Self::V1_1, Self::V1_2, Self::V1_3, Self::V1_4, Self::V1_5];

    /// The version that Rosemary chooses if a switch offers several, and the form of messages whose switch is not known yet.
    /// `docs/decisions/` has the reason.
    pub const PREFERRED: Self = Self::V1_3;

    /// All versions: [`Version::PREFERRED`], then the others, newest first. A message that not every version can express has
    /// the form of the first version that can express it.
    pub const BY_PREFERENCE: &'static [Self] =
        &[Self::V1_3, Self::V1_5, Self::V1_4, Self::V1_2, Self::V1_1, Self::V1_0];

    /// The names of all versions, in the order of [`Version::ALL`].
    pub const NAMES: &'static [&'static str] = &[
        Self::V1_0.name(),
        Self::V1_1.name(),
        Self::V1_2.name(),
        Self::V1_3.name(),
        Self::V1_4.name(),
        Self::V1_5.name(),
    ];

    /// Returns the name, as in "OpenFlow 1.3".
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
            Self::V1_4 => "1.4",
            Self::V1_5 => "1.5",
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
    pub const fn wire(self) -> u8 {
        self as u8 + 1
    }

    /// Returns the version of a version byte.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedVersion`] for every byte except 1 to 6.
    #[inline]
    pub const fn from_wire(found: u8) -> Result<Self, DecodeError> {
        match found {
            1 => Ok(Self::V1_0),
            2 => Ok(Self::V1_1),
            3 => Ok(Self::V1_2),
            4 => Ok(Self::V1_3),
            5 => Ok(Self::V1_4),
            6 => Ok(Self::V1_5),
            _ => Err(DecodeError::UnsupportedVersion { found }),
        }
    }

    /// Returns the version of a version byte that is the parameter of a type.
    #[inline]
    pub(crate) const fn of<const V: u8>() -> Self {
        match V {
            1 => Self::V1_0,
            2 => Self::V1_1,
            3 => Self::V1_2,
            4 => Self::V1_3,
            5 => Self::V1_4,
            _ => Self::V1_5,
        }
    }

    /// Returns the abilities of the version.
    #[inline]
    pub const fn features(self) -> &'static ProtocolFeatures {
        match self {
            Self::V1_0 => &features::V1_0,
            Self::V1_1 => &features::V1_1,
            Self::V1_2 => &features::V1_2,
            Self::V1_3 => &features::V1_3,
            Self::V1_4 => &features::V1_4,
            Self::V1_5 => &features::V1_5,
        }
    }

    /// Returns the places of fields in the version's messages.
    #[inline]
    pub const fn layout(self) -> &'static Layout {
        match self {
            Self::V1_0 => &layout::V1_0,
            Self::V1_1 => &layout::V1_1,
            Self::V1_2 => &layout::V1_2,
            Self::V1_3 => &layout::V1_3,
            Self::V1_4 => &layout::V1_4,
            Self::V1_5 => &layout::V1_5,
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
        for (index, version) in Version::ALL.iter().enumerate() {
            assert_eq!((version.index(), Version::NAMES[index]), (index, version.name()));
            assert_eq!(version.to_string().parse(), Ok(*version));
            assert_eq!(Version::from_wire(version.wire()), Ok(*version));
        }
        for unknown in [0, 7, 255] {
            assert!(Version::from_wire(unknown).is_err());
        }
        assert_eq!("1.6".parse::<Version>(), Err(UnknownVersion));
    }

    #[test]
    fn preference_has_every_version_once() {
        let mut sorted = Version::BY_PREFERENCE.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, Version::ALL);
        assert_eq!(Version::BY_PREFERENCE[0], Version::PREFERRED);
    }
}

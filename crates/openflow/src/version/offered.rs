//! The versions that a controller offers to switches, and the choice among them.
//!
//! Hellos and negotiation: OpenFlow 1.3.5 §6.3.1. Both sides compute the version from the two hellos, so a controller that
//! prefers a version answers with a hello that offers nothing newer.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

use super::Version;
use crate::{Hello, NegotiationError};

/// The versions that a controller offers, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedVersions {
    /// A bit for each version, at the place of [`Version::index`].
    bits: u8,
    /// The version that is chosen if a switch offers it, whatever else the switch offers.
    preferred: Option<Version>,
}

/// A text that is no list of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected OpenFlow versions such as 1.0,1.3: one or more of {}, each once", Version::NAMES.join(", "))]
pub struct InvalidVersions;

impl OfferedVersions {
    /// Returns the offer of exactly these versions, without a preferred one; `None` if the list is empty or names a version
    /// twice.
    pub fn only(versions: &[Version]) -> Option<Self> {
        let mut bits = 0;
        for version in versions {
            let bit = 1 << version.index();
            if bits & bit != 0 {
                return None;
            }
            bits |= bit;
        }
        (bits != 0).then_some(Self { bits, preferred: None })
    }

    /// Whether the version is offered.
    pub const fn has(self, version: Version) -> bool {
        self.bits & 1 << version.index() != 0
    }

    /// Returns the versions, oldest first.
    pub fn versions(self) -> impl DoubleEndedIterator<Item = Version> {
        Version::ALL.iter().copied().filter(move |version| self.has(*version))
    }

    /// Returns the first message to a switch that has sent none: it offers all versions.
    pub fn hello(self) -> Hello {
        self.up_to(Version::V1_5)
    }

    /// Chooses the version for the switch that sent `theirs` first. The answer is the hello of [`up_to`](Self::up_to) this version.
    ///
    /// If the switch lists its versions, it speaks no others. A switch without a list counts as speaking every version up to that
    /// of its hello if this side prefers one of them; otherwise the version is the smaller of both, if this side offers it.
    ///
    /// # Errors
    /// [`NegotiationError`] if there is no common version.
    pub fn choose(self, theirs: &Hello) -> Result<Version, NegotiationError> {
        let speaks = |version: &Version| match theirs.offered() {
            Some(bitmap) => bitmap & 1 << version.wire() != 0,
            None => version.wire() <= theirs.version,
        };
        match self.preferred.filter(speaks) {
            Some(preferred) => Ok(preferred),
            None => self.after_hello(theirs),
        }
    }

    /// Returns the version that follows if this side had already sent its [`hello`](Self::hello): the highest common one, as the
    /// switch computes it from the same two hellos.
    ///
    /// # Errors
    /// [`NegotiationError`] if there is no common version.
    pub fn after_hello(self, theirs: &Hello) -> Result<Version, NegotiationError> {
        theirs.negotiate(&self.versions().collect::<Vec<_>>())
    }

    /// Returns the hello that offers the versions up to this one, so that the switch computes no newer one.
    pub fn up_to(self, last: Version) -> Hello {
        Hello::new(&self.versions().filter(|version| *version <= last).collect::<Vec<_>>())
    }
}

impl Default for OfferedVersions {
    /// Every version except 1.1, in which a flow-mod cannot delete flows of all tables. [`Version::PREFERRED`] is chosen if the
    /// switch offers it.
    fn default() -> Self {
        let usual = Version::ALL.iter().filter(|version| **version != Version::V1_1);
        let bits = usual.fold(0, |bits, version| bits | 1 << version.index());
        Self { bits, preferred: Some(Version::PREFERRED) }
    }
}

impl fmt::Display for OfferedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, version) in self.versions().enumerate() {
            write!(f, "{}{version}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl FromStr for OfferedVersions {
    type Err = InvalidVersions;

    /// Parses names with commas between them.
    fn from_str(text: &str) -> Result<Self, InvalidVersions> {
        let versions: Result<Vec<Version>, _> =
            text.split(',').map(|name| name.trim().parse()).collect();
        versions.ok().and_then(|versions| Self::only(&versions)).ok_or(InvalidVersions)
    }
}

#[cfg(test)]
mod tests {
    use super::Version::{V1_0, V1_1, V1_2, V1_3, V1_4, V1_5};
    use super::*;

    fn hello(version: u8, versions: &[Version]) -> Hello {
        let bitmap = versions.iter().fold(0, |bitmap, it| bitmap | 1 << it.wire());
        Hello { version, bitmap: (bitmap != 0).then_some(bitmap) }
    }

    /// The version that both sides compute from the two hellos.
    fn chosen(ours: OfferedVersions, theirs: &Hello, they_speak: &[Version]) -> Option<Version> {
        let version = ours.choose(theirs).ok()?;
        assert_eq!(ours.up_to(version).negotiate(they_speak), Ok(version), "{ours} {theirs:?}");
        Some(version)
    }

    #[test]
    fn preferred_version_is_chosen_by_both_sides() {
        let ours = OfferedVersions::default();
        for (theirs, version) in [
            (Version::ALL, V1_3),
            (&[V1_3, V1_4], V1_3),
            (&[V1_0, V1_3, V1_5], V1_3),
            (&[V1_0, V1_4, V1_5], V1_5),
            (&[V1_4], V1_4),
            (&[V1_0, V1_1, V1_2], V1_2),
            (&[V1_0], V1_0),
        ] {
            let highest = theirs.last().unwrap().wire();
            assert_eq!(chosen(ours, &hello(highest, theirs), theirs), Some(version), "{theirs:?}");
        }
        assert!(ours.choose(&Hello { version: 7, bitmap: Some(1 << 7) }).is_err());
    }

    #[test]
    fn hellos_without_bitmap_lead_to_the_preferred_or_the_smaller_version() {
        let all = OfferedVersions::default();
        for (byte, version) in [(1, V1_0), (3, V1_2), (4, V1_3), (5, V1_3), (0xff, V1_3)] {
            let theirs = hello(byte, &[]);
            let speaks: Vec<_> =
                Version::ALL.iter().copied().filter(|it| it.wire() <= byte).collect();
            assert_eq!(chosen(all, &theirs, &speaks), Some(version), "{byte}");
        }
        assert!(all.choose(&hello(0, &[])).is_err());
        assert!(all.choose(&hello(2, &[])).is_err(), "1.1 must be named");
        let few: OfferedVersions = "1.0,1.3".parse().unwrap();
        assert!(few.choose(&hello(2, &[])).is_err());
        assert_eq!(few.choose(&hello(6, &[])), Ok(V1_3));
    }

    #[test]
    fn named_versions_limit_the_choice_to_the_highest_common_one() {
        let ours: OfferedVersions = " 1.0, 1.3,1.5".parse().unwrap();
        assert_eq!(chosen(ours, &hello(6, Version::ALL), Version::ALL), Some(V1_5));
        assert_eq!(chosen(ours, &hello(5, &[V1_3, V1_4]), &[V1_3, V1_4]), Some(V1_3));
        assert!(ours.choose(&hello(5, &[V1_4])).is_err());
        assert_eq!(ours.hello().bitmap, Some(1 << 1 | 1 << 4 | 1 << 6));
    }

    #[test]
    fn highest_version_is_chosen_if_this_side_was_first() {
        let ours = OfferedVersions::default();
        let theirs = hello(6, &[V1_0, V1_3, V1_4]);
        assert_eq!(ours.after_hello(&theirs), Ok(V1_4));
        assert_eq!(ours.hello().negotiate(&[V1_0, V1_3, V1_4]), Ok(V1_4));
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in ["1.0", "1.0, 1.3", "1.0, 1.1, 1.2, 1.3, 1.4, 1.5"] {
            assert_eq!(text.parse::<OfferedVersions>().unwrap().to_string(), text);
        }
        assert_eq!(OfferedVersions::default().to_string(), "1.0, 1.2, 1.3, 1.4, 1.5");
        for text in ["", "1.6", "1.3,", "1.3,1.3", "all", "4"] {
            assert_eq!(text.parse::<OfferedVersions>(), Err(InvalidVersions), "{text:?}");
        }
    }
}

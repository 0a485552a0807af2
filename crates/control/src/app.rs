//! Identifies an installation of Rosemary and its apps: their numbers, and the numbers on switches that follow from these.
//! `docs/decisions/0010-cookies.md` has the reasons for the layout of cookies.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// An app's number. It never changes and is never given to another app; 0 and 0xffff are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AppId(pub u16);

/// Identifies an installation, that is, a state directory. The kernel's own flows carry it in their cookies.
///
/// Random and never 0: earlier versions wrote 0 there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Installation(pub u64);

impl Installation {
    /// Its size in bits: a cookie without an app's number.
    pub const BITS: u32 = 48;

    /// Makes an installation of random bits.
    pub fn of_random(random: u64) -> Self {
        Self((random & ((1 << Self::BITS) - 1)).max(1))
    }

    /// Whether it can be one.
    pub fn is_valid(self) -> bool {
        (1..1 << Self::BITS).contains(&self.0)
    }
}

/// The numbers of a new installation begin at a random one from here on, so that flows and groups of another installation, or of one
/// whose state was lost, are not taken for its own. Installations of earlier versions have numbers from 1 on.
pub const RANDOM_NUMBERS: RangeInclusive<u16> = 0x1000..=0xfffe;

/// Most numbers of an installation that begins in [`RANDOM_NUMBERS`], so that each app has meters of its own.
pub const MOST_NUMBERS: u16 = 1023;

/// Bits of a group number below the app's number: each app has 2^16 groups.
const GROUP_BITS: u32 = 16;

/// Bits of a meter number below the app's number: each app has 2^8 meters.
///
/// Open vSwitch accepts meter numbers up to 2^18: 256 meters for each of 1023 apps. So numbers from [`RANDOM_NUMBERS`] share these
/// places. A switch refuses the meters of an app with a lower number above 1023, and the app receives the error.
const METER_BITS: u32 = 8;

impl AppId {
    /// The number of no app: it stands for others who write flows.
    pub const OTHER: Self = Self(0);

    /// The group numbers on a switch that belong to the app.
    pub fn groups(self) -> RangeInclusive<u32> {
        self.range(GROUP_BITS)
    }

    /// The meter numbers on a switch that belong to the app.
    pub fn meters(self) -> RangeInclusive<u32> {
        let first = *RANDOM_NUMBERS.start();
        let place = match self.0 {
            number @ ..0x1000 => number,
            number => (number - first) % MOST_NUMBERS + 1,
        };
        Self(place).range(METER_BITS)
    }

    /// The app that this group belongs to, if it belongs to one.
    pub fn of_group(group_id: u32) -> Option<Self> {
        Self::of_number(group_id >> GROUP_BITS)
    }

    fn of_number(number: u32) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| (1..u16::MAX).contains(number)).map(Self)
    }

    fn range(self, bits: u32) -> RangeInclusive<u32> {
        let first = u32::from(self.0) << bits;
        first..=first | ((1 << bits) - 1)
    }
}

/// An app that has a number and does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentApp {
    /// Its number.
    pub app: AppId,
    /// Its name.
    pub name: String,
    /// Whether its flows, groups and meters are removed from the switches.
    pub remove: bool,
}

#[cfg(test)]
mod tests {
    use openflow::MeterMod;

    use super::*;

    #[test]
    fn ranges_of_apps_are_disjoint_and_unreserved() {
        for number in [1, 2, 1023, 0xfffe] {
            let (this, next) = (AppId(number), AppId(number + 1));
            assert_eq!(this.groups().end() + 1, *next.groups().start());
        }
        for number in [1, 2, 1023, 0xffe, 0x1000, 0x13fd] {
            let (this, next) = (AppId(number), AppId(number + 1));
            assert_eq!(this.meters().end() + 1, *next.meters().start());
        }
        assert_eq!(AppId(7).groups(), 0x0007_0000..=0x0007_ffff);
        assert_eq!(AppId(7).meters(), 0x700..=0x7ff);
        assert!(*AppId(0xfffe).groups().end() < 0xffff_ff00, "OFPG_MAX");
        assert!(*AppId(0xfff).meters().end() < MeterMod::MAX_METER);
        assert!(*AppId(1023).meters().end() < 1 << 18, "Open vSwitch");
        for app in [1, 7, 0xfffe].map(AppId) {
            assert_eq!(
                [app.groups().start(), app.groups().end()].map(|it| AppId::of_group(*it)),
                [Some(app); 2]
            );
        }
        for number in [0, 0xff, u32::MAX] {
            assert_eq!(AppId::of_group(number), None);
        }
    }

    #[test]
    fn apps_of_an_installation_have_meters_of_their_own() {
        for first in [0x1000, 0x13ff, 0x5a5a, 0xfffe - (MOST_NUMBERS - 1)] {
            let starts = (first..=first + (MOST_NUMBERS - 1)).map(|it| *AppId(it).meters().start());
            let starts: std::collections::BTreeSet<u32> = starts.collect();
            assert_eq!(starts.len(), usize::from(MOST_NUMBERS), "{first:#x}");
            assert_eq!((starts.first(), starts.last()), (Some(&0x100), Some(&(1023 << 8))));
        }
    }

    #[test]
    fn installation_is_never_that_of_earlier_versions() {
        assert!(
            Installation::of_random(0).is_valid() && Installation::of_random(u64::MAX).is_valid()
        );
        assert!(Installation::of_random(1 << 48).is_valid());
        assert!(!Installation(0).is_valid() && !Installation(1 << 48).is_valid());
    }
}

//! Identifies an app: its number, the numbers on switches that follow from it, and its hosting.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// An app's number. It never changes and is never given to another app; 0 and 0xffff are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AppId(pub u16);

/// Bits of a group number below the app's number: each app has 2^16 groups.
const GROUP_BITS: u32 = 16;

/// Bits of a meter number below the app's number: each app has 2^8 meters.
///
/// Open vSwitch accepts meter numbers up to 2^18, so 256 meters per app suffice for apps up to number
/// 1023. A switch refuses the meters of an app with a higher number, and the app receives the error.
const METER_BITS: u32 = 8;

impl AppId {
    /// The group numbers on a switch that belong to the app.
    pub fn groups(self) -> RangeInclusive<u32> {
        self.range(GROUP_BITS)
    }

    /// The meter numbers on a switch that belong to the app.
    pub fn meters(self) -> RangeInclusive<u32> {
        self.range(METER_BITS)
    }

    /// The app that this group belongs to, if it belongs to one.
    pub fn of_group(group_id: u32) -> Option<Self> {
        Self::of_number(group_id >> GROUP_BITS)
    }

    /// The app that this meter belongs to, if it belongs to one.
    pub fn of_meter(meter_id: u32) -> Option<Self> {
        Self::of_number(meter_id >> METER_BITS)
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

/// The process that hosts an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hosting {
    /// A zone of the app's own.
    #[default]
    User,
    /// The kernel: trusted execution.
    Kernel,
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
            assert_eq!(this.meters().end() + 1, *next.meters().start());
        }
        assert_eq!(AppId(7).groups(), 0x0007_0000..=0x0007_ffff);
        assert_eq!(AppId(7).meters(), 0x700..=0x7ff);
        assert!(*AppId(0xfffe).groups().end() < 0xffff_ff00, "OFPG_MAX");
        assert!(*AppId(0xfffe).meters().end() < MeterMod::MAX_METER);
        assert!(*AppId(1023).meters().end() < 1 << 18, "Open vSwitch");
        for app in [1, 7, 0xfffe].map(AppId) {
            assert_eq!(
                [app.groups().start(), app.groups().end()].map(|it| AppId::of_group(*it)),
                [Some(app); 2]
            );
            assert_eq!(
                [app.meters().start(), app.meters().end()].map(|it| AppId::of_meter(*it)),
                [Some(app); 2]
            );
        }
        for number in [0, 0xff, u32::MAX] {
            assert_eq!([AppId::of_group(number), AppId::of_meter(number)], [None; 2]);
        }
    }
}

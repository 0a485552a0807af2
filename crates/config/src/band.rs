//! Assigns each app the priorities of its flows, unless the operator sets them.
//!
//! Each stage has a region. In it, each position in the file has a slot of a fixed size, from the top
//! down. So an app that is added after the others, or disabled, moves no other app's band: installed
//! flows keep the priorities of their owner.
//!
//! ```text
//! 65535  guards      the first four 2048 each, the next four 1024, the others 64
//! 49663  operators   `operator` 128, `ofctl` 384: above the control apps, below the guards
//! 49151  control     the first four 4096 each, the next four 2048, the others 128
//! 16383  observers   as guards
//!     0  the kernel
//! ```
//!
//! Rejected: equal shares of a region, because each added app would move all others.

use control::policy::{Band, Stage};

/// Parts of a region; the smallest slot is one part.
const PARTS: u32 = 256;

/// The band of the app `operator`. Guards have slots above it.
pub(super) const OPERATOR: Band = Band { lowest: 49_536, highest: 49_663 };

/// The band of the app `ofctl`.
pub(super) const OFCTL: Band = Band { lowest: 49_152, highest: 49_535 };

/// The band of a sole app that writes flows.
pub(super) const ALL: Band = Band { lowest: 1, highest: u16::MAX };

/// Returns the slot of the app at position `place` of its stage, counted from 0; positions are below
/// [`MOST_APPS`](super::MOST_APPS).
pub(super) fn slot(stage: Stage, place: usize) -> Band {
    let (lowest, highest) = match stage {
        Stage::Guard(_) => (49_152_u32, 65_535),
        Stage::Control => (16_384, 49_151),
        Stage::Observe => (0, 16_383),
    };
    let part = (highest + 1 - lowest) / PARTS;
    let parts_of = |place| match place {
        0..4 => 32,
        4..8 => 16,
        _ => 1,
    };
    let above: u32 = (0..place).map(parts_of).sum();
    let highest = highest - above * part;
    let lowest = highest + 1 - parts_of(place) * part;
    let priority = |it| u16::try_from(it).expect("regions end at 65535");
    Band { lowest: priority(lowest), highest: priority(highest) }
}

#[cfg(test)]
mod tests {
    use control::policy::Fail;

    use super::*;
    use crate::MOST_APPS;

    const STAGES: [Stage; 3] = [Stage::Guard(Fail::Closed), Stage::Control, Stage::Observe];

    /// Priorities at the end of a region that are nobody's slot.
    fn rest(stage: Stage) -> u32 {
        let is_guard = matches!(stage, Stage::Guard(_));
        if is_guard { u32::from(OPERATOR.highest) - u32::from(OFCTL.lowest) + 1 } else { 0 }
    }

    #[test]
    fn operators_have_the_rest_of_the_region_of_the_guards() {
        let last = slot(STAGES[0], MOST_APPS - 1);
        assert_eq!(OPERATOR.highest + 1, last.lowest);
        assert_eq!(OFCTL.highest + 1, OPERATOR.lowest);
        assert_eq!(OFCTL.lowest, 49_152);
    }

    #[test]
    fn slots_go_down_without_gap_or_overlap_and_leave_0_to_the_kernel() {
        let mut above = u32::from(u16::MAX) + 1;
        for (stage, region) in STAGES.into_iter().zip([49_152_u16, 16_384, 1]) {
            for place in 0..MOST_APPS {
                let band = slot(stage, place);
                assert_eq!(u32::from(band.highest) + 1, above, "{stage:?} {place}");
                assert!(band.lowest < band.highest && band.lowest >= region, "{band:?}");
                above = u32::from(band.lowest);
            }
            assert!(above >= u32::from(region) + rest(stage), "{stage:?}");
            above = u32::from(region);
        }
    }

    #[test]
    fn slots_have_documented_sizes() {
        let size = |stage, place| {
            let band = slot(stage, place);
            band.highest - band.lowest + 1
        };
        for (stage, sizes) in
            STAGES.into_iter().zip([[2048, 1024, 64], [4096, 2048, 128], [2048, 1024, 64]])
        {
            assert_eq!([0, 3].map(|place| size(stage, place)), [sizes[0]; 2]);
            assert_eq!([4, 7].map(|place| size(stage, place)), [sizes[1]; 2]);
            assert_eq!([8, 63].map(|place| size(stage, place)), [sizes[2]; 2]);
        }
    }
}

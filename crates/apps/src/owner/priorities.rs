//! Assigns priorities of a band to priorities from 0 to 65535, in the same order.
//!
//! A band is smaller than the range that clients use, so each requested priority gets a place of its own when it is requested
//! first. The place is where a scale would have it, or the nearest one that keeps the order. The scale is linear; at its ends, where
//! people choose priorities that follow each other, each of [`END`] priorities has its own place. Places are kept: a flow that is in
//! a switch keeps its priority.

use std::collections::BTreeMap;

/// Priorities at each end of the range that have a place each.
const END: u16 = 64;

/// The places of requested priorities. A place counts from the lowest of the band.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Priorities {
    places: BTreeMap<u16, u16>,
}

impl Priorities {
    /// Returns the place of `requested` in a band whose highest place is `most`, and whether it is new; `None` if no place is
    /// free between those of its neighbours.
    pub(super) fn place(&mut self, requested: u16, most: u16) -> Option<(u16, bool)> {
        if let Some(place) = self.places.get(&requested) {
            return Some((*place, false));
        }
        let below = self.places.range(..requested).next_back();
        let above = self.places.range(requested..).next();
        let lowest = below.map_or(0, |(_, place)| u32::from(*place) + 1);
        let highest = above.map_or(i64::from(most), |(_, place)| i64::from(*place) - 1);
        let highest = u32::try_from(highest).ok().filter(|highest| *highest >= lowest)?;
        let place = u16::try_from(ideal(requested, most).clamp(lowest, highest)).ok()?;
        self.places.insert(requested, place);
        Some((place, true))
    }

    /// Returns the place of a priority that was requested before.
    pub(super) fn known(&self, requested: u16) -> Option<u16> {
        self.places.get(&requested).copied()
    }

    /// Iterates over the requested priorities and their places, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, u16)> {
        self.places.iter().map(|(requested, place)| (*requested, *place))
    }

    /// Encodes them for the storage: pairs of numbers of two bytes, little endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|(requested, place)| [requested, place])
            .flat_map(u16::to_le_bytes)
            .collect()
    }

    /// Decodes them; `None` if they are malformed or not in order.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (pairs, rest) = bytes.as_chunks::<4>();
        let mut places = BTreeMap::new();
        let mut last: Option<(u16, u16)> = None;
        for [a, b, c, d] in pairs {
            let next = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
            if last.is_some_and(|last| last.0 >= next.0 || last.1 >= next.1) {
                return None;
            }
            last = Some(next);
            places.insert(next.0, next.1);
        }
        rest.is_empty().then_some(Self { places })
    }
}

/// Returns where a scale has a priority.
fn ideal(requested: u16, most: u16) -> u32 {
    let (range, from_top) = (u32::from(u16::MAX), u16::MAX - requested);
    let (requested, most, end) = (u32::from(requested), u32::from(most), u32::from(END));
    if most < 4 * end {
        return requested * most / range;
    }
    if requested < end {
        requested
    } else if from_top < END {
        most - u32::from(from_top)
    } else {
        end + (requested - end) * (most - 2 * end) / (range - 2 * end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: u16 = 383;

    #[test]
    fn small_priorities_that_follow_each_other_have_places() {
        let mut priorities = Priorities::default();
        let places: Vec<u16> = [0, 1, 2, 10, 100, 11_111, 65_535]
            .map(|it| priorities.place(it, MOST).unwrap().0)
            .into();
        assert_eq!(places, [0, 1, 2, 10, 64, 107, 383]);
        assert_eq!(priorities.place(10, MOST), Some((10, false)));
        assert_eq!(Priorities::from_bytes(&priorities.to_bytes()), Some(priorities));
    }

    #[test]
    fn priority_without_a_free_place_is_refused() {
        let mut priorities = Priorities::default();
        assert_eq!(priorities.place(1, 3), Some((0, true)));
        assert_eq!(priorities.place(0, 3), None, "nothing is below 0");
        assert_eq!(priorities.place(2, 3), Some((1, true)));
        assert_eq!((priorities.known(0), priorities.known(2)), (None, Some(1)));
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for bytes in [&[1, 0, 0][..], &[2, 0, 0, 0, 1, 0, 1, 0], &[1, 0, 5, 0, 2, 0, 5, 0]] {
            assert_eq!(Priorities::from_bytes(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn order_is_kept(requests in proptest::collection::vec(any::<u16>(), 0..600)) {
            let mut priorities = Priorities::default();
            for requested in requests {
                priorities.place(requested, MOST);
            }
            let places: Vec<u16> = priorities.iter().map(|(_, place)| place).collect();
            prop_assert!(places.is_sorted_by(|one, other| one < other));
            prop_assert!(places.iter().all(|place| *place <= MOST));
        }
    }
}

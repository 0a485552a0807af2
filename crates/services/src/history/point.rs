//! Sums up samples: what is kept of a span of time, and the resolutions in which it is kept.
//!
//! Merging is associative and commutative and loses no count, so that minutes and hours have the same counts, sums, minima and
//! maxima as the samples in them.

use std::collections::BTreeMap;

use control::history::MAX_VALUE;

/// The sums of the samples in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Number of samples; at least 1.
    pub count: u32,
    /// Their minimum.
    pub min: u64,
    /// Their maximum.
    pub max: u64,
    /// Their sum.
    pub sum: u64,
}

impl Sums {
    /// Returns the sums of one sample, which stops at [`MAX_VALUE`].
    pub fn of(value: u64) -> Self {
        let value = value.min(MAX_VALUE);
        Self { count: 1, min: value, max: value, sum: value }
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// Sums by the time of their first second.
pub type Points = BTreeMap<u64, Sums>;

/// Adds sums at a time.
pub fn add(points: &mut Points, at: u64, sums: Sums) {
    points.entry(at).and_modify(|it| it.merge(sums)).or_insert(sums);
}

/// Rolls points up to spans of `step` seconds.
pub fn roll_up(points: &Points, step: u64) -> Points {
    let step = step.max(1);
    let mut rolled = Points::new();
    for (at, sums) in points {
        add(&mut rolled, at - at % step, *sums);
    }
    rolled
}

/// A resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The samples themselves, for a day.
    Raw = 0,
    /// Minutes, for 31 days.
    Minutes = 1,
    /// Hours, for 366 days.
    Hours = 2,
}

impl Level {
    /// All levels, the finest first.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Minutes, Self::Hours];

    /// Returns the level with this number in the store.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as u8 == number)
    }

    /// Returns the seconds of a point.
    pub fn step(self) -> u64 {
        match self {
            Self::Raw => 1,
            Self::Minutes => 60,
            Self::Hours => 3600,
        }
    }

    /// Returns the seconds of a block. A block of a coarser level holds whole blocks of the finer one.
    pub fn span(self) -> u64 {
        match self {
            Self::Raw => 600,
            Self::Minutes => 3600,
            Self::Hours => 5 * 86_400,
        }
    }

    /// Returns the most points of a block.
    pub fn slots(self) -> u64 {
        self.span() / self.step()
    }

    /// Returns the number of blocks with data that are kept. Blocks without data do not count, so a clock that jumps far ahead, and
    /// returns, displaces one block only.
    pub fn kept(self) -> usize {
        match self {
            Self::Raw => 24 * 6 + 1,
            Self::Minutes => 31 * 24 + 1,
            Self::Hours => 366 / 5 + 2,
        }
    }

    /// Returns the number of blocks that remain until the coarser levels have given up theirs, if space is scarce: an hour of samples, a
    /// day of minutes.
    pub fn kept_at_least(self) -> usize {
        match self {
            Self::Raw => 6,
            Self::Minutes => 24,
            Self::Hours => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points() -> impl Strategy<Value = Points> {
        let sample = (0_u64..2_000_000, 0..=MAX_VALUE);
        proptest::collection::vec(sample, 0..400).prop_map(|samples| {
            let mut points = Points::new();
            for (at, value) in samples {
                add(&mut points, at, Sums::of(value));
            }
            points
        })
    }

    fn total(points: &Points) -> Option<Sums> {
        points.values().copied().reduce(|mut all, it| {
            all.merge(it);
            all
        })
    }

    proptest! {
        #[test]
        fn roll_up_conserves_counts(raw in points()) {
            let minutes = roll_up(&raw, Level::Minutes.step());
            let hours = roll_up(&minutes, Level::Hours.step());
            prop_assert_eq!(total(&raw), total(&minutes));
            prop_assert_eq!(total(&raw), total(&hours));
            prop_assert_eq!(roll_up(&raw, Level::Hours.step()), hours);
        }

        #[test]
        fn roll_up_matches_the_samples_of_each_span(raw in points(), step in 1_u64..10_000) {
            let rolled = roll_up(&raw, step);
            for (at, sums) in &rolled {
                let within: Points = raw.range(*at..at + step).map(|(at, it)| (*at, *it)).collect();
                prop_assert_eq!(at % step, 0);
                prop_assert_eq!(Some(*sums), total(&within));
                prop_assert!(u128::from(sums.min) * u128::from(sums.count) <= u128::from(sums.sum));
                prop_assert!(u128::from(sums.max) * u128::from(sums.count) >= u128::from(sums.sum));
            }
            // A span without a sample is a gap.
            for at in raw.keys() {
                prop_assert!(rolled.contains_key(&(at - at % step)));
            }
        }
    }

    #[test]
    fn blocks_of_coarser_levels_hold_whole_finer_ones() {
        for [fine, coarse] in [[Level::Raw, Level::Minutes], [Level::Minutes, Level::Hours]] {
            assert_eq!(coarse.span() % fine.span(), 0);
            assert_eq!(
                fine.span() % coarse.step(),
                0,
                "a finer block holds whole coarse points, or a part of one"
            );
        }
        assert!(Level::ALL.iter().all(|it| it.slots() <= 600 && it.kept_at_least() <= it.kept()));
        assert_eq!(Sums::of(u64::MAX).sum, MAX_VALUE);
    }
}

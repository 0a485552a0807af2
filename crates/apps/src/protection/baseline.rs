//! Compares a figure of a switch with its usual value: the median of calm times against the median since a suspicion.

use std::collections::VecDeque;

/// Samples of calm times that count.
const CALM: usize = 32;

/// Samples since a suspicion that count.
const RECENT: usize = 8;

/// The samples of one figure of a switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Baseline {
    calm: VecDeque<u64>,
    recent: VecDeque<u64>,
}

impl Baseline {
    /// Adds a sample, of a calm time or not.
    pub(crate) fn add(&mut self, value: u64, is_calm: bool) {
        let (samples, most) =
            if is_calm { (&mut self.calm, CALM) } else { (&mut self.recent, RECENT) };
        if samples.len() == most {
            samples.pop_front();
        }
        samples.push_back(value);
    }

    /// Begins another time: the recent samples do not count any more.
    pub(crate) fn begin(&mut self) {
        self.recent.clear();
    }

    /// Returns the usual value and the recent one, if there are at least `calm` and `recent` samples of them.
    pub(crate) fn compare(&self, calm: usize, recent: usize) -> Option<(u64, u64)> {
        let enough = self.calm.len() >= calm && self.recent.len() >= recent;
        enough.then(|| Some((median(&self.calm)?, median(&self.recent)?)))?
    }
}

fn median(samples: &VecDeque<u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = samples.iter().copied().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_outliers() {
        let mut baseline = Baseline::default();
        (0..40).for_each(|number| baseline.add(if number % 8 == 0 { 9_000 } else { 100 }, true));
        assert_eq!(baseline.compare(5, 1), None);
        for value in [150, 160, 9_999] {
            baseline.add(value, false);
        }
        assert_eq!(baseline.compare(5, 3), Some((100, 160)));
        baseline.begin();
        assert_eq!(baseline.compare(5, 1), None);
    }
}

//! The choices of a simulation: random ones, or those of a recorded tape.

/// The source of all choices. A tape makes the same choices again, and 0 after its end.
#[derive(Debug)]
pub(crate) struct Tape {
    state: u64,
    recorded: Option<Vec<u64>>,
    played: Option<std::vec::IntoIter<u64>>,
}

impl Tape {
    /// Random choices that follow from the seed. `record` keeps them for [`recorded`](Self::recorded).
    pub(crate) fn random(seed: u64, record: bool) -> Self {
        Self { state: seed, recorded: record.then(Vec::new), played: None }
    }

    /// The choices of a tape.
    pub(crate) fn play(tape: Vec<u64>) -> Self {
        Self { state: 0, recorded: None, played: Some(tape.into_iter()) }
    }

    /// The choices that were made, if they are kept.
    pub(crate) fn recorded(self) -> Vec<u64> {
        self.recorded.unwrap_or_default()
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let choice = match &mut self.played {
            Some(tape) => tape.next().unwrap_or(0) % end,
            None => self.random_number() % end,
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.push(choice);
        }
        choice
    }

    /// Whether something happens that happens in `in_thousand` of a thousand cases. The end of a tape makes nothing happen.
    pub(crate) fn happens(&mut self, in_thousand: u64) -> bool {
        self.below(1000) >= 1000 - in_thousand
    }

    /// One of the elements of a list that is not empty.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let end = of.len() as u64;
        if end == 0 { None } else { of.get(usize::try_from(self.below(end)).unwrap_or(0)) }
    }

    /// `SplitMix64`.
    fn random_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tape_repeats_what_was_recorded() {
        let mut first = Tape::random(7, true);
        let choices: Vec<u64> = (1..100).map(|end| first.below(end)).collect();
        let mut again = Tape::play(first.recorded());
        assert_eq!((1..100).map(|end| again.below(end)).collect::<Vec<_>>(), choices);
        assert_eq!(again.below(5), 0);
        assert!(!again.happens(999), "nothing happens after its end");
    }
}

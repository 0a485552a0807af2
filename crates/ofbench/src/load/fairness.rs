//! Measures fairness: how unequally switches under the same load are answered over spans of time.
//!
//! The answers of each switch are sampled every [`SAMPLE_INTERVAL`]. A span lasts from one sample to another,
//! at least [`MIN_SPAN`], and counts if the switches' average is [`MIN_ANSWERS`] answers or more: with fewer
//! answers, chance dominates.
//!
//! Only minimal spans are compared. A span made of two that count cannot be worse than the worse of
//! the two: if the least-served switch gets `r` times the answers of the most-served one in each
//! part, it gets at least that in both. The cost is therefore linear in the number of samples. The
//! last [`MAX_SAMPLES`] samples are kept.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Sampling interval.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Minimum duration of a span.
const MIN_SPAN: Duration = Duration::from_millis(100);

/// Minimum average of answers per switch in a span.
const MIN_ANSWERS: u64 = 128;

/// Maximum number of samples: ten minutes.
const MAX_SAMPLES: usize = 60_000;

/// The span with the least equal service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fairness {
    /// Answers of the least-served switch divided by those of the most-served one.
    pub ratio: f64,
    /// Answers of the least-served switch.
    pub least: u64,
    /// Answers of the most-served switch.
    pub most: u64,
    /// Start of the span, in seconds after the first kept sample.
    pub begin_seconds: f64,
    /// Duration, in seconds.
    pub seconds: f64,
    /// Number of compared spans.
    pub spans: usize,
}

/// Samples of the switches' answer counters.
#[derive(Debug, Clone, Default)]
pub(super) struct FairnessSamples {
    /// Time of each sample, and the answers of each switch until then.
    fairness: VecDeque<(Instant, Box<[u64]>)>,
}

impl FairnessSamples {
    /// Takes a sample if the interval has elapsed or the measurement ends at `now`.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        is_end: bool,
        answered: impl Iterator<Item = u64>,
    ) {
        let is_time = self
            .fairness
            .back()
            .is_none_or(|(at, _)| now.saturating_duration_since(*at) >= SAMPLE_INTERVAL);
        if is_time || is_end {
            self.fairness.push_back((now, answered.collect()));
            if self.fairness.len() > MAX_SAMPLES {
                self.fairness.pop_front();
            }
        }
    }

    /// Returns the least equal span; `None` if no span counts.
    pub(super) fn worst(&self) -> Option<Fairness> {
        let (start, _) = self.fairness.front()?;
        let mut worst: Option<Fairness> = None;
        let mut spans = 0;
        let first_ends = self.first_ends();
        for ((begin, before), first_end) in self.fairness.iter().zip(&first_ends) {
            // From this sample on, a span would consist of two spans that count.
            let limit = first_ends.get(*first_end).copied().unwrap_or(self.fairness.len());
            for (end, after) in self.fairness.range((*first_end).min(limit)..limit) {
                spans += 1;
                let answers = || after.iter().zip(before).map(|(after, before)| after - before);
                let (least, most) = (answers().min()?, answers().max()?);
                let ratio = super::rate(least, super::rate(most, 1.0));
                if worst.is_none_or(|worst| ratio < worst.ratio) {
                    let begin_seconds = begin.saturating_duration_since(*start).as_secs_f64();
                    let seconds = end.saturating_duration_since(*begin).as_secs_f64();
                    worst = Some(Fairness { ratio, least, most, begin_seconds, seconds, spans: 0 });
                }
            }
        }
        worst.map(|worst| Fairness { spans, ..worst })
    }

    /// For each sample, finds the end of the shortest span from it that counts; the number of
    /// samples if none does.
    fn first_ends(&self) -> Vec<usize> {
        let sum = |(_, answers): &(Instant, Box<[u64]>)| answers.iter().sum::<u64>();
        let sums: Vec<u64> = self.fairness.iter().map(sum).collect();
        let mut end = 0;
        let ends = self.fairness.iter().zip(&sums).map(|((begin, before), sum_before)| {
            let counts = |(at, _): &(Instant, Box<[u64]>), sum: u64| {
                at.saturating_duration_since(*begin) >= MIN_SPAN
                    && sum - sum_before >= MIN_ANSWERS * before.len() as u64
            };
            while self
                .fairness
                .get(end)
                .zip(sums.get(end))
                .is_some_and(|(it, sum)| !counts(it, *sum))
            {
                end += 1;
            }
            end
        });
        ends.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the worst span of two switches with these answers per 10 ms.
    fn worst(answers: impl Iterator<Item = [u64; 2]>) -> Option<Fairness> {
        let (mut fairness, start) = (FairnessSamples::default(), Instant::now());
        let mut all = [0, 0];
        fairness.sample(start, false, all.into_iter());
        for (number, answers) in (1..).zip(answers) {
            all = [all[0] + answers[0], all[1] + answers[1]];
            fairness.sample(start + number * SAMPLE_INTERVAL, false, all.into_iter());
        }
        fairness.worst()
    }

    #[test]
    fn short_turns_are_fair_and_long_turns_are_not() {
        let turns = |of: usize| {
            (0..100).map(move |at| if (at / of).is_multiple_of(2) { [100, 0] } else { [0, 100] })
        };
        assert!(worst(turns(1)).unwrap().ratio > 0.8);
        let Fairness { ratio, least, most, seconds, .. } = worst(turns(10)).unwrap();
        assert_eq!((ratio, least, most), (0.0, 0, 1000));
        assert!((seconds - 0.1).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn span_with_few_answers_does_not_count() {
        assert_eq!(worst((0..100).map(|_| [2, 0])), None);
        let Fairness { ratio, seconds, spans, .. } = worst((0..100).map(|_| [4, 2])).unwrap();
        assert!((ratio - 0.5).abs() < 1e-9 && seconds > 0.42, "{ratio} {seconds}");
        // Spans of 43 to 85 samples start at each of the first 58 samples, as far as samples
        // remain.
        assert_eq!(spans, (0..58).map(|begin| 43.min(58 - begin)).sum::<usize>());
    }

    #[test]
    fn worst_span_equals_exhaustive_search() {
        let mut random: u32 = 7;
        let mut up_to = |most: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u64::from((random >> 16) % most)
        };
        let mut found = 0;
        for round in 0..200 {
            let most = if round % 2 == 0 { 12 } else { 200 };
            let answers: Vec<[u64; 2]> = (0..80)
                .map(|_| if up_to(4) == 0 { [up_to(most), up_to(most)] } else { [up_to(3), 0] })
                .collect();
            let spans = (0..80).flat_map(|begin| (begin + 10..=80).map(move |end| begin..end));
            let sums = spans.map(|span| {
                answers[span].iter().fold([0, 0], |[a, b], [one, other]| [a + one, b + other])
            });
            let ratio =
                |[a, b]: [u64; 2]| super::super::rate(a.min(b), super::super::rate(a.max(b), 1.0));
            let of_all = sums.filter(|[a, b]| a + b >= 2 * MIN_ANSWERS).map(ratio).reduce(f64::min);
            let worst = worst(answers.iter().copied()).map(|it| it.ratio);
            assert_eq!(worst, of_all, "{answers:?}");
            found += usize::from(worst.is_some());
        }
        assert!((100..200).contains(&found), "{found}");
    }

    #[test]
    fn samples_of_the_last_ten_minutes_are_kept() {
        let (mut fairness, start) = (FairnessSamples::default(), Instant::now());
        for number in 0..MAX_SAMPLES as u64 + 500 {
            let now = start + SAMPLE_INTERVAL * u32::try_from(number).unwrap();
            // The unequal start is dropped.
            fairness.sample(
                now,
                false,
                [number.min(400) * 9 + number * 20, number * 20].into_iter(),
            );
        }
        assert_eq!(fairness.fairness.len(), MAX_SAMPLES);
        assert_eq!(fairness.worst().map(|it| it.ratio), Some(1.0));
    }
}

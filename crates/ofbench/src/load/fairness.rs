//! Whether switches with the same load are served alike: how unequal their answers are over spans of time.
//!
//! The answers of each switch are looked at every [`EVERY`]. A span lasts from one look to another, [`SPAN`] at least,
//! and counts if an equal share of its answers is [`SHARE`] or more for each switch: where there are fewer, chance
//! decides.
//!
//! A span that consists of two that count is no less equal than the less equal of these: where the least served gets `r`
//! times what the most served gets in each, it gets as much in both. So such spans are not compared, and the time is
//! proportional to the number of looks. Of these the last [`MOST_LOOKS`] are kept.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How often counts are looked at.
const EVERY: Duration = Duration::from_millis(10);

/// The shortest span.
const SPAN: Duration = Duration::from_millis(100);

/// Answers of each switch in a span, on average, from which on it counts.
const SHARE: u64 = 128;

/// Looks that are kept: of ten minutes.
const MOST_LOOKS: usize = 60_000;

/// The span in which answers were least equal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fairness {
    /// Answers of the switch that got least by those of the one that got most.
    pub ratio: f64,
    /// Answers of the switch that got least.
    pub least: u64,
    /// Answers of the switch that got most.
    pub most: u64,
    /// From the first look, of the last ten minutes, to the begin of the span, in seconds.
    pub begin_seconds: f64,
    /// How long it is, in seconds.
    pub seconds: f64,
    /// How many spans were compared: those that count and do not consist of two that do.
    pub spans: usize,
}

/// Looks at the switches' answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Looks {
    /// When each was, and how many answers each switch had had by then.
    looks: VecDeque<(Instant, Box<[u64]>)>,
}

impl Looks {
    /// Looks at the answers, if it is time or `now` is the end.
    pub(super) fn look(&mut self, now: Instant, is_end: bool, answered: impl Iterator<Item = u64>) {
        let is_time =
            self.looks.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= EVERY);
        if is_time || is_end {
            self.looks.push_back((now, answered.collect()));
            if self.looks.len() > MOST_LOOKS {
                self.looks.pop_front();
            }
        }
    }

    /// The span in which answers were least equal; `None` if none counts.
    pub(super) fn worst(&self) -> Option<Fairness> {
        let (start, _) = self.looks.front()?;
        let mut worst: Option<Fairness> = None;
        let mut spans = 0;
        let first_ends = self.first_ends();
        for ((begin, before), first_end) in self.looks.iter().zip(&first_ends) {
            // From there on, a span would consist of two that count.
            let limit = first_ends.get(*first_end).copied().unwrap_or(self.looks.len());
            for (end, after) in self.looks.range((*first_end).min(limit)..limit) {
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

    /// For each look, the end of the shortest span from there that counts; the number of looks if none does.
    fn first_ends(&self) -> Vec<usize> {
        let sum = |(_, answers): &(Instant, Box<[u64]>)| answers.iter().sum::<u64>();
        let sums: Vec<u64> = self.looks.iter().map(sum).collect();
        let mut end = 0;
        let ends = self.looks.iter().zip(&sums).map(|((begin, before), sum_before)| {
            let counts = |(at, _): &(Instant, Box<[u64]>), sum: u64| {
                at.saturating_duration_since(*begin) >= SPAN
                    && sum - sum_before >= SHARE * before.len() as u64
            };
            while self.looks.get(end).zip(sums.get(end)).is_some_and(|(it, sum)| !counts(it, *sum))
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

    /// The worst span of two switches whose answers in each 10 ms are these.
    fn worst(answers: impl Iterator<Item = [u64; 2]>) -> Option<Fairness> {
        let (mut looks, start) = (Looks::default(), Instant::now());
        let mut all = [0, 0];
        looks.look(start, false, all.into_iter());
        for (number, answers) in (1..).zip(answers) {
            all = [all[0] + answers[0], all[1] + answers[1]];
            looks.look(start + number * EVERY, false, all.into_iter());
        }
        looks.worst()
    }

    #[test]
    fn switches_that_take_turns_are_served_alike_if_turns_are_short() {
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
        // From each of the first 58 looks, of the lengths 43 to 85, as far as there are looks.
        assert_eq!(spans, (0..58).map(|begin| 43.min(58 - begin)).sum::<usize>());
    }

    #[test]
    fn worst_span_is_that_of_all_that_count() {
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
            let of_all = sums.filter(|[a, b]| a + b >= 2 * SHARE).map(ratio).reduce(f64::min);
            let worst = worst(answers.iter().copied()).map(|it| it.ratio);
            assert_eq!(worst, of_all, "{answers:?}");
            found += usize::from(worst.is_some());
        }
        assert!((100..200).contains(&found), "{found}");
    }

    #[test]
    fn looks_of_the_last_ten_minutes_are_kept() {
        let (mut looks, start) = (Looks::default(), Instant::now());
        for number in 0..MOST_LOOKS as u64 + 500 {
            let now = start + EVERY * u32::try_from(number).unwrap();
            // Unequal at the begin, which is forgotten.
            looks.look(now, false, [number.min(400) * 9 + number * 20, number * 20].into_iter());
        }
        assert_eq!(looks.looks.len(), MOST_LOOKS);
        assert_eq!(looks.worst().map(|it| it.ratio), Some(1.0));
    }
}

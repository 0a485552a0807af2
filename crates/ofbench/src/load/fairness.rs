//! Whether switches with the same load are served alike: how unequal their answers are over spans of time.
//!
//! The answers of each switch are looked at every [`EVERY`]. A span lasts from one look to another, [`SPAN`] at least,
//! and counts if an equal share of its answers is [`SHARE`] or more for each switch: where there are fewer, chance
//! decides.

use std::time::{Duration, Instant};

use serde::Serialize;

/// How often counts are looked at.
const EVERY: Duration = Duration::from_millis(10);

/// The shortest span.
const SPAN: Duration = Duration::from_millis(100);

/// Answers of each switch in a span, on average, from which on it counts.
const SHARE: u64 = 128;

/// The span in which answers were least equal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fairness {
    /// Answers of the switch that got least by those of the one that got most.
    pub ratio: f64,
    /// Answers of the switch that got least.
    pub least: u64,
    /// Answers of the switch that got most.
    pub most: u64,
    /// From the first look to the begin of the span, in seconds.
    pub begin_seconds: f64,
    /// How long it is, in seconds.
    pub seconds: f64,
    /// How many spans there are.
    pub spans: usize,
}

/// Looks at the switches' answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Looks {
    /// When each was, and how many answers each switch had had by then.
    looks: Vec<(Instant, Box<[u64]>)>,
}

impl Looks {
    /// Looks at the answers, if it is time or `now` is the end.
    pub(super) fn look(&mut self, now: Instant, is_end: bool, answered: impl Iterator<Item = u64>) {
        let is_time =
            self.looks.last().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= EVERY);
        if is_time || is_end {
            self.looks.push((now, answered.collect()));
        }
    }

    /// The span in which answers were least equal; `None` if none counts.
    pub(super) fn worst(&self) -> Option<Fairness> {
        let (start, _) = self.looks.first()?;
        let mut worst: Option<Fairness> = None;
        let mut spans = 0;
        for (number, (begin, before)) in self.looks.iter().enumerate() {
            for (end, after) in &self.looks[number + 1..] {
                let length = end.saturating_duration_since(*begin);
                let answers = || after.iter().zip(before).map(|(after, before)| after - before);
                if length < SPAN || answers().sum::<u64>() < SHARE * before.len() as u64 {
                    continue;
                }
                spans += 1;
                let (least, most) = (answers().min()?, answers().max()?);
                let ratio = super::rate(least, super::rate(most, 1.0));
                if worst.is_none_or(|worst| ratio < worst.ratio) {
                    let begin_seconds = begin.saturating_duration_since(*start).as_secs_f64();
                    let seconds = length.as_secs_f64();
                    worst = Some(Fairness { ratio, least, most, begin_seconds, seconds, spans: 0 });
                }
            }
        }
        worst.map(|worst| Fairness { spans, ..worst })
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
        assert_eq!(spans, (43..=100).map(|length| 101 - length).sum::<usize>());
    }
}

//! What a run came to.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::fairness::{Fairness, Looks};
use crate::ledger::Counts;

/// The longest time that is told apart from longer ones, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// A histogram of nanoseconds, right to three digits.
pub(crate) fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("these bounds are sound")
}

/// Notes a time.
#[inline]
pub(crate) fn note(times: &mut Histogram<u64>, time: Duration) {
    times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
}

/// One measured interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// How long it was, on average over the workers.
    pub length: Duration,
    /// What was counted, over all switches.
    pub counts: Counts,
    /// Answers a second, over all switches.
    pub answered_per_second: f64,
    /// The same of the switch that got least, and of the one that got most.
    pub per_switch: (f64, f64),
    /// From question to answer, in nanoseconds, if that was measured.
    pub latency: Histogram<u64>,
    /// From the first flow-mod to the barrier behind it, in nanoseconds, if that was measured.
    pub barrier: Histogram<u64>,
}

/// What a worker saw of an interval.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) length: Duration,
    /// Of each switch.
    pub(super) counts: Vec<Counts>,
    pub(super) latency: Histogram<u64>,
    pub(super) barrier: Histogram<u64>,
}

/// What a worker has to tell in the end.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) parts: Vec<Part>,
    /// How long its switches took to settle, each, in nanoseconds.
    pub(super) setup: Vec<Duration>,
    /// Messages of the controller that say it does not like something, and one of them.
    pub(super) errors: (u64, Option<String>),
    /// What was counted from the begin to the end.
    pub(super) total: Counts,
    /// Flows in all tables.
    pub(super) flows: u64,
    /// Questions that were due and were not asked.
    pub(super) unasked: u64,
    /// How equally its switches were served.
    pub(super) looks: Looks,
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Its intervals.
    pub intervals: Vec<Interval>,
    /// From the first connection to the last switch that settled.
    pub setup: Duration,
    /// How many error messages the controller sent, and the first.
    pub errors: (u64, Option<String>),
    /// What was counted in all, warm-up included.
    pub total: Counts,
    /// Flows in the switches' tables, if they were kept.
    pub flows: u64,
    /// Questions that were due by the clock, and that the controller left no room for.
    pub unasked: u64,
    /// The span in which switches were served least equally, if that was looked at.
    pub fairness: Option<Fairness>,
}

impl Measured {
    /// Puts together what the workers saw.
    pub(super) fn gather(told: Vec<Told>) -> Self {
        let intervals = told.iter().map(|worker| worker.parts.len()).min().unwrap_or(0);
        let mut measured = Self {
            intervals: (0..intervals)
                .map(|at| interval(told.iter().map(|worker| &worker.parts[at])))
                .collect(),
            setup: told.iter().flat_map(|worker| &worker.setup).copied().max().unwrap_or_default(),
            errors: (0, None),
            total: Counts::default(),
            flows: 0,
            unasked: 0,
            fairness: None,
        };
        for worker in told {
            measured.fairness = measured.fairness.or(worker.looks.worst());
            measured.errors.0 += worker.errors.0;
            measured.errors.1 = measured.errors.1.or(worker.errors.1);
            measured.total.add(&worker.total);
            measured.flows += worker.flows;
            measured.unasked += worker.unasked;
        }
        measured
    }
}

fn interval<'a>(parts: impl Iterator<Item = &'a Part>) -> Interval {
    let mut counts = Counts::default();
    let (mut latency, mut barrier) = (times(), times());
    let mut rates = Vec::new();
    let (mut length, mut workers) = (Duration::ZERO, 0);
    for part in parts {
        let seconds = part.length.as_secs_f64().max(f64::MIN_POSITIVE);
        for switch in &part.counts {
            counts.add(switch);
            rates.push(rate(switch.answered, seconds));
        }
        // Both have the same bounds, so nothing can be out of them.
        latency += &part.latency;
        barrier += &part.barrier;
        length += part.length;
        workers += 1;
    }
    Interval {
        length: length / workers.max(1),
        counts,
        answered_per_second: rates.iter().sum(),
        per_switch: (
            rates.iter().copied().fold(f64::INFINITY, f64::min),
            rates.iter().copied().fold(0.0, f64::max),
        ),
        latency,
        barrier,
    }
}

/// So many in so many seconds, by the second.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_workers_become_one_interval() {
        let counts = |answered| Counts { answered, flow_mods: 1, ..Counts::default() };
        let part = |answered: &[u64], ns| {
            let mut latency = times();
            note(&mut latency, Duration::from_nanos(ns));
            let counts = answered.iter().copied().map(counts).collect();
            Part { length: Duration::from_secs(2), counts, latency, barrier: times() }
        };
        let told = |answered: &[u64], ns| Told {
            parts: vec![part(answered, ns)],
            setup: vec![Duration::from_nanos(ns)],
            ..Told::default()
        };
        let measured = Measured::gather(vec![told(&[10, 20], 50), told(&[70], 1_000_000)]);
        let [interval] = measured.intervals.as_slice() else { panic!("one interval") };
        assert!((interval.answered_per_second - 50.0).abs() < 1e-9);
        assert_eq!(interval.per_switch, (5.0, 35.0));
        assert_eq!((interval.counts.answered, interval.counts.flow_mods), (100, 3));
        assert_eq!(interval.latency.len(), 2);
        assert_eq!(measured.setup, Duration::from_millis(1));
    }

    #[test]
    fn time_beyond_the_longest_is_noted_as_the_longest() {
        let mut histogram = times();
        note(&mut histogram, Duration::from_secs(3600));
        note(&mut histogram, Duration::ZERO);
        assert_eq!(histogram.len(), 2);
        assert!(histogram.max() >= LONGEST_NS);
    }
}

//! Merges the workers' measurements into the result of a run.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::fairness::{Fairness, FairnessSamples};
use crate::checker::Counts;

/// The longest time that histograms resolve, in nanoseconds: one minute.
const MAX_NS: u64 = 60_000_000_000;

/// Creates a histogram of nanoseconds with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NS, 3).expect("these bounds are sound")
}

/// Records a time.
#[inline]
pub(crate) fn record(times: &mut Histogram<u64>, time: Duration) {
    times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
}

/// Result of one interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Duration, averaged over the workers.
    pub length: Duration,
    /// Counters, summed over all switches.
    pub counts: Counts,
    /// Answers per second, summed over all switches.
    pub answered_per_second: f64,
    /// Answers per second of the least-served switch and of the most-served one.
    pub per_switch: (f64, f64),
    /// Time from packet-in to answer, in nanoseconds; empty if it was not measured.
    pub latency: Histogram<u64>,
    /// Time from the first flow-mod to the barrier that follows, in nanoseconds; empty if it was
    /// not measured.
    pub barrier: Histogram<u64>,
}

/// One worker's share of an interval.
#[derive(Debug, Clone)]
pub(super) struct WorkerInterval {
    pub(super) length: Duration,
    /// Counters of each switch.
    pub(super) counts: Vec<Counts>,
    pub(super) latency: Histogram<u64>,
    pub(super) barrier: Histogram<u64>,
}

/// Result of one worker.
#[derive(Debug, Default)]
pub(super) struct WorkerResult {
    pub(super) parts: Vec<WorkerInterval>,
    /// Time that each switch took to settle.
    pub(super) setup: Vec<Duration>,
    /// Number of error messages from the controller, and the first one.
    pub(super) errors: (u64, Option<String>),
    /// Counters of the whole run.
    pub(super) total: Counts,
    /// Number of flows in all tables.
    pub(super) flows: u64,
    /// Packet-ins that were due but not sent.
    pub(super) unasked: u64,
    /// Samples of how equally its switches were served.
    pub(super) fairness: FairnessSamples,
}

/// Result of a load run.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// The intervals.
    pub intervals: Vec<Interval>,
    /// Time from the first connection until the last switch settled.
    pub setup: Duration,
    /// Number of error messages from the controller, and the first one.
    pub errors: (u64, Option<String>),
    /// Counters of the whole run, including the warm-up.
    pub total: Counts,
    /// Number of flows in the switches' tables, if they are kept.
    pub flows: u64,
    /// Packet-ins that were due in rate mode but not sent, because too many were pending.
    pub unasked: u64,
    /// The least equal span, if fairness was measured.
    pub fairness: Option<Fairness>,
}

impl LoadResult {
    /// Merges the results of all workers.
    pub(super) fn merge(workers: Vec<WorkerResult>) -> Self {
        let intervals = workers.iter().map(|worker| worker.parts.len()).min().unwrap_or(0);
        let mut measured = Self {
            intervals: (0..intervals)
                .map(|at| interval(workers.iter().map(|worker| &worker.parts[at])))
                .collect(),
            setup: workers
                .iter()
                .flat_map(|worker| &worker.setup)
                .copied()
                .max()
                .unwrap_or_default(),
            errors: (0, None),
            total: Counts::default(),
            flows: 0,
            unasked: 0,
            fairness: None,
        };
        for worker in workers {
            measured.fairness = measured.fairness.or(worker.fairness.worst());
            measured.errors.0 += worker.errors.0;
            measured.errors.1 = measured.errors.1.or(worker.errors.1);
            measured.total.add(&worker.total);
            measured.flows += worker.flows;
            measured.unasked += worker.unasked;
        }
        measured
    }
}

fn interval<'a>(parts: impl Iterator<Item = &'a WorkerInterval>) -> Interval {
    let mut counts = Counts::default();
    let (mut latency, mut barrier) = (histogram(), histogram());
    let mut rates = Vec::new();
    let (mut length, mut workers) = (Duration::ZERO, 0);
    for part in parts {
        // Each worker divides by its own duration: workers notice a phase change at different
        // times.
        let seconds = part.length.as_secs_f64().max(f64::MIN_POSITIVE);
        for switch in &part.counts {
            counts.add(switch);
            rates.push(rate(switch.answered, seconds));
        }
        // All histograms have the same bounds, so adding cannot fail.
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

/// Divides a count by a duration in seconds.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_merge_into_one_interval() {
        let counts = |answered| Counts { answered, flow_mods: 1, ..Counts::default() };
        let part = |answered: &[u64], ns| {
            let mut latency = histogram();
            record(&mut latency, Duration::from_nanos(ns));
            let counts = answered.iter().copied().map(counts).collect();
            WorkerInterval { length: Duration::from_secs(2), counts, latency, barrier: histogram() }
        };
        let workers = |answered: &[u64], ns| WorkerResult {
            parts: vec![part(answered, ns)],
            setup: vec![Duration::from_nanos(ns)],
            ..WorkerResult::default()
        };
        let measured = LoadResult::merge(vec![workers(&[10, 20], 50), workers(&[70], 1_000_000)]);
        let [interval] = measured.intervals.as_slice() else { panic!("one interval") };
        assert!((interval.answered_per_second - 50.0).abs() < 1e-9);
        assert_eq!(interval.per_switch, (5.0, 35.0));
        assert_eq!((interval.counts.answered, interval.counts.flow_mods), (100, 3));
        assert_eq!(interval.latency.len(), 2);
        assert_eq!(measured.setup, Duration::from_millis(1));
    }

    #[test]
    fn time_beyond_the_bound_is_clamped() {
        let mut histogram = histogram();
        record(&mut histogram, Duration::from_secs(3600));
        record(&mut histogram, Duration::ZERO);
        assert_eq!(histogram.len(), 2);
        assert!(histogram.max() >= MAX_NS);
    }
}

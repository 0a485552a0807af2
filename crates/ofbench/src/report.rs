//! Summarises measurements as text, as Markdown and as JSON.
//!
//! The JSON is a stable interface: `docs/ofbench.md` describes it, and [`VERSION`] changes when a
//! field is removed or changes its meaning. Fields may be added.

mod flood;
mod idle;
mod text;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

pub use flood::{FloodReport, ReactionTimes};
pub use idle::{IdleReport, IdleRun};
pub(crate) use text::grouped;
pub use text::{
    Rows, connect_rows, flood_rows, format_markdown, format_text, idle_rows, load_rows, ratio_rows,
    switches_rows,
};

use crate::checker::Counts;
use crate::load::connect::ConnectResult;
use crate::load::{Fairness, Interval, LoadResult};

/// The version of the JSON format.
pub const VERSION: u32 = 1;

/// Median and range of a figure over several intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
}

impl Spread {
    /// Computes the spread of the figures; zeros if there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            return Self { median: 0.0, least: 0.0, most: 0.0 };
        };
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Self { median, least: *least, most: *most }
    }
}

/// Percentiles of durations, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of measured durations.
    pub count: u64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The maximum.
    pub max: f64,
}

impl Percentiles {
    /// Computes the percentiles of a histogram of nanoseconds; `None` if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "a minute of nanoseconds is below 2^52")]
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p99_9: us(0.999),
            max: us(1.0),
        })
    }
}

/// Answers per second of the least-served and the most-served switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerSwitch {
    /// The least-served switch.
    pub least: f64,
    /// The most-served switch.
    pub most: f64,
}

/// Report of a load on a controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Answered packet-ins per second, over the intervals.
    pub answered_per_second: Spread,
    /// Flow-mods for the switches' hosts per second, over the intervals.
    pub flow_mods_per_second: Spread,
    /// Packet-ins sent in all intervals.
    pub asked: u64,
    /// Packet-ins answered in all intervals.
    pub answered: u64,
    /// Flow-mods for the switches' hosts.
    pub flow_mods: u64,
    /// Packet-outs of the switches' packets.
    pub packet_outs: u64,
    /// Answers that flood a packet whose destination had sent before.
    pub floods: u64,
    /// Messages unrelated to any packet-in.
    pub others: u64,
    /// Packet-ins given up without an answer, including the warm-up.
    pub unanswered: u64,
    /// Packet-ins that were due at the end but not sent, because too many were pending.
    pub unasked: u64,
    /// Answers to packet-ins that had been given up, including the warm-up.
    pub late: u64,
    /// Service per switch in the interval of median speed.
    pub per_switch: PerSwitch,
    /// Time from packet-in to answer, over all intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Percentiles>,
    /// Time from a flow-mod to the barrier request that follows, over all intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barrier_us: Option<Percentiles>,
    /// Number of flows in the switches' tables at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// CPU time of the controller per million answers, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_million: Option<f64>,
    /// The least equal span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// Time until every switch was settled, in seconds.
    pub setup_seconds: f64,
    /// Number of error messages from the controller.
    pub errors: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
}

/// Result of one load run, and the controller's CPU time in its intervals.
#[derive(Debug, Clone)]
pub struct LoadRun {
    /// The measured result.
    pub measured: LoadResult,
    /// CPU time, if it was measured.
    pub cpu: Option<Duration>,
}

impl LoadReport {
    /// Summarises several runs with the same controller.
    pub fn of(runs: &[LoadRun], keeps_flows: bool) -> Self {
        let intervals: Vec<&Interval> =
            runs.iter().flat_map(|run| &run.measured.intervals).collect();
        let mut total = Counts::default();
        let mut latency = crate::load::histogram();
        let mut barrier = crate::load::histogram();
        for interval in &intervals {
            total.add(&interval.counts);
            // All histograms have the same bounds, so adding cannot fail.
            latency += &interval.latency;
            barrier += &interval.barrier;
        }
        let mut by_speed = intervals.clone();
        by_speed.sort_by(|a, b| a.answered_per_second.total_cmp(&b.answered_per_second));
        // The median interval represents the run better than an average over unequal intervals.
        let (least, most) = by_speed.get(by_speed.len() / 2).map_or((0.0, 0.0), |i| i.per_switch);
        let cpu = runs.iter().map(|run| run.cpu).sum::<Option<Duration>>();
        let per_second = |interval: &&Interval| {
            crate::load::rate(interval.counts.flow_mods, interval.length.as_secs_f64())
        };
        Self {
            answered_per_second: Spread::of(intervals.iter().map(|i| i.answered_per_second)),
            flow_mods_per_second: Spread::of(intervals.iter().map(per_second)),
            asked: total.asked,
            answered: total.answered,
            flow_mods: total.flow_mods,
            packet_outs: total.packet_outs,
            floods: total.floods,
            others: total.others,
            unanswered: runs.iter().map(|run| run.measured.total.unanswered).sum(),
            unasked: runs.iter().map(|run| run.measured.unasked).sum(),
            late: runs.iter().map(|run| run.measured.total.late).sum(),
            per_switch: PerSwitch { least, most },
            latency_us: Percentiles::of(&latency),
            barrier_us: Percentiles::of(&barrier),
            flows: keeps_flows.then(|| runs.last().map_or(0, |run| run.measured.flows)),
            cpu_seconds_per_million: cpu
                .filter(|_| total.answered > 0)
                .map(|cpu| cpu.as_secs_f64() * 1e6 / crate::load::rate(total.answered, 1.0)),
            fairness: runs
                .iter()
                .filter_map(|run| run.measured.fairness)
                .min_by(|a, b| a.ratio.total_cmp(&b.ratio)),
            setup_seconds: runs
                .iter()
                .map(|run| run.measured.setup.as_secs_f64())
                .fold(0.0, f64::max),
            errors: runs.iter().map(|run| run.measured.errors.0).sum(),
            first_error: runs.iter().find_map(|run| run.measured.errors.1.clone()),
        }
    }
}

/// Result of one connect run, and the controller's CPU time in its intervals.
#[derive(Debug, Clone)]
pub struct ConnectRun {
    /// The measured result.
    pub connected: ConnectResult,
    /// CPU time, if it was measured.
    pub cpu: Option<Duration>,
}

/// Report of a controller's handshakes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectReport {
    /// Time from the first connection until all switches were settled, in seconds.
    pub all_settled_seconds: f64,
    /// Handshakes per second afterwards, over the intervals.
    pub handshakes_per_second: Spread,
    /// Handshakes in all intervals.
    pub handshakes: u64,
    /// Time from the start of a connection until the switch is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_us: Option<Percentiles>,
    /// CPU time of the controller per thousand handshakes, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_thousand: Option<f64>,
}

impl ConnectReport {
    /// Summarises several runs with the same controller.
    pub fn of(runs: &[ConnectRun]) -> Self {
        let mut times = crate::load::histogram();
        let mut figures = Vec::new();
        for ConnectRun { connected, .. } in runs {
            times += &connected.times;
            figures.extend(connected.per_second.iter().copied());
        }
        let handshakes = runs.iter().map(|run| run.connected.handshakes).sum();
        let cpu = runs.iter().map(|run| run.cpu).sum::<Option<Duration>>();
        Self {
            all_settled_seconds: runs
                .iter()
                .map(|run| run.connected.all_settled.as_secs_f64())
                .fold(0.0, f64::max),
            handshakes_per_second: Spread::of(figures),
            handshakes,
            handshake_us: Percentiles::of(&times),
            cpu_seconds_per_thousand: cpu
                .filter(|_| handshakes > 0)
                .map(|cpu| cpu.as_secs_f64() * 1e3 / crate::load::rate(handshakes, 1.0)),
        }
    }
}

/// Ratios of two controllers, pair by pair, because a machine's speed drifts over minutes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratios {
    /// Name of the compared figure.
    pub of: &'static str,
    /// First controller by second, for each pair in the order of measurement.
    pub pairs: Vec<f64>,
    /// Median and range of the pairs.
    pub ratio: Spread,
}

impl Ratios {
    /// Computes the ratios of figures that are in the order of measurement.
    pub fn new(of: &'static str, first: &[f64], second: &[f64]) -> Self {
        let pairs: Vec<f64> =
            first.iter().zip(second).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect();
        Self { of, ratio: Spread::of(pairs.iter().copied()), pairs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_median_and_range() {
        let spread = |figures: &[f64]| {
            let spread = Spread::of(figures.iter().copied());
            (spread.median, spread.least, spread.most)
        };
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), (2.5, 1.0, 4.0));
        assert_eq!(spread(&[]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let ratios = Ratios::new("answered_per_second", &[10.0, 30.0, 5.0], &[20.0, 30.0, 0.0]);
        assert_eq!(ratios.pairs, [0.5, 1.0]);
        assert_eq!((ratios.ratio.least, ratios.ratio.median), (0.5, 0.75));
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut histogram = crate::load::histogram();
        assert_eq!(Percentiles::of(&histogram), None);
        for us in 1..=1000 {
            histogram.record(us * 1000).unwrap();
        }
        let times = Percentiles::of(&histogram).unwrap();
        assert_eq!(times.count, 1000);
        for (found, right) in [(times.p50, 500.0), (times.p99, 990.0), (times.max, 1000.0)] {
            assert!((found - right).abs() < right / 500.0, "{found} {right}");
        }
    }
}

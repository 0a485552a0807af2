//! What is told of a measurement: for people, and as JSON for programs.
//!
//! The JSON is a promise: `docs/ofbench.md` describes it, and [`VERSION`] changes when a field goes
//! or changes its meaning. Fields may be added.

mod staying;
mod text;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

pub use staying::{Fairness, Reactions, Sitting, Staying};
pub use text::{of_connect, of_flood, of_idle, of_load, of_pairs, of_switches};

use crate::ledger::Counts;
use crate::load::connect::Connected;
use crate::load::{Fairness as Evenness, Interval, Measured};

/// The version of the JSON.
pub const VERSION: u32 = 1;

/// A figure of several intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or what is between the middle two.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of some figures; zeros if there are none.
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

/// Times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// How many were measured.
    pub count: u64,
    /// Half of them were at most this.
    pub p50: f64,
    /// 90 % of them.
    pub p90: f64,
    /// 99 % of them.
    pub p99: f64,
    /// 99.9 % of them.
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
}

impl Times {
    /// Of a histogram of nanoseconds; `None` if nothing was measured.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "at most a minute, in nanoseconds")]
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

/// Of the switches, the one that got least and the one that got most, in answers a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerSwitch {
    /// The one that got least.
    pub least: f64,
    /// The one that got most.
    pub most: f64,
}

/// What a controller did under load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Packet-ins answered a second, of each interval.
    pub answered_per_second: Spread,
    /// Flow-mods for the switches' hosts a second, of each interval.
    pub flow_mods_per_second: Spread,
    /// Packet-ins asked in all intervals.
    pub asked: u64,
    /// Packet-ins answered in all intervals.
    pub answered: u64,
    /// Flow-mods for the switches' hosts.
    pub flow_mods: u64,
    /// Packet-outs of the switches' packets.
    pub packet_outs: u64,
    /// Answers that flood a packet whose destination had talked before.
    pub floods: u64,
    /// Messages that concern nothing that was asked.
    pub others: u64,
    /// Packet-ins that were given up as not answered, from the warm-up to the end.
    pub unanswered: u64,
    /// Packet-ins that were due at the end and had not been sent, as too many waited.
    pub unasked: u64,
    /// Answers to what had been given up, from the warm-up to the end.
    pub late: u64,
    /// In the interval in the middle.
    pub per_switch: PerSwitch,
    /// From question to answer, over all intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Times>,
    /// From a flow-mod to the barrier request behind it, over all intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barrier_us: Option<Times>,
    /// Flows in the switches' tables at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Processor time of the controller for a million answers, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_million: Option<f64>,
    /// The span in which switches were served least equally.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Evenness>,
    /// Until every switch was settled, in seconds.
    pub setup_seconds: f64,
    /// Error messages of the controller.
    pub errors: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
}

/// One run, and the processor time that the controller used in its intervals.
#[derive(Debug, Clone)]
pub struct Run {
    /// What was measured.
    pub measured: Measured,
    /// The processor time, if it was asked for.
    pub cpu: Option<Duration>,
}

impl Load {
    /// What several runs with the same controller came to.
    pub fn of(runs: &[Run], keeps_flows: bool) -> Self {
        let intervals: Vec<&Interval> =
            runs.iter().flat_map(|run| &run.measured.intervals).collect();
        let mut total = Counts::default();
        let mut latency = crate::load::times();
        let mut barrier = crate::load::times();
        for interval in &intervals {
            total.add(&interval.counts);
            // Both have the same bounds, so nothing can be out of them.
            latency += &interval.latency;
            barrier += &interval.barrier;
        }
        let mut by_speed = intervals.clone();
        by_speed.sort_by(|a, b| a.answered_per_second.total_cmp(&b.answered_per_second));
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
            latency_us: Times::of(&latency),
            barrier_us: Times::of(&barrier),
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

/// One run of connections, and the processor time that the controller used in its intervals.
#[derive(Debug, Clone)]
pub struct Handshakes {
    /// What was measured.
    pub connected: Connected,
    /// The processor time, if it was asked for.
    pub cpu: Option<Duration>,
}

/// What a controller did with connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Connections {
    /// From the first connection until all switches were settled, in seconds.
    pub all_settled_seconds: f64,
    /// Handshakes completed a second afterwards, of each interval.
    pub handshakes_per_second: Spread,
    /// Handshakes completed in all intervals.
    pub handshakes: u64,
    /// From the begin of a connection to the switch that is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_us: Option<Times>,
    /// Processor time of the controller for a thousand handshakes, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_thousand: Option<f64>,
}

impl Connections {
    /// What several runs with the same controller came to.
    pub fn of(runs: &[Handshakes]) -> Self {
        let mut times = crate::load::times();
        let mut figures = Vec::new();
        for Handshakes { connected, .. } in runs {
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
            handshake_us: Times::of(&times),
            cpu_seconds_per_thousand: cpu
                .filter(|_| handshakes > 0)
                .map(|cpu| cpu.as_secs_f64() * 1e3 / crate::load::rate(handshakes, 1.0)),
        }
    }
}

/// How two controllers compare: pair by pair, as the machine changes from minute to minute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratios {
    /// What is compared.
    pub of: &'static str,
    /// The first by the second, of each pair in the order they were measured.
    pub pairs: Vec<f64>,
    /// Of these.
    pub ratio: Spread,
}

impl Ratios {
    /// Of figures of the first and of the second, in the order they were measured.
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
    fn spread_is_median_and_ends() {
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
    fn times_are_microseconds_and_nothing_measured_is_none() {
        let mut histogram = crate::load::times();
        assert_eq!(Times::of(&histogram), None);
        for us in 1..=1000 {
            histogram.record(us * 1000).unwrap();
        }
        let times = Times::of(&histogram).unwrap();
        assert_eq!(times.count, 1000);
        for (found, right) in [(times.p50, 500.0), (times.p99, 990.0), (times.max, 1000.0)] {
            assert!((found - right).abs() < right / 500.0, "{found} {right}");
        }
    }
}

//! The report of idle switches.

use std::time::Duration;

use serde::Serialize;

use super::Spread;
use crate::load::idle::IdleResult;
use crate::load::rate;

/// Result of one idle run, and the resources that the controller used.
#[derive(Debug, Clone)]
pub struct IdleRun {
    /// The measured result.
    pub idle: IdleResult,
    /// CPU time in the intervals, if it was measured.
    pub cpu: Option<Duration>,
    /// Resident memory in bytes before the first connection and at the end, if it was measured.
    pub resident: Option<(u64, u64)>,
}

/// Report of the cost of idle switches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleReport {
    /// Time from the first connection until all switches were settled, in seconds.
    pub all_settled_seconds: f64,
    /// Messages per second from the controller over all switches, over the intervals.
    pub messages_per_second: Spread,
    /// CPU use of the controller, in percent of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Resident memory that each switch added to the controller, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes_per_switch: Option<f64>,
}

impl IdleReport {
    /// Summarises several runs. Memory comes from the first run, because a controller may keep
    /// what it has allocated.
    pub fn of(runs: &[IdleRun], switches: usize) -> Self {
        let length: Duration = runs.iter().map(|run| run.idle.length).sum();
        let cpu = runs.iter().map(|run| run.cpu).sum::<Option<Duration>>();
        let resident = runs.first().and_then(|run| run.resident);
        Self {
            all_settled_seconds: runs
                .iter()
                .map(|run| run.idle.all_settled.as_secs_f64())
                .fold(0.0, f64::max),
            messages_per_second: Spread::of(
                runs.iter().flat_map(|run| run.idle.messages_per_second.iter().copied()),
            ),
            cpu_percent: cpu
                .map(|cpu| 100.0 * cpu.as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE)),
            #[expect(clippy::cast_precision_loss, reason = "there are few switches")]
            resident_bytes_per_switch: resident
                .map(|(before, with)| rate(with.saturating_sub(before), switches.max(1) as f64)),
        }
    }
}

//! Measures the cost of idle switches: all connect, answer the controller's requests, and stay.

use std::time::{Duration, Instant};

use super::connector::{Connector, TICK};
use super::failure::Failure;
use super::result::rate;
use super::{Plan, Progress};

/// Result of an idle run.
#[derive(Debug, Clone)]
pub struct IdleResult {
    /// Time from the first connection until all switches were settled.
    pub all_settled: Duration,
    /// Messages per second from the idle controller over all switches, in each interval: mostly
    /// echo requests.
    pub messages_per_second: Vec<f64>,
    /// Total duration of the intervals.
    pub length: Duration,
}

/// Connects all switches and keeps them idle.
///
/// # Errors
/// [`Failure`] if the controller is unreachable or drops a switch.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<IdleResult, Failure> {
    let mut connector = Connector::new(plan, plan.first_dpid)?;
    let all_settled = connector.connect_all(plan.switches, &mut progress)?;
    // Work that the controller does right after the handshakes is not part of the idle cost.
    let until = Instant::now() + plan.settle;
    while Instant::now() < until {
        connector.poll(TICK, |_, _| {})?;
    }
    let (mut messages_per_second, mut length) = (Vec::new(), Duration::ZERO);
    for interval in 0..plan.intervals {
        let began = Instant::now();
        let mut heard = 0;
        while began.elapsed() < plan.interval {
            progress(Progress::Measuring(interval, heard));
            connector.poll(TICK, |_, _| heard += 1)?;
        }
        messages_per_second.push(rate(heard, began.elapsed().as_secs_f64()));
        length += began.elapsed();
    }
    progress(Progress::Measured);
    Ok(IdleResult { all_settled, messages_per_second, length })
}

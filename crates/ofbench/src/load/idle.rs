//! What switches cost that say nothing: all connect, answer what the controller asks, and stay.

use std::time::{Duration, Instant};

use super::caller::{Caller, TICK};
use super::failure::Failure;
use super::result::rate;
use super::{Plan, Progress};

/// What came of it.
#[derive(Debug, Clone)]
pub struct Idle {
    /// From the first connection until all switches were settled.
    pub all_settled: Duration,
    /// Messages that the controller sent a second while it was idle, over all switches, in each
    /// interval: echo requests, mostly.
    pub messages_per_second: Vec<f64>,
    /// How long the intervals were together.
    pub length: Duration,
}

/// Connects all switches and lets them sit.
///
/// # Errors
/// [`Failure`]: the controller is not there, or gives a switch up.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<Idle, Failure> {
    let mut caller = Caller::new(plan, plan.first_dpid)?;
    let all_settled = caller.all(plan.switches, &mut progress)?;
    // What a controller still does after the handshakes is not idleness.
    let until = Instant::now() + plan.settle;
    while Instant::now() < until {
        caller.turn(TICK, |_, _| {})?;
    }
    let (mut messages_per_second, mut length) = (Vec::new(), Duration::ZERO);
    for interval in 0..plan.intervals {
        let began = Instant::now();
        let mut heard = 0;
        while began.elapsed() < plan.interval {
            progress(Progress::Measuring(interval, heard));
            caller.turn(TICK, |_, _| heard += 1)?;
        }
        messages_per_second.push(rate(heard, began.elapsed().as_secs_f64()));
        length += began.elapsed();
    }
    progress(Progress::Measured);
    Ok(Idle { all_settled, messages_per_second, length })
}

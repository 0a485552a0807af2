//! How fast a controller takes in switches: connections, TLS, handshakes.
//!
//! First all switches connect, a few dozens at a time, and stay until the last is settled. Then each
//! hangs up and calls again, under a new datapath-id, as often as it can. One thread does it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::caller::{CALLING, Caller, TICK};
use super::failure::Failure;
use super::result::{note, rate, times};
use super::{Plan, Progress};

/// What came of it.
#[derive(Debug, Clone)]
pub struct Connected {
    /// From the first connection until all switches were settled.
    pub all_settled: Duration,
    /// Handshakes completed a second afterwards, in each interval.
    pub per_second: Vec<f64>,
    /// Handshakes completed in all intervals.
    pub handshakes: u64,
    /// From the begin of a connection to the switch that is settled, in nanoseconds.
    pub times: Histogram<u64>,
}

/// Connects switches, all and then again and again.
///
/// # Errors
/// [`Failure`]: the controller is not there, or a handshake went wrong.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<Connected, Failure> {
    let mut caller = Caller::new(plan, plan.first_dpid)?;
    let all_settled = caller.all(plan.switches, &mut progress)?;
    for call in std::mem::take(&mut caller.calls) {
        call.1.connection.abandon();
    }
    let (mut per_second, mut handshakes, mut spent) = (Vec::new(), 0, times());
    for interval in 0..plan.intervals {
        let began = Instant::now();
        let mut completed = 0;
        while began.elapsed() < plan.interval {
            progress(Progress::Measuring(interval, handshakes + completed));
            while caller.calls.len() < plan.switches.min(CALLING) {
                caller.call()?;
            }
            for key in caller.turn(TICK, |_, _| {})? {
                note(&mut spent, caller.calls[key].began.elapsed());
                completed += 1;
                caller.hang_up(key);
            }
            caller.check_patience()?;
        }
        per_second.push(rate(completed, began.elapsed().as_secs_f64()));
        handshakes += completed;
    }
    progress(Progress::Measured);
    Ok(Connected { all_settled, per_second, handshakes, times: spent })
}

//! Measures how fast a controller accepts switches: connections, TLS, handshakes.
//!
//! First all switches connect, a few dozen at a time, and stay until the last one is settled. Then
//! each disconnects and reconnects with a new datapath id, as often as possible. One thread drives
//! all of them.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connector::{Connector, MAX_HANDSHAKES, TICK};
use super::failure::Failure;
use super::result::{histogram, rate, record};
use super::{Plan, Progress};

/// Result of a connect run.
#[derive(Debug, Clone)]
pub struct ConnectResult {
    /// Time from the first connection until all switches were settled.
    pub all_settled: Duration,
    /// Handshakes per second afterwards, in each interval.
    pub per_second: Vec<f64>,
    /// Handshakes in all intervals.
    pub handshakes: u64,
    /// Time from the start of a connection until the switch is settled, in nanoseconds.
    pub times: Histogram<u64>,
}

/// Connects all switches once, then reconnects them repeatedly.
///
/// # Errors
/// [`Failure`] if the controller is unreachable or a handshake fails.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<ConnectResult, Failure> {
    let mut connector = Connector::new(plan, plan.first_dpid)?;
    let all_settled = connector.connect_all(plan.switches, &mut progress)?;
    for session in std::mem::take(&mut connector.sessions) {
        session.1.connection.reset();
    }
    let (mut per_second, mut handshakes, mut spent) = (Vec::new(), 0, histogram());
    for interval in 0..plan.intervals {
        let began = Instant::now();
        let mut completed = 0;
        while began.elapsed() < plan.interval {
            progress(Progress::Measuring(interval, handshakes + completed));
            while connector.sessions.len() < plan.switches.min(MAX_HANDSHAKES) {
                connector.connect()?;
            }
            for key in connector.poll(TICK, |_, _| {})? {
                record(&mut spent, connector.sessions[key].began.elapsed());
                completed += 1;
                connector.disconnect(key);
            }
            connector.check_deadlines()?;
        }
        per_second.push(rate(completed, began.elapsed().as_secs_f64()));
        handshakes += completed;
    }
    progress(Progress::Measured);
    Ok(ConnectResult { all_settled, per_second, handshakes, times: spent })
}

//! Puts load on a controller: many emulated switches, driven by a few threads.
//!
//! The calling thread sets the current phase. The workers follow it, record their counters at each
//! change, and report failures. Phases only move forward:
//!
//! ```text
//! Connect -> Settle -> Warm -> Measure(0) -> ... -> Measure(n) -> Drain -> Stop
//! ```
//!
//! * **Connect**: the switches connect and complete their handshakes, until all are settled
//!   ([`Switch::is_settled`](crate::switch::Switch::is_settled)).
//! * **Settle**: a pause, for work that controllers do on timers after the handshakes.
//! * **Warm**: every host of every switch sends once, so that the controller learns all of them.
//! * **Measure**: counters are read at the start and the end of each interval.
//! * **Drain**: no packet-in is sent, and pending ones may still be answered.

pub mod connect;
mod connector;
mod failure;
mod fairness;
pub mod flood;
pub mod idle;
mod load_switch;
mod phase;
mod result;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use openflow::Version;

pub use failure::{Failure, FailureKind};
pub use fairness::Fairness;
pub use result::{Interval, LoadResult};
pub(crate) use result::{histogram, rate};

use self::phase::{Phase, SharedState};
use self::worker::Worker;
use crate::checker::AnsweredBy;
use crate::hosts::{Addresses, Hosts};
use crate::packet_ins::{MAX_PENDING, PacketInTemplate};
use crate::tls::Tls;

/// When packet-ins are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As fast as the controller answers, with at most this many pending packet-ins per switch.
    Window(usize),
    /// At this rate in packet-ins per second, over all switches, whether or not answers arrive.
    Rate(f64),
}

/// Settings of a run.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Plan {
    /// The controller's address.
    pub controller: SocketAddr,
    /// TLS settings; `None` for plain TCP.
    pub tls: Option<Tls>,
    /// The version of the switches.
    pub version: Version,
    /// Number of switches.
    pub switches: usize,
    /// Datapath id of the first switch; the others follow.
    pub first_dpid: u64,
    /// Number of ports of each switch.
    pub ports: u16,
    /// Number of hosts of each switch.
    pub macs: usize,
    /// How host addresses are chosen.
    pub addresses: Addresses,
    /// Seed of the host addresses.
    pub seed: u64,
    /// Whether switches buffer packets.
    pub buffered: bool,
    /// Number of buffer ids that a switch cycles through: at least the number of
    /// [slots](crate::packet_ins::PendingPacketIns::slots_for) for pending packet-ins.
    pub buffer_ids: u32,
    /// Number of buffers that a switch announces; `None` for as many as it needs.
    pub claimed_buffers: Option<u32>,
    /// Size of a frame, in bytes.
    pub frame: usize,
    /// Which message answers a packet-in that is not buffered.
    pub answered_by: AnsweredBy,
    /// When packet-ins are sent.
    pub pace: Pace,
    /// Whether latency is measured.
    pub timed: bool,
    /// Whether fairness is measured; requires one thread.
    pub fairness: bool,
    /// Whether switches keep flows in tables, and the time to the next barrier is measured.
    pub keep_flows: bool,
    /// Maximum number of flows in a switch's table.
    pub max_flows: usize,
    /// Number of threads that drive the switches.
    pub threads: usize,
    /// Whether each thread is pinned to a core.
    pub pin: bool,
    /// Time limit for all switches to connect and settle.
    pub patience: Duration,
    /// Time after which a packet-in counts as unanswered.
    pub give_up: Duration,
    /// The pause before the first packet-in.
    pub settle: Duration,
    /// Duration of an interval.
    pub interval: Duration,
    /// Number of intervals.
    pub intervals: usize,
}

/// Progress of a run, for a status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Number of settled switches.
    Connecting(usize),
    /// Number of answered packet-ins of the warm-up.
    Warming(u64),
    /// Index of the interval, and number of answered packet-ins so far.
    Measuring(usize, u64),
    /// The last interval has ended.
    Measured,
}

/// Interval at which the calling thread checks for progress.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a controller may leave all packet-ins of the warm-up unanswered.
const NO_ANSWERS: Duration = Duration::from_secs(5);

/// Runs the load. Calls `progress` several times a second and at the start of each interval.
///
/// # Errors
/// [`Failure`] if the controller is unreachable, violates the protocol, or answers wrongly.
///
/// # Panics
/// Only if a worker panics, which would be a bug.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<LoadResult, Failure> {
    let hosts = Hosts::with(plan.addresses, plan.seed, plan.macs, plan.ports);
    let template = PacketInTemplate::new(plan.version, plan.buffered, plan.frame)
        .map_err(|error| Failure::new(FailureKind::Usage(error.to_string())))?;
    let threads = plan.threads.clamp(1, plan.switches.max(1));
    let shared = Arc::new(SharedState::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|number| Worker::new(number, threads, plan, &hosts, template.clone(), &shared))
        .collect::<Result<_, _>>()?;
    let results = thread::scope(|scope| {
        let running: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || worker.run())).collect();
        let directed = direct(plan, &shared, &mut progress);
        if directed.is_err() {
            shared.enter(Phase::Stop);
        }
        let joined: Vec<_> = running
            .into_iter()
            .map(|thread| thread.join().expect("a worker does not panic"))
            .collect();
        directed.map(|()| joined)
    });
    // A worker's failure names the cause; the directing thread only knows that it waited.
    if let Some(failure) = shared.take_failure() {
        return Err(failure);
    }
    Ok(LoadResult::merge(results?))
}

/// Advances the phases until the run is over.
fn direct(
    plan: &Plan,
    shared: &SharedState,
    progress: &mut impl FnMut(Progress),
) -> Result<(), Failure> {
    let began = Instant::now();
    wait(shared, || {
        let settled = shared.settled.load(Ordering::Relaxed);
        progress(Progress::Connecting(settled));
        if settled >= plan.switches {
            return Ok(true);
        }
        if began.elapsed() > plan.patience {
            let (of, after) = (plan.switches, plan.patience);
            return Err(Failure::new(FailureKind::NotSettled { settled, of, after }));
        }
        Ok(false)
    })?;
    shared.enter(Phase::Settle);
    let until = Instant::now() + plan.settle;
    wait(shared, || Ok(Instant::now() >= until))?;

    shared.enter(Phase::Warm);
    let began = Instant::now();
    wait(shared, || {
        let answered = shared.answered();
        progress(Progress::Warming(answered));
        // A controller without a learning switch would otherwise keep the run waiting forever.
        if answered == 0 && began.elapsed() > NO_ANSWERS.max(plan.give_up * 2) {
            return Err(Failure::new(FailureKind::NoAnswers { after: began.elapsed() }));
        }
        Ok(shared.warm.load(Ordering::Relaxed) >= plan.switches)
    })?;

    for interval in 0..plan.intervals {
        shared.enter(Phase::Measure(interval));
        let until = Instant::now() + plan.interval;
        wait(shared, || {
            progress(Progress::Measuring(interval, shared.answered()));
            Ok(Instant::now() >= until)
        })?;
    }
    progress(Progress::Measured);
    shared.enter(Phase::Drain);
    let until = Instant::now() + plan.give_up;
    wait(shared, || {
        let drained = shared.drained.load(Ordering::Relaxed) >= shared.workers();
        Ok(drained || Instant::now() >= until)
    })?;
    shared.enter(Phase::Stop);
    Ok(())
}

/// Polls until `over` returns true or a worker fails.
fn wait(
    shared: &SharedState,
    mut over: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    while !over()? {
        if shared.has_failed() {
            return Err(Failure::new(FailureKind::Stopped));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

impl Plan {
    /// Returns the maximum number of pending packet-ins per switch.
    pub(crate) fn window(&self) -> usize {
        match self.pace {
            Pace::Window(window) => window.clamp(1, MAX_PENDING),
            Pace::Rate(_) => RATE_WINDOW,
        }
    }
}

/// Maximum number of pending packet-ins per switch in rate mode. Packet-ins beyond it are sent
/// late, and the delay counts as latency.
const RATE_WINDOW: usize = 16 * 1024;

//! Load on a controller: many emulated switches, driven by a few threads.
//!
//! One thread, the caller's, says which phase it is; the workers obey, note what was counted at
//! each change, and say what fails. Phases only go forward:
//!
//! ```text
//! Connect -> Settle -> Warm -> Measure(0) -> ... -> Measure(n) -> Drain -> Stop
//! ```
//!
//! * **Connect**: each switch connects and is asked what it is, until all are settled
//!   ([`Switch::is_settled`](crate::switch::Switch::is_settled)).
//! * **Settle**: a pause, for what controllers do by the clock.
//! * **Warm**: every host of every switch talks once, so that the controller knows them all.
//! * **Measure**: what is counted between the begin and the end of each.
//! * **Drain**: nothing more is asked, and what waits for an answer may still get one.

mod caller;
pub mod connect;
mod failure;
mod fairness;
pub mod flood;
pub mod idle;
mod lane;
mod phase;
mod result;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use openflow::Version;

pub use failure::{Failure, Trouble};
pub use fairness::Fairness;
pub use result::{Interval, Measured};
pub(crate) use result::{rate, times};

use self::phase::{Phase, Shared};
use self::worker::Worker;
use crate::hosts::{Addresses, Hosts};
use crate::ledger::AnsweredBy;
use crate::question::{MOST_OPEN, Template};
use crate::tls::Tls;

/// How a controller is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As fast as it answers, so many questions at a time for each switch.
    Window(usize),
    /// So many questions a second, over all switches, whether it answers or not.
    Rate(f64),
}

/// What is to be done to a controller.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Plan {
    /// Where it is.
    pub controller: SocketAddr,
    /// How to connect by TLS, if so.
    pub tls: Option<Tls>,
    /// The version that switches speak.
    pub version: Version,
    /// How many switches.
    pub switches: usize,
    /// The datapath-id of the first; the others' follow.
    pub first_dpid: u64,
    /// How many ports each has.
    pub ports: u16,
    /// How many hosts each has.
    pub macs: usize,
    /// How the hosts' addresses are chosen.
    pub addresses: Addresses,
    /// What the hosts' addresses follow from.
    pub seed: u64,
    /// Whether switches keep the packets.
    pub buffered: bool,
    /// How many ids its buffers have: at least the number of [places](crate::question::Open::places_for) for packet-ins
    /// that wait, at least.
    pub buffer_ids: u32,
    /// How many buffers it says it has; `None` for what it needs.
    pub claimed_buffers: Option<u32>,
    /// Bytes of a frame.
    pub frame: usize,
    /// What answers a packet-in that is not buffered.
    pub answered_by: AnsweredBy,
    /// How it is asked.
    pub pace: Pace,
    /// Whether the time until each answer is measured.
    pub timed: bool,
    /// Whether it is looked at how equally switches are served; with one thread.
    pub fairness: bool,
    /// Whether switches carry out flow-mods, and the time until a barrier is measured.
    pub keep_flows: bool,
    /// The most flows a switch's table holds.
    pub max_flows: usize,
    /// How many threads drive the switches.
    pub threads: usize,
    /// Whether each thread stays on a core.
    pub pin: bool,
    /// How long all switches may take to connect and settle.
    pub patience: Duration,
    /// How long an answer may take before its question is given up.
    pub give_up: Duration,
    /// The pause before the first question.
    pub settle: Duration,
    /// How long each interval is measured.
    pub interval: Duration,
    /// How many intervals.
    pub intervals: usize,
}

/// How things stand, for a live line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many switches are settled.
    Connecting(usize),
    /// So many packet-ins of the warm-up are answered.
    Warming(u64),
    /// This interval, and packet-ins answered so far in all.
    Measuring(usize, u64),
    /// The last interval is over.
    Measured,
}

/// How often the caller's thread looks.
const LOOK: Duration = Duration::from_millis(20);

/// How long a controller may answer nothing at all in the warm-up.
const MUTE: Duration = Duration::from_secs(5);

/// Puts the load on; `progress` is called some times a second and at the begin of each interval.
///
/// # Errors
/// [`Failure`]: the controller is not there, is not one, or answers wrongly.
///
/// # Panics
/// Only if a worker does, which is a mistake here.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<Measured, Failure> {
    let hosts = Hosts::with(plan.addresses, plan.seed, plan.macs, plan.ports);
    let template = Template::new(plan.version, plan.buffered, plan.frame)
        .map_err(|error| Failure::new(Trouble::Usage(error.to_string())))?;
    let threads = plan.threads.clamp(1, plan.switches.max(1));
    let shared = Arc::new(Shared::new(threads));
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
    // What a worker said of the controller says more than that it was waited for.
    if let Some(failure) = shared.take_failure() {
        return Err(failure);
    }
    Ok(Measured::gather(results?))
}

/// Says which phase it is, until it is over.
fn direct(
    plan: &Plan,
    shared: &Shared,
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
            return Err(Failure::new(Trouble::NotSettled { settled, of, after }));
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
        if answered == 0 && began.elapsed() > MUTE.max(plan.give_up * 2) {
            return Err(Failure::new(Trouble::Mute { after: began.elapsed() }));
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

/// Looks again and again until `over`, or something failed.
fn wait(shared: &Shared, mut over: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    while !over()? {
        if shared.has_failed() {
            return Err(Failure::new(Trouble::Stopped));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

impl Plan {
    /// The most questions of a switch that wait at a time.
    pub(crate) fn window(&self) -> usize {
        match self.pace {
            Pace::Window(window) => window.clamp(1, MOST_OPEN),
            Pace::Rate(_) => RATE_WINDOW,
        }
    }
}

/// Questions of a switch that may wait where they are asked at a rate: what it does not answer is
/// asked late, and the delay counts.
const RATE_WINDOW: usize = 16 * 1024;

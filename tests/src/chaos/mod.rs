//! Random faults in a network with traffic, and the invariants that hold after each of them.
//!
//! A run is a sequence of steps. A step draws a [`Fault`], injects it while hosts ping each other through Open
//! vSwitch, and waits until Rosemary runs again. Then it compares the network with the state before the fault:
//! the right program was restarted and no other, an established ping lost nothing, no denied packet passed, the
//! flows are as before, and memory and descriptors are back to where they were. The seed determines the faults.

pub mod cuts;
mod fault;
mod network;
mod observation;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::{Lab, Of};

use crate::random::Random;

use fault::Fault;
pub use fault::{Forwarder, Program};
use network::Network;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of steps.
    pub steps: u32,
    /// The steps after which an invariant did not hold, with the reason.
    pub broken: Vec<String>,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} steps, {} broken", self.steps, self.broken.len())
    }
}

/// Runs `steps` steps over this version of OpenFlow and prints a line for each. A step that takes longer than `limit` is broken.
///
/// # Errors
/// The network could not be built, or could not be built again after a broken step.
#[expect(clippy::print_stdout, reason = "the run is read by a person")]
pub fn run(
    lab: &Lab,
    (forwarder, of): (Forwarder, Of),
    seed: u64,
    steps: u32,
    limit: Duration,
) -> anyhow::Result<Summary> {
    let mut random = Random::from(seed);
    let mut network = Network::start(lab, (forwarder, of), limit)?;
    let mut broken = Vec::new();
    for step in 1..=steps {
        let fault = Fault::draw(&mut random, forwarder);
        let start = Instant::now();
        let result = network.suffer(fault);
        let took = start.elapsed().as_secs_f64();
        match result {
            Ok(what) => println!("step {step}: {fault}: {what} ({took:.1} s)"),
            Err(error) => {
                let step = format!("step {step}: {fault}: BROKEN: {error:#} ({took:.1} s)");
                println!("{step}");
                broken.push(step);
                network.restart().context("start again after a broken step")?;
            }
        }
    }
    network.stop()?;
    Ok(Summary { steps, broken })
}

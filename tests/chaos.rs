//! `rosemary_chaos SEED STEPS [APP]`: random faults in a network with traffic, and the invariants after each of them. APP
//! forwards the packets: `learning-switch` (the default) or `forwarding`.
//!
//! The last line is `N steps, N broken`. The exit code is 1 if a step was broken.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cli::lab::Lab;
use rosemary_tests::chaos::{self, Forwarder};

/// Longest duration of a step.
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (seed, steps, forwarder) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [seed, steps] | [seed, steps, "learning-switch"] => {
            (seed, steps, Forwarder::LearningSwitch)
        }
        [seed, steps, "forwarding"] => (seed, steps, Forwarder::Forwarding),
        _ => bail!("usage: rosemary_chaos SEED STEPS [learning-switch|forwarding]"),
    };
    let seed = seed.parse().context("SEED is a number")?;
    let steps = steps.parse().context("STEPS is a number")?;
    let summary = chaos::run(&Lab::enter()?, forwarder, seed, steps, LIMIT)?;
    print(summary)?;
    Ok(if summary.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(summary: chaos::Summary) -> std::io::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{summary}")
}

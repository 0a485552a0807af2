//! `rosemary_chaos SEED STEPS [APP]`: random faults in a network with traffic, and the invariants after each of them. APP
//! forwards the packets: `learning-switch` (the default) or `forwarding`.
//!
//! `rosemary_chaos SEED STEPS cuts OF SHAPE`: random deaths before a link is cut, over OpenFlow `1.0` or `1.3`, in a `ring` of
//! three switches or a `square` with a link across.
//!
//! The last line is `N steps, N broken`. The exit code is 1 if a step was broken.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cli::lab::{Lab, Of};
use rosemary_tests::chaos::cuts::{self, RING, SQUARE};
use rosemary_tests::chaos::{self, Forwarder};
use rosemary_tests::experiment::finished;

const USAGE: &str =
    "usage: rosemary_chaos SEED STEPS [learning-switch|forwarding|cuts 1.0|1.3 ring|square]";

/// Longest duration of a step.
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [seed, steps, what @ ..] = &words[..] else { bail!(USAGE) };
    let seed = seed.parse().context("SEED is a number")?;
    let steps = steps.parse().context("STEPS is a number")?;
    let faults = |forwarder| chaos::run(&Lab::enter()?, forwarder, seed, steps, LIMIT);
    let summary = match what {
        [] | ["learning-switch"] => faults(Forwarder::LearningSwitch),
        ["forwarding"] => faults(Forwarder::Forwarding),
        ["cuts", of, shape] => {
            let of = [Of::V1_0, Of::V1_3].into_iter().find(|it| it.to_string() == *of);
            let shape = match *shape {
                "ring" => RING,
                "square" => SQUARE,
                _ => bail!(USAGE),
            };
            cuts::run(&Lab::enter()?, of.context(USAGE)?, shape, seed, steps)
        }
        _ => bail!(USAGE),
    }?;
    print(&summary)?;
    Ok(if summary.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(summary: &chaos::Summary) -> std::io::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{summary}")
}

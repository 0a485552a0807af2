//! `rosemary_chaos SEED STEPS [APP [OF]]`: random faults in a network with traffic, and the invariants after each of them. APP
//! forwards the packets: `learning-switch` (the default) or `forwarding`. OF is the version of OpenFlow, `1.3` by default.
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

const USAGE: &str = "usage: rosemary_chaos SEED STEPS [learning-switch|forwarding [1.0|1.3|1.5]], or \
     rosemary_chaos SEED STEPS cuts 1.0|1.3 ring|square";

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
    let version = |among: &[Of], words: &str| {
        among.iter().copied().find(|of| of.to_string() == words).context(USAGE)
    };
    let summary = match what {
        ["cuts", of, shape] => {
            let of = version(&[Of::V1_0, Of::V1_3], of)?;
            let shape = match *shape {
                "ring" => RING,
                "square" => SQUARE,
                _ => bail!(USAGE),
            };
            cuts::run(&Lab::enter()?, of, shape, seed, steps)
        }
        [] | [_] | [_, _] => {
            let forwarder = match what.first() {
                None | Some(&"learning-switch") => Forwarder::LearningSwitch,
                Some(&"forwarding") => Forwarder::Forwarding,
                Some(_) => bail!(USAGE),
            };
            let of = what
                .get(1)
                .map_or(Ok(Of::V1_3), |of| version(&[Of::V1_0, Of::V1_3, Of::V1_5], of))?;
            chaos::run(&Lab::enter()?, (forwarder, of), seed, steps, LIMIT)
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

//! Simulates the supervisor: `rosemary-simulate SEED STEPS [--sabotage NAME] [--episode N] [--trace]`.
//!
//! Each episode is a world of its own ([`world`]) that follows from the seed and the episode's number, so a failure is repeated by these
//! two. A failure is shrunk: choices are taken out of its tape as long as it still fails.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod checks;
mod coverage;
mod disk;
mod faults;
mod machine;
mod sabotage;
mod tape;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use crate::coverage::Coverage;
use crate::sabotage::Sabotage;
use crate::tape::Tape;
use crate::world::{Broken, CONFIRMATIONS, EFFECTS, EVENTS, REQUESTS, World};

/// The steps of most episodes.
const SHORT: u64 = 2_000;

/// The steps of one episode in a hundred, to see what grows.
const LONG: u64 = 50_000;

/// How often each kind of event, effect, request and fault occurs at least in a million steps.
const LEAST_IN_A_MILLION: u64 = 1_000;

/// The most steps of all attempts to shrink a failure.
const MOST_SHRINKING: u64 = 1_000_000;

#[derive(Debug, Default)]
struct Options {
    seed: u64,
    steps: u64,
    sabotage: Option<Sabotage>,
    episode: Option<u64>,
    trace: bool,
}

fn options() -> Result<Options, String> {
    let usage = "usage: rosemary-simulate SEED STEPS [--sabotage NAME] [--episode N] [--trace]";
    let mut options = Options::default();
    let mut args = std::env::args().skip(1);
    let number = |text: Option<String>| {
        text.and_then(|text| text.parse().ok()).ok_or_else(|| usage.to_owned())
    };
    options.seed = number(args.next())?;
    options.steps = number(args.next())?;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--sabotage" => {
                let name = args.next().unwrap_or_default();
                let known = Sabotage::named(&name);
                let names = Sabotage::ALL.map(|(name, _)| name).join(", ");
                let why = || format!("there is no sabotage {name:?}; there are {names}");
                options.sabotage = Some(known.ok_or_else(why)?);
            }
            "--episode" => options.episode = Some(number(args.next())?),
            "--trace" => options.trace = true,
            _ => return Err(usage.to_owned()),
        }
    }
    Ok(options)
}

fn steps_of(episode: u64) -> u64 {
    if episode % 100 == 99 { LONG } else { SHORT }
}

fn seed_of(seed: u64, episode: u64) -> u64 {
    seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ episode.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The result of an episode.
struct EpisodeResult {
    broken: Option<Broken>,
    coverage: Coverage,
    digest: u64,
    tape: Vec<u64>,
}

fn play(tape: Tape, steps: u64, options: &Options, trace: bool) -> Result<EpisodeResult, String> {
    let mut world = World::new(tape, options.sabotage, trace)?;
    let broken = world.run(steps).err();
    let (coverage, digest) = (world.coverage.clone(), world.digest);
    Ok(EpisodeResult { broken, coverage, digest, tape: world.into_tape() })
}

/// Takes choices out of the tape of a failure as long as something fails. Returns the shortest one and its failure.
fn shrink(tape: Vec<u64>, broken: Broken, options: &Options) -> Result<(Vec<u64>, Broken), String> {
    let (mut tape, mut broken) = (tape, broken);
    let mut chunk = tape.len() / 2;
    let mut made = 0;
    while chunk > 0 && made < MOST_SHRINKING {
        let mut at = 0;
        while at < tape.len() && made < MOST_SHRINKING {
            let end = (at + chunk).min(tape.len());
            let candidate = [&tape[..at], &tape[end..]].concat();
            let steps = broken.step + 1;
            let played = play(Tape::play(candidate.clone()), steps, options, false)?;
            made += played.coverage.steps.max(1);
            match played.broken {
                Some(again) if again.step <= broken.step && is_alike(&again, &broken) => {
                    (tape, broken) = (candidate, again);
                }
                _ => at = end,
            }
        }
        chunk /= 2;
    }
    Ok((tape, broken))
}

/// Whether two failures are most likely the same one: they differ in names alone.
fn is_alike(one: &Broken, other: &Broken) -> bool {
    let words = |broken: &Broken| -> Vec<String> {
        broken.what.split(' ').rev().take(2).map(ToOwned::to_owned).collect()
    };
    words(one) == words(other)
}

/// Plays episodes until all steps are made. Returns whether all promises were kept.
fn simulate(options: &Options) -> Result<bool, String> {
    let began = Instant::now();
    let (mut all, mut digest) = (Coverage::default(), 0_u64);
    let mut episodes = options.episode.map_or(0..u64::MAX, |it| it..it + 1);
    while all.steps < options.steps {
        let Some(episode) = episodes.next() else { break };
        let seed = seed_of(options.seed, episode);
        let steps = steps_of(episode);
        let played = play(Tape::random(seed, false), steps, options, options.trace)?;
        all.add(&played.coverage);
        digest = digest.rotate_left(5) ^ played.digest;
        let Some(broken) = played.broken else { continue };
        println!("episode {episode}, step {}: {}", broken.step, broken.what);
        let recorded = play(Tape::random(seed, true), steps, options, false)?;
        let before = recorded.tape.len();
        let (tape, shrunk) = shrink(recorded.tape, broken, options)?;
        println!(
            "shrunk from {before} choices to {}, to step {}: {}",
            tape.len(),
            shrunk.step,
            shrunk.what
        );
        play(Tape::play(tape), shrunk.step + 1, options, true)?;
        let sabotage = Sabotage::ALL.iter().find(|(_, it)| Some(*it) == options.sabotage);
        let sabotage = sabotage.map_or_else(String::new, |(name, _)| format!(" --sabotage {name}"));
        let seed = options.seed;
        println!(
            "repeat it: rosemary-simulate {seed} {steps} --episode {episode}{sabotage} --trace"
        );
        return Ok(false);
    }
    Ok(report(&all, digest, began, options))
}

fn report(all: &Coverage, digest: u64, began: Instant, options: &Options) -> bool {
    for group in ["event", "effect", "request", "confirmation", "fault", "change", "weather", "end"]
    {
        println!("{group}:");
        for (name, count) in all.group(group) {
            println!("  {count:>10} {name}");
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let Coverage { steps, provoked, .. } = all;
    println!("{steps} steps, {provoked} of them provoked, in {seconds:.1} s; digest {digest:016x}");
    if options.episode.is_some() || options.sabotage.is_some() {
        return true;
    }
    let least = LEAST_IN_A_MILLION * options.steps / 1_000_000;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut missing = all.missing("event", &names(&EVENTS), least);
    missing.extend(all.missing("effect", &names(&EFFECTS), least));
    missing.extend(all.missing("request", &names(&REQUESTS), least));
    missing.extend(all.missing("confirmation", &names(&CONFIRMATIONS), least));
    missing.extend(all.missing("fault", &faults::pairs(), least));
    if 3 * provoked < *steps {
        missing.push("faults and requests: less than a third of the steps".into());
    }
    for name in &missing {
        println!("too rare: {name}");
    }
    missing.is_empty()
}

fn main() -> ExitCode {
    match options().and_then(|options| simulate(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("rosemary-simulate: {why}");
            ExitCode::from(2)
        }
    }
}

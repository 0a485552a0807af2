//! What the command does.

mod outcome;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context as _;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{Command, LoadArgs, Mode, NullArgs, SwitchesArgs};
use crate::emulate::Target;
use crate::fabric::Fabric;
use crate::hosts::Addresses;
use crate::load::flood::Flooded;
use crate::load::{Failure, Pace, Plan};
use crate::null::Null;
use crate::report::{self, Handshakes, Ratios, Run, Sitting};
use crate::say::{self, Line};
use crate::topology::{Topology, TopologyError};
use crate::{emulate, pin};

use self::outcome::Outcome;
use self::watch::Watch;

/// Does it.
///
/// # Errors
/// What kept it from being done, or what was wrong with an answer.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Throughput(args) => measure(Mode::Throughput, args),
        Command::Latency(args) => measure(Mode::Latency, args),
        Command::Rate { rate, load } => measure(Mode::Rate(*rate), load),
        Command::FlowMod(args) => measure(Mode::FlowMod, args),
        Command::Connect(args) => measure(Mode::Connect, args),
        Command::Idle(args) => measure(Mode::Idle, args),
        Command::Flood(args) => measure(Mode::Flood, args),
        Command::Switches(args) => switches(args),
        Command::Null(args) => null(args),
    }
}

/// What is printed as JSON; see `docs/ofbench.md`.
#[derive(Debug, Serialize)]
struct Document<'a, T> {
    version: u32,
    ofbench: &'static str,
    mode: &'static str,
    setup: Setup<'a>,
    #[serde(flatten)]
    result: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    vs: Option<Versus<'a, T>>,
}

#[derive(Debug, Serialize)]
struct Versus<'a, T> {
    controller: &'a str,
    #[serde(flatten)]
    result: T,
    ratios: Ratios,
}

#[derive(Debug, Serialize)]
struct Setup<'a> {
    controller: &'a str,
    of: String,
    tls: bool,
    switches: usize,
    macs: usize,
    addresses: Addresses,
    ports: u16,
    buffered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer_ids: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_buffers: Option<u32>,
    frame: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    seed: u64,
    threads: usize,
    seconds: f64,
    repeat: usize,
}

impl<'a> Setup<'a> {
    fn new(args: &'a LoadArgs, plan: &Plan) -> Self {
        let (window, rate) = match plan.pace {
            Pace::Window(window) => (Some(window), None),
            Pace::Rate(rate) => (None, Some(rate)),
        };
        Self {
            controller: &args.controller,
            of: plan.version.to_string(),
            tls: plan.tls.is_some(),
            switches: plan.switches,
            macs: plan.macs,
            addresses: plan.addresses,
            ports: plan.ports,
            buffered: plan.buffered,
            buffer_ids: args.buffer_ids,
            claim_buffers: args.claim_buffers,
            frame: plan.frame,
            window,
            rate,
            seed: plan.seed,
            threads: plan.threads,
            seconds: plan.interval.as_secs_f64(),
            repeat: args.repeat,
        }
    }
}

fn measure(mode: Mode, args: &LoadArgs) -> anyhow::Result<()> {
    let plan = args.plan(mode)?;
    // What else is open: epoll, standard streams, files that are read.
    pin::allow_files(plan.switches + 64).context("cannot open a socket for each switch")?;
    match mode {
        Mode::Connect => compare::<Handshakes>(mode, args, &plan),
        Mode::Idle => compare::<Sitting>(mode, args, &plan),
        Mode::Flood => compare::<Flooded>(mode, args, &plan),
        _ => compare::<Run>(mode, args, &plan),
    }
}

/// Measures one controller, or two in turn, and tells of it.
fn compare<T: Outcome>(mode: Mode, args: &LoadArgs, plan: &Plan) -> anyhow::Result<()> {
    let once = |plan: &Plan, pids: &[u32], what: &str| T::once(plan, Watch::new(plan, pids, what));
    let (first, second) = in_turn(args, plan, once)?;
    let figures =
        |runs: &[T]| -> Vec<f64> { runs.iter().flat_map(|run| run.figures(plan)).collect() };
    let ratios = second
        .as_ref()
        .map(|second| Ratios::new(T::compared(plan), &figures(&first), &figures(second)));
    let second = second.map(|runs| T::report(&runs, plan));
    tell(mode, args, plan, (T::report(&first, plan), second, ratios), T::in_words)
}

/// What came of the first controller, and of the second if there is one.
type Turns<T> = (Vec<T>, Option<Vec<T>>);

/// Measures one controller, or two in turn: A B A B.
fn in_turn<T>(
    args: &LoadArgs,
    plan: &Plan,
    once: impl Fn(&Plan, &[u32], &str) -> anyhow::Result<T>,
) -> anyhow::Result<Turns<T>> {
    let Some(vs) = &args.vs else { return Ok((vec![once(plan, &args.pids, "")?], None)) };
    let other = crate::args::resolve(vs)?;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for pair in 1..=args.repeat {
        let plan = Plan { intervals: 1, ..plan.clone() };
        let what = format!("pair {pair} of {}, A: ", args.repeat);
        first.push(once(&plan, &args.pids, &what).context("controller A")?);
        let what = format!("pair {pair} of {}, B: ", args.repeat);
        let plan = Plan { controller: other, ..plan };
        second.push(once(&plan, &args.vs_pids, &what).context("controller B")?);
    }
    Ok((first, Some(second)))
}

fn tell<T: Serialize>(
    mode: Mode,
    args: &LoadArgs,
    plan: &Plan,
    (result, second, ratios): (T, Option<T>, Option<Ratios>),
    in_words: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    let vs = match (&args.vs, second, ratios) {
        (Some(controller), Some(result), Some(ratios)) => {
            Some(Versus { controller, result, ratios })
        }
        _ => None,
    };
    if args.json {
        let document = Document {
            version: report::VERSION,
            ofbench: env!("CARGO_PKG_VERSION"),
            mode: mode.name(),
            setup: Setup::new(args, plan),
            result,
            vs,
        };
        return say::data(format_args!("{}\n", serde_json::to_string_pretty(&document)?));
    }
    let Some(vs) = vs else { return say::data(in_words(&result)) };
    say::data(format_args!(
        "A: {}\n{}\nB: {}\n{}\n{}",
        args.controller,
        in_words(&result),
        vs.controller,
        in_words(&vs.result),
        report::of_pairs(&vs.ratios)
    ))
}

/// What `switches` prints as JSON; see `docs/ofbench.md`.
#[derive(Debug, Serialize)]
struct Emulated {
    version: u32,
    switches: usize,
    links: usize,
    settled: usize,
    packet_ins: u64,
    packet_outs: u64,
    crossings: u64,
    flow_mods: u64,
    flows: usize,
    errors: u64,
}

fn switches(args: &SwitchesArgs) -> anyhow::Result<()> {
    let topology = Topology::named(&args.topology)?;
    let to = crate::args::resolve(&args.controller)?;
    let tls = args.tls.load()?;
    pin::allow_files(topology.switches() + 64).context("cannot open a socket for each switch")?;
    let mut fabric = Fabric::new(&topology, args.of.into(), args.dpid, args.more_ports);
    let stop = stop_at_signals()?;
    let until = args.seconds.map(|seconds| Instant::now() + seconds);
    let (switches, links) = (topology.switches(), topology.links().len());
    let settled = |fabric: &Fabric| fabric.switches().iter().filter(|s| s.is_settled()).count();
    let mut line = Line::new();
    let target = Target { controller: to, tls: tls.as_ref(), until };
    emulate::run(&mut fabric, target, &stop, |fabric| {
        let (settled, moved) = (settled(fabric), fabric.moved());
        line.show(format_args!(
            "{settled} of {switches} switches, {} packet-outs, {} packet-ins",
            moved.packet_outs, moved.packet_ins
        ));
    })?;
    line.clear();
    let moved = fabric.moved();
    let told = Emulated {
        version: report::VERSION,
        switches,
        links,
        settled: settled(&fabric),
        packet_ins: moved.packet_ins,
        packet_outs: moved.packet_outs,
        crossings: moved.crossings,
        flow_mods: moved.flow_mods,
        flows: fabric.switches().iter().map(|switch| switch.tables().len()).sum(),
        errors: moved.errors,
    };
    if args.json {
        return say::data(format_args!("{}\n", serde_json::to_string_pretty(&told)?));
    }
    say::data(report::of_switches(&[
        ("settled", told.settled as u64),
        ("links", links as u64),
        ("packet-outs", told.packet_outs),
        ("over links", told.crossings),
        ("packet-ins", told.packet_ins),
        ("flow-mods", told.flow_mods),
        ("flows kept", told.flows as u64),
        ("errors", told.errors),
    ]))
}

/// What is set when the program is to end.
fn stop_at_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn null(args: &NullArgs) -> anyhow::Result<()> {
    if args.pin {
        pin::pin(0).context("cannot stay on one core")?;
    }
    let versions = match args.of {
        Some(of) => vec![of.into()],
        None => openflow::Version::ALL.to_vec(),
    };
    let null = Null::bind(args.listen, &versions)
        .with_context(|| format!("cannot listen at {}", args.listen))?;
    let stop = stop_at_signals()?;
    say::note(format_args!("answers without thinking at {}; Ctrl-C ends it", null.address()?));
    Ok(null.run(&stop)?)
}

/// Whether an error is about how the command was used.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(Failure::is_usage)
        || error.is::<TopologyError>()
        || error.is::<openflow::EncodeError>()
}

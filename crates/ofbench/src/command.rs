//! Runs the chosen mode and prints its result.

mod load_kind;
mod measure_switch;
mod plot;
mod run_monitor;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context as _;
use clap::CommandFactory as _;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{Arguments, Command, LoadArgs, Mode, NullArgs, SwitchesArgs};
use crate::emulate::Target;
use crate::fabric::Fabric;
use crate::hosts::Addresses;
use crate::load::flood::FloodResult;
use crate::load::{Failure, Pace, Plan};
use crate::null::NullController;
use crate::report::{self, ConnectRun, IdleRun, LoadRun, Ratios};
use crate::terminal::{self, StatusLine};
use crate::topology::{Topology, TopologyError};
use crate::{emulate, pin};

use self::load_kind::LoadKind;
use self::plot::{Measured, Plot};
use self::run_monitor::RunMonitor;

/// Runs a command.
///
/// # Errors
/// The reason why the run failed, or the wrong answer that ended it.
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
        Command::Chart(args) => crate::chart::run(args),
        Command::TlsMatrix(args) => crate::tls_matrix::run(args),
        Command::MeasureSwitch(args) => measure_switch::run(args),
        Command::Man { dir } => manual(dir),
    }
}

/// Writes the manual pages to `dir`, which is created if necessary.
fn manual(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), dir))
        .with_context(|| format!("cannot write the manual to {}", dir.display()))
}

/// The JSON document that is printed; see `docs/ofbench.md`.
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
    // 64 more for epoll, standard streams and files that are opened during the run.
    pin::allow_files(plan.switches + 64).context("cannot open a socket for each switch")?;
    match mode {
        Mode::Connect => compare::<ConnectRun>(mode, args, &plan),
        Mode::Idle => compare::<IdleRun>(mode, args, &plan),
        Mode::Flood => compare::<FloodResult>(mode, args, &plan),
        _ => compare::<LoadRun>(mode, args, &plan),
    }
}

/// Measures one controller, or two in alternation, prints the result and draws the charts.
fn compare<T: LoadKind>(mode: Mode, args: &LoadArgs, plan: &Plan) -> anyhow::Result<()> {
    let plot = Plot::prepare::<T>(mode, args)?;
    let (first, second) = run_alternating::<T>(args, plan)?;
    let report = |measured: &Measured<'_, T>| T::report(&measured.runs, plan);
    let figures = |measured: &Measured<'_, T>| -> Vec<f64> {
        measured.runs.iter().flat_map(|run| run.figures(plan)).collect()
    };
    let vs = args.vs.as_ref().zip(second.as_ref()).map(|(controller, second)| Versus {
        controller,
        result: report(second),
        ratios: Ratios::new(T::compared_figure(plan), &figures(&first), &figures(second)),
    });
    print_report::<T>(mode, args, plan, (report(&first), vs))?;
    match plot {
        Some(plot) => plot.draw(&[&first].into_iter().chain(&second).collect::<Vec<_>>()),
        None => Ok(()),
    }
}

/// Measures one controller, or two in alternation: A B, B A, A B. On some machines the second of a pair is some percent
/// slower, whichever it is.
fn run_alternating<'a, T: LoadKind>(
    args: &'a LoadArgs,
    plan: &Plan,
) -> anyhow::Result<(Measured<'a, T>, Option<Measured<'a, T>>)> {
    let mut line = StatusLine::new();
    let mut first = Measured::new(&args.controller);
    let Some(vs) = &args.vs else {
        first.run(plan, RunMonitor::new(plan, &args.pids, "", &mut line))?;
        return Ok((first, None));
    };
    let mut second = Measured::new(vs);
    let addresses = [plan.controller, crate::args::resolve(vs)?];
    for pair in 1..=args.repeat {
        let order = if pair % 2 == 1 { [0, 1] } else { [1, 0] };
        for side in order {
            let (which, pids, measured) = match side {
                0 => ("A", &args.pids, &mut first),
                _ => ("B", &args.vs_pids, &mut second),
            };
            let plan = Plan { intervals: 1, controller: addresses[side], ..plan.clone() };
            let what = format!("pair {pair} of {}, {which}: ", args.repeat);
            measured
                .run(&plan, RunMonitor::new(&plan, pids, &what, &mut line))
                .with_context(|| format!("controller {which}"))?;
        }
    }
    Ok((first, Some(second)))
}

/// Prints the result of one controller, or of two, as JSON, as Markdown or as text.
fn print_report<T: LoadKind>(
    mode: Mode,
    args: &LoadArgs,
    plan: &Plan,
    (result, vs): (T::Report, Option<Versus<'_, T::Report>>),
) -> anyhow::Result<()> {
    if args.json {
        let document = Document {
            version: report::VERSION,
            ofbench: env!("CARGO_PKG_VERSION"),
            mode: mode.name(),
            setup: Setup::new(args, plan),
            result,
            vs,
        };
        return terminal::print(format_args!("{}\n", serde_json::to_string_pretty(&document)?));
    }
    let mut rows = T::rows(&result);
    let Some(vs) = vs else {
        let column = [(args.controller.as_str(), rows)];
        return terminal::print(if args.markdown {
            report::format_markdown(&column)
        } else {
            report::format_text(&column[0].1)
        });
    };
    let (second, ratios) = (T::rows(&vs.result), report::ratio_rows(&vs.ratios));
    let heads = [format!("A: {}", args.controller), format!("B: {}", vs.controller)];
    if args.markdown {
        rows.extend(ratios);
        return terminal::print(report::format_markdown(&[(&heads[0], rows), (&heads[1], second)]));
    }
    terminal::print(format_args!(
        "{}\n{}\n{}\n{}\n{}",
        heads[0],
        report::format_text(&rows),
        heads[1],
        report::format_text(&second),
        report::format_text(&ratios)
    ))
}

/// The JSON document that `switches` prints; see `docs/ofbench.md`.
#[derive(Debug, Serialize)]
struct SwitchesReport {
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
    let mut fabric = Fabric::new(&topology, args.of, args.dpid, args.more_ports);
    let stop = stop_at_signals()?;
    let until = args.seconds.map(|seconds| Instant::now() + seconds);
    let (switches, links) = (topology.switches(), topology.links().len());
    let settled = |fabric: &Fabric| fabric.switches().iter().filter(|s| s.is_settled()).count();
    let mut line = StatusLine::new();
    let target = Target { controller: to, tls: tls.as_ref(), until };
    emulate::run(&mut fabric, target, &stop, |fabric| {
        let (settled, counters) = (settled(fabric), fabric.counters());
        line.show(format_args!(
            "{settled} of {switches} switches, {} packet-outs, {} packet-ins",
            counters.packet_outs, counters.packet_ins
        ));
    })?;
    line.clear();
    let counters = fabric.counters();
    let report = SwitchesReport {
        version: report::VERSION,
        switches,
        links,
        settled: settled(&fabric),
        packet_ins: counters.packet_ins,
        packet_outs: counters.packet_outs,
        crossings: counters.crossings,
        flow_mods: counters.flow_mods,
        flows: fabric.switches().iter().map(|switch| switch.tables().len()).sum(),
        errors: counters.errors,
    };
    if args.json {
        return terminal::print(format_args!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    let rows = report::switches_rows(&[
        ("settled", report.settled as u64),
        ("links", links as u64),
        ("packet-outs", report.packet_outs),
        ("over links", report.crossings),
        ("packet-ins", report.packet_ins),
        ("flow-mods", report.flow_mods),
        ("flows kept", report.flows as u64),
        ("errors", report.errors),
    ]);
    terminal::print(if args.markdown {
        report::format_markdown(&[(&args.controller, rows)])
    } else {
        report::format_text(&rows)
    })
}

/// Returns a flag that SIGINT and SIGTERM set.
fn stop_at_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn null(args: &NullArgs) -> anyhow::Result<()> {
    if args.pin {
        pin::pin(0).context("cannot pin the process to a core")?;
    }
    let versions = match args.of {
        Some(of) => vec![of],
        None => openflow::Version::ALL.to_vec(),
    };
    let null = NullController::bind_with(args.listen, &versions, args.tls.load()?)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let stop = stop_at_signals()?;
    terminal::note(format_args!(
        "null controller listening on {}; Ctrl-C stops it",
        null.address()?
    ));
    Ok(null.run(&stop)?)
}

/// Whether an error was caused by wrong usage.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(Failure::is_usage)
        || error.is::<TopologyError>()
        || error.is::<openflow::EncodeError>()
}

//! Measures a switch, in the role of its controller.
//!
//! A switch connects, and each [`Part`] of the measurement uses it alone, after its flows were deleted. Frames enter and
//! leave through two interfaces of this machine (`data_path`); without them only what the control channel shows is
//! measured. A part that fails gives a row with its reason instead of a figure, and the next part follows, unless the
//! switch is gone.

mod bench;
mod capacity;
mod channel;
mod clock;
mod data_path;
mod flow_mod;
mod flow_removed;
mod forwarding;
mod packet_in;
mod plot;
mod probe;
mod rates;
mod report;
pub mod row;
mod session;
mod set_up;
mod statistics;
pub mod summary;
mod trouble;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use openflow::Version;
use serde::Serialize;

use self::bench::Bench;
use self::data_path::DataPath;
use self::flow_mod::Change;
use self::packet_in::Relay;
use self::rates::Load;
use self::row::{Row, Unit};
use self::session::{Session, Terms};
use self::summary::Summary;
use self::trouble::Trouble;
use crate::tls::Server;

pub use plot::{draw, prepare};
pub use report::{Document, rows};

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Delay of forwarded frames.
    Forwarding,
    /// Delay of packets without a flow, and its parts.
    PacketIn,
    /// Delay and rate of flow set-up.
    FlowSetUp,
    /// Delay of flow-mods.
    FlowMod,
    /// Delay of flow-removed messages.
    FlowRemoved,
    /// Delay of statistics.
    Statistics,
    /// Capacity of the flow table.
    Capacity,
    /// Behaviour under flow-mods at fixed rates.
    Rates,
}

/// The parts of a measurement and their limits.
#[derive(Debug, Clone)]
pub struct Plan {
    /// TLS settings; `None` for plain TCP.
    pub tls: Option<Server>,
    /// The versions that are offered to the switch.
    pub versions: Vec<Version>,
    /// The interfaces whose frames enter and leave the switch.
    pub interfaces: Option<[String; 2]>,
    /// The parts.
    pub parts: Vec<Part>,
    /// Number of samples of the delays; of slow ones a tenth.
    pub runs: usize,
    /// Duration of an interval with a rate.
    pub interval: Duration,
    /// Flow-mods per second.
    pub rates: Vec<f64>,
    /// Rules that are installed while rates are measured.
    pub background: usize,
    /// Distance of two round trips of the established traffic.
    pub spacing: Duration,
    /// Largest number of flows that are installed.
    pub max_flows: usize,
    /// Size of a frame in bytes.
    pub frame: usize,
    /// Time limit for a switch to connect, and to answer again after a part failed.
    pub patience: Duration,
}

/// The measured switch.
#[derive(Debug, Clone, Serialize)]
pub struct SwitchReport {
    /// Datapath id.
    pub dpid: String,
    /// OpenFlow version.
    pub of: String,
    /// Its description of itself.
    pub description: String,
    /// Number of flow tables.
    pub tables: u8,
    /// Number of packets that it says it can buffer.
    pub buffers: u32,
    /// TLS version and suite; `None` for plain TCP.
    pub tls: Option<String>,
    /// Its ports behind the interfaces.
    pub ports: Option<[u32; 2]>,
}

/// How exact the figures are on this machine.
#[derive(Debug, Clone, Serialize)]
pub struct Calibration {
    /// Whether the kernel stamps received segments of the control channel.
    pub kernel_receive: bool,
    /// Whether the kernel stamps sent segments of the control channel.
    pub kernel_send: bool,
    /// Time from the call that sends a message until its last segment left, in microseconds.
    pub send_call_us: Option<Summary>,
    /// Time to read the clock, in microseconds.
    pub clock_us: f64,
    /// Stated error of a delay between two frames of the data path, in microseconds; see `docs/ofbench.md`.
    pub data_path_error_us: f64,
    /// Stated error of a delay on the control channel, in microseconds.
    pub control_path_error_us: f64,
}

/// The result of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The switch.
    pub switch: SwitchReport,
    /// How exact the figures are.
    pub calibration: Calibration,
    /// The rows.
    pub rows: Vec<Row>,
    /// Why the measurement ended early.
    pub ended: Option<String>,
}

impl Measured {
    /// Whether each part has a figure, or does not apply.
    pub fn is_complete(&self) -> bool {
        self.ended.is_none() && !self.rows.iter().any(Row::is_failed)
    }

    /// Returns the row of this name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Waits for a switch at the listener, which does not block, and measures it. `progress` is called with the present
/// step, often.
///
/// # Errors
/// No switch completed the handshake, or an interface cannot be used. What fails later is in the result.
pub fn run(
    listener: &TcpListener,
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Measured> {
    let run = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    let data = match &plan.interfaces {
        Some([first, second]) => Some(DataPath::open([first, second], run, plan.frame)?),
        None => None,
    };
    progress("waiting for a switch");
    let terms = Terms {
        tls: plan.tls.as_ref(),
        versions: &plan.versions,
        patience: plan.patience,
        stop: stop.clone(),
    };
    let session = Session::accept(listener, &terms, |why| {
        crate::terminal::note(format_args!("refused a connection: {why}"));
    })?;
    let mut bench = Bench::new(session, data, plan, progress);
    let calibration = calibrate(&mut bench)?;
    let mut measured =
        Measured { switch: describe(&bench), calibration, rows: Vec::new(), ended: None };
    let ports = bench.find_ports();
    match ports {
        Ok(()) => measured.switch = describe(&bench),
        Err(trouble) => {
            measured.ended = Some(trouble.to_string());
            return Ok(measured);
        }
    }
    for part in &plan.parts {
        for step in steps(*part, plan) {
            let outcome = step.measure(&mut bench).or_else(|trouble| {
                let row = Row::without_figure(step.name(), step.unit(), &trouble);
                measured.rows.push(row);
                if trouble.is_final() {
                    Err(trouble)
                } else {
                    recover(&mut bench).map(|()| Vec::new())
                }
            });
            match outcome {
                Ok(rows) => measured.rows.extend(rows),
                Err(trouble) => {
                    measured.ended = Some(trouble.to_string());
                    return Ok(measured);
                }
            }
        }
    }
    if let Err(trouble) = bench.session.delete_all() {
        measured.ended = Some(trouble.to_string());
    }
    Ok(measured)
}

/// Discards what a failed step left over: messages under way, errors, flows.
fn recover(bench: &mut Bench<'_>) -> Result<(), Trouble> {
    bench.session.barrier(bench.plan.patience)?;
    bench.session.take_errors();
    if bench.has_data_path() {
        bench.data()?.clear()?;
    }
    match bench.session.delete_all() {
        Err(trouble) if trouble.is_final() => Err(trouble),
        _ => Ok(()),
    }
}

/// A step of a part, which gives its rows together or none.
#[derive(Debug, Clone, Copy)]
enum Step {
    Forwarding,
    Relay(Relay),
    SetUpRate,
    FlowMod(Change),
    RemovedByDeletion,
    RemovedByTimeout,
    Statistics,
    Capacity,
    Baseline,
    UnderLoad(Load),
}

/// Returns the steps for whole and for buffered packets.
fn relays(installs: bool) -> [Step; 2] {
    [false, true].map(|buffered| Step::Relay(Relay { buffered, installs }))
}

fn steps(part: Part, plan: &Plan) -> Vec<Step> {
    match part {
        Part::Forwarding => vec![Step::Forwarding],
        Part::PacketIn => relays(false).to_vec(),
        Part::FlowSetUp => [&relays(true)[..], &[Step::SetUpRate]].concat(),
        Part::FlowMod => Change::ALL.map(Step::FlowMod).to_vec(),
        Part::FlowRemoved => vec![Step::RemovedByDeletion, Step::RemovedByTimeout],
        Part::Statistics => vec![Step::Statistics],
        Part::Capacity => vec![Step::Capacity],
        Part::Rates => {
            let mut steps = vec![Step::Baseline];
            for change in Change::ALL {
                for strict in [true, false] {
                    let load = |rate: &f64| Step::UnderLoad(Load { change, strict, rate: *rate });
                    steps.extend(plan.rates.iter().map(load));
                }
            }
            steps
        }
    }
}

impl Step {
    fn measure(self, bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
        bench.session.take_errors();
        match self {
            Self::Forwarding => forwarding::measure(bench),
            Self::Relay(relay) => packet_in::measure(bench, relay),
            Self::SetUpRate => set_up::measure(bench),
            Self::FlowMod(change) => flow_mod::measure(bench, change),
            Self::RemovedByDeletion => flow_removed::by_deletion(bench),
            Self::RemovedByTimeout => flow_removed::by_timeout(bench),
            Self::Statistics => statistics::measure(bench),
            Self::Capacity => capacity::measure(bench),
            Self::Baseline => rates::baseline(bench),
            Self::UnderLoad(load) => rates::under_load(bench, load),
        }
    }

    /// The unit of the row that stands for a failed step.
    fn unit(self) -> Unit {
        match self {
            Self::SetUpRate => Unit::PerSecond,
            Self::Capacity => Unit::Flows,
            _ => Unit::Us,
        }
    }

    /// The name of the row that stands for a failed step.
    fn name(self) -> String {
        match self {
            Self::Forwarding => "forwarding".into(),
            Self::Relay(relay) => relay.name(),
            Self::SetUpRate => "flow set-up rate".into(),
            Self::FlowMod(change) => format!("flow-mod, {}", change.name()),
            Self::RemovedByDeletion => "flow-removed, deletion".into(),
            Self::RemovedByTimeout => "flow-removed, hard timeout".into(),
            Self::Statistics => "statistics".into(),
            Self::Capacity => "table capacity".into(),
            Self::Baseline => "round trip, no flow-mods".into(),
            Self::UnderLoad(load) => format!("round trip, {}", load.name()),
        }
    }
}

fn describe(bench: &Bench<'_>) -> SwitchReport {
    let session = &bench.session;
    let features = session.features();
    SwitchReport {
        dpid: features.dpid.to_string(),
        of: session.version().to_string(),
        description: session.description().to_owned(),
        tables: features.n_tables,
        buffers: features.n_buffers,
        tls: session.channel().tls(),
        ports: bench.known_ports().map(|ports| ports.map(|port| port.0)),
    }
}

/// Number of echoes of the calibration.
const ECHOES: usize = 50;

/// Measures what the stamps of the control channel are worth.
fn calibrate(bench: &mut Bench<'_>) -> Result<Calibration, Trouble> {
    (bench.progress)("calibrating");
    let begin = clock::Stamp::now();
    for _ in 0..1000 {
        std::hint::black_box(clock::Stamp::now());
    }
    let clock_us = clock::Stamp::now().us_since(begin) / 1001.0;
    let mut calls = Vec::new();
    for _ in 0..ECHOES {
        let before = clock::Stamp::now();
        let sent = bench.echo_sent(64)?;
        calls.push(sent.us_since(before));
    }
    let (kernel_receive, kernel_send) = bench.session.channel().stamps();
    let send_call_us = Summary::of(&calls).filter(|_| kernel_send);
    // A segment is stamped before it passes to the driver, and its bytes travel some microseconds later on a loopback.
    // Without stamps of the kernel the scheduler of this machine decides.
    let control_path_error_us = if kernel_receive && kernel_send { 5.0 } else { 50.0 };
    let data_path_error_us = 1.0;
    Ok(Calibration {
        kernel_receive,
        kernel_send,
        send_call_us,
        clock_us,
        data_path_error_us,
        control_path_error_us,
    })
}

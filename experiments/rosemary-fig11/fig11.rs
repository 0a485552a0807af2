//! Runs apps that use more and more processor time, memory and descriptors (*Rosemary* Fig. 11): in Rosemary, where
//! each has a soft and a hard limit, and in a controller without limits.
//!
//! The chart shows the figures of `rosemary top`, in hundredths of the hard limit.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use control::operator::ProgramUsage;
use ofbench::figure::{Figure, Line, Scale};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::experiment::{Experiment, NOT_MEASURED, Verdict, finished, note};
use rosemary_tests::{os_ken, rosemary_binary};

/// Duration of each observation, and the interval between two measurements.
const TIME: Duration = Duration::from_secs(20);
const EVERY: Duration = Duration::from_millis(250);

/// Largest ratio of a figure of `rosemary top` to the hard limit: the monitor computes rates over intervals whose ends are not exact.
const METER_ERROR: f64 = 1.1;

/// An app of `tests/apps/gluttons` and the resource that it uses.
struct Glutton {
    app: &'static str,
    limit: &'static str,
    /// The limit as in the configuration.
    limits: &'static str,
    /// The hard limit, in the unit of `rosemary top`, and as text.
    hard: f64,
    hard_text: &'static str,
    soft_text: &'static str,
    /// The unit of the table, in units of `rosemary top`.
    unit: f64,
    unit_text: &'static str,
}

const GLUTTONS: [Glutton; 3] = [
    Glutton {
        app: "spin",
        limit: "cpu",
        limits: "cpu = { soft = 0.15, hard = 0.3 }",
        hard: 300.0,
        hard_text: "30 %",
        soft_text: "15 %",
        unit: 10.0,
        unit_text: "% of a processor",
    },
    Glutton {
        app: "leak",
        limit: "memory",
        limits: "memory = { soft = \"32 MiB\", hard = \"64 MiB\" }",
        hard: 67_108_864.0,
        hard_text: "64 MiB",
        soft_text: "32 MiB",
        unit: 1_048_576.0,
        unit_text: "MiB",
    },
    Glutton {
        app: "descriptors",
        limit: "descriptors",
        limits: "descriptors = { soft = 128, hard = 256 }",
        hard: 256.0,
        hard_text: "256",
        soft_text: "128",
        unit: 1.0,
        unit_text: "descriptors",
    },
];

/// The observations of one app in Rosemary.
struct Seen {
    line: Line,
    most: f64,
    alert_at: Option<f64>,
    restarts: u64,
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/rosemary-fig11")
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rosemary-fig11", &["cc", "python3"])?;
    let program = experiment.os_ken()?;
    let lab = Lab::enter()?;
    let (seen, record) = with_rosemary(&lab)?;
    let unlimited = program.map(|program| with_os_ken(&lab, &program)).transpose()?;
    let mut text = format!(
        "| resource | soft | hard | maximum in Rosemary | alert after | restarts | maximum in os-ken {} |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        os_ken::VERSION
    );
    let mut verdict = Verdict::default();
    for (number, (glutton, seen)) in GLUTTONS.iter().zip(&seen).enumerate() {
        let alert = seen.alert_at.map_or_else(|| "never".into(), |at| format!("{at:.1} s"));
        let Glutton { unit, unit_text, soft_text, hard_text, hard, .. } = glutton;
        let is_limited = seen.most <= hard * METER_ERROR && seen.alert_at.is_some();
        verdict.require(is_limited, format_args!("{unit_text}: above the limit, or no alert"));
        let there = unlimited.as_ref().and_then(|it| it.get(number));
        let is_exceeded = there.is_none_or(|most| most > hard);
        verdict.require(is_exceeded, format_args!("{unit_text}: os-ken uses no more"));
        let there = there.map_or_else(|| NOT_MEASURED.into(), |most| format!("{:.0}", most / unit));
        writeln!(
            text,
            "| {unit_text} | {soft_text} | {hard_text} | {:.0} | {alert} | {} | {there} |",
            seen.most / unit,
            seen.restarts,
        )?;
    }
    writeln!(text, "\nThe operator's record of a hard limit: `{record}`")?;
    let marks = Vec::new();
    let lines = seen.into_iter().map(|it| it.line).collect();
    let figure = Figure {
        title: "Apps that use more and more".into(),
        x_label: "seconds".into(),
        y_label: "% of the hard limit".into(),
        scale: Scale::Linear,
        lines,
        marks,
    };
    experiment.draw("limits.svg", &figure)?;
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn with_rosemary(lab: &Lab) -> anyhow::Result<(Vec<Seen>, String)> {
    let mut config = Vec::new();
    for Glutton { app, limits, .. } in &GLUTTONS {
        let keys = format!("stage = \"observe\"\nlimits = {{ {limits} }}");
        config.push(in_c(lab, app, &format!("apps/gluttons/{app}.c"), &keys)?);
    }
    let config: Vec<&str> = config.iter().map(String::as_str).collect();
    configure(&config)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let start = Instant::now();
    let of = |glutton: &Glutton| Seen {
        line: Line { name: format!("{} of {}", glutton.limit, glutton.hard_text), points: vec![] },
        most: 0.0,
        alert_at: None,
        restarts: 0,
    };
    note(format_args!("watching Rosemary for {} s", TIME.as_secs()));
    let mut seen: Vec<Seen> = GLUTTONS.iter().map(of).collect();
    while start.elapsed() < TIME {
        let json = lab.run(&rosemary_binary().display().to_string(), &["top", "--json"])?;
        let usage: Vec<ProgramUsage> = serde_json::from_str(&json).context(json)?;
        let (at, log) = (start.elapsed().as_secs_f64(), rosemary.log());
        for (glutton, seen) in GLUTTONS.iter().zip(&mut seen) {
            let program =
                usage.iter().find(|it| it.name == glutton.app).context("the app is listed")?;
            // Between its end and its next start the app uses nothing.
            let value = program.amount(glutton.limit).and_then(|it| it.value).unwrap_or(0);
            let value = f64::from(u32::try_from(value)?);
            ensure!(value <= glutton.hard * 1.2, "{} passed its limit: {value}", glutton.app);
            seen.line.points.push((at, 100.0 * value / glutton.hard));
            seen.most = seen.most.max(value);
            seen.restarts = program.restarts;
            let alert = format!("{}: ALERT limit", glutton.app);
            if seen.alert_at.is_none() && log.contains(&alert) {
                seen.alert_at = Some(at);
            }
        }
        lab.pause(EVERY)?;
    }
    let record =
        rosemary.wait_for_log(&["app reached a hard limit", "app=\"descriptors\""], TIME)?;
    Ok((seen, record.trim().to_owned()))
}

/// Returns the maximum that the whole controller used, for each resource.
fn with_os_ken(lab: &Lab, program: &Path) -> anyhow::Result<[f64; 3]> {
    let os_ken = os_ken::start(lab, program, 6654, &[here().join("greedy.py")])?;
    note(format_args!("watching os-ken for {} s", TIME.as_secs()));
    lab.pause(Duration::from_secs(2))?; // the app is loaded meanwhile
    let (start, before) = (Instant::now(), processor_ticks(os_ken.pid())?);
    lab.pause(TIME)?;
    let ticks = processor_ticks(os_ken.pid())? - before;
    // Linux reports hundredths of a second on all machines.
    let thousandths = ticks * 10.0 / start.elapsed().as_secs_f64();
    let proc = PathBuf::from(format!("/proc/{}", os_ken.pid()));
    let status = fs::read_to_string(proc.join("status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|line| line.split_whitespace().next());
    let kib: f64 = resident.context("the process has memory")?.parse()?;
    let descriptors = u32::try_from(fs::read_dir(proc.join("fd"))?.count())?;
    Ok([thousandths, kib * 1024.0, f64::from(descriptors)])
}

/// Returns the processor time of a process, proc(5).
fn processor_ticks(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(") ").context("a name in brackets")?;
    let times = rest.split(' ').skip(11).take(2).map(str::parse::<f64>);
    Ok(times.sum::<Result<f64, _>>()?)
}

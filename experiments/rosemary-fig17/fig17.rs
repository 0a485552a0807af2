//! Runs an app that leaks memory: in Rosemary with hard limits of 1.2 GB and 64 MiB, and in a controller without
//! limits (*Rosemary* Fig. 17).

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::{Lab, Rosemary};
use ofbench::figure::{Figure, Line, Scale};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::experiment::{Experiment, Verdict, finished, note};
use rosemary_tests::{os_ken, rosemary_binary};

/// Duration of each observation, and the interval between two measurements.
const TIME: Duration = Duration::from_secs(25);
const EVERY: Duration = Duration::from_millis(100);

/// Resident pages of libraries, in MB, which the limit does not count.
const LIBRARIES_MB: f64 = 16.0;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/rosemary-fig17")
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rosemary-fig17", &["cc", "python3"])?;
    let program = experiment.os_ken()?;
    let lab = Lab::enter()?;
    let mut lines = Vec::new();
    let mut verdict = Verdict::default();
    let mut text =
        "| | maximum memory | ends of the app | record for the operator |\n| --- | ---: | ---: | --- |\n"
            .to_owned();
    for (name, bytes) in [("1.2 GB", 1_200_000_000), ("64 MiB", 64 << 20)] {
        let (line, restarts, said) = with_rosemary(&lab, name, bytes)?;
        let most = f64::from(u32::try_from(bytes / 1_000_000)?) + LIBRARIES_MB;
        verdict
            .require(maximum(&line) <= most, format_args!("more memory than the limit of {name}"));
        verdict.require(restarts > 0, format_args!("the app does not end at the limit of {name}"));
        text += &row(&line, restarts, &said);
        lines.push(line);
    }
    if let Some(program) = program {
        let line = with_os_ken(&lab, &program)?;
        text += &row(&line, 0, "nothing");
        verdict.require(maximum(&line) > 1_200.0, "the app has no more memory in os-ken");
        lines.push(line);
    }
    let figure = Figure {
        title: "An app that leaks 160 MB per second".into(),
        x_label: "seconds".into(),
        y_label: "resident memory of its process, MB".into(),
        scale: Scale::Linear,
        lines,
        marks: Vec::new(),
    };
    experiment.draw("memory.svg", &figure)?;
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the largest value of a line, in MB.
fn maximum(line: &Line) -> f64 {
    line.points.iter().map(|(_, memory)| *memory).fold(0.0, f64::max)
}

fn row(line: &Line, restarts: u64, said: &str) -> String {
    let most = maximum(line);
    format!("| {} | {most:.0} MB | {restarts} | {said} |\n", line.name)
}

/// Returns the memory of the app in its zone, the number of its restarts, and the operator's last record.
fn with_rosemary(lab: &Lab, limit: &str, bytes: u64) -> anyhow::Result<(Line, u64, String)> {
    let keys = format!("limits = {{ memory = {bytes} }}\n");
    let leak = in_c(lab, "leak", "../experiments/rosemary-fig17/leak.c", &keys)?;
    configure(&[&leak])?;
    note(format_args!("watching Rosemary with a limit of {limit} for {} s", TIME.as_secs()));
    let start = Instant::now();
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let mut points = Vec::new();
    while start.elapsed() < TIME {
        let status = rosemary.status()?;
        let pid = status.as_ref().and_then(|status| status.app("leak")?.pid);
        let memory = pid.and_then(resident).unwrap_or(0.0);
        points.push((start.elapsed().as_secs_f64(), memory));
        lab.pause(EVERY)?;
    }
    let (restarts, said) = rosemary.wait_for("it answers", TIME, |status| {
        let app = status.app("leak")?;
        Some((app.restarts, app.last_exit.clone().unwrap_or_default()))
    })?;
    Ok((Line { name: format!("Rosemary, limit {limit}"), points }, restarts, said))
}

fn with_os_ken(lab: &Lab, program: &Path) -> anyhow::Result<Line> {
    note(format_args!("watching os-ken for {} s", TIME.as_secs()));
    let start = Instant::now();
    let os_ken = os_ken::start(lab, program, 6654, &[here().join("leak.py")])?;
    let mut points = Vec::new();
    while start.elapsed() < TIME {
        let memory = resident(os_ken.pid())
            .with_context(|| format!("os-ken has ended: {}", os_ken.stderr()))?;
        points.push((start.elapsed().as_secs_f64(), memory));
        lab.pause(EVERY)?;
    }
    Ok(Line { name: format!("os-ken {}, no limit", os_ken::VERSION), points })
}

/// Returns the resident memory of a process and its descendants in MB. The app is a child of its zone's init.
fn resident(pid: u32) -> Option<f64> {
    let of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()
    };
    let all = cli::lab::processes::tree(pid);
    let kilobytes: f64 = all.iter().filter_map(|process| of(process.pid)).sum();
    (kilobytes > 0.0 || of(pid).is_some()).then_some(kilobytes * 1024.0 / 1e6)
}

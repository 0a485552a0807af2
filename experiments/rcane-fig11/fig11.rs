//! Runs CPU-bound apps in four sessions: best effort, and three that reserve 10, 20 and 30 % of a processor and join at intervals of 3 s
//! (RCANE, "The Price of Safety in an Active Network", Fig. 11), with periods of 4, 40 and 100 ms.
//!
//! The chart shows the processor time that the scheduler gave to each session (`/proc/PID/task/TID/schedstat`).

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::{Lab, Rosemary};
use control::operator::ProgramState;
use ofbench::figure::{Figure, Line, Scale};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::experiment::{Experiment, Verdict, finished, note};
use rosemary_tests::rosemary_binary;
use sys::sched::deadline;

/// The periods of the reservations.
const PERIODS_MS: [u64; 3] = [4, 40, 100];

/// The reserved shares, in percent of a processor.
const SHARES: [u64; 3] = [10, 20, 30];

/// The time between two sessions that join, and the time after the last one.
const JOIN: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(10);

/// The time between two points of the chart.
const EVERY: Duration = Duration::from_millis(250);

/// Largest deviation of a session's mean from its share, relative to the share. In one second it may be larger by a period: a second can
/// begin and end within a period, and then has up to one runtime more or less.
const TOLERANCE: f64 = 0.05;

/// The time that an app may take to start and to receive its reservation.
const SOON: Duration = Duration::from_secs(20);

/// The processor time of one app.
struct App {
    name: String,
    /// The reserved part of a processor; `None` for best effort.
    share: Option<f64>,
    tid: Option<u32>,
    /// When the reservation was held, in seconds since the beginning.
    joined: f64,
    /// Seconds since the beginning, and processor time in seconds.
    readings: Vec<(f64, f64)>,
}

impl App {
    /// Reads the processor time, if the app runs.
    fn read(&mut self, start: Instant) -> anyhow::Result<()> {
        let Some(tid) = self.tid else { return Ok(()) };
        let text = fs::read_to_string(format!("/proc/{tid}/task/{tid}/schedstat"))?;
        let at = start.elapsed().as_secs_f64();
        let ns: f64 = text.split_whitespace().next().context("schedstat")?.parse()?;
        self.readings.push((at, ns / 1e9));
        Ok(())
    }

    /// The parts of a processor that the app received between readings that are `apart` seconds or more from each other, with the times of
    /// the later ones.
    fn rates(&self, apart: f64) -> Vec<(f64, f64)> {
        let mut rates = Vec::new();
        let mut last = self.readings.first().copied();
        for &(at, used) in &self.readings {
            let Some((before, used_before)) = last else { break };
            if at - before >= apart {
                rates.push((at, (used - used_before) / (at - before)));
                last = Some((at, used));
            }
        }
        rates
    }

    /// The largest deviation from the share in a second after the reservation was held, relative to the share.
    fn deviation(&self) -> Option<f64> {
        let share = self.share?;
        let seconds = self.rates(1.0).into_iter().filter(|(at, _)| *at > self.joined + 1.5);
        seconds.map(|(_, rate)| (rate - share).abs() / share).reduce(f64::max)
    }
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rcane-fig11", &["cc"])?;
    let probe = deadline::probe().map_err(|why| {
        anyhow::anyhow!(
            "this machine reserves no processor time: {why}; `rosemary doctor` says more"
        )
    })?;
    let tick = deadline::tick().context("the system's tick")?;
    let lab = Lab::enter()?;
    let is_exact = if probe.has_high_resolution(tick) { "on" } else { "off" };
    let mut text = format!(
        "tick {} ms, HRTICK {is_exact}\n\n| period | session | share | mean | largest deviation in a second |\n\
         | ---: | --- | ---: | ---: | ---: |\n",
        tick.as_secs_f64() * 1e3
    );
    let mut verdict = Verdict::default();
    for period_ms in PERIODS_MS {
        let apps = with_period(&lab, period_ms)?;
        for app in &apps {
            row(&mut text, &mut verdict, (period_ms, app))?;
        }
        experiment.draw(&format!("shares-{period_ms}ms.svg"), &figure(period_ms, &apps))?;
    }
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn row(
    text: &mut String,
    verdict: &mut Verdict,
    (period_ms, app): (u64, &App),
) -> anyhow::Result<()> {
    let rates: Vec<f64> = app
        .rates(1.0)
        .into_iter()
        .filter(|(at, _)| *at > app.joined + 1.5)
        .map(|(_, rate)| rate)
        .collect();
    let count = u32::try_from(rates.len().max(1))?;
    let mean = rates.iter().sum::<f64>() / f64::from(count);
    let name = &app.name;
    let (share, deviation) = match (app.share, app.deviation()) {
        (Some(share), Some(deviation)) => {
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let most = TOLERANCE + period_ms as f64 / 1e3;
            let is_held = deviation <= most && (mean - share).abs() <= TOLERANCE * share;
            verdict.require(
                is_held,
                format_args!("{name} with {period_ms} ms deviates by {:.1} %", deviation * 100.0),
            );
            (format!("{:.0} %", share * 100.0), format!("{:.1} %", deviation * 100.0))
        }
        (Some(_), None) => {
            verdict.require(false, format_args!("{name} with {period_ms} ms was not measured"));
            ("-".into(), "-".into())
        }
        (None, _) => {
            verdict.require(mean > 0.0, format_args!("{name} starves with {period_ms} ms"));
            ("-".into(), "-".into())
        }
    };
    writeln!(text, "| {period_ms} ms | {name} | {share} | {:.1} % | {deviation} |", mean * 100.0)?;
    Ok(())
}

fn figure(period_ms: u64, apps: &[App]) -> Figure {
    let line = |app: &App| Line {
        name: app.name.clone(),
        points: app
            .rates(EVERY.as_secs_f64())
            .into_iter()
            .map(|(at, it)| (at, it * 100.0))
            .collect(),
    };
    Figure {
        title: format!("Four CPU-bound sessions, period {period_ms} ms"),
        x_label: "seconds".into(),
        y_label: "% of a processor".into(),
        scale: Scale::Linear,
        lines: apps.iter().map(line).collect(),
        marks: apps
            .iter()
            .filter(|app| app.share.is_some())
            .map(|app| (app.joined, format!("{} joins", app.name)))
            .collect(),
    }
}

/// Starts the sessions one after the other, and reads their processor time.
fn with_period(lab: &Lab, period_ms: u64) -> anyhow::Result<Vec<App>> {
    let processors = std::thread::available_parallelism()?.get();
    let mut config = String::new();
    for share in SHARES {
        writeln!(
            config,
            "[session.s{share}]\nruntime-us = {}\nperiod-us = {}",
            period_ms * 10 * share,
            period_ms * 1_000
        )?;
    }
    let spin = |name: &str, keys: &str| in_c(lab, name, "apps/gluttons/spin.c", keys);
    // Best effort occupies every processor, so that reserved threads have to displace it.
    for number in 0..processors {
        config += &spin(&format!("best-effort-{number}"), "stage = \"observe\"")?;
    }
    for share in SHARES {
        let keys = format!("stage = \"observe\"\nsession = \"s{share}\"");
        config += &spin(&format!("reserved-{share}"), &keys)?;
    }
    configure(&[&config])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let command = |args: &[&str]| lab.run(&rosemary_binary().display().to_string(), args);
    for share in SHARES {
        command(&["app", "stop", &format!("reserved-{share}")])?;
    }
    note(format_args!("period {period_ms} ms"));
    let mut apps = Vec::new();
    for number in 0..processors {
        apps.push(app(&mut rosemary, format!("best-effort-{number}"), None)?);
    }
    let start = Instant::now();
    for share in SHARES {
        watch(lab, &mut apps, start, JOIN)?;
        let name = format!("reserved-{share}");
        command(&["app", "start", &name])?;
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let mut joined = app(&mut rosemary, name, Some(share as f64 / 100.0))?;
        let tid = joined.tid.context("it runs")?;
        lab.wait_for("the reservation is held", SOON, |_| {
            Ok(deadline::reservation(tid).ok().flatten())
        })?;
        joined.joined = start.elapsed().as_secs_f64();
        apps.push(joined);
    }
    watch(lab, &mut apps, start, AFTER)?;
    Ok(apps)
}

/// The running app of this name.
fn app(rosemary: &mut Rosemary<'_>, name: String, share: Option<f64>) -> anyhow::Result<App> {
    let tid = rosemary.wait_for(&format!("{name} runs"), SOON, |status| {
        status.app(&name).filter(|app| app.state == ProgramState::Running)?.pid
    })?;
    Ok(App { name, share, tid: Some(tid), joined: 0.0, readings: Vec::new() })
}

/// Reads the processor time of all apps for some time.
fn watch(lab: &Lab, apps: &mut [App], start: Instant, time: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for app in apps.iter_mut() {
            app.read(start)?;
        }
        lab.pause(EVERY)?;
    }
    Ok(())
}

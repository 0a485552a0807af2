//! Draws the charts of `--plot`: throughput over time, and the distribution of latency.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use hdrhistogram::Histogram;

use super::load_kind::LoadKind;
use super::run_monitor::{RunMonitor, Sample};
use crate::args::{LoadArgs, Mode};
use crate::figure::{Figure, Line, Scale};
use crate::load::{self, Failure, FailureKind, Plan};
use crate::terminal;

const THROUGHPUT: &str = "throughput";
const LATENCY: &str = "latency";

/// Number of points of a distribution.
const POINTS: u32 = 400;

/// The runs of one controller.
pub(super) struct Measured<'a, T> {
    /// The controller's address, as on the command line.
    controller: &'a str,
    pub(super) runs: Vec<T>,
    /// The throughput samples of each run.
    samples: Vec<Vec<Sample>>,
}

impl<'a, T: LoadKind> Measured<'a, T> {
    pub(super) fn new(controller: &'a str) -> Self {
        Self { controller, runs: Vec::new(), samples: Vec::new() }
    }

    /// Runs the load once more.
    pub(super) fn run(&mut self, plan: &Plan, mut monitor: RunMonitor<'_>) -> anyhow::Result<()> {
        self.runs.push(T::run_once(plan, &mut monitor)?);
        self.samples.push(monitor.into_samples());
        Ok(())
    }
}

/// The directory of the charts, which exists and may be written.
pub(super) struct Plot {
    dir: PathBuf,
    mode: Mode,
    title: String,
}

impl Plot {
    /// Makes the directory if `--plot` names one; `None` without the option.
    ///
    /// # Errors
    /// The mode has nothing to draw, a chart of an earlier run exists and `--force` is missing, or the directory cannot
    /// be made.
    pub(super) fn prepare<T: LoadKind>(
        mode: Mode,
        args: &LoadArgs,
    ) -> anyhow::Result<Option<Self>> {
        let Some(dir) = &args.plot else { return Ok(None) };
        let usage = |text: String| Failure::new(FailureKind::Usage(text));
        if T::COUNTED.is_none() {
            let text = format!("{} has no throughput to draw: leave --plot out", mode.name());
            bail!(usage(text));
        }
        let existing = [THROUGHPUT, LATENCY]
            .map(|chart| dir.join(file(mode, chart)))
            .into_iter()
            .find(|it| it.exists());
        if let Some(path) = existing.filter(|_| !args.force) {
            let path = path.display();
            bail!(usage(format!("{path} exists: use --force to replace it, or another --plot")));
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Some(Self { dir: dir.clone(), mode, title: format!("ofbench {}", mode.name()) }))
    }

    /// Draws the runs of each controller.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn draw<T: LoadKind>(&self, controllers: &[&Measured<'_, T>]) -> anyhow::Result<()> {
        let lines = |points: fn(&Measured<'_, T>) -> Vec<(f64, f64)>| -> Vec<Line> {
            let named = controllers.iter().zip(["A: ", "B: "]);
            named
                .map(|(measured, which)| Line {
                    name: if controllers.len() > 1 { which } else { "" }.to_owned()
                        + measured.controller,
                    points: points(measured),
                })
                .collect()
        };
        self.write(
            THROUGHPUT,
            &Figure {
                title: format!("{}: throughput over time", self.title),
                x_label: "seconds of the intervals".into(),
                y_label: T::COUNTED.unwrap_or_default().into(),
                scale: Scale::Linear,
                lines: lines(|measured| throughput(&measured.samples)),
                marks: Vec::new(),
            },
        )?;
        let what = controllers.iter().flat_map(|it| &it.runs).find_map(T::latency);
        let Some((what, _)) = what else {
            // The chart of an earlier run would look like a result of this one.
            let path = self.dir.join(file(self.mode, LATENCY));
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("cannot remove {}", path.display()))
                }
                _ => Ok(()),
            };
        };
        self.write(
            LATENCY,
            &Figure {
                title: format!("{}: {what}", self.title),
                x_label: "microseconds".into(),
                y_label: "% of the times that are at most this long".into(),
                scale: Scale::Logarithmic,
                lines: lines(|measured| distribution(&latency(&measured.runs))),
                marks: Vec::new(),
            },
        )
    }

    fn write(&self, chart: &str, figure: &Figure) -> anyhow::Result<()> {
        let path = self.dir.join(file(self.mode, chart));
        figure.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
        terminal::note(format_args!("wrote {}", path.display()));
        Ok(())
    }
}

/// Returns the name of a chart's file. Each mode has names of its own, so that one directory can have the charts of all.
fn file(mode: Mode, chart: &str) -> String {
    match mode.name() {
        name if name == chart => format!("{chart}.svg"),
        name => format!("{name}-{chart}.svg"),
    }
}

/// Returns the latency of all runs, in nanoseconds.
fn latency<T: LoadKind>(runs: &[T]) -> Histogram<u64> {
    let mut all = load::histogram();
    for (_, times) in runs.iter().filter_map(T::latency) {
        all += times; // all have the same bounds
    }
    all
}

/// Returns the rate between samples at the time of the later one. Runs follow each other without a gap.
fn throughput(runs: &[Vec<Sample>]) -> Vec<(f64, f64)> {
    let (mut points, mut start) = (Vec::new(), 0.0);
    for samples in runs {
        for pair in samples.windows(2) {
            let [(from, before), (to, after)] = pair else { continue };
            points.push((start + to, load::rate(after.saturating_sub(*before), to - from)));
        }
        start += samples.last().map_or(0.0, |(at, _)| *at);
    }
    points
}

/// Returns the percentage of times that are at most as long as each of several times in microseconds.
fn distribution(times: &Histogram<u64>) -> Vec<(f64, f64)> {
    if times.is_empty() {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a minute of nanoseconds is below 2^52")]
    let at = |percent: f64| (times.value_at_percentile(percent) as f64 / 1000.0, percent);
    (0..=POINTS).map(|point| at(100.0 * f64::from(point) / f64::from(POINTS))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_of_runs_is_joined() {
        let runs = [vec![(0.0, 100), (0.5, 150), (1.0, 350)], vec![], vec![(0.0, 7), (0.5, 8)]];
        assert_eq!(throughput(&runs), [(0.5, 100.0), (1.0, 400.0), (1.5, 2.0)]);
    }

    #[test]
    fn distribution_rises_to_the_longest_time() {
        let mut times = load::histogram();
        assert_eq!(distribution(&times), []);
        for us in 1..=1000 {
            times.record(us * 1000).unwrap();
        }
        let points = distribution(&times);
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
        let (first, half, last) = (points[0], points[points.len() / 2], points[points.len() - 1]);
        assert!((first.0 - 1.0).abs() < 0.1 && first.1 == 0.0, "{first:?}");
        assert!((half.0 - 500.0).abs() < 2.0 && (half.1 - 50.0).abs() < 1e-9, "{half:?}");
        assert!((last.0 - 1000.0).abs() < 2.0 && (last.1 - 100.0).abs() < 1e-9, "{last:?}");
    }
}

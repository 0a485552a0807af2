//! Implements, for each kind of load, one run, its report, its charts, and the figure that compares two
//! controllers.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::run_monitor::RunMonitor;
use crate::load::flood::{self, FloodResult};
use crate::load::{self, Plan, connect, idle};
use crate::report::{
    self, ConnectReport, ConnectRun, FloodReport, IdleReport, IdleRun, LoadReport, LoadRun, Rows,
};

/// One run of a kind of load.
pub(super) trait LoadKind: Sized {
    /// The report over several runs.
    type Report: Serialize;

    /// Label of the chart of throughput; `None` if the load has no throughput.
    const COUNTED: Option<&'static str>;

    /// Runs it once.
    fn run_once(plan: &Plan, monitor: &mut RunMonitor<'_>) -> anyhow::Result<Self>;

    /// Returns what the chart of latency shows and the measured times in nanoseconds, if there are any.
    fn latency(&self) -> Option<(&'static str, Histogram<u64>)> {
        None
    }

    /// Returns the name of the compared figure, as in the report.
    fn compared_figure(plan: &Plan) -> &'static str;

    /// Returns the compared figure of each interval.
    fn figures(&self, plan: &Plan) -> Vec<f64>;

    /// Summarises several runs.
    fn report(runs: &[Self], plan: &Plan) -> Self::Report;

    /// Returns the rows of a report.
    fn rows(report: &Self::Report) -> Rows;
}

impl LoadKind for LoadRun {
    type Report = LoadReport;

    const COUNTED: Option<&'static str> = Some("answers per second");

    fn run_once(plan: &Plan, monitor: &mut RunMonitor<'_>) -> anyhow::Result<Self> {
        let measured = load::run(plan, |progress| monitor.update(progress))?;
        Ok(Self { measured, cpu: monitor.cpu()? })
    }

    fn latency(&self) -> Option<(&'static str, Histogram<u64>)> {
        let (mut latency, mut barrier) = (load::histogram(), load::histogram());
        for interval in &self.measured.intervals {
            latency += &interval.latency; // all have the same bounds
            barrier += &interval.barrier;
        }
        if latency.is_empty() {
            return (!barrier.is_empty()).then_some(("from a flow-mod to the barrier", barrier));
        }
        Some(("from packet-in to answer", latency))
    }

    fn compared_figure(plan: &Plan) -> &'static str {
        if plan.timed { "latency_us.p50" } else { "answered_per_second" }
    }

    fn figures(&self, plan: &Plan) -> Vec<f64> {
        let intervals = self.measured.intervals.iter();
        if plan.timed {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a minute of nanoseconds is below 2^52"
            )]
            return intervals.map(|i| i.latency.value_at_quantile(0.5) as f64).collect();
        }
        intervals.map(|interval| interval.answered_per_second).collect()
    }

    fn report(runs: &[Self], plan: &Plan) -> LoadReport {
        LoadReport::of(runs, plan.keep_flows)
    }

    fn rows(report: &LoadReport) -> Rows {
        report::load_rows(report)
    }
}

impl LoadKind for ConnectRun {
    type Report = ConnectReport;

    const COUNTED: Option<&'static str> = Some("handshakes per second");

    fn run_once(plan: &Plan, monitor: &mut RunMonitor<'_>) -> anyhow::Result<Self> {
        let connected = connect::run(plan, |progress| monitor.update(progress))?;
        Ok(Self { connected, cpu: monitor.cpu()? })
    }

    fn latency(&self) -> Option<(&'static str, Histogram<u64>)> {
        Some(("from connecting to settled", self.connected.times.clone()))
    }

    fn compared_figure(_: &Plan) -> &'static str {
        "handshakes_per_second"
    }

    fn figures(&self, _: &Plan) -> Vec<f64> {
        self.connected.per_second.clone()
    }

    fn report(runs: &[Self], _: &Plan) -> ConnectReport {
        ConnectReport::of(runs)
    }

    fn rows(report: &ConnectReport) -> Rows {
        report::connect_rows(report)
    }
}

impl LoadKind for IdleRun {
    type Report = IdleReport;

    const COUNTED: Option<&'static str> = None;

    fn run_once(plan: &Plan, monitor: &mut RunMonitor<'_>) -> anyhow::Result<Self> {
        let idle = idle::run(plan, |progress| monitor.update(progress))?;
        Ok(Self { idle, cpu: monitor.cpu()?, resident: monitor.resident()? })
    }

    fn compared_figure(_: &Plan) -> &'static str {
        "all_settled_seconds"
    }

    fn figures(&self, _: &Plan) -> Vec<f64> {
        vec![self.idle.all_settled.as_secs_f64()]
    }

    fn report(runs: &[Self], plan: &Plan) -> IdleReport {
        IdleReport::of(runs, plan.switches)
    }

    fn rows(report: &IdleReport) -> Rows {
        report::idle_rows(report)
    }
}

impl LoadKind for FloodResult {
    type Report = FloodReport;

    const COUNTED: Option<&'static str> = Some("answers to the flood per second");

    fn run_once(plan: &Plan, monitor: &mut RunMonitor<'_>) -> anyhow::Result<Self> {
        Ok(flood::run(plan, |progress| monitor.update(progress))?)
    }

    fn latency(&self) -> Option<(&'static str, Histogram<u64>)> {
        Some(("echo of the quiet switches beside the flood", self.beside.echo.clone()))
    }

    fn compared_figure(_: &Plan) -> &'static str {
        "beside.echo_us.p99"
    }

    fn figures(&self, _: &Plan) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a minute of nanoseconds is below 2^52")]
        let p99 = self.beside.echo.value_at_quantile(0.99) as f64;
        vec![p99]
    }

    fn report(runs: &[Self], _: &Plan) -> FloodReport {
        FloodReport::of(runs)
    }

    fn rows(report: &FloodReport) -> Rows {
        report::flood_rows(report)
    }
}

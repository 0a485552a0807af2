//! Implements, for each kind of load, one run, its report, and the figure that compares two
//! controllers.

use serde::Serialize;

use super::run_monitor::RunMonitor;
use crate::load::flood::{self, FloodResult};
use crate::load::{self, Plan, connect, idle};
use crate::report::{
    self, ConnectReport, ConnectRun, FloodReport, IdleReport, IdleRun, LoadReport, LoadRun,
};

/// One run of a kind of load.
pub(super) trait LoadKind: Sized {
    /// The report over several runs.
    type Report: Serialize;

    /// Runs it once.
    fn run_once(plan: &Plan, monitor: RunMonitor<'_>) -> anyhow::Result<Self>;

    /// Returns the name of the compared figure, as in the report.
    fn compared_figure(plan: &Plan) -> &'static str;

    /// Returns the compared figure of each interval.
    fn figures(&self, plan: &Plan) -> Vec<f64>;

    /// Summarises several runs.
    fn report(runs: &[Self], plan: &Plan) -> Self::Report;

    /// Formats a report as text.
    fn to_text(report: &Self::Report) -> String;
}

impl LoadKind for LoadRun {
    type Report = LoadReport;

    fn run_once(plan: &Plan, mut monitor: RunMonitor<'_>) -> anyhow::Result<Self> {
        let measured = load::run(plan, |progress| monitor.update(progress))?;
        Ok(Self { measured, cpu: monitor.cpu()? })
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

    fn to_text(report: &LoadReport) -> String {
        report::format_load(report)
    }
}

impl LoadKind for ConnectRun {
    type Report = ConnectReport;

    fn run_once(plan: &Plan, mut monitor: RunMonitor<'_>) -> anyhow::Result<Self> {
        let connected = connect::run(plan, |progress| monitor.update(progress))?;
        Ok(Self { connected, cpu: monitor.cpu()? })
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

    fn to_text(report: &ConnectReport) -> String {
        report::format_connect(report)
    }
}

impl LoadKind for IdleRun {
    type Report = IdleReport;

    fn run_once(plan: &Plan, mut monitor: RunMonitor<'_>) -> anyhow::Result<Self> {
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

    fn to_text(report: &IdleReport) -> String {
        report::format_idle(report)
    }
}

impl LoadKind for FloodResult {
    type Report = FloodReport;

    fn run_once(plan: &Plan, mut monitor: RunMonitor<'_>) -> anyhow::Result<Self> {
        Ok(flood::run(plan, |progress| monitor.update(progress))?)
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

    fn to_text(report: &FloodReport) -> String {
        report::format_flood(report)
    }
}

//! The kinds of load: what is done once, what is told of it, and which figures of two controllers are
//! compared.

use serde::Serialize;

use super::watch::Watch;
use crate::load::flood::{self, Flooded};
use crate::load::{self, Plan, connect, idle};
use crate::report::{self, Connections, Fairness, Handshakes, Load, Run, Sitting, Staying};

/// What came of one run of a kind of load.
pub(super) trait Outcome: Sized {
    /// What is told of several.
    type Report: Serialize;

    /// Does it.
    fn once(plan: &Plan, watch: Watch<'_>) -> anyhow::Result<Self>;

    /// The name of what is compared, as in the report.
    fn compared(plan: &Plan) -> &'static str;

    /// What is compared, of each interval.
    fn figures(&self, plan: &Plan) -> Vec<f64>;

    /// What is told of several runs.
    fn report(runs: &[Self], plan: &Plan) -> Self::Report;

    /// The same, for people.
    fn in_words(report: &Self::Report) -> String;
}

impl Outcome for Run {
    type Report = Load;

    fn once(plan: &Plan, mut watch: Watch<'_>) -> anyhow::Result<Self> {
        let measured = load::run(plan, |progress| watch.see(progress))?;
        Ok(Self { measured, cpu: watch.cpu()? })
    }

    fn compared(plan: &Plan) -> &'static str {
        if plan.timed { "latency_us.p50" } else { "answered_per_second" }
    }

    fn figures(&self, plan: &Plan) -> Vec<f64> {
        let intervals = self.measured.intervals.iter();
        if plan.timed {
            #[expect(clippy::cast_precision_loss, reason = "at most a minute, in nanoseconds")]
            return intervals.map(|i| i.latency.value_at_quantile(0.5) as f64).collect();
        }
        intervals.map(|interval| interval.answered_per_second).collect()
    }

    fn report(runs: &[Self], plan: &Plan) -> Load {
        Load::of(runs, plan.keep_flows)
    }

    fn in_words(report: &Load) -> String {
        report::of_load(report)
    }
}

impl Outcome for Handshakes {
    type Report = Connections;

    fn once(plan: &Plan, mut watch: Watch<'_>) -> anyhow::Result<Self> {
        let connected = connect::run(plan, |progress| watch.see(progress))?;
        Ok(Self { connected, cpu: watch.cpu()? })
    }

    fn compared(_: &Plan) -> &'static str {
        "handshakes_per_second"
    }

    fn figures(&self, _: &Plan) -> Vec<f64> {
        self.connected.per_second.clone()
    }

    fn report(runs: &[Self], _: &Plan) -> Connections {
        Connections::of(runs)
    }

    fn in_words(report: &Connections) -> String {
        report::of_connect(report)
    }
}

impl Outcome for Sitting {
    type Report = Staying;

    fn once(plan: &Plan, mut watch: Watch<'_>) -> anyhow::Result<Self> {
        let idle = idle::run(plan, |progress| watch.see(progress))?;
        Ok(Self { idle, cpu: watch.cpu()?, resident: watch.resident()? })
    }

    fn compared(_: &Plan) -> &'static str {
        "all_settled_seconds"
    }

    fn figures(&self, _: &Plan) -> Vec<f64> {
        vec![self.idle.all_settled.as_secs_f64()]
    }

    fn report(runs: &[Self], plan: &Plan) -> Staying {
        Staying::of(runs, plan.switches)
    }

    fn in_words(report: &Staying) -> String {
        report::of_idle(report)
    }
}

impl Outcome for Flooded {
    type Report = Fairness;

    fn once(plan: &Plan, mut watch: Watch<'_>) -> anyhow::Result<Self> {
        Ok(flood::run(plan, |progress| watch.see(progress))?)
    }

    fn compared(_: &Plan) -> &'static str {
        "beside.echo_us.p99"
    }

    fn figures(&self, _: &Plan) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "at most a minute, in nanoseconds")]
        let p99 = self.beside.echo.value_at_quantile(0.99) as f64;
        vec![p99]
    }

    fn report(runs: &[Self], _: &Plan) -> Fairness {
        Fairness::of(runs)
    }

    fn in_words(report: &Fairness) -> String {
        report::of_flood(report)
    }
}

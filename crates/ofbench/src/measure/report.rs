//! Formats the result: a JSON document, and rows for text and Markdown.

use serde::Serialize;

use super::row::{Outcome, Row, Unit};
use super::{Calibration, Measured, Plan, SwitchReport};
use crate::report::{Rows, VERSION, grouped};

/// The JSON document; see `docs/ofbench.md`.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    version: u32,
    ofbench: &'static str,
    mode: &'static str,
    setup: Setup<'a>,
    switch: &'a SwitchReport,
    calibration: &'a Calibration,
    rows: &'a [Row],
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Setup<'a> {
    interfaces: &'a Option<[String; 2]>,
    runs: usize,
    seconds: f64,
    rates: &'a [f64],
    background: usize,
    spacing_us: f64,
    max_flows: usize,
    frame: usize,
}

impl<'a> Document<'a> {
    /// Creates the document of a result.
    pub fn new(plan: &'a Plan, measured: &'a Measured) -> Self {
        Self {
            version: VERSION,
            ofbench: env!("CARGO_PKG_VERSION"),
            mode: "measure-switch",
            setup: Setup {
                interfaces: &plan.interfaces,
                runs: plan.runs,
                seconds: plan.interval.as_secs_f64(),
                rates: &plan.rates,
                background: plan.background,
                spacing_us: plan.spacing.as_secs_f64() * 1e6,
                max_flows: plan.max_flows,
                frame: plan.frame,
            },
            switch: &measured.switch,
            calibration: &measured.calibration,
            rows: &measured.rows,
            ended: measured.ended.as_deref(),
        }
    }
}

/// Returns the rows of the result for people.
pub fn rows(measured: &Measured) -> Rows {
    let (switch, calibration) = (&measured.switch, &measured.calibration);
    let transport = switch.tls.as_deref().unwrap_or("TCP");
    let mut rows = vec![
        ("switch".to_owned(), format!("{} {}", switch.dpid, switch.description)),
        ("channel".to_owned(), format!("OpenFlow {}, {transport}", switch.of)),
        ("stamps".to_owned(), describe(calibration)),
    ];
    rows.extend(measured.rows.iter().map(|row| (row.name.clone(), cell(row))));
    if let Some(why) = &measured.ended {
        rows.push(("ended early".to_owned(), why.clone()));
    }
    rows
}

fn describe(calibration: &Calibration) -> String {
    let of = |kernel| if kernel { "kernel" } else { "this program" };
    format!(
        "received by {}, sent by {}; error {} us on the data path, {} us on the channel",
        of(calibration.kernel_receive),
        of(calibration.kernel_send),
        calibration.data_path_error_us,
        calibration.control_path_error_us
    )
}

fn cell(row: &Row) -> String {
    let notes = row.notes.iter().fold(String::new(), |text, note| text + "; " + note);
    let figure = |value: f64| grouped(value, usize::from(value.abs() < 1000.0));
    match &row.outcome {
        Outcome::Failed { reason } => format!("FAILED: {reason}{notes}"),
        Outcome::Skipped { reason } => format!("not measured: {reason}{notes}"),
        Outcome::Measured(summary) if summary.count == 1 => {
            format!("{}{}{notes}", figure(summary.median), unit(row.unit))
        }
        Outcome::Measured(summary) => {
            let range = summary.median_ci95.map_or(String::new(), |[low, high]| {
                format!(" ({} to {})", figure(low), figure(high))
            });
            let mean = summary.mean_ci95.map_or(String::new(), |[low, high]| {
                format!("  mean {} ({} to {})", figure(summary.mean), figure(low), figure(high))
            });
            format!(
                "{}{range}{}{mean}  p5 {}  p95 {}  max {}{notes}",
                figure(summary.median),
                unit(row.unit),
                figure(summary.p5),
                figure(summary.p95),
                figure(summary.max)
            )
        }
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Us => " us",
        Unit::PerSecond => "/s",
        Unit::Flows => " flows",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::trouble::Trouble;

    #[test]
    fn rows_without_a_figure_say_so() {
        let failed = Row::without_figure("a", Unit::Us, &Trouble::Disconnected);
        assert_eq!(cell(&failed), "FAILED: the switch disconnected");
        let skipped = Row::without_figure("a", Unit::Us, &Trouble::NotApplicable("no".into()));
        assert_eq!(cell(&skipped), "not measured: no");
        let json = serde_json::to_value(&failed).unwrap();
        assert_eq!(json["status"], "failed");
        assert!(json.get("median").is_none(), "{json}");
    }

    #[test]
    fn measured_rows_have_intervals() {
        let samples = (1..=40).map(f64::from).collect();
        let row = Row::of("a", Unit::Us, samples).lost(2, 42);
        let text = cell(&row);
        assert!(text.starts_with("20.5 (14.0 to 27.0) us  mean 20.5 (16.9 to 24.1)"), "{text}");
        assert!(text.ends_with("; 2 of 42 frames were lost"), "{text}");
        let one = Row::of("a", Unit::Flows, vec![1234.0]);
        assert_eq!(cell(&one), "1,234 flows");
    }
}

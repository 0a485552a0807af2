//! Draws a chart from JSON, for experiments that put results of several runs side by side.

use std::fs;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::args::ChartArgs;
use crate::box_plot::{BoxPlot, Column};
use crate::figure::{Figure, Line, Scale};
use crate::measure::summary::Summary;
use crate::terminal;

/// A chart: `boxes` or `lines`; see `docs/ofbench.md`.
#[derive(Debug, Deserialize)]
struct Chart {
    title: String,
    #[serde(default)]
    x_label: String,
    y_label: String,
    #[serde(default)]
    logarithmic: bool,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    boxes: Vec<BoxOf>,
    #[serde(default)]
    lines: Vec<LineOf>,
}

/// A box of a measured row.
#[derive(Debug, Deserialize)]
struct BoxOf {
    label: String,
    #[serde(default)]
    group: usize,
    summary: Value,
}

#[derive(Debug, Deserialize)]
struct LineOf {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Runs `ofbench chart`.
///
/// # Errors
/// The description is invalid, or the chart cannot be written.
pub fn run(args: &ChartArgs) -> anyhow::Result<()> {
    let text = fs::read_to_string(&args.description)
        .with_context(|| format!("cannot read {}", args.description.display()))?;
    let chart: Chart = serde_json::from_str(&text)
        .with_context(|| format!("{} is no chart", args.description.display()))?;
    fs::write(&args.svg, svg(chart)?)
        .with_context(|| format!("cannot write {}", args.svg.display()))?;
    terminal::note(format_args!("wrote {}", args.svg.display()));
    Ok(())
}

fn svg(chart: Chart) -> anyhow::Result<String> {
    if chart.boxes.is_empty() == chart.lines.is_empty() {
        bail!("a chart has either boxes or lines");
    }
    if chart.boxes.is_empty() {
        let lines = chart.lines.into_iter();
        let scale = if chart.logarithmic { Scale::Logarithmic } else { Scale::Linear };
        let figure = Figure {
            title: chart.title,
            x_label: chart.x_label,
            y_label: chart.y_label,
            scale,
            lines: lines.map(|line| Line { name: line.name, points: line.points }).collect(),
            marks: Vec::new(),
        };
        return Ok(figure.svg()?);
    }
    let column = |it: BoxOf| -> anyhow::Result<Column> {
        let summary = summary(&it.summary)
            .with_context(|| format!("the box {} has no summary of a measured row", it.label))?;
        Ok(Column { label: it.label, group: it.group, summary })
    };
    let plot = BoxPlot {
        title: chart.title,
        y_label: chart.y_label,
        groups: chart.groups,
        columns: chart.boxes.into_iter().map(column).collect::<Result<_, _>>()?,
        logarithmic: chart.logarithmic,
    };
    Ok(plot.svg()?)
}

/// Reads the parts of a summary that a box shows.
fn summary(row: &Value) -> Option<Summary> {
    let number = |name: &str| row.get(name)?.as_f64();
    Some(Summary {
        p5: number("p5")?,
        p25: number("p25")?,
        median: number("median")?,
        p75: number("p75")?,
        p95: number("p95")?,
        ..Summary::of(&[number("median")?])?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str) -> anyhow::Result<String> {
        svg(serde_json::from_str(text)?)
    }

    #[test]
    fn boxes_and_lines_are_drawn() {
        let row = serde_json::to_string(&Summary::of(&[1.0, 2.0, 3.0]).unwrap()).unwrap();
        let boxes = format!(
            r#"{{"title": "t", "y_label": "us", "groups": ["TCP"], "boxes": [{{"label": "DP", "summary": {row}}}]}}"#
        );
        assert!(drawn(&boxes).unwrap().contains(">DP<"));
        let lines = r#"{"title": "t", "y_label": "us", "x_label": "ms",
                        "lines": [{"name": "insert", "points": [[1, 2], [3, 4]]}]}"#;
        assert!(drawn(lines).unwrap().contains("insert"));
    }

    #[test]
    fn chart_without_figures_is_an_error() {
        assert!(drawn(r#"{"title": "t", "y_label": "us"}"#).is_err());
        let failed = r#"{"title": "t", "y_label": "us",
                         "boxes": [{"label": "DP", "summary": {"status": "failed"}}]}"#;
        let error = drawn(failed).unwrap_err().to_string();
        assert!(error.contains("DP"), "{error}");
    }
}

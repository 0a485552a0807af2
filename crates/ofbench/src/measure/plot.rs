//! Draws the charts of a result: a box plot of each part, and the distribution of each delay.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::Measured;
use super::row::{Row, Unit};
use crate::box_plot::{BoxPlot, Column};
use crate::figure::{Figure, Line, Scale};
use crate::load::{Failure, FailureKind};
use crate::terminal;

/// Lines of a chart of distributions.
const LINES: usize = 3;

/// Makes the directory of the charts and checks that it has none of an earlier run, unless they may be replaced.
///
/// # Errors
/// A chart exists, or the directory cannot be made.
pub fn prepare(dir: &Path, force: bool) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for entry in fs::read_dir(dir)?.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| {
            let is_chart = entry.path().extension().is_some_and(|end| end == "svg");
            is_chart && (name.starts_with("box-") || name.starts_with("cdf-"))
        });
        if is_ours && !force {
            let text = format!(
                "{} exists: use --force to replace it, or another --plot",
                entry.path().display()
            );
            bail!(Failure::new(FailureKind::Usage(text)));
        }
        if is_ours {
            // A chart of an earlier run would look like a result of this one.
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Draws the charts.
///
/// # Errors
/// A file cannot be written.
pub fn draw(dir: &Path, measured: &Measured) -> anyhow::Result<()> {
    for (part, rows) in parts(measured) {
        let file = part.to_lowercase().replace([' ', ','], "-");
        let columns = rows.iter().filter_map(|row| {
            let summary = row.summary()?.clone();
            Some(Column { label: short(part, &row.name).to_owned(), group: 0, summary })
        });
        let plot = BoxPlot {
            title: format!("{part}: {}", measured.switch.description),
            y_label: "us; box: 25 to 75 %, whiskers: 5 to 95 %".into(),
            groups: Vec::new(),
            columns: columns.collect(),
            logarithmic: true,
        };
        let path = dir.join(format!("box-{file}.svg"));
        plot.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
        terminal::note(format_args!("wrote {}", path.display()));
        for (number, rows) in rows.chunks(LINES).enumerate() {
            let path = dir.join(format!("cdf-{file}-{}.svg", number + 1));
            let figure = distributions(part, rows);
            figure.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
            terminal::note(format_args!("wrote {}", path.display()));
        }
    }
    Ok(())
}

/// Returns the measured delays by the first words of their names.
fn parts(measured: &Measured) -> Vec<(&str, Vec<&Row>)> {
    let mut parts: Vec<(&str, Vec<&Row>)> = Vec::new();
    let delays = measured.rows.iter().filter(|row| row.unit == Unit::Us);
    for row in delays.filter(|row| row.summary().is_some_and(|summary| summary.count > 1)) {
        let part = row.name.split([',', ':']).next().unwrap_or(&row.name);
        match parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, rows)) => rows.push(row),
            None => parts.push((part, vec![row])),
        }
    }
    parts
}

/// Returns the rest of a name behind that of its part.
fn short<'a>(part: &str, name: &'a str) -> &'a str {
    let rest = name.strip_prefix(part).unwrap_or(name).trim_start_matches([',', ':', ' ']);
    if rest.is_empty() { name } else { rest }
}

fn distributions(part: &str, rows: &[&Row]) -> Figure {
    let line = |row: &&Row| {
        let summary = row.summary()?;
        let percents = (0..super::summary::QUANTILES).map(f64::from);
        let points = summary.quantiles.iter().copied().zip(percents).collect();
        Some(Line { name: short(part, &row.name).to_owned(), points })
    };
    Figure {
        title: format!("{part}: distribution"),
        x_label: "microseconds".into(),
        y_label: "% of the samples that are at most this long".into(),
        scale: Scale::Logarithmic,
        lines: rows.iter().filter_map(line).collect(),
        marks: Vec::new(),
    }
}

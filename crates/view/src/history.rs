//! The history as operators see it. The JSON of these types is a stable interface.

use control::history::{Metric, Nature, SeriesName};
use serde::Serialize;

use crate::client::{ClientError, History};

/// A series that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeriesLine {
    /// Its name: the subject and the metric.
    pub series: String,
    /// Its subject, such as `switch 00:00:00:00:00:00:00:01`.
    pub subject: String,
    /// The figure, such as `packet-ins`.
    pub metric: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// `level` if a value is that of a time, `count` if it is a number of events since the value before.
    pub kind: &'static str,
}

impl From<&SeriesName> for SeriesLine {
    fn from(name: &SeriesName) -> Self {
        Self {
            series: name.to_string(),
            subject: name.subject.to_string(),
            metric: name.metric.name(),
            unit: name.metric.unit(),
            kind: kind(name.metric),
        }
    }
}

fn kind(metric: Metric) -> &'static str {
    match metric.nature() {
        Nature::Level => "level",
        Nature::Count => "count",
    }
}

/// A series in a span of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// See [`SeriesLine`].
    #[serde(flatten)]
    pub line: SeriesLine,
    /// The seconds of a point.
    pub step_seconds: u64,
    /// The points, the oldest first. Times without samples have none.
    pub points: Vec<Point>,
}

/// The samples in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Its first second, since 1970.
    pub at: u64,
    /// Number of samples.
    pub samples: u64,
    /// Their minimum.
    pub min: u64,
    /// Their average.
    pub average: f64,
    /// Their maximum.
    pub max: u64,
    /// Their sum: for a count, the number of events.
    pub sum: u64,
}

impl Series {
    /// Reads a series from second `from` to before second `to`, with at most `most` points; `None` if there is no such series.
    ///
    /// # Errors
    /// The history service does not reply, or cannot read its file.
    pub fn read(
        history: &History,
        name: &SeriesName,
        (from, to): (u64, u64),
        (step, most): (u64, u64),
    ) -> Result<Option<Self>, ClientError> {
        // The first and the last point may be parts of a step.
        let least = to.saturating_sub(from).div_ceil(most.saturating_sub(2).max(1));
        let read = history.read(name, (from, to), step.max(least))?;
        Ok(read.map(|read| Self {
            line: SeriesLine::from(name),
            step_seconds: read.step,
            points: read
                .points
                .into_iter()
                .map(|(at, samples, min, max, sum)| Point {
                    at,
                    samples,
                    min,
                    average: average(sum, samples),
                    max,
                    sum,
                })
                .collect(),
        }))
    }
}

#[expect(clippy::cast_precision_loss, reason = "an average needs no more digits")]
fn average(sum: u64, samples: u64) -> f64 {
    // Thousandths are enough for people, and short in JSON.
    (sum as f64 / samples.max(1) as f64 * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use control::history::Subject;

    use super::*;

    #[test]
    fn series_names_its_unit() {
        let name = SeriesName { subject: Subject::Network, metric: Metric::PacketIns };
        let line = SeriesLine::from(&name);
        assert_eq!((line.series.as_str(), line.kind), ("network packet-ins", "count"));
        assert_eq!((average(10, 4), average(0, 0), average(2, 3)), (2.5, 0.0, 0.667));
    }
}

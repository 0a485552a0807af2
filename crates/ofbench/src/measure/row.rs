//! The result of one measurement: a figure with its spread, or the reason why there is none.

use serde::Serialize;

use super::summary::Summary;
use super::trouble::Trouble;

/// The unit of a row's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Us,
    /// Events per second.
    #[serde(rename = "per second")]
    PerSecond,
    /// Flow entries.
    #[serde(rename = "flows")]
    Flows,
}

/// A row of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the measurement.
    pub name: String,
    /// The unit of its figures.
    pub unit: Unit,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Mean difference of successive samples; `None` with fewer than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Remarks about the figure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The samples in the order in which they were taken.
    #[serde(skip)]
    pub samples: Vec<f64>,
}

/// The result of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Measured(Summary),
    /// It failed, so there is no figure.
    Failed {
        /// The cause.
        reason: String,
    },
    /// It does not apply to this switch or this setup.
    Skipped {
        /// The cause.
        reason: String,
    },
}

impl Row {
    /// Summarises samples.
    pub fn of(name: impl Into<String>, unit: Unit, samples: Vec<f64>) -> Self {
        let outcome = Summary::of(&samples).map_or_else(
            || Outcome::Failed { reason: "there is no sample".into() },
            Outcome::Measured,
        );
        Self {
            name: name.into(),
            unit,
            outcome,
            jitter: jitter(&samples),
            notes: Vec::new(),
            samples,
        }
    }

    /// Creates the row of a measurement without a figure.
    pub(super) fn without_figure(name: impl Into<String>, unit: Unit, trouble: &Trouble) -> Self {
        let reason = trouble.to_string();
        let outcome = match trouble {
            Trouble::NotApplicable(_) => Outcome::Skipped { reason },
            _ => Outcome::Failed { reason },
        };
        let (jitter, notes, samples) = (None, Vec::new(), Vec::new());
        Self { name: name.into(), unit, outcome, jitter, notes, samples }
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a note about lost frames, if there were any.
    #[must_use]
    pub fn lost(self, lost: usize, sent: usize) -> Self {
        if lost == 0 { self } else { self.note(format!("{lost} of {sent} frames were lost")) }
    }

    /// Returns the summary, if it was measured.
    pub fn summary(&self) -> Option<&Summary> {
        match &self.outcome {
            Outcome::Measured(summary) => Some(summary),
            _ => None,
        }
    }

    /// Whether it failed.
    pub fn is_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. })
    }
}

/// Computes the mean absolute difference of successive samples.
fn jitter(samples: &[f64]) -> Option<f64> {
    let differences = samples.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 samples")]
    let count = samples.len().checked_sub(1).filter(|count| *count > 0)? as f64;
    Some(differences.sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_depends_on_the_order() {
        let jitter = |samples: &[f64]| Row::of("a", Unit::Us, samples.to_vec()).jitter;
        assert_eq!(jitter(&[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(jitter(&[1.0, 3.0, 2.0]), Some(1.5));
        assert_eq!(jitter(&[1.0]), None);
        assert_eq!(jitter(&[]), None);
    }
}

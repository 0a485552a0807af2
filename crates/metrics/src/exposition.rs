//! Writes families of samples in the text format of Prometheus.

use std::fmt::{Display, Write as _};

use crate::catalogue::Metric;
use crate::histogram::Histogram;

/// The text so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Writes a family without labels.
    pub(crate) fn single(&mut self, metric: &Metric, value: Option<impl Display>) {
        self.family(metric, value.map(|value| ([], value)));
    }

    /// Writes a family: the values of its labels, and its value, for each sample. A family without samples is left out.
    pub(crate) fn family<const N: usize, V: Display>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([String; N], V)>,
    ) {
        debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(metric);
        for (values, value) in samples {
            self.text.push_str(metric.name);
            self.labels(metric.labels, &values);
            let _ = writeln!(self.text, " {value}");
        }
    }

    /// Writes a histogram without labels.
    pub(crate) fn histogram(&mut self, metric: &Metric, histogram: &Histogram) {
        self.head(metric);
        let name = metric.name;
        for (bound, count) in histogram.buckets() {
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let (sum, count) = (histogram.sum_seconds(), histogram.count());
        let _ = writeln!(self.text, "{name}_sum {sum}\n{name}_count {count}");
    }

    fn head(&mut self, metric: &Metric) {
        let Metric { name, kind, help, .. } = metric;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
    }

    fn labels(&mut self, names: &[&str], values: &[String]) {
        if names.is_empty() {
            return;
        }
        let mut separator = '{';
        for (name, value) in names.iter().zip(values) {
            self.text.push(separator);
            let _ = write!(self.text, "{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            separator = ',';
        }
        self.text.push('}');
    }
}

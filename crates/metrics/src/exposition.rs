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
            self.sample(metric, "", (metric.labels, &values), &value);
        }
    }

    /// Writes a histogram without labels.
    pub(crate) fn histogram(&mut self, metric: &Metric, histogram: &Histogram) {
        self.histograms(metric, [([], histogram.clone())]);
    }

    /// Writes a family of histograms: the values of its labels for each. A family without samples is left out.
    pub(crate) fn histograms<const N: usize>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([String; N], Histogram)>,
    ) {
        debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(metric);
        let with_bound: Vec<&str> = metric.labels.iter().copied().chain(["le"]).collect();
        for (values, histogram) in samples {
            for (bound, count) in histogram.buckets() {
                let values: Vec<String> = values.iter().cloned().chain([bound]).collect();
                self.sample(metric, "_bucket", (&with_bound, &values), &count);
            }
            let labels = (metric.labels, &values[..]);
            self.sample(metric, "_sum", labels, &histogram.sum_seconds());
            self.sample(metric, "_count", labels, &histogram.count());
        }
    }

    fn sample(
        &mut self,
        metric: &Metric,
        suffix: &str,
        (names, values): (&[&str], &[String]),
        value: &dyn Display,
    ) {
        self.text.push_str(metric.name);
        self.text.push_str(suffix);
        self.labels(names, values);
        let _ = writeln!(self.text, " {value}");
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

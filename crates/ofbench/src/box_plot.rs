//! Draws box plots as SVG: the spread of several groups of samples side by side.
//!
//! A box reaches from the 25th to the 75th percentile, with a line at the median. Its whiskers reach to the 5th and the
//! 95th percentile.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::figure::{self, Axis, BOTTOM, LEFT, RIGHT, Style, TOP};
use crate::measure::summary::Summary;

/// A box.
#[derive(Debug, Clone)]
pub struct Column {
    /// Label below it.
    pub label: String,
    /// Index of its group, which decides about its colour.
    pub group: usize,
    /// Quartiles and whiskers of the box.
    pub summary: Summary,
}

/// A chart of boxes.
#[derive(Debug, Clone)]
pub struct BoxPlot {
    /// Title.
    pub title: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// Names of the groups, at most [`MOST_STYLES`](figure::MOST_STYLES). A chart without names has a single group.
    pub groups: Vec<String>,
    /// The boxes, from left to right.
    pub columns: Vec<Column>,
    /// Whether equal ratios have equal distances on the vertical axis.
    pub logarithmic: bool,
}

impl BoxPlot {
    /// Writes the chart to a file.
    ///
    /// # Errors
    /// Like [`svg`](Self::svg), or the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.svg()?)
    }

    /// Returns the SVG text.
    ///
    /// # Errors
    /// There are more than [`MOST_STYLES`](figure::MOST_STYLES) groups, or a box is in a group without a name.
    pub fn svg(&self) -> io::Result<String> {
        let groups = self.groups.len().max(1);
        let styles = figure::styles("groups", groups)?.into_iter();
        let styles: Vec<Style> = styles.map(Style::without_dashes).collect();
        if let Some(column) = self.columns.iter().find(|column| column.group >= groups) {
            let Column { label, group, .. } = column;
            let why = format!(
                "the box {label} is in group {group}, and only {groups} groups have a name; name them all"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let axis = self.axis();
        let names = self.groups.iter().map(String::as_str);
        let mut svg =
            figure::head(&self.title, &names.zip(styles.iter().copied()).collect::<Vec<_>>());
        figure::text(&mut svg, (LEFT, TOP - 8.0), "", &self.y_label);
        for (value, words) in axis.ticks() {
            let at = axis.place(*value);
            figure::text(&mut svg, (LEFT - 6.0, at + 4.0), "text-anchor=\"end\"", words);
            figure::path(&mut svg, &format!("M{LEFT} {at:.1}H{RIGHT}"), "stroke=\"#ddd\"");
        }
        #[expect(clippy::cast_precision_loss, reason = "a chart has few boxes")]
        let width = (RIGHT - LEFT) / self.columns.len().max(1) as f64;
        let mut middle = LEFT + width / 2.0;
        for column in &self.columns {
            self.draw(&mut svg, (column, styles[column.group]), &axis, (middle, width));
            middle += width;
        }
        Ok(svg + figure::END)
    }

    fn axis(&self) -> Axis {
        let all = |of: fn(&Summary) -> f64| self.columns.iter().map(move |it| of(&it.summary));
        let most = all(|it| it.p95).fold(0.0, f64::max);
        if self.logarithmic {
            let least = all(|it| it.p5).filter(|it| *it > 0.0).fold(f64::INFINITY, f64::min);
            return Axis::logarithmic(least, most, (BOTTOM, TOP));
        }
        Axis::up_to(most, (BOTTOM, TOP))
    }

    fn draw(
        &self,
        svg: &mut String,
        (column, style): (&Column, Style),
        axis: &Axis,
        (middle, width): (f64, f64),
    ) {
        let at = |value: f64| axis.place(value).clamp(TOP, BOTTOM);
        let Summary { p5, p25, median, p75, p95, .. } = column.summary;
        let half = (width * 0.3).min(16.0);
        let stroke = format!("fill=\"none\" {} stroke-width=\"1.5\"", style.stroke());
        let (low, high) = (at(p25), at(p75));
        let mut way =
            format!("M{middle:.1} {:.1}V{low:.1}M{middle:.1} {high:.1}V{:.1}", at(p5), at(p95));
        for end in [p5, p95] {
            let _ = write!(way, "M{:.1} {:.1}h{:.1}", middle - half / 2.0, at(end), half);
        }
        let (left, size) = (middle - half, half * 2.0);
        let _ = write!(way, "M{left:.1} {low:.1}V{high:.1}h{size:.1}V{low:.1}z");
        let _ = write!(way, "M{left:.1} {:.1}h{size:.1}", at(median));
        figure::path(svg, &way, &stroke);
        // Long labels of many boxes would overlap.
        let (x, y) = (middle, BOTTOM + 14.0);
        let more = if self.columns.len() > 8 {
            format!("text-anchor=\"end\" font-size=\"10\" transform=\"rotate(-35 {x:.1} {y:.1})\"")
        } else {
            "text-anchor=\"middle\" font-size=\"11\"".to_owned()
        };
        figure::text(svg, (x, y), &more, &column.label);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plot(logarithmic: bool, groups: &[&[f64]]) -> BoxPlot {
        let column = |(group, samples): (usize, &&[f64])| Column {
            label: format!("{group} ms"),
            group,
            summary: Summary::of(samples).unwrap(),
        };
        BoxPlot {
            title: "a < b".into(),
            y_label: "us".into(),
            groups: (0..groups.len()).map(|number| format!("group {number}")).collect(),
            columns: groups.iter().enumerate().map(column).collect(),
            logarithmic,
        }
    }

    #[test]
    fn svg_has_a_box_per_group() {
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        let svg = plot(false, &[&samples, &samples]).svg().unwrap();
        assert!(
            svg.contains("a &lt; b") && svg.contains("group 1") && svg.contains(">1 ms<"),
            "{svg}"
        );
        assert_eq!(svg.matches("stroke-width=\"1.5\"").count(), 2);
        assert!(svg.contains(&format!("V{TOP:.1}")) || svg.contains("V69.8"), "{svg}");
    }

    #[test]
    fn each_group_has_its_colour() {
        let svg = plot(false, &[&[1.0][..]; figure::MOST_STYLES]).svg().unwrap();
        let boxes = svg.lines().filter(|it| it.contains("stroke-width=\"1.5\""));
        let colours: BTreeSet<&str> = boxes.map(|it| it.split("stroke=").nth(1).unwrap()).collect();
        assert_eq!(colours.len(), figure::MOST_STYLES, "{svg}");
    }

    #[test]
    fn groups_without_a_colour_or_a_name_are_refused() {
        let error = plot(false, &[&[1.0][..]; figure::MOST_STYLES + 1]).svg().unwrap_err();
        assert!(error.to_string().contains("at most 6 groups"), "{error}");
        let mut unnamed = plot(false, &[&[1.0][..]; 2]);
        unnamed.groups.pop();
        let error = unnamed.svg().unwrap_err();
        assert!(error.to_string().contains("1 ms is in group 1"), "{error}");
    }

    #[test]
    fn empty_and_zero_values_are_drawn() {
        for logarithmic in [false, true] {
            for groups in [&[][..], &[&[0.0, 0.0][..]]] {
                let svg = plot(logarithmic, groups).svg().unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}

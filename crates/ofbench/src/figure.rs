//! Draws line charts as SVG: throughput over time, and distributions of latency.
//!
//! ```text
//!  title
//!  -- first line   -- second line   -- third line
//!  -- fourth line
//!  y label
//!  100 |---------:------------      ':' is a mark
//!   50 |---------:------------
//!    0 |---------:------------
//!      0        10        20
//!              x label
//! ```

use std::fmt::Write as _;
use std::io;
use std::path::Path;

pub(crate) const WIDTH: f64 = 760.0;
pub(crate) const HEIGHT: f64 = 300.0;

/// The sides of the plot area; the axis labels are outside of it.
pub(crate) const LEFT: f64 = 90.0;
pub(crate) const RIGHT: f64 = WIDTH - 30.0;
pub(crate) const TOP: f64 = 60.0;
pub(crate) const BOTTOM: f64 = HEIGHT - 45.0;

/// Names in one row of the legend.
const LEGEND_COLUMNS: usize = 3;

/// Distance between two names of the legend in the same row.
const LEGEND_WIDTH: f64 = (RIGHT - LEFT) / 3.0;

/// Height of a row of the legend. The first one is above the plot area.
const LEGEND_HEIGHT: f64 = 16.0;

/// Maximum number of intervals between the ticks of an axis.
const INTERVALS: f64 = 5.0;

/// Maximum number of lines or groups in a chart.
pub const MOST_STYLES: usize = 6;

/// Colours of lines and groups. They are distinguishable with red-green colour blindness.
const COLOURS: [&str; MOST_STYLES] =
    ["#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7", "#000000"];

/// Dashes of lines, for print without colours. The first line is solid.
const DASHES: [&str; MOST_STYLES] = ["none", "8 3", "2 2", "8 3 2 3", "14 4", "4 4"];

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points as x and y, in the order in which they are connected. Infinite ones are left out.
    pub points: Vec<(f64, f64)>,
}

/// How x values are spread over the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances for equal differences, from 0.
    Linear,
    /// Equal distances for equal ratios. Points with an x of 0 or less are left out.
    Logarithmic,
}

/// A chart with up to [`MOST_STYLES`] lines. No value may be negative.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Title.
    pub title: String,
    /// Label of the horizontal axis, with unit.
    pub x_label: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// Scale of the horizontal axis.
    pub scale: Scale,
    /// Lines.
    pub lines: Vec<Line>,
    /// Marked x values, each with a description.
    pub marks: Vec<(f64, String)>,
}

impl Figure {
    /// Writes the chart to a file.
    ///
    /// # Errors
    /// There are more than [`MOST_STYLES`] lines, or the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.svg()?)
    }

    /// Returns the SVG text.
    ///
    /// # Errors
    /// There are more than [`MOST_STYLES`] lines.
    pub fn svg(&self) -> io::Result<String> {
        let styles = styles("lines", self.lines.len())?;
        let (x, y) = (self.x_axis(), self.y_axis());
        let names = self.lines.iter().map(|line| line.name.as_str());
        let mut svg = head(&self.title, &names.zip(styles.iter().copied()).collect::<Vec<_>>());
        text(&mut svg, (WIDTH / 2.0, HEIGHT - 8.0), "text-anchor=\"middle\"", &self.x_label);
        text(&mut svg, (LEFT, TOP - 8.0), "", &self.y_label);
        for (value, words) in &y.ticks {
            let at = y.place(*value);
            text(&mut svg, (LEFT - 6.0, at + 4.0), "text-anchor=\"end\"", words);
            path(&mut svg, &format!("M{LEFT} {at:.1}H{RIGHT}"), "stroke=\"#ddd\"");
        }
        for (value, words) in &x.ticks {
            text(&mut svg, (x.place(*value), BOTTOM + 16.0), "text-anchor=\"middle\"", words);
        }
        for (value, words) in &self.marks {
            let at = x.place(*value);
            text(&mut svg, (at + 4.0, TOP + 10.0), "fill=\"#777\"", words);
            let more = "stroke=\"#777\" stroke-dasharray=\"4 3\"";
            path(&mut svg, &format!("M{at:.1} {TOP}V{BOTTOM}"), more);
        }
        for (line, style) in self.lines.iter().zip(styles) {
            let mut way = String::new();
            for (at, value) in self.drawn(line) {
                let to = if way.is_empty() { 'M' } else { 'L' };
                let _ = write!(way, "{to}{:.1} {:.1}", x.place(at), y.place(value));
            }
            if !way.is_empty() {
                path(
                    &mut svg,
                    &way,
                    &format!("fill=\"none\" {} stroke-width=\"2\"", style.stroke()),
                );
            }
        }
        Ok(svg + END)
    }

    /// Returns the points of a line that can be drawn.
    fn drawn<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = (f64, f64)> + 'a {
        let has_place = |x: f64| self.scale == Scale::Linear || x > 0.0;
        let points = line.points.iter().copied();
        points.filter(move |(x, y)| x.is_finite() && y.is_finite() && has_place(*x))
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.lines.iter().flat_map(|line| self.drawn(line))
    }

    fn x_axis(&self) -> Axis {
        let most = self.points().map(|(x, _)| x).fold(0.0, f64::max);
        if self.scale == Scale::Logarithmic {
            let least = self.points().map(|(x, _)| x).fold(f64::INFINITY, f64::min);
            return Axis::logarithmic(least, most, (LEFT, RIGHT));
        }
        // The last point is at the right edge.
        Axis::linear(most, (LEFT, RIGHT))
    }

    fn y_axis(&self) -> Axis {
        let most = self.points().map(|(_, y)| y).fold(0.0, f64::max);
        Axis::up_to(most, (BOTTOM, TOP))
    }
}

/// Maps values to places in the picture.
pub(crate) struct Axis {
    scale: Scale,
    /// The values at both ends.
    values: (f64, f64),
    /// The places of both ends.
    places: (f64, f64),
    /// Values that are labelled, with their labels.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates an axis from 0 whose end is a tick.
    pub(crate) fn up_to(most: f64, places: (f64, f64)) -> Self {
        let step = tick_step(most);
        Self::linear((most / step).ceil().max(1.0) * step, places)
    }

    fn linear(most: f64, places: (f64, f64)) -> Self {
        let step = tick_step(most);
        let end = if most > 0.0 { most } else { step };
        let mut ticks = Vec::new();
        for number in 0..20_u8 {
            let value = f64::from(number) * step;
            // A rounding error must not remove the last tick.
            if value <= end * (1.0 + 1e-9) {
                ticks.push((value, label(value, step)));
            }
        }
        Self { scale: Scale::Linear, values: (0.0, end), places, ticks }
    }

    /// Creates an axis between the powers of ten around these values.
    pub(crate) fn logarithmic(least: f64, most: f64, places: (f64, f64)) -> Self {
        let (least, most) = if least <= most { (least, most) } else { (1.0, 1.0) };
        let from = least.log10().floor();
        let decades = (most.log10().ceil() - from).max(1.0);
        let factors: &[f64] = if decades > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let end = 10_f64.powf(from + decades);
        let mut ticks = Vec::new();
        let mut decade = 10_f64.powf(from);
        while decade <= end * 1.01 {
            let values = factors.iter().map(|factor| decade * factor);
            ticks.extend(values.filter(|it| *it <= end * 1.01).map(|it| (it, label(it, decade))));
            decade *= 10.0;
        }
        Self { scale: Scale::Logarithmic, values: (10_f64.powf(from), end), places, ticks }
    }

    /// Returns the labelled values, with their labels.
    pub(crate) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// Returns the place of a value.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let ((from, to), (first, last)) = (self.values, self.places);
        let part = match self.scale {
            Scale::Linear => (value - from) / (to - from),
            Scale::Logarithmic => (value / from).log10() / (to / from).log10(),
        };
        first + part * (last - first)
    }
}

/// Returns the distance of ticks up to `most`: 1, 2 or 5 times a power of ten.
fn tick_step(most: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let least = most / INTERVALS;
    let power = 10_f64.powf(least.log10().floor());
    // A rounding error must not select the next larger step.
    let enough = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(enough).unwrap_or(10.0) * power
}

/// Formats a value with the decimals that distinguish it from its neighbours at distance `step`, with
/// commas between thousands.
fn label(value: f64, step: f64) -> String {
    let places = (-step.log10() - 1e-9).ceil().clamp(0.0, 12.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 12")]
    let places = places as usize;
    crate::report::grouped(value, places)
}

/// How a line or a group is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: &'static str,
    /// Dashes; empty for groups, whose boxes have solid lines.
    dashes: &'static str,
}

impl Style {
    /// The style of the groups of a chart of boxes.
    pub(crate) fn without_dashes(self) -> Self {
        Self { dashes: "", ..self }
    }

    /// The attributes of a line.
    pub(crate) fn stroke(self) -> String {
        let Self { colour, dashes } = self;
        match dashes {
            "" => format!("stroke=\"{colour}\""),
            _ => format!("stroke=\"{colour}\" stroke-dasharray=\"{dashes}\""),
        }
    }
}

/// Returns a style for each of `len` lines or groups; `what` names them in the error.
///
/// # Errors
/// There are more than [`MOST_STYLES`].
pub(crate) fn styles(what: &str, len: usize) -> io::Result<Vec<Style>> {
    if len > MOST_STYLES {
        let why = format!(
            "a chart can have at most {MOST_STYLES} {what}, and this one has {len}; draw several charts"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let styles = COLOURS.into_iter().zip(DASHES);
    Ok(styles.map(|(colour, dashes)| Style { colour, dashes }).take(len).collect())
}

/// Begins a chart: its size, its background, its title, and the legend with names and styles. The rest is moved down by the
/// rows of the legend. [`END`] ends it.
pub(crate) fn head(title: &str, legend: &[(&str, Style)]) -> String {
    let more_rows = legend.len().saturating_sub(1) / LEGEND_COLUMNS;
    #[expect(clippy::cast_precision_loss, reason = "a legend has few rows")]
    let place = |number: usize| number as f64;
    let down = place(more_rows) * LEGEND_HEIGHT;
    let height = HEIGHT + down;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    text(&mut svg, (LEFT, 18.0), "font-size=\"14\" font-weight=\"bold\"", title);
    for (number, (name, style)) in legend.iter().enumerate() {
        let x = LEFT + place(number % LEGEND_COLUMNS) * LEGEND_WIDTH;
        let y = 36.0 + place(number / LEGEND_COLUMNS) * LEGEND_HEIGHT;
        let more = format!("{} stroke-width=\"3\"", style.stroke());
        path(&mut svg, &format!("M{x:.1} {:.1}h24", y - 4.0), &more);
        text(&mut svg, (x + 30.0, y), &format!("fill=\"{}\"", style.colour), name);
    }
    let _ = writeln!(svg, "<g transform=\"translate(0 {down})\">");
    svg
}

/// The end of a chart.
pub(crate) const END: &str = "</g>\n</svg>\n";

pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), more: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    // XML forbids control characters.
    let words: String = words.chars().filter(|letter| !letter.is_control()).collect();
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {more}>{words}</text>");
}

pub(crate) fn path(svg: &mut String, way: &str, more: &str) {
    let _ = writeln!(svg, "<path d=\"{way}\" {more}/>");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn figure(scale: Scale, lines: &[&[(f64, f64)]]) -> Figure {
        let line = |points: &&[(f64, f64)]| Line { name: "a line".into(), points: points.to_vec() };
        Figure {
            title: "a < b & c".into(),
            x_label: "seconds".into(),
            y_label: "MiB".into(),
            scale,
            lines: lines.iter().map(line).collect(),
            marks: vec![(5.0, "exit()".into())],
        }
    }

    /// The labels of the ticks of an axis.
    fn labels(axis: &Axis) -> String {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn svg_has_a_path_per_line_and_escaped_text() {
        let line = [(0.0, 0.0), (10.0, 80.0)];
        let svg = figure(Scale::Linear, &[&line, &line]).svg().unwrap();
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains("exit()"), "{svg}");
        assert!(svg.contains(">seconds<") && svg.contains(">MiB<"), "{svg}");
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 2);
        assert!(svg.contains("M90.0 255.0L730.0 60.0"), "{svg}");
        assert!(svg.contains("M410.0 60V255\" stroke=\"#777\""), "{svg}");
    }

    #[test]
    fn each_line_has_a_style_and_a_place_in_the_legend() {
        let line = [(0.0, 0.0), (10.0, 80.0)];
        let svg = figure(Scale::Linear, &[&line[..]; MOST_STYLES]).svg().unwrap();
        let of = |begin: &str, end: &str| -> BTreeSet<String> {
            let lines = svg.lines().filter(|it| it.contains(end));
            lines
                .map(|it| it.split(begin).nth(1).unwrap().split('"').next().unwrap().into())
                .collect()
        };
        let drawn = "stroke-width=\"2\"";
        assert_eq!(of("stroke=\"", drawn).len(), MOST_STYLES, "colours: {svg}");
        assert_eq!(of("stroke-dasharray=\"", drawn).len(), MOST_STYLES, "dashes: {svg}");
        assert_eq!(of("d=\"", "stroke-width=\"3\"").len(), MOST_STYLES, "the legend: {svg}");
        // The second row of the legend is above the rest.
        assert!(
            svg.contains("viewBox=\"0 0 760 316\"") && svg.contains("translate(0 16)"),
            "{svg}"
        );
        let one_row = figure(Scale::Linear, &[&line[..]; 3]).svg().unwrap();
        assert!(one_row.contains("viewBox=\"0 0 760 300\""), "{one_row}");
    }

    #[test]
    fn too_many_lines_are_refused() {
        let error = figure(Scale::Linear, &[&[(1.0, 1.0)][..]; MOST_STYLES + 1]).svg().unwrap_err();
        assert!(error.to_string().contains("at most 6 lines, and this one has 7"), "{error}");
    }

    #[test]
    fn ticks_are_round_numbers() {
        let ticks = |most| labels(&Axis::linear(most, (0.0, 1.0)));
        assert_eq!(ticks(100.0), "0 20 40 60 80 100");
        assert_eq!(ticks(45.03), "0 10 20 30 40");
        assert_eq!(ticks(0.3), "0.0 0.1 0.2 0.3");
        assert_eq!(ticks(1_200_000.0), "0 500,000 1,000,000");
        assert_eq!(ticks(0.0), "0 1");
        let top = figure(Scale::Linear, &[&[(1.0, 2087.0)]]).y_axis();
        assert_eq!(labels(&top), "0 500 1,000 1,500 2,000 2,500");
    }

    #[test]
    fn logarithmic_axis_spans_whole_decades() {
        let axis = figure(Scale::Logarithmic, &[&[(0.0, 0.0), (30.0, 50.0), (450.0, 100.0)]]);
        let axis = axis.x_axis();
        assert_eq!(labels(&axis), "10 20 50 100 200 500 1,000");
        assert!((axis.place(100.0) - f64::midpoint(LEFT, RIGHT)).abs() < 1e-6);
        let wide = Axis::logarithmic(0.5, 80_000.0, (0.0, 1.0));
        assert_eq!(labels(&wide), "0.1 1 10 100 1,000 10,000 100,000");
        assert_eq!(labels(&Axis::logarithmic(7.0, 7.0, (0.0, 1.0))), "1 2 5 10");
    }

    #[test]
    fn points_without_a_place_are_left_out() {
        let points = [(0.0, 1.0), (f64::NAN, 1.0), (10.0, f64::INFINITY), (10.0, 2.0)];
        let svg = figure(Scale::Logarithmic, &[&points, &[]]).svg().unwrap();
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let empty = figure(Scale::Linear, &[]).svg().unwrap();
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }
}

//! Draws measurements over time as SVG.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
/// Margins for the axis labels.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 45.0;

/// Colours that are distinguishable with red-green colour blindness.
const COLOURS: [&str; 3] = ["#0072b2", "#e69f00", "#d55e00"];

/// A line: its name, and points with time in seconds first.
#[derive(Debug, Clone)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Seconds since the start, and the value.
    pub points: Vec<(f64, f64)>,
}

/// A diagram over time.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Title.
    pub title: String,
    /// Label of the vertical axis, with unit.
    pub value: String,
    /// Lines, at most three.
    pub lines: Vec<Line>,
    /// Marked times in seconds, each with a description.
    pub marks: Vec<(f64, String)>,
}

impl Figure {
    /// Writes it to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.svg())
    }

    /// Returns the SVG text.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let end = points().map(|(at, _)| *at).fold(1.0, f64::max);
        let most = step_above(points().map(|(_, value)| *value).fold(0.0, f64::max));
        let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        let mut text = |x: f64, y: f64, more: &str, words: &str| {
            let words = words.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {more}>{words}</text>");
        };
        text(LEFT, 18.0, "font-size=\"14\" font-weight=\"bold\"", &self.title);
        text(WIDTH / 2.0, HEIGHT - 8.0, "text-anchor=\"middle\"", "seconds");
        text(LEFT, TOP - 8.0, "", &self.value);
        for part in 0..=4 {
            let value = most * f64::from(part) / 4.0;
            let seconds = end * f64::from(part) / 4.0;
            text(LEFT - 6.0, y(value) + 4.0, "text-anchor=\"end\"", &format!("{value:.0}"));
            let at = HEIGHT - BOTTOM + 16.0;
            text(x(seconds), at, "text-anchor=\"middle\"", &format!("{seconds:.0}"));
        }
        for ((number, line), column) in self.lines.iter().enumerate().zip([0.0, 215.0, 430.0]) {
            let more = format!("fill=\"{}\"", COLOURS[number % COLOURS.len()]);
            text(LEFT + column, 36.0, &more, &format!("\u{2014} {}", line.name));
        }
        for (at, what) in &self.marks {
            text(x(*at) + 4.0, TOP + 10.0, "fill=\"#777\"", what);
        }
        for part in 0..=4 {
            let value = y(most * f64::from(part) / 4.0);
            let _ =
                writeln!(svg, "<path d=\"M{LEFT} {value:.1}H{}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
        }
        for (at, _) in &self.marks {
            let (at, bottom) = (x(*at), HEIGHT - BOTTOM);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#777\" stroke-dasharray=\"4 3\"/>"
            );
        }
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let mut path = String::new();
            for (at, value) in &line.points {
                let to = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{to}{:.1} {:.1}", x(*at), y(*value));
            }
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            );
        }
        svg + "</svg>\n"
    }
}

/// Rounds up to a round number.
fn step_above(value: f64) -> f64 {
    let mut step = 1.0;
    loop {
        for factor in [1.0, 2.0, 4.0, 5.0] {
            if step * factor >= value {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_has_a_path_per_line_and_escaped_text() {
        let line = |name: &str| Line { name: name.into(), points: vec![(0.0, 0.0), (10.0, 90.0)] };
        let figure = Figure {
            title: "a < b & c".into(),
            value: "MiB".into(),
            lines: vec![line("one"), line("two")],
            marks: vec![(5.0, "exit()".into())],
        };
        let svg = figure.svg();
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains("exit()"));
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 2);
        assert!(svg.contains("M70.0 255.0L740.0 79.5"), "{svg}");
        let steps = [0.0, 3.0, 90.0, 2000.0].map(|value| format!("{}", step_above(value)));
        assert_eq!(steps, ["1", "4", "100", "2000"]);
    }
}

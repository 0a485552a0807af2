//! `rosemary stats history`: shows figures over time, which the history service keeps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::InstancePaths;
use control::history::{Metric, SeriesName, Subject};
use openflow::PortNo;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use view::client::Monitor;
use view::history::{Point, Series, SeriesLine};

use super::parse_port;
use crate::client;
use crate::logs::{Since, parse_since};
use crate::say;
use crate::switch_name::SwitchName;
use crate::table::{Table, output_width};

/// Points of a series, if the operator does not say.
const POINTS: u64 = 48;

/// Most points of a series.
const MOST_POINTS: u64 = 10_000;

/// Columns of a sparkline.
const COLUMNS: usize = 48;

const AFTER_HELP: &str = "\
The history is kept if the configuration has the table [history]; one line suffices. It has samples of the last day, minutes of 31 \
days and hours of 366 days, within the size that the configuration sets.

Without --switch, --link, --app and --program, the figures of the whole network are shown. A line is one figure: its lowest, average \
and highest value, and its course from the oldest to the newest time, scaled to the highest value; a space is a time without samples. \
For packet-ins, flow-mods, errors, drops and incidents, which are counted, TOTAL is their number. With --metric, each line is a point \
in time.

--csv prints: series,time,samples,min,average,max,sum. Times are in UTC.

Exit codes: 0 success; 1 no such series, or no history is kept, or Rosemary does not run; 2 wrong usage.";

/// Options of `rosemary stats history`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct HistoryArgs {
    /// A switch: its datapath id, or its name if it is connected
    #[arg(long, value_name = "SWITCH", group = "subject")]
    pub switch: Option<SwitchName>,
    /// A port of the switch: its number, or LOCAL
    #[arg(long, value_name = "PORT", requires = "switch", value_parser = parse_port)]
    pub port: Option<PortNo>,
    /// Both directions of the link at this port, such as 1:3 or leaf2:3
    #[arg(long, value_name = "SWITCH:PORT", group = "subject", value_parser = parse_link)]
    pub link: Option<(SwitchName, PortNo)>,
    /// An app
    #[arg(long, value_name = "APP", group = "subject")]
    pub app: Option<String>,
    /// A program of Rosemary, such as kernel, monitor or storage
    #[arg(long, value_name = "PROGRAM", group = "subject")]
    pub program: Option<String>,
    /// Only this figure, a line per point in time
    #[arg(long, value_name = "METRIC", value_parser = parse_metric)]
    pub metric: Option<Metric>,
    /// Begin at this time: 30m, 24h, 7d, or 2026-11-21T18:00:00Z
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_since)]
    pub since: Since,
    /// End at this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub until: Option<Since>,
    /// Time of a point, such as 10s, 1m or 1h [default: a 48th of the whole]
    #[arg(long, value_name = "TIME", value_parser = parse_step)]
    pub step: Option<u64>,
    /// List the names of all series
    #[arg(long, conflicts_with_all = ["subject", "metric", "csv"])]
    pub list: bool,
    /// Print JSON: a list of series with their points; with --list, a list of names
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

fn parse_link(text: &str) -> Result<(SwitchName, PortNo), String> {
    let (switch, port) =
        text.rsplit_once(':').ok_or("write the switch and its port, such as 1:3 or leaf2:3")?;
    Ok((switch.parse()?, parse_port(port)?))
}

fn parse_metric(text: &str) -> Result<Metric, String> {
    let names = || Metric::ALL.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
    text.parse().map_err(|_| format!("expected one of {}", names()))
}

fn parse_step(text: &str) -> Result<u64, String> {
    match parse_since(text) {
        Ok(Since::Ago(step)) if step.as_secs() > 0 => Ok(step.as_secs()),
        _ => Err("expected a time such as 10s, 1m or 1h".to_owned()),
    }
}

/// Queries and prints.
///
/// # Errors
/// Rosemary does not run or keeps no history, there is no such series, or the output cannot be written.
pub fn run(args: &HistoryArgs) -> anyhow::Result<()> {
    let monitor = client::connect(&args.instance)?;
    let history = monitor.history()?;
    let names = history.series()?;
    if args.list {
        return list(&names, args);
    }
    let wanted = Wanted::of(args, &monitor)?;
    let names: Vec<&SeriesName> = names
        .iter()
        .filter(|name| wanted.has(&name.subject))
        .filter(|name| args.metric.is_none_or(|it| it == name.metric))
        .collect();
    if names.is_empty() {
        bail!(
            "there is no history of {}; `rosemary stats history --list` shows all series",
            wanted.text()
        );
    }
    let (from, to) = range(args)?;
    let step = args.step.unwrap_or_else(|| ((to - from) / POINTS).max(1));
    let mut all = Vec::new();
    for name in names {
        // A series that has just lost its place is none of these any more.
        all.extend(Series::read(&history, name, (from, to), (step, MOST_POINTS))?);
    }
    if args.json {
        let json = serde_json::to_string(&all).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if args.csv {
        return say::data(csv(&all));
    }
    let width = output_width(args.wide);
    if args.metric.is_none() {
        return say::table(&overview(&all, (from, to)).format(width));
    }
    if all.iter().all(|it| it.points.is_empty()) {
        say::note("there are no samples in this time");
        return Ok(());
    }
    say::table(&points(&all).format(width))
}

fn list(names: &[SeriesName], args: &HistoryArgs) -> anyhow::Result<()> {
    let lines: Vec<SeriesLine> = names.iter().map(SeriesLine::from).collect();
    if args.json {
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    let mut by_subject: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in &lines {
        by_subject.entry(&line.subject).or_default().push(line.metric);
    }
    let mut table = Table::new(["SUBJECT", "METRICS"]).prose("METRICS");
    for (subject, metrics) in by_subject {
        table.row([subject, &metrics.join(" ")]);
    }
    say::table(&table.format(output_width(args.wide)))
}

/// The span of time in seconds since 1970.
fn range(args: &HistoryArgs) -> anyhow::Result<(u64, u64)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = |since: Since| since.nanoseconds() / 1_000_000_000;
    // The present second is not over yet.
    let (from, to) = (seconds(args.since), args.until.map_or(now + 1, seconds));
    if from >= to {
        bail!("the time ends before it begins; give --since a time before --until");
    }
    Ok((from, to))
}

/// The subjects that the operator wants.
#[derive(Debug)]
enum Wanted {
    One(Subject),
    Link(openflow::Dpid, PortNo),
}

impl Wanted {
    fn of(args: &HistoryArgs, monitor: &Monitor) -> anyhow::Result<Self> {
        if let Some((switch, port)) = &args.link {
            return Ok(Self::Link(switch.dpid(monitor)?, *port));
        }
        Ok(Self::One(match (&args.switch, &args.app, &args.program) {
            (Some(switch), ..) => {
                let dpid = switch.dpid(monitor)?;
                args.port.map_or(Subject::Switch(dpid), |port| Subject::Port(dpid, port))
            }
            (_, Some(app), _) => Subject::App(app.clone()),
            (.., Some(program)) => Subject::Program(program.clone()),
            _ => Subject::Network,
        }))
    }

    fn has(&self, subject: &Subject) -> bool {
        match (self, subject) {
            (Self::One(one), subject) => one == subject,
            (Self::Link(dpid, port), Subject::Link(from, to)) => {
                [*from, *to].contains(&(*dpid, *port))
            }
            _ => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::One(subject) => subject.to_string(),
            Self::Link(dpid, port) => format!("a link at port {port} of {dpid}"),
        }
    }
}

/// A line for each series.
fn overview(all: &[Series], range: (u64, u64)) -> Table<8> {
    let head = ["SERIES", "UNIT", "LAST", "MIN", "AVERAGE", "MAX", "TOTAL", "COURSE"];
    let mut table = Table::new(head).expendable(&["MIN", "LAST", "TOTAL", "COURSE", "UNIT"]);
    for series in all {
        let (min, max) = series.points.iter().fold((None, None), |(min, max), it| {
            (Some(min.map_or(it.min, |min: u64| min.min(it.min))), max.max(Some(it.max)))
        });
        let samples: u64 = series.points.iter().map(|it| it.samples).sum();
        let sum: u64 = series.points.iter().fold(0, |sum, it| sum.saturating_add(it.sum));
        let average = (samples > 0).then(|| sum / samples);
        let last = series.points.last().map(|it| value(series, it));
        let total = (series.line.kind == "count" && samples > 0).then_some(sum);
        let figure = |it: Option<u64>| it.map_or("-".to_owned(), |it| it.to_string());
        table.row([
            &series.line.series,
            series.line.unit,
            &figure(last),
            &figure(min),
            &figure(average),
            &figure(max),
            &figure(total),
            &course(series, range),
        ]);
    }
    table
}

/// The value of a point that a person looks at: the number of events, or the average.
fn value(series: &Series, point: &Point) -> u64 {
    if series.line.kind == "count" { point.sum } else { point.sum / point.samples.max(1) }
}

/// Draws the values of a series from the beginning to the end of the time. A column without samples is a space.
fn course(series: &Series, (from, to): (u64, u64)) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = COLUMNS as u64;
    let mut highest: [Option<u64>; COLUMNS] = [None; COLUMNS];
    for point in &series.points {
        let offset = point.at.saturating_sub(from).min(to - from - 1);
        let column = usize::try_from(offset * columns / (to - from)).unwrap_or(0);
        if let Some(column) = highest.get_mut(column) {
            *column = (*column).max(Some(value(series, point)));
        }
    }
    let top = highest.iter().flatten().copied().max().unwrap_or(0).max(1);
    let bar = |value: u64| {
        let eighth = u128::from(value) * 7 / u128::from(top);
        usize::try_from(eighth).ok().and_then(|it| BARS.get(it)).copied().unwrap_or('█')
    };
    highest.iter().map(|it| it.map_or(' ', bar)).collect()
}

/// A line for each point.
fn points(all: &[Series]) -> Table<7> {
    let head = ["SERIES", "TIME", "SAMPLES", "MIN", "AVERAGE", "MAX", "SUM"];
    let mut table = Table::new(head).expendable(&["SAMPLES", "SUM"]);
    for series in all {
        for it in &series.points {
            table.row([
                &series.line.series,
                &time(it.at),
                &it.samples.to_string(),
                &it.min.to_string(),
                &it.average.to_string(),
                &it.max.to_string(),
                &it.sum.to_string(),
            ]);
        }
    }
    table
}

fn csv(all: &[Series]) -> String {
    let mut text = "series,time,samples,min,average,max,sum\n".to_owned();
    for series in all {
        // Names of series have neither commas nor quotes, except for those of apps, which the configuration bounds.
        for it in &series.points {
            let Point { samples, min, average, max, sum, .. } = it;
            let (name, time) = (&series.line.series, time(it.at));
            let _ = writeln!(text, "{name},{time},{samples},{min},{average},{max},{sum}"); // a String takes everything
        }
    }
    text
}

fn time(at: u64) -> String {
    let time = i64::try_from(at).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| at.to_string())
}

#[cfg(test)]
mod tests {
    use openflow::Dpid;

    use super::*;

    fn series(metric: Metric, points: &[(u64, u64)]) -> Series {
        let name = SeriesName { subject: Subject::Network, metric };
        let point = |(at, value): &(u64, u64)| Point {
            at: *at,
            samples: 2,
            min: 1,
            average: 1.5,
            max: *value,
            sum: *value * 2,
        };
        Series {
            line: SeriesLine::from(&name),
            step_seconds: 60,
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn course_shows_gaps_and_heights() {
        let points = [(0, 0), (47, 7)].map(|(at, value)| (1_000 + at * 60, value));
        let drawn = course(&series(Metric::Hosts, &points), (1_000, 1_000 + 48 * 60));
        assert_eq!(drawn, format!("▁{}█", " ".repeat(46)));
        let empty = course(&series(Metric::Hosts, &[]), (0, 1));
        assert_eq!(empty, " ".repeat(48));
    }

    #[test]
    fn overview_has_a_line_per_series() {
        let all = [series(Metric::Hosts, &[(0, 4)]), series(Metric::PacketIns, &[(0, 9), (60, 1)])];
        let mut lines = overview(&all, (0, 120)).format(None).text;
        lines.retain(|it| it.is_ascii() && it != '\n' || it == '\n');
        let lines: Vec<Vec<&str>> =
            lines.lines().map(|it| it.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["network", "hosts", "hosts", "4", "1", "4", "4", "-"]);
        assert_eq!(lines[2], ["network", "packet-ins", "packet-ins", "2", "1", "5", "9", "20"]);
    }

    #[test]
    fn csv_has_a_row_per_point() {
        let text = csv(&[series(Metric::Hosts, &[(60, 4)])]);
        let expected = "series,time,samples,min,average,max,sum\n\
                        network hosts,1970-01-01T00:01:00Z,2,1,1.5,4,8\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn link_is_found_at_either_end() {
        let (here, there) = ((Dpid(1), PortNo(2)), (Dpid(3), PortNo(4)));
        for (dpid, port, is_it) in [(1, 2, true), (3, 4, true), (1, 4, false)] {
            let wanted = Wanted::Link(Dpid(dpid), PortNo(port));
            assert_eq!(wanted.has(&Subject::Link(here, there)), is_it);
            assert!(!wanted.has(&Subject::Port(here.0, here.1)));
        }
    }

    #[test]
    fn options_are_read() {
        let (switch, port) = parse_link("00:00:00:00:00:00:00:01:3").unwrap();
        assert_eq!((switch.to_string().as_str(), port.0), ("00:00:00:00:00:00:00:01", 3));
        assert!(parse_link("leaf").is_err());
        assert_eq!((parse_step("1m"), parse_step("0s").is_err()), (Ok(60), true));
        assert!(parse_metric("cpus").unwrap_err().contains("cpu, memory"));
    }
}

//! `rosemary logs`, `rosemary app logs`: what programs have logged, as the log keeps it.
//!
//! The monitor hands out a connection to the log, which is asked for page after page. To follow, it is
//! asked again twice a second: so it keeps nothing for who reads, and who reads slowly misses nothing.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use control::log::{LogFilter, LogLevel, LogLine, is_named};
use monitor::options::Place;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ask::{AskError, Log, Monitor};
use crate::say;

/// Lines that are shown where nothing is said.
const LAST: u32 = 200;

/// Between two looks for new lines.
const PERIOD: Duration = Duration::from_millis(500);

const AFTER_HELP: &str = "\
TIME is as 30s, 10m, 2h or 7d, so long ago, or as 2026-11-21T18:00:00Z. What is kept of each program \
are its newest lines; how many bytes, [log] in rosemary.toml says.

JSON: an object per line of the log, in a line of its own, with \"number\" (one more than the line's \
before it), \"time\" (nanoseconds since 1970 began), \"level\", \"program\" (\"monitor\", \"kernel\", \
\"service NAME\" or \"app NAME\"; with \" on APP\" behind the first three where they speak of an app, as these lines \
are kept by themselves) and \"text\".";

/// Which lines, and how.
#[derive(Debug, Clone, Args)]
pub struct Wanted {
    /// Go on with the lines that come, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Only lines since then, and all of them
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Since>,
    /// The last lines, so many at most [default: 200; with --since all]
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub lines: Option<u32>,
    /// Only lines at least as important
    #[arg(
        long,
        default_value = "debug",
        value_parser = PossibleValuesParser::new(LogLevel::ALL.map(LogLevel::name))
            .map(|name| LogLevel::named(&name).unwrap_or(LogLevel::Debug))
    )]
    pub level: LogLevel,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Where it runs.
    #[command(flatten)]
    pub place: Place,
}

/// The options of `rosemary logs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct LogsArgs {
    /// Programs: monitor, kernel, the name of a service or of an app, with what others say of it [default: all]
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,
    /// Which lines.
    #[command(flatten)]
    pub wanted: Wanted,
}

/// The options of `rosemary app logs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AppLogsArgs {
    /// The app
    #[arg(value_name = "NAME")]
    pub app: String,
    /// Which lines.
    #[command(flatten)]
    pub wanted: Wanted,
}

/// From when on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So long ago.
    Ago(Duration),
    /// A time, in nanoseconds since 1970 began.
    At(u64),
}

impl Since {
    /// In nanoseconds since 1970 began.
    fn nanoseconds(self) -> u64 {
        match self {
            Self::At(time) => time,
            Self::Ago(ago) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let since = now.unwrap_or_default().saturating_sub(ago);
                u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
            }
        }
    }
}

fn parse_since(text: &str) -> Result<Since, String> {
    let expected = "give a time as 30s, 10m, 2h, 7d or 2026-11-21T18:00:00Z".to_owned();
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        let nanoseconds = u64::try_from(time.unix_timestamp_nanos());
        return nanoseconds.map(Since::At).map_err(|_| expected);
    }
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let parsed = units.into_iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Since::Ago(Duration::from_secs(number.checked_mul(seconds)?)))
    });
    parsed.ok_or(expected)
}

/// Reads and prints what programs have logged.
///
/// # Errors
/// Nothing runs, or it does not answer; there is no such program; what it said cannot be written.
pub fn run(args: &LogsArgs) -> anyhow::Result<()> {
    let monitor = Monitor::connect(&args.wanted.place)?;
    let log = monitor.log()?;
    let known = log.programs()?;
    let mut programs = Vec::new();
    for name in &args.programs {
        let found: Vec<&String> = known.iter().filter(|it| is_named(it, name)).collect();
        if found.is_empty() {
            bail!("the log has nothing of {name}; it has of: {}", known.join(", "));
        }
        programs.extend(found.into_iter().cloned());
    }
    show(log, programs, &args.wanted)
}

/// Reads and prints what an app has logged.
///
/// # Errors
/// As [`run`].
pub fn run_app(args: &AppLogsArgs) -> anyhow::Result<()> {
    let monitor = Monitor::connect(&args.wanted.place)?;
    let log = monitor.log()?;
    let program = format!("app {}", args.app);
    if !log.programs()?.contains(&program) {
        let status = monitor.status()?;
        if !status.apps.iter().any(|app| app.name == args.app) {
            let names: Vec<&str> = status.apps.iter().map(|app| app.name.as_str()).collect();
            bail!(
                "there is no app {}, and the log has nothing of it; those that run: {}",
                args.app,
                names.join(", ")
            );
        }
        say::note(format_args!("the app {} has not logged anything yet", args.app));
    }
    show(log, vec![program], &args.wanted)
}

fn show(mut log: Log, programs: Vec<String>, wanted: &Wanted) -> anyhow::Result<()> {
    let since = wanted.since.map_or(0, Since::nanoseconds);
    let filter = LogFilter { programs, since, level: wanted.level };
    let last = wanted.lines.or(wanted.since.is_none().then_some(LAST));
    let mut from = match last {
        Some(count) => log.last(count, &filter)?,
        None => 0,
    };
    let mut told = false;
    loop {
        let page = match log.read(from, &filter) {
            // The log was started anew, or has much to do.
            Err(AskError::Silent { .. } | AskError::Late { .. }) if wanted.follow => {
                log = again(&wanted.place)?;
                continue;
            }
            page => page?,
        };
        print(&page.lines, wanted.json)?;
        from = page.next;
        if say::is_unread() {
            return Ok(());
        }
        if page.end {
            // Said once for each time that it begins.
            if let Some(why) = page.not_kept.as_ref().filter(|_| !told) {
                say::note(format_args!(
                    "newer lines are not here, as the log could not be kept: {why}"
                ));
            }
            told = page.not_kept.is_some();
            if !wanted.follow {
                return Ok(());
            }
            std::thread::sleep(PERIOD);
        }
    }
}

/// Connects to the log again, while Rosemary runs.
fn again(place: &Place) -> anyhow::Result<Log> {
    loop {
        std::thread::sleep(PERIOD);
        match Monitor::connect(place)?.log() {
            Err(AskError::Unavailable(_) | AskError::Late { .. }) if !say::is_unread() => {}
            log => return Ok(log?),
        }
    }
}

fn print(lines: &[LogLine], json: bool) -> anyhow::Result<()> {
    let mut text = String::new();
    for line in lines {
        if json {
            text.push_str(&serde_json::to_string(line).context("cannot write JSON")?);
        } else {
            text.push_str(&shown(line));
        }
        text.push('\n');
    }
    say::data(text)
}

/// A line for people: `2026-11-21T18:00:00.123Z  WARN app firewall: text`.
fn shown(line: &LogLine) -> String {
    let LogLine { time, level, program, text, .. } = line;
    let (seconds, millis) = (time / 1_000_000_000, time / 1_000_000 % 1_000);
    let date = OffsetDateTime::from_unix_timestamp(seconds.cast_signed()).ok();
    let date = date.and_then(|it| it.format(&Rfc3339).ok()).unwrap_or_default();
    let (date, level) = (date.trim_end_matches('Z'), level.name().to_uppercase());
    // The monitor has made it harmless when it took the line; the log's file may not be what it was.
    let (program, text) = (monitor::shown(program), monitor::shown(text));
    format!("{date}.{millis:03}Z {level:>5} {program}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_shown_with_its_time_its_level_and_whose_it_is_and_does_nothing_to_a_terminal() {
        let line = LogLine {
            number: 7,
            time: 1_795_253_043_120_456_789,
            level: LogLevel::Warn,
            program: "app firewall".into(),
            text: "\u{1b}[31m denied".into(),
        };
        let expected = "2026-11-21T09:24:03.120Z  WARN app firewall: \\u{1b}[31m denied";
        assert_eq!(shown(&line), expected);
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            r#"{"number":7,"time":1795253043120456789,"level":"warn","program":"app firewall","text":"\u001b[31m denied"}"#
        );
    }

    #[test]
    fn times_are_ago_or_dates_and_what_is_neither_is_told_what_to_give() {
        assert_eq!(parse_since("90s"), Ok(Since::Ago(Duration::from_secs(90))));
        assert_eq!(parse_since("2d"), Ok(Since::Ago(Duration::from_secs(172_800))));
        let at = parse_since("2026-11-21T09:24:03Z");
        assert_eq!(at, Ok(Since::At(1_795_253_043_000_000_000)));
        for wrong in
            ["", "5", "m", "-1s", "1w", "yesterday", "99999999999999999d", "1960-01-01T00:00:00Z"]
        {
            assert!(parse_since(wrong).unwrap_err().contains("as 30s, 10m"), "{wrong}");
        }
    }
}

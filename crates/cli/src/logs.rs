//! `rosemary logs`, `rosemary app logs`: shows log lines from the log service.
//!
//! The monitor passes a connection to the log service, from which the command reads page after
//! page. With `--follow` it polls twice a second. The service thus keeps no state per reader, and a
//! slow reader misses nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use config::instance::InstancePaths;
use control::log::{LogFilter, LogLevel, LogLine, is_named};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::client::{self, ClientError, Log};
use crate::say;

/// Default number of lines.
const DEFAULT_LINES: u32 = 200;

/// Polling interval for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

const AFTER_HELP: &str = "\
TIME is an age such as 30s, 10m, 2h or 7d, or a time such as 2026-11-21T18:00:00Z. The log keeps the \
newest lines of each program, within the quota set by [log] in rosemary.toml.

JSON: one object per log line, each on its own line, with \"number\" (consecutive), \"time\" \
(nanoseconds since the Unix epoch), \"level\", \"program\" (\"monitor\", \"kernel\", \"service NAME\" or \
\"app NAME\"; the first three with \" on APP\" appended for lines about an app, which have a quota of their \
own) and \"text\".";

/// Selection and format of lines.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Continue with new lines, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Only lines since this time, without the limit on their number
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Since>,
    /// Maximum number of last lines [default: 200; with --since all]
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub lines: Option<u32>,
    /// Only lines of at least this level
    #[arg(
        long,
        default_value = "debug",
        value_parser = PossibleValuesParser::new(LogLevel::ALL.map(LogLevel::name))
            .map(|name| LogLevel::named(&name).unwrap_or(LogLevel::Debug))
    )]
    pub level: LogLevel,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary logs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct LogsArgs {
    /// Programs: monitor, kernel, the name of a service or an app, including reports about it
    /// [default: all]
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,
    /// Selection of lines.
    #[command(flatten)]
    pub wanted: Selection,
}

/// Options of `rosemary app logs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AppLogsArgs {
    /// The app
    #[arg(value_name = "NAME")]
    pub app: String,
    /// Selection of lines.
    #[command(flatten)]
    pub wanted: Selection,
}

/// Start of the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// This long ago.
    Ago(Duration),
    /// A time in nanoseconds since the Unix epoch.
    At(u64),
}

impl Since {
    /// Converts to nanoseconds since the Unix epoch.
    pub(crate) fn nanoseconds(self) -> u64 {
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

pub(crate) fn parse_since(text: &str) -> Result<Since, String> {
    let expected = "expected a time such as 30s, 10m, 2h, 7d or 2026-11-21T18:00:00Z".to_owned();
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

/// Reads and prints log lines.
///
/// # Errors
/// Rosemary is not running or does not answer, the program is unknown, or the output cannot be
/// written.
pub fn run(args: &LogsArgs) -> anyhow::Result<()> {
    let monitor = client::connect(&args.wanted.instance)?;
    let log = monitor.log()?;
    let known = log.programs()?;
    let mut programs = Vec::new();
    for name in &args.programs {
        let found: Vec<&String> = known.iter().filter(|it| is_named(it, name)).collect();
        if found.is_empty() {
            bail!("the log has no lines of {name}; it has lines of: {}", known.join(", "));
        }
        programs.extend(found.into_iter().cloned());
    }
    show(log, programs, &args.wanted)
}

/// Reads and prints the log lines of an app.
///
/// # Errors
/// Like [`run`].
pub fn run_app(args: &AppLogsArgs) -> anyhow::Result<()> {
    let monitor = client::connect(&args.wanted.instance)?;
    let log = monitor.log()?;
    let program = format!("app {}", args.app);
    let known = log.programs()?;
    let status = monitor.status()?;
    if !known.contains(&program) {
        if !status.apps.iter().any(|app| app.name == args.app) {
            let names: Vec<&str> = status.apps.iter().map(|app| app.name.as_str()).collect();
            bail!(
                "there is no app {}, and the log has no lines of it; running apps: {}",
                args.app,
                names.join(", ")
            );
        }
        say::note(format_args!("the app {} has logged nothing yet", args.app));
    }
    // Otherwise a developer who reads only this log would not notice that messages are refused.
    let started = Since::Ago(Duration::from_secs_f64(status.monitor.uptime_seconds));
    if let Some((age, warning)) = last_warning(&log, &known, &args.app, started)? {
        say::note(format_args!(
            "Rosemary reported about {} {} s ago: {warning}; `rosemary logs {}` shows all",
            args.app,
            age.as_secs(),
            args.app
        ));
    }
    show(log, vec![program], &args.wanted)
}

/// Returns the age and the text of the last warning of other programs about an app, if there is one.
fn last_warning(
    log: &Log,
    known: &[String],
    app: &str,
    since: Since,
) -> Result<Option<(Duration, String)>, ClientError> {
    let programs: Vec<String> =
        known.iter().filter(|it| is_report_about(it, app)).cloned().collect();
    if programs.is_empty() {
        return Ok(None); // the log takes an empty list for all programs
    }
    let filter = LogFilter { programs, since: since.nanoseconds(), level: LogLevel::Warn };
    let page = log.read(log.last(1, &filter)?, &filter)?;
    let age = |time| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_nanos(time))
    };
    Ok(page.lines.last().map(|line| (age(line.time), sys::text::shown(&line.text).into_owned())))
}

/// Whether lines of `program` are reports about the app.
fn is_report_about(program: &str, app: &str) -> bool {
    program.split_once(" on ").is_some_and(|(_, about)| about == app)
}

fn show(mut log: Log, programs: Vec<String>, wanted: &Selection) -> anyhow::Result<()> {
    let since = wanted.since.map_or(0, Since::nanoseconds);
    let filter = LogFilter { programs, since, level: wanted.level };
    let last = wanted.lines.or(wanted.since.is_none().then_some(DEFAULT_LINES));
    let mut from = match last {
        Some(count) => log.last(count, &filter)?,
        None => 0,
    };
    let mut told = false;
    loop {
        let page = match log.read(from, &filter) {
            // The log service restarted, or is busy.
            Err(ClientError::NoReply { .. } | ClientError::TimedOut { .. }) if wanted.follow => {
                log = reconnect(&wanted.instance)?;
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
            // Print this once per occurrence.
            if let Some(why) = page.not_kept.as_ref().filter(|_| !told) {
                say::note(format_args!(
                    "newer lines are missing, because the log cannot store them: {why}"
                ));
            }
            told = page.not_kept.is_some();
            if !wanted.follow {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Reconnects to the log while Rosemary runs.
fn reconnect(paths: &InstancePaths) -> anyhow::Result<Log> {
    loop {
        std::thread::sleep(POLL_INTERVAL);
        match client::connect(paths)?.log() {
            Err(ClientError::Unavailable(_) | ClientError::TimedOut { .. })
                if !say::is_unread() => {}
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
            text.push_str(&format_line(line));
        }
        text.push('\n');
    }
    say::data(text)
}

/// Formats a line for people: `2026-11-21T18:00:00.123Z  WARN app firewall: text`.
fn format_line(line: &LogLine) -> String {
    let LogLine { time, level, program, text, .. } = line;
    let (seconds, millis) = (time / 1_000_000_000, time / 1_000_000 % 1_000);
    let date = OffsetDateTime::from_unix_timestamp(seconds.cast_signed()).ok();
    let date = date.and_then(|it| it.format(&Rfc3339).ok()).unwrap_or_default();
    let (date, level) = (date.trim_end_matches('Z'), level.name().to_uppercase());
    // The monitor escapes lines when it receives them, but the log's file may have been modified.
    let (program, text) = (monitor::shown(program), monitor::shown(text));
    format!("{date}.{millis:03}Z {level:>5} {program}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_prints_time_level_program_and_escapes() {
        let line = LogLine {
            number: 7,
            time: 1_795_253_043_120_456_789,
            level: LogLevel::Warn,
            program: "app firewall".into(),
            text: "\u{1b}[31m denied".into(),
        };
        let expected = "2026-11-21T09:24:03.120Z  WARN app firewall: \\u{1b}[31m denied";
        assert_eq!(format_line(&line), expected);
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            r#"{"number":7,"time":1795253043120456789,"level":"warn","program":"app firewall","text":"\u001b[31m denied"}"#
        );
    }

    #[test]
    fn reports_about_an_app_are_recognised() {
        assert!(is_report_about("kernel on tutorial", "tutorial"));
        assert!(is_report_about("service log on tutorial", "tutorial"));
        for other in ["app tutorial", "kernel", "kernel on tutorial-2", "kernel on other"] {
            assert!(!is_report_about(other, "tutorial"), "{other}");
        }
    }

    #[test]
    fn since_accepts_durations_and_dates() {
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

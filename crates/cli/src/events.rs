//! `rosemary events`: shows what happens in the network and in Rosemary, as it happens.
//!
//! The command reads the events of the HTTP interface over its Unix socket. When the stream ends, the command connects again and
//! resumes after the last event that it received.

mod describe;
mod stream;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use config::instance::InstancePaths;
use control::northbound::API_SOCKET;

use self::describe::facts;
use self::stream::{Event, Stream, StreamError};
use crate::client::{self, ConnectError};
use crate::{incidents, say};

/// The time between two attempts to connect again.
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// The kinds of events of the HTTP interface that a user can select.
const KINDS: [&str; 7] = ["switch", "topology", "hosts", "app", "program", "incident", "change"];

const AFTER_HELP: &str = "\
The kinds are: switch (connections of switches), topology (ports and links), hosts (the table of hosts has changed), app and \
program (starts, ends and restarts), incident, and change (changes that the HTTP interface has made).

The command ends with Ctrl-C, or when the reader of its output closes it. It waits while Rosemary restarts. Events of the time before are \
in `rosemary incidents` and `rosemary logs`.

JSON: one object per event, each on its own line, with \"id\" (null for the kind \"lost\"), \"kind\", \"time\" (nanoseconds since \
the Unix epoch) and \"data\", whose fields depend on the kind. The kind \"lost\" counts the events that are missing.";

/// Options of `rosemary events`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct EventsArgs {
    /// Only events of these kinds, with commas between [default: all, in text without hosts]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(KINDS))]
    kinds: Vec<String>,
    /// End after this time: 30s, 10m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The instance to query.
    #[command(flatten)]
    instance: InstancePaths,
}

/// Follows and prints.
///
/// # Errors
/// Rosemary is not running, its HTTP interface does not answer or does not admit the user, or the output cannot be written.
pub fn run(args: &EventsArgs) -> anyhow::Result<()> {
    let end = args.length.map(|length| Instant::now() + length);
    let kinds = kinds(args);
    let mut last = None;
    let mut stream = open(&socket(args)?, &kinds, last)?;
    loop {
        match stream.next(end) {
            Ok(Some(event)) => {
                print(&event, last, args.json)?;
                last = event.id.or(last);
            }
            Ok(None) => {}
            Err(error) => {
                say::note(format_args!("{error}; connecting again"));
                let Some(again) = reconnect(args, &kinds, last, end)? else { return Ok(()) };
                stream = again;
            }
        }
        if end.is_some_and(|end| end <= Instant::now()) || say::is_unread() {
            return Ok(());
        }
    }
}

fn kinds(args: &EventsArgs) -> Vec<&str> {
    let chosen: Vec<&str> = args.kinds.iter().map(String::as_str).collect();
    match (chosen.is_empty(), args.json) {
        (false, _) => chosen,
        (true, true) => KINDS.to_vec(),
        // The event says only that the table has changed, up to twice a second.
        (true, false) => KINDS.into_iter().filter(|kind| *kind != "hosts").collect(),
    }
}

/// Returns the path of the HTTP interface's socket.
fn socket(args: &EventsArgs) -> Result<PathBuf, ConnectError> {
    Ok(client::connect_in(&args.instance)?.1.join(API_SOCKET))
}

fn open(socket: &Path, kinds: &[&str], last: Option<u64>) -> anyhow::Result<Stream> {
    match Stream::open(socket, kinds, last) {
        Err(StreamError::NoSocket { path }) => bail!(
            "the HTTP interface, which has the events, does not run (no {}); set `enabled = true` in [northbound], or see \
             `rosemary status`",
            path.display()
        ),
        outcome => outcome.context("cannot follow the events"),
    }
}

/// Connects again when Rosemary and its HTTP interface run; `None` at the `end`, or when the reader of the output has closed it.
///
/// # Errors
/// Waiting is of no use: the user is not admitted, or the configuration cannot be used.
fn reconnect(
    args: &EventsArgs,
    kinds: &[&str],
    last: Option<u64>,
    end: Option<Instant>,
) -> anyhow::Result<Option<Stream>> {
    loop {
        std::thread::sleep(RETRY_PERIOD);
        if end.is_some_and(|end| end <= Instant::now()) || say::is_unread() {
            return Ok(None);
        }
        let opened = match socket(args) {
            Ok(socket) => Stream::open(&socket, kinds, last),
            Err(ConnectError::NotRunning(_) | ConnectError::Connect { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        match opened {
            Err(error @ StreamError::Refused { .. }) => return Err(error.into()),
            Err(_) => {}
            Ok(stream) => return Ok(Some(stream)),
        }
    }
}

/// Prints an event. `last` is the number of the event before.
fn print(event: &Event, last: Option<u64>, json: bool) -> anyhow::Result<()> {
    if event.kind == "hello" {
        // The numbers begin again with each process of the HTTP interface.
        if last > event.id {
            say::note("the HTTP interface has restarted; events of the time between are missing");
        }
        return Ok(());
    }
    if json {
        let json = serde_json::to_string(event).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    let time = incidents::time(event.time);
    let mut lines = String::new();
    for fact in facts(&event.kind, &event.data) {
        let _ = writeln!(lines, "{time}  {fact}"); // a String takes everything
    }
    say::data(lines)
}

fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let seconds = units.into_iter().find_map(|(unit, seconds)| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds)
    });
    // A year; later times may not exist as instants.
    seconds
        .filter(|seconds| *seconds <= 366 * 86_400)
        .map(Duration::from_secs)
        .ok_or("expected a time of at most a year, such as 30s, 10m or 2h")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(kinds: &[&str], json: bool) -> EventsArgs {
        let kinds = kinds.iter().map(|it| (*it).to_owned()).collect();
        EventsArgs { kinds, length: None, json, instance: InstancePaths::default() }
    }

    #[test]
    fn text_leaves_out_hosts_unless_selected() {
        assert!(!kinds(&args(&[], false)).contains(&"hosts"));
        assert!(kinds(&args(&[], true)).contains(&"hosts"));
        assert_eq!(kinds(&args(&["hosts"], false)), ["hosts"]);
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["", "5", "-1s", "99999999999999999h", "9999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}

//! `rosemary incidents`: shows what went wrong, why, and how Rosemary reacted.

mod remedy;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use config::instance::InstancePaths;
use control::incident::{
    self, Incident, IncidentId, MessageHeader, WorkerEvent, WorkerEventKind, WorkerEvents,
};
use openflow::{Kind, Version};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use view::apps::is_about;

use crate::client;
use crate::logs::{Since, parse_since};
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
LASTED is the time until the program ran again, `open` while it does not run. The newest 512 incidents are kept, \
also across restarts of Rosemary; a program with many incidents displaces its own first.

JSON: a list of objects, or one object for `show`, with \"version\", \"id\", \"time\" (nanoseconds since the Unix \
epoch), \"program\" (\"kind\" and \"name\"), \"cause\" (\"kind\" and its fields), \"count\", \"evidence\", \
\"reaction\" (a list of phrases), \"open\" and \"duration_ms\".";

/// Options of `rosemary incidents`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct IncidentsArgs {
    #[command(subcommand)]
    command: Option<IncidentsCommand>,
    /// Show the incident with this number and its evidence, as `show` does
    #[arg(value_name = "ID")]
    id: Option<u64>,
    /// Only incidents since this time: an age such as 10m or 2h, or a time such as 2026-11-21T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Since>,
    /// Only incidents of this app, and those of the kernel for which it is to blame
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Show the whole cause, however wide
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    output: Output,
}

/// Subcommands of `rosemary incidents`.
#[derive(Debug, Clone, Subcommand)]
enum IncidentsCommand {
    /// Show one incident with its evidence
    Show {
        /// Its number
        #[arg(value_name = "ID")]
        id: u64,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Debug, Clone, Args)]
struct Output {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The instance to query.
    #[command(flatten)]
    instance: InstancePaths,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary is not running or does not answer, there is no such incident, or the output cannot be written.
pub fn run(args: &IncidentsArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(IncidentsCommand::Show { id, output }) => show(*id, output),
        None => args.id.map_or_else(|| list(args), |id| show(id, &args.output)),
    }
}

fn list(args: &IncidentsArgs) -> anyhow::Result<()> {
    let mut incidents = client::connect(&args.output.instance)?.incidents(IncidentId(0))?;
    let since = args.since.map_or(0, Since::nanoseconds);
    let concerns = |incident: &Incident| args.app.as_ref().is_none_or(|it| is_about(incident, it));
    incidents.retain(|incident| since <= incident.time && concerns(incident));
    if args.output.json {
        let json = serde_json::to_string(&incidents).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if incidents.is_empty() {
        say::note("no incident");
        Ok(())
    } else {
        say::table(&table(&incidents).format(output_width(args.wide)))
    }
}

fn show(id: u64, output: &Output) -> anyhow::Result<()> {
    let incidents = client::connect(&output.instance)?.incidents(IncidentId(id))?;
    let Some(incident) = incidents.first().filter(|incident| incident.id.0 == id) else {
        bail!(
            "there is no incident {id}, or it was dropped for newer ones; see `rosemary incidents`"
        );
    };
    if output.json {
        let json = serde_json::to_string(incident).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else {
        say::data(details(incident))
    }
}

/// Formats one line per incident, the oldest first.
fn table(incidents: &[Incident]) -> Table<5> {
    let head = ["ID", "TIME", "PROGRAM", "CAUSE", "LASTED"];
    // A cause is worth more than a time that most incidents do not have.
    let mut table = Table::new(head).expendable(&["LASTED"]).prose("CAUSE");
    for incident in incidents {
        let cause = match incident.count {
            1 => incident.cause.to_string(),
            count => format!("{} x{count}", incident.cause),
        };
        table.row([
            &incident.id.to_string(),
            &time(incident.time),
            &incident.program.to_string(),
            &cause,
            &lasted(incident),
        ]);
    }
    table
}

/// Formats an incident with its evidence.
fn details(incident: &Incident) -> String {
    let Incident { evidence, .. } = incident;
    let mut text = String::new();
    let mut line = |head: &str, value: &str| {
        let _ = writeln!(text, "{head:<9} {value}"); // a String takes everything
    };
    line("incident", &incident.id.to_string());
    line("time", &time(incident.time));
    line("program", &incident.program.to_string());
    line("cause", &incident.cause.to_string());
    if incident.count > 1 {
        line("count", &format!("{} times before it ran again", incident.count));
    }
    line("lasted", &lasted(incident));
    if incident.program.kind == incident::Kind::Kernel {
        line("blamed", evidence.blamed.as_deref().unwrap_or("no app"));
    }
    if !evidence.called.is_empty() {
        line("called", &format!("{} (not blamed)", evidence.called.join(", ")));
    }
    for (number, fact) in evidence.facts.iter().enumerate() {
        line(if number == 0 { "evidence" } else { "" }, fact);
    }
    for (number, frame) in evidence.crash.iter().flat_map(|it| &it.backtrace).enumerate() {
        line(if number == 0 { "backtrace" } else { "" }, &frame.to_string());
    }
    let registers = evidence.crash.iter().flat_map(|it| &it.registers);
    let registers: Vec<String> = registers.map(|(name, value)| format!("{name}={value}")).collect();
    for (number, registers) in registers.chunks(4).enumerate() {
        line(if number == 0 { "registers" } else { "" }, &registers.join(" "));
    }
    for WorkerEvents { worker, events } in &evidence.recent {
        for (number, event) in events.iter().enumerate() {
            let head = format!("worker {worker}");
            line(if number == 0 { &head } else { "" }, &described(event));
        }
    }
    for (number, reaction) in incident.reaction.iter().enumerate() {
        line(if number == 0 { "reaction" } else { "" }, reaction);
    }
    line("remedy", remedy::explained(&incident.cause).1);
    text
}

/// Describes an event of a worker, with its time before the end of the kernel.
fn described(event: &WorkerEvent) -> String {
    let WorkerEvent { age_us, kind, count, app, switch, message } = event;
    let ms = Duration::from_micros(*age_us).as_secs_f64() * 1_000.0;
    let app = app.as_deref().unwrap_or("an unknown app");
    let switch = switch.as_deref().unwrap_or("an unknown switch");
    let more = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
    let message = message.map(name_of).unwrap_or_default() + &more;
    match kind {
        WorkerEventKind::Received => format!("-{ms:.1} ms  received {message} from {switch}"),
        WorkerEventKind::Sent => format!("-{ms:.1} ms  sent {message} of {app} to {switch}"),
        WorkerEventKind::Called => format!("-{ms:.1} ms  called {app}"),
    }
}

/// Describes a message by its header.
fn name_of(MessageHeader { version, message_type, size, xid }: MessageHeader) -> String {
    let kind = Version::from_wire(version).and_then(|it| Kind::from_wire(it, message_type));
    let name = kind.map_or_else(
        |_| format!("type {message_type} of version {version}"),
        |kind| kind.name().to_owned(),
    );
    format!("{name} ({size} bytes, xid {xid:#x})")
}

/// Formats a time in nanoseconds since the Unix epoch, to the second.
pub(crate) fn time(nanoseconds: u64) -> String {
    let seconds = (nanoseconds / 1_000_000_000).cast_signed();
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
    date.and_then(|it| it.format(&Rfc3339).ok()).unwrap_or_else(|| "-".into())
}

fn lasted(incident: &Incident) -> String {
    match incident.duration_ms {
        Some(ms) if ms < 1_000 => format!("{ms} ms"),
        Some(ms) => format!("{:.1} s", Duration::from_millis(ms).as_secs_f64()),
        None if incident.open => "open".into(),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use control::incident::{Cause, Crash, Evidence, FORMAT, Frame, Program};

    use super::*;

    fn incident() -> Incident {
        Incident {
            version: FORMAT,
            id: IncidentId(12),
            time: 1_795_253_043_120_456_789,
            program: Program::kernel(),
            cause: Cause::Signal { signal: 11 },
            count: 1,
            evidence: Evidence {
                facts: vec!["killed by SIGSEGV".into(), "process 7 ran 2.000 s".into()],
                blamed: Some("hub".into()),
                called: vec!["other".into()],
                crash: Some(Crash {
                    signal: "SIGSEGV".into(),
                    code: 1,
                    address: Some("0x8".into()),
                    thread: "worker 2".into(),
                    registers: [("rax", "0x0"), ("rip", "0x7f0000001139")]
                        .map(|(name, value)| (name.into(), value.into()))
                        .into(),
                    backtrace: vec![Frame {
                        address: "0x7f0000001139".into(),
                        module: Some("hub".into()),
                        offset: Some("0x1139".into()),
                        function: Some("on_batch".into()),
                        source: Some("hub.c:30".into()),
                        guess: false,
                    }],
                }),
                recent: vec![WorkerEvents {
                    worker: 2,
                    events: vec![
                        WorkerEvent {
                            age_us: 1_250,
                            kind: WorkerEventKind::Received,
                            count: 64,
                            app: None,
                            switch: Some("00:00:00:00:00:00:00:01".into()),
                            message: Some(MessageHeader {
                                version: 4,
                                message_type: 10,
                                size: 106,
                                xid: 9,
                            }),
                        },
                        WorkerEvent {
                            age_us: 1_250,
                            kind: WorkerEventKind::Called,
                            count: 0,
                            app: Some("hub".into()),
                            switch: None,
                            message: None,
                        },
                    ],
                }],
            },
            reaction: vec!["restart at once".into()],
            open: false,
            duration_ms: Some(112),
        }
    }

    #[test]
    fn table_fits_80_columns() {
        let hung = Incident {
            id: IncidentId(99_999),
            program: Program::app("learning-switch"),
            cause: Cause::Limit { limit: "memory".into() },
            duration_ms: Some(61_300),
            ..incident()
        };
        let text = table(&[incident(), hung]).text();
        let expected = "\
ID     TIME                  PROGRAM              CAUSE                   LASTED
12     2026-11-21T09:24:03Z  kernel               killed by SIGSEGV       112 ms
99999  2026-11-21T09:24:03Z  app learning-switch  above its memory limit  61.3 s
";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn long_cause_takes_the_room_of_other_columns() {
        let summary = "changer harms 00:00:00:00:00:00:00:01 with flow-mods".to_owned();
        let reported = Incident { cause: Cause::Reported { summary }, ..incident() };
        let formatted = table(&[reported]).format(Some(80));
        let line = formatted.text.lines().nth(1).unwrap();
        assert_eq!(line.chars().count(), 80, "{line}");
        assert_eq!(formatted.left_out, ["LASTED"]);
    }

    #[test]
    fn details_name_evidence_and_blame() {
        let text = details(&incident());
        for line in [
            "blamed    hub",
            "called    other (not blamed)",
            "backtrace hub+0x1139 on_batch hub.c:30",
            "registers rax=0x0 rip=0x7f0000001139",
            "worker 2  -1.2 ms  received packet_in (106 bytes, xid 0x9) and 63 more from \
             00:00:00:00:00:00:00:01",
            "          -1.2 ms  called hub",
            "reaction  restart at once",
            "remedy    Read the backtrace and the program's log; report a crash of an app to its developer. After a kill, find \
             out who sent it.",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}:\n{text}");
        }
    }

    #[test]
    fn app_option_selects_own_and_blamed() {
        let kernel = incident();
        assert!(is_about(&kernel, "hub") && !is_about(&kernel, "other"));
        let app = Incident { program: Program::app("other"), ..incident() };
        assert!(is_about(&app, "other") && is_about(&app, "hub"));
    }
}

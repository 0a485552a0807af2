//! `rosemary session`: shows the sessions, what they reserve and what holds it, and changes reservations.

use std::fmt::Write as _;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use config::instance::InstancePaths;
use control::change::Change;
use control::session::{
    CpuReservation, HeldBy, SESSION_KEYS, SessionReport, takes_size, unknown_key,
};

use crate::change::{self, ChangeArgs};
use crate::client;
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
RUNTIME and PERIOD are reserved processor time: each of the PROCESSORS receives the runtime in each period. HELD BY says what holds it for the \
members that run: `deadline` (the system, whatever other programs do), `weight` (a share among Rosemary's programs), `admission` (no session can reserve it) or `nothing`. \
`rosemary session show NAME` has the reasons, and the other resources.";

const AFTER_HELP_SET: &str = "\
A change holds until the configuration is applied again, by `rosemary reload` or the next start. One that reserves more than the machine has is \
refused and changes nothing. Sizes are bytes, or such as 64MiB.

  rosemary session set video runtime-us=3000 period-us=10000
  rosemary session set video runtime-us=0

Exit codes: 0 done; 1 refused, or Rosemary does not run; 2 wrong usage.";

/// Commands for sessions.
#[derive(Debug, Clone, Subcommand)]
pub enum SessionCommand {
    /// Show all sessions
    #[command(after_help = AFTER_HELP)]
    List(SessionListArgs),
    /// Show one session in full
    Show(SessionShowArgs),
    /// Change what is reserved for a session, until the configuration is applied again
    #[command(after_help = AFTER_HELP_SET)]
    Set(SessionSetArgs),
}

/// Options of `rosemary session list`.
#[derive(Debug, Clone, Args)]
pub struct SessionListArgs {
    /// Print JSON: a list with an object per session
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary session show`.
#[derive(Debug, Clone, Args)]
pub struct SessionShowArgs {
    /// Name of the session
    pub name: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary session set`.
#[derive(Debug, Clone, Args)]
pub struct SessionSetArgs {
    /// Name of the session
    pub name: String,
    /// Keys as in the configuration, each with its value
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = parse_value)]
    pub values: Vec<(String, u64)>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Runs a command for sessions.
///
/// # Errors
/// Rosemary does not run, the change was refused, or the output cannot be written.
pub fn run(command: &SessionCommand) -> anyhow::Result<()> {
    match command {
        SessionCommand::List(args) => list(args),
        SessionCommand::Show(args) => show(args),
        SessionCommand::Set(args) => set(args),
    }
}

fn sessions(instance: &InstancePaths) -> anyhow::Result<Vec<SessionReport>> {
    Ok(client::connect(instance)?.sessions()?)
}

fn list(args: &SessionListArgs) -> anyhow::Result<()> {
    let sessions = sessions(&args.instance)?;
    if args.json {
        let json = serde_json::to_string(&sessions).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::table(&table(&sessions).format(output_width(args.wide)))
}

fn table(sessions: &[SessionReport]) -> Table<7> {
    let head = ["SESSION", "RUNTIME", "PERIOD", "PROCESSORS", "EXTRA", "HELD BY", "MEMBERS"];
    let mut table = Table::new(head).expendable(&["EXTRA", "PROCESSORS"]).prose("MEMBERS");
    for session in sessions {
        let cpu = |of: fn(&CpuReservation) -> String| {
            session.cpu.as_ref().map_or_else(|| "-".to_owned(), of)
        };
        let extra = if session.extra == 0 { "-".to_owned() } else { session.extra.to_string() };
        let members: Vec<&str> = session.members.iter().map(|it| it.name.as_str()).collect();
        let members = if members.is_empty() { "-".to_owned() } else { members.join(", ") };
        table.row([
            &session.name,
            &cpu(|cpu| milliseconds(cpu.runtime_us)),
            &cpu(|cpu| milliseconds(cpu.period_us)),
            &cpu(|cpu| cpu.processors.to_string()),
            &extra,
            &session.held(),
            &members,
        ]);
    }
    table
}

/// Formats microseconds as milliseconds.
fn milliseconds(us: u64) -> String {
    let (whole, part) = (us / 1_000, us % 1_000);
    if part == 0 { format!("{whole} ms") } else { format!("{whole}.{part:03} ms") }
}

fn show(args: &SessionShowArgs) -> anyhow::Result<()> {
    let sessions = sessions(&args.instance)?;
    let names: Vec<&str> = sessions.iter().map(|it| it.name.as_str()).collect();
    let session = sessions.iter().find(|it| it.name == args.name).ok_or_else(|| {
        anyhow!("there is no session {:?}; the sessions are: {}", args.name, names.join(", "))
    })?;
    if args.json {
        let json = serde_json::to_string(session).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::data(text(session))
}

/// Returns the lines about one session. Writing to a String cannot fail.
fn text(session: &SessionReport) -> String {
    let mut text = format!("session {}", session.name);
    if session.adjusted {
        text.push_str(", changed since the configuration was applied");
    }
    let _ = writeln!(text, "\n{}", session.guarantee);
    if let Some(cpu) = session.cpu {
        let _ = writeln!(
            text,
            "  {} of processor time in each {}, {} virtual processors",
            milliseconds(cpu.runtime_us),
            milliseconds(cpu.period_us),
            cpu.processors
        );
    }
    if session.extra > 0 {
        let _ = writeln!(text, "  a weight of {} for what other sessions leave", session.extra);
    }
    for member in &session.members {
        let held =
            member.held.as_ref().map_or_else(String::new, |held| format!(": {}", line(held)));
        let _ = writeln!(text, "  {}{held}", member.name);
    }
    let mut table = Table::new(["RESOURCE", "RESERVED", "FREE", "OF", "ENFORCED"]);
    for it in &session.resources {
        let shown = |amount| it.resource.shown(amount);
        let enforced = if it.resource.is_enforced() { "yes" } else { "no" };
        table.row([
            it.resource.name(),
            &shown(it.reserved),
            &shown(it.free),
            &shown(it.capacity),
            enforced,
        ]);
    }
    text.push_str(&table.format(None).text);
    text
}

/// What holds the processor time of a member, as a phrase.
fn line(held: &HeldBy) -> String {
    match held {
        HeldBy::Deadline { runtime_us, period_us } => {
            let (runtime, period) = (milliseconds(*runtime_us), milliseconds(*period_us));
            format!("held by SCHED_DEADLINE, {runtime} in each {period}")
        }
        HeldBy::Weight { weight, why } => format!("held by a weight of {weight}: {why}"),
        HeldBy::Nothing { why } => format!("held by NOTHING: {why}"),
    }
}

fn set(args: &SessionSetArgs) -> anyhow::Result<()> {
    let change = Change::Session { session: args.name.clone(), values: args.values.clone() };
    let how = ChangeArgs {
        yes: false, // no program restarts
        wide: false,
        json: args.json,
        instance: args.instance.clone(),
    };
    change::make(change, &how)
}

/// Parses a key with a number, or with bytes such as `64MiB`.
fn parse_value(text: &str) -> Result<(String, u64), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    if !SESSION_KEYS.contains(&key) {
        return Err(unknown_key(key));
    }
    let is_bytes = takes_size(key);
    let amount = value.parse().ok().or_else(|| config::bytes(value).filter(|_| is_bytes));
    let expected = if is_bytes { "bytes, such as 64MiB" } else { "a number" };
    Ok((key.to_owned(), amount.ok_or_else(|| format!("{key} is {value:?}; expected {expected}"))?))
}

#[cfg(test)]
mod tests {
    use control::session::{MemberReport, Resource, ResourceReport};

    use super::*;

    fn session() -> SessionReport {
        let held = HeldBy::Weight { weight: 150, why: "no privilege".into() };
        SessionReport {
            name: "video".into(),
            extra: 70,
            cpu: Some(CpuReservation::new(2_500, 10_000)),
            adjusted: true,
            guarantee: "A share.".into(),
            members: vec![
                MemberReport { name: "a".into(), held: Some(held) },
                MemberReport { name: "b".into(), held: None },
            ],
            resources: vec![ResourceReport {
                resource: Resource::Memory,
                reserved: 64 << 20,
                free: 1 << 30,
                capacity: 8 << 30,
            }],
        }
    }

    #[test]
    fn values_are_parsed() {
        assert_eq!(parse_value("runtime-us=2000"), Ok(("runtime-us".into(), 2_000)));
        assert_eq!(parse_value("memory=64MiB"), Ok(("memory".into(), 64 << 20)));
        for (text, expected) in [
            ("memory", "KEY=VALUE"),
            ("cpu=1", "the keys are: runtime-us"),
            ("memory=x", "such as 64MiB"),
            ("descriptors=1MiB", "expected a number"),
        ] {
            let error = parse_value(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn lists_show_what_holds_a_reservation() {
        let text = table(&[session()]).format(None).text;
        assert!(
            text.contains("2.500 ms") && text.contains("weight") && text.contains("a, b"),
            "{text}"
        );
        let text = super::text(&session());
        for expected in
            ["changed since", "a weight of 70", "no privilege", "64 MiB", "8 GiB", "memory"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

//! `rosemary app start` and the like: changes a running Rosemary, and waits until the change is made.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::InstancePaths;
use config::{NAME_FORM, is_name};
use control::change::{AppVerb, Change, ChangeReport, ChangeRequest, ChangeState};
use control::log::LogLevel;

use crate::client;
use crate::config_changes::parse_seconds;
use crate::say;
use crate::table::{Table, output_width};

/// Time between two questions whether the change is made.
const INTERVAL: Duration = Duration::from_millis(50);

/// Selects the configured level.
const DEFAULT_LEVEL: &str = "default";

/// Options of the commands that change one app.
#[derive(Debug, Clone, Args)]
pub struct AppChangeArgs {
    /// Name of the app
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// How to make the change.
    #[command(flatten)]
    pub how: ChangeArgs,
}

/// Options of `rosemary app log-level`.
#[derive(Debug, Clone, Args)]
pub struct LogLevelArgs {
    /// Name of the app
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// The least severe lines that are logged; default selects the level of the configuration
    #[arg(value_parser = ["error", "warn", "info", "debug", DEFAULT_LEVEL])]
    pub level: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of all commands that change a running Rosemary.
#[derive(Debug, Clone, Args)]
pub struct ChangeArgs {
    /// Accept that the kernel restarts, as the change of an app in the kernel requires
    ///
    /// Switches disconnect and reconnect. Their flows stay, so established traffic goes on.
    #[arg(long)]
    pub yes: bool,
    /// Show whole reasons, however wide
    #[arg(long)]
    pub wide: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary reload`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReloadArgs {
    /// Print the steps, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The configuration before returns after this time, unless you type `rosemary confirm`
    ///
    /// It also returns if Rosemary or the machine restarts meanwhile. Packages and the apps' own files stay as they are.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub confirm: Option<u32>,
    /// How to make the change.
    #[command(flatten)]
    pub how: ChangeArgs,
}

const AFTER_HELP: &str = "\
A mistake in the configuration changes nothing. An app whose settings or files have changed is replaced: its new \
process loads beside the old one and then takes over. If a new process cannot run, nothing changes. SIGHUP to \
`rosemary up` does the same, unless its standard input is a terminal.";

/// A mistake in the configuration, or in a file that it names, prevented a change.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misconfigured(String);

/// Runs `rosemary reload`.
///
/// # Errors
/// The change was refused or undone, with the reason.
pub fn reload(args: &ReloadArgs) -> anyhow::Result<()> {
    make(Change::Reload { dry_run: args.dry_run, confirm: args.confirm }, &args.how)
}

/// Runs a command that changes one app.
///
/// # Errors
/// The change was refused or undone, with the reason.
pub fn run_app(verb: AppVerb, args: &AppChangeArgs) -> anyhow::Result<()> {
    make(Change::App { app: args.name.clone(), verb }, &args.how)
}

/// Runs `rosemary app log-level`.
///
/// # Errors
/// There is no such app.
pub fn set_log_level(args: &LogLevelArgs) -> anyhow::Result<()> {
    let level = LogLevel::named(&args.level); // none for DEFAULT_LEVEL
    let how = ChangeArgs {
        yes: false, // no program restarts
        wide: false,
        json: args.json,
        instance: args.instance.clone(),
    };
    make(Change::LogLevel { app: args.name.clone(), level }, &how)
}

/// Requests a change, waits until it is over, and prints its steps.
pub(crate) fn make(change: Change, args: &ChangeArgs) -> anyhow::Result<()> {
    let monitor = client::connect(&args.instance)?;
    let without_steps = without_steps(&change);
    let disabled = match &change {
        Change::App { app, verb: AppVerb::Disable } => Some(app.clone()),
        _ => None,
    };
    let mut report = monitor.change(ChangeRequest { change, confirmed: args.yes })?;
    // The monitor bounds the time of a change.
    while !report.state.is_over() {
        thread::sleep(INTERVAL);
        report = monitor.change_so_far(report.id)?;
    }
    if args.json {
        let json = serde_json::to_string(&report).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else if report.steps.is_empty() {
        if matches!(report.state, ChangeState::Done | ChangeState::Planned) {
            let runs = |name: &String| {
                monitor.status().is_ok_and(|now| now.apps.iter().any(|app| app.name == *name))
            };
            match disabled.filter(runs) {
                Some(app) => say::note(format_args!(
                    "{app} runs on, because another app uses the service that it provides"
                )),
                None => say::note(without_steps),
            }
        }
    } else {
        say::table(&table(&report).format(output_width(args.wide)))?;
    }
    for notice in &report.notices {
        say::note(notice);
    }
    let failure = match report.state {
        ChangeState::Refused { why } => format!("nothing was changed: {why}"),
        ChangeState::Undone { why } => format!("the change was undone: {why}"),
        ChangeState::Incomplete { why } => {
            format!("the change was begun and is not complete: {why}; see `rosemary logs`")
        }
        ChangeState::Unconfirmed => {
            "nothing was changed: the kernel would restart; repeat the command with --yes".into()
        }
        ChangeState::Running | ChangeState::Watching | ChangeState::Done | ChangeState::Planned => {
            return Ok(());
        }
    };
    if report.misconfigured { Err(Misconfigured(failure).into()) } else { bail!(failure) }
}

/// The result of a change that needed no step.
fn without_steps(change: &Change) -> &'static str {
    match change {
        Change::LeaveSafeMode => "safe mode has ended; every program goes on as it is",
        Change::Confirm => "no program changes",
        _ => "nothing changes",
    }
}

/// The steps of a change in columns.
fn table(report: &ChangeReport) -> Table<3> {
    let mut table = Table::new(["STEP", "PROGRAM", "WHY"]).prose("WHY");
    for step in &report.steps {
        table.row([&step.action.to_string(), &step.program, &step.why]);
    }
    table
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("expected {NAME_FORM}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_safe_mode_is_reported_without_steps() {
        assert!(without_steps(&Change::LeaveSafeMode).starts_with("safe mode has ended"));
        assert_eq!(without_steps(&Change::Confirm), "no program changes");
        let reload = Change::Reload { dry_run: false, confirm: None };
        assert_eq!(without_steps(&reload), "nothing changes");
    }
}

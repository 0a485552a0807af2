//! `rosemary safe-mode`: shows how far safe mode has come, and ends it.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use config::instance::InstancePaths;
use control::change::Change;
use control::operator::SafeModeStatus;
use serde::Serialize;

use crate::change::{self, ChangeArgs};
use crate::client;
use crate::say;

/// Options of `rosemary safe-mode`, which without a subcommand shows the status.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SafeModeArgs {
    #[command(subcommand)]
    command: Option<SafeModeCommand>,
    #[command(flatten)]
    status: SafeModeStatusArgs,
}

/// The commands for safe mode.
#[derive(Debug, Clone, Subcommand)]
pub enum SafeModeCommand {
    /// Show whether Rosemary is in safe mode, why, and which apps it names
    ///
    /// Safe mode begins when the kernel has ended too often, or with `rosemary up --safe-mode`. It starts the apps one at a
    /// time as user apps, and holds an app if it or the kernel ends meanwhile. Such an app is a suspect.
    Status(SafeModeStatusArgs),
    /// End safe mode: all apps run as configured, except suspects, which stay stopped
    ///
    /// If apps return to the kernel, the kernel restarts, which needs --yes. `rosemary app start` starts a suspect.
    Exit(ChangeArgs),
}

/// Options of `rosemary safe-mode status`.
#[derive(Debug, Clone, Args)]
pub struct SafeModeStatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// The printed status; its JSON is a stable interface.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether Rosemary is in safe mode.
    active: bool,
    /// Safe mode, or `None` outside of it.
    safe_mode: Option<Box<SafeModeStatus>>,
}

/// Runs a command for safe mode.
///
/// # Errors
/// Rosemary does not run, is not in safe mode and cannot leave it, or the output cannot be written.
pub fn run(args: &SafeModeArgs) -> anyhow::Result<()> {
    match &args.command {
        None => status(&args.status),
        Some(SafeModeCommand::Status(args)) => status(args),
        Some(SafeModeCommand::Exit(args)) => change::make(Change::LeaveSafeMode, args),
    }
}

fn status(args: &SafeModeStatusArgs) -> anyhow::Result<()> {
    let safe_mode = client::connect(&args.instance)?.status()?.safe_mode;
    if args.json {
        let report = Report { active: safe_mode.is_some(), safe_mode };
        let json = serde_json::to_string(&report).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::data(text(safe_mode.as_deref()))
}

/// The status for people, a line per fact.
fn text(safe_mode: Option<&SafeModeStatus>) -> String {
    let Some(safe_mode) = safe_mode else { return "Rosemary is not in safe mode.\n".into() };
    let SafeModeStatus { why, complete, on_trial, passed, waiting, suspects } = safe_mode;
    let mut text = format!("Rosemary is in safe mode: {why}.\n");
    for suspect in suspects {
        let _ = writeln!(text, "Suspect, held:  {}: {}", suspect.app, suspect.why);
    }
    let watched = on_trial.iter().cloned().collect();
    for (what, apps) in
        [("Ran well:      ", passed), ("Being watched: ", &watched), ("Waiting:       ", waiting)]
    {
        if !apps.is_empty() {
            let _ = writeln!(text, "{what} {}", apps.join(", "));
        }
    }
    if *complete {
        text.push_str("Each app was tried. `rosemary safe-mode exit` ends safe mode.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use control::operator::Suspect;

    use super::*;

    #[test]
    fn text_names_the_suspects() {
        let mut safe_mode = SafeModeStatus {
            why: "the kernel ended 5 times in 60 s".into(),
            complete: false,
            on_trial: Some("c".into()),
            passed: vec!["a".into()],
            waiting: vec!["d".into(), "e".into()],
            suspects: vec![Suspect { app: "b".into(), why: "killed by SIGSEGV".into() }],
        };
        assert_eq!(
            text(Some(&safe_mode)),
            "Rosemary is in safe mode: the kernel ended 5 times in 60 s.\n\
             Suspect, held:  b: killed by SIGSEGV\n\
             Ran well:       a\n\
             Being watched:  c\n\
             Waiting:        d, e\n"
        );
        (safe_mode.complete, safe_mode.on_trial) = (true, None);
        let end = "Each app was tried. `rosemary safe-mode exit` ends safe mode.\n";
        assert!(text(Some(&safe_mode)).ends_with(end));
        assert_eq!(text(None), "Rosemary is not in safe mode.\n");
    }
}

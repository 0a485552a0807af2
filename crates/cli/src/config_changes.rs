//! `rosemary changes`, `rosemary undo` and `rosemary confirm`: the history of the configuration.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::InstancePaths;
use control::change::{Change, ConfigChange, LONGEST_CONFIRMATION_S};
use sys::text::shown;

use crate::change::{self, ChangeArgs};
use crate::client;
use crate::incidents::time;
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
ID is the number for `rosemary undo`. OUTCOME is `waiting` until the change is confirmed or taken back. DIFFERENCE has the keys that \
differ from the configuration before; `rosemary changes ID` shows their values. The last 100 configurations are kept, also across restarts of \
Rosemary, with at most 8 MiB. A start with an edited file is a change, too. Values of `env` are never shown.

JSON: a list of objects, or one object with ID, with \"id\", \"time\" (nanoseconds since the Unix epoch), \"who\", \"what\", \"outcome\", \
\"difference\" (a list of `KEY OLD -> NEW`), \"more\" (the number of further keys) and \"undoable\".";

const AFTER_HELP_UNDO: &str = "\
The configuration before the change returns, so later changes are undone, too. It is applied as `rosemary reload` applies a file, and \
becomes the content of the file. Nothing changes if the file was edited and not loaded since, if the earlier configuration has a mistake, or if \
it differs in a key that needs a restart of Rosemary. Packages and the apps' own files stay as they are. A change that waits for a confirmation is taken \
back at once.";

/// Options of `rosemary changes`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ChangesArgs {
    /// Show the difference that this change has made
    #[arg(value_name = "ID")]
    id: Option<u64>,
    /// Show all columns, however wide
    #[arg(long)]
    wide: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The instance to query.
    #[command(flatten)]
    instance: InstancePaths,
}

/// Options of `rosemary undo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP_UNDO)]
pub struct UndoArgs {
    /// The number of the change, as `rosemary changes` shows it
    #[arg(value_name = "ID")]
    id: u64,
    /// Print the steps, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The present configuration returns after this time, unless you type `rosemary confirm`
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    confirm: Option<u32>,
    /// Replace the file also if it was edited since it was loaded; the edited text is kept beside it, in a file that ends with .edited
    #[arg(long)]
    force: bool,
    /// How to make the change.
    #[command(flatten)]
    how: ChangeArgs,
}

/// Options of `rosemary confirm`.
#[derive(Debug, Clone, Args)]
pub struct ConfirmArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The instance to change.
    #[command(flatten)]
    instance: InstancePaths,
}

/// Reads a time for a confirmation.
///
/// # Errors
/// It is no number of seconds within the bounds.
pub(crate) fn parse_seconds(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok().filter(|it| (1..=LONGEST_CONFIRMATION_S).contains(it));
    seconds.ok_or_else(|| format!("expected seconds from 1 to {LONGEST_CONFIRMATION_S}"))
}

/// Runs `rosemary changes`.
///
/// # Errors
/// Rosemary is not running or does not answer, there is no such change, or the output cannot be written.
pub fn run(args: &ChangesArgs) -> anyhow::Result<()> {
    let all = client::connect(&args.instance)?.config_changes(args.id.unwrap_or(0))?;
    let Some(id) = args.id else { return list(&all, args) };
    let Some(change) = all.iter().find(|it| it.id == id) else {
        bail!(
            "there is no change {id} of the configuration, or it is not kept any more; see `rosemary changes`"
        );
    };
    if args.json {
        let json = serde_json::to_string(change).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::data(details(change))
}

fn list(all: &[ConfigChange], args: &ChangesArgs) -> anyhow::Result<()> {
    if args.json {
        let json = serde_json::to_string(all).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::table(&table(all).format(output_width(args.wide)))
}

/// Runs `rosemary undo`.
///
/// # Errors
/// The change was refused or undone, with the reason.
pub fn undo(args: &UndoArgs) -> anyhow::Result<()> {
    let UndoArgs { id, dry_run, confirm, force, ref how } = *args;
    change::make(Change::Undo { id, dry_run, confirm, force }, how)
}

/// Runs `rosemary confirm`.
///
/// # Errors
/// No configuration waits for a confirmation, or the confirmation cannot be stored.
pub fn confirm(args: &ConfirmArgs) -> anyhow::Result<()> {
    let how = ChangeArgs {
        yes: false, // no program restarts
        wide: false,
        json: args.json,
        instance: args.instance.clone(),
    };
    change::make(Change::Confirm, &how)
}

/// Formats one line per change, the oldest first.
fn table(changes: &[ConfigChange]) -> Table<6> {
    let head = ["ID", "TIME", "WHO", "WHAT", "OUTCOME", "DIFFERENCE"];
    let mut table = Table::new(head).expendable(&["OUTCOME", "WHAT"]).prose("DIFFERENCE");
    for change in changes {
        table.row([
            &change.id.to_string(),
            &time(change.time),
            &shown(&change.who),
            &shown(&change.what),
            &change.outcome.to_string(),
            &keys(change),
        ]);
    }
    table
}

/// The names of the keys that differ.
fn keys(change: &ConfigChange) -> String {
    let name = |it: &String| it.split(' ').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = change.difference.iter().map(name).collect();
    if change.more > 0 {
        names.push(format!("{} more", change.more));
    }
    if names.is_empty() { no_difference(change).to_owned() } else { names.join(", ") }
}

/// What is said if no key differs.
fn no_difference(change: &ConfigChange) -> &'static str {
    if change.undoable { "comments, order or form alone" } else { "nothing before it is known" }
}

/// Formats a change with its difference.
fn details(change: &ConfigChange) -> String {
    let mut text = String::new();
    let mut line = |head: &str, value: &str| {
        let _ = writeln!(text, "{head:<10} {value}"); // a String takes everything
    };
    line("change", &change.id.to_string());
    line("time", &time(change.time));
    line("who", &shown(&change.who));
    line("what", &shown(&change.what));
    line("outcome", &change.outcome.to_string());
    for (number, difference) in change.difference.iter().enumerate() {
        line(if number == 0 { "difference" } else { "" }, &shown(difference));
    }
    if change.more > 0 {
        line("", &format!("and {} more keys", change.more));
    }
    if change.difference.is_empty() {
        line("difference", no_difference(change));
    }
    if change.undoable {
        line("undo", &format!("rosemary undo {}", change.id));
    }
    text
}

#[cfg(test)]
mod tests {
    use control::change::Outcome;

    use super::*;

    fn change() -> ConfigChange {
        ConfigChange {
            id: 7,
            time: 1_796_025_600_000_000_000,
            who: "token ci".into(),
            what: "reload --confirm 60".into(),
            outcome: Outcome::TakenBack,
            difference: vec![
                "app.a.pace none -> 100".into(),
                "controller.orphans \"keep\" -> none".into(),
            ],
            more: 3,
            undoable: true,
        }
    }

    #[test]
    fn table_names_the_keys() {
        let text = table(&[change()]).format(None).text;
        let row = text.lines().nth(1).unwrap();
        assert!(row.starts_with("7 ") && row.contains("token ci"), "{text}");
        assert!(row.ends_with("taken back  app.a.pace, controller.orphans, 3 more"), "{text}");
    }

    #[test]
    fn details_have_the_values() {
        let text = details(&change());
        for line in [
            "difference app.a.pace none -> 100\n",
            "           controller.orphans \"keep\" -> none\n",
            "           and 3 more keys\n",
            "undo       rosemary undo 7\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let without = ConfigChange { difference: Vec::new(), more: 0, ..change() };
        assert!(details(&without).contains("comments, order or form alone"));
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(parse_seconds("60"), Ok(60));
        for wrong in ["0", "86401", "-1", "1m", ""] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}

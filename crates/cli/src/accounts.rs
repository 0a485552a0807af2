//! `rosemary accounts`: shows the resources that apps and Rosemary's programs have used.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use config::instance::InstancePaths;
use control::account::{Account, Amounts};
use view::accounts::Accounts;

use crate::client;
use crate::logs::{Since, parse_since};
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
CPU is processor time in seconds. MEMORY is MiB of memory times hours of use. RECEIVED are packet-ins with their bytes, SENT the \
messages that the kernel admitted for switches. In the session `system` each program of Rosemary has an account. An app with \
`host = \"kernel\"` has no process: the kernel's account has its processor time and memory.

Accounts are kept for whole hours, apart for 31 days; --since begins with the hour of its time, or with the first use if that hour is not kept apart. They \
survive restarts. A monitor that is killed loses at most the last 10 seconds.

  rosemary accounts --since 24h
  rosemary accounts --since 30d --csv > accounts.csv

Exit codes: 0 success; 1 Rosemary does not run; 2 wrong usage.";

/// Options of `rosemary accounts`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AccountsArgs {
    /// Only use since the hour of this time: an age such as 10m or 2h, or a time such as 2026-11-21T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Since>,
    /// Print CSV with a line per account, in nanoseconds, byte-seconds, messages and bytes
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON: an object with `from` (seconds since 1970; null for everything) and `accounts`
    #[arg(long)]
    json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    wide: bool,
    /// The instance to query.
    #[command(flatten)]
    instance: InstancePaths,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary does not run, or the output cannot be written.
pub fn run(args: &AccountsArgs) -> anyhow::Result<()> {
    let since = args.since.map_or(0, |since| since.nanoseconds() / 1_000_000_000);
    let accounts = client::connect(&args.instance)?.accounts(since)?;
    if args.json {
        let json = serde_json::to_string(&accounts).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if args.csv {
        return say::data(csv(&accounts));
    }
    say::table(&table(&accounts).format(output_width(args.wide)))
}

/// The accounts as CSV. Names of sessions and members have no characters to quote.
fn csv(accounts: &Accounts) -> String {
    let mut text = String::from(
        "session,member,cpu_ns,memory_byte_seconds,received_messages,received_bytes,sent_messages,sent_bytes\n",
    );
    for Account { session, member, amounts } in &accounts.accounts {
        let Amounts {
            cpu_ns,
            memory_byte_seconds,
            received_messages,
            received_bytes,
            sent_messages,
            sent_bytes,
        } = amounts;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{session},{member},{cpu_ns},{memory_byte_seconds},{received_messages},{received_bytes},{sent_messages},{sent_bytes}"
        );
    }
    text
}

fn table(accounts: &Accounts) -> Table<8> {
    let head =
        ["SESSION", "MEMBER", "CPU", "MEMORY", "RECEIVED", "BYTES RECEIVED", "SENT", "BYTES SENT"];
    let mut table = Table::new(head).expendable(&["BYTES SENT", "BYTES RECEIVED"]);
    for Account { session, member, amounts } in &accounts.accounts {
        let cpu_ms = amounts.cpu_ns / 1_000_000;
        table.row([
            session,
            member,
            &format!("{}.{:03} s", cpu_ms / 1_000, cpu_ms % 1_000),
            &mib_hours(amounts.memory_byte_seconds),
            &amounts.received_messages.to_string(),
            &amounts.received_bytes.to_string(),
            &amounts.sent_messages.to_string(),
            &amounts.sent_bytes.to_string(),
        ]);
    }
    table
}

/// Byte-seconds as MiB times hours, with one decimal.
fn mib_hours(byte_seconds: u64) -> String {
    let tenths = byte_seconds / ((1 << 20) * 3_600 / 10);
    format!("{}.{} MiB h", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let amounts = Amounts {
            cpu_ns: 1_234_567_890,
            memory_byte_seconds: (5 << 20) * 1_800,
            received_messages: 3,
            received_bytes: 300,
            sent_messages: 2,
            sent_bytes: 160,
        };
        let account = Account { session: "video".into(), member: "a".into(), amounts };
        Accounts { from: Some(3_600), accounts: vec![account] }
    }

    #[test]
    fn csv_has_exact_amounts() {
        let text = csv(&accounts());
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line, "video,a,1234567890,9437184000,3,300,2,160");
        let columns = |line: &str| line.split(',').count();
        assert_eq!(columns(text.lines().next().unwrap()), columns(line));
    }

    #[test]
    fn table_has_units() {
        let text = table(&accounts()).format(None).text;
        for expected in ["1.234 s", "2.5 MiB h", "300", "160"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

//! `rosemary flows`: shows the flows of a switch and their owners, and the flows of apps that are gone; adds and deletes flows.

mod orphans;
mod write;

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use config::instance::InstancePaths;
use control::query::FlowStatus;

pub use self::write::FlowsChange;
use crate::client;
use crate::say;
use crate::switch_name::{SwitchName, about_switch, not_connected};
use crate::table::{Table, output_width};

const AFTER_HELP: &str = concat!(
    about_switch!(),
    " \
OWNER is the app that wrote the flow, \"kernel\" for \
a flow of Rosemary itself, or \"other\". AGE is the time since the flow was added; IDLE and HARD are its timeouts: after \
IDLE without a packet, or after HARD in any case, the switch removes it.

--orphans shows how many flows, groups and meters of apps that do not run any more are in the switches, or in \
SWITCH, and how many flows of others: of another controller, or of an installation of Rosemary whose state was lost. \
--orphans remove removes those of apps; flows of others are removed only from a SWITCH that is named.

Exit codes: 0 the switch answered; 1 it did not answer or is not connected, or Rosemary does not run; 2 wrong \
usage."
);

/// Options of `rosemary flows`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FlowsArgs {
    /// A change; without it, flows are shown.
    #[command(subcommand)]
    pub change: Option<FlowsChange>,
    /// The switch: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name; only --orphans works without it
    #[arg(required_unless_present = "orphans")]
    pub switch: Option<SwitchName>,
    /// Show or remove what apps that do not run any more, and others, own in the switches
    #[arg(long, value_enum, value_name = "ACTION", num_args = 0..=1, default_missing_value = "show")]
    pub orphans: Option<OrphansAction>,
    /// Print JSON: a list with an object per flow, or per app and switch with --orphans
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// What to do with flows, groups and meters of apps that do not run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrphansAction {
    /// Show them
    Show,
    /// Remove them from the switches
    Remove,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary is not running, the switch is not connected or does not answer, or the output cannot be written.
pub fn run(args: &FlowsArgs) -> anyhow::Result<()> {
    if let Some(change) = &args.change {
        return write::run(change);
    }
    let kernel = client::connect(&args.instance)?.kernel()?;
    let switch = args.switch.as_ref().map(|it| it.dpid_of(&kernel)).transpose()?;
    let switch = match (args.orphans, switch) {
        (Some(action), switch) => return orphans::run(&kernel, action, switch, args),
        (None, Some(switch)) => switch,
        (None, None) => bail!("name a switch, or use --orphans"),
    };
    let flows =
        kernel.flows(switch.0).with_context(|| format!("cannot query the flows of {switch}"))?;
    let Some(flows) = flows else { return Err(not_connected(&kernel, switch)) };
    if args.json {
        let json = serde_json::to_string(&flows).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if flows.is_empty() {
        say::note("the switch has no flows");
        Ok(())
    } else {
        say::table(&table(&flows).format(output_width(args.wide)))
    }
}

/// Formats one line per flow.
fn table(flows: &[FlowStatus]) -> Table<11> {
    let mut table = Table::new([
        "TABLE", "PRIORITY", "OWNER", "COOKIE", "PACKETS", "BYTES", "AGE", "IDLE", "HARD", "MATCH",
        "ACTIONS",
    ])
    .expendable(&["COOKIE", "HARD", "IDLE", "BYTES", "AGE", "TABLE"]);
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let timeout = |seconds: u16| match seconds {
        0 => "-".to_owned(),
        seconds => format!("{seconds}s"),
    };
    for flow in flows {
        let age = Duration::from_millis(flow.duration_ms).as_secs();
        table.row([
            &flow.table.to_string(),
            &flow.priority.to_string(),
            &flow.owner,
            &flow.cookie,
            &count(flow.packets),
            &count(flow.bytes),
            &format!("{age}s"),
            &timeout(flow.idle_timeout),
            &timeout(flow.hard_timeout),
            if flow.match_.is_empty() { "any" } else { &flow.match_ },
            &flow.actions,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_is_one_line() {
        let flow = FlowStatus {
            table: 0,
            priority: 2,
            owner: "learning-switch".into(),
            cookie: "0x0".into(),
            match_: "in_port=1,eth_dst=02:00:00:00:00:02".into(),
            actions: "output:2".into(),
            packets: Some(3),
            bytes: Some(294),
            duration_ms: 12_900,
            idle_timeout: 60,
            hard_timeout: 0,
        };
        let miss = FlowStatus {
            priority: 0,
            owner: "kernel".into(),
            match_: String::new(),
            actions: "CONTROLLER".into(),
            bytes: None,
            idle_timeout: 0,
            ..flow.clone()
        };
        assert_eq!(
            table(&[flow, miss]).format(None).text,
            "\
TABLE  PRIORITY  OWNER            COOKIE  PACKETS  BYTES  AGE  IDLE  HARD  MATCH                                ACTIONS
0      2         learning-switch  0x0     3        294    12s  60s   -     in_port=1,eth_dst=02:00:00:00:00:02  output:2
0      0         kernel           0x0     3        -      12s  -     -     any                                  CONTROLLER
"
        );
    }
}

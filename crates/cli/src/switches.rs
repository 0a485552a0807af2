//! `rosemary switches`: shows the connected switches and their counters.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use control::query::{Fullest, SwitchStatus};
use monitor::options::InstancePaths;

use crate::client::Monitor;
use crate::say;
use crate::table::Table;

/// Options of `rosemary switches`.
#[derive(Debug, Clone, Args)]
pub struct SwitchesArgs {
    /// Print JSON: a list with an object per switch
    #[arg(long)]
    pub json: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary is not running or does not answer, or the output cannot be written.
pub fn run(args: &SwitchesArgs) -> anyhow::Result<()> {
    let switches = Monitor::connect(&args.instance)?.kernel()?.switches()?;
    if args.json {
        let json = serde_json::to_string(&switches).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if switches.is_empty() {
        say::note("no switch is connected");
        Ok(())
    } else {
        say::data(table(&switches))
    }
}

/// Formats one line per switch.
pub(crate) fn table(switches: &[SwitchStatus]) -> String {
    let mut table = Table::new([
        "SWITCH",
        "OPENFLOW",
        "ADDRESS",
        "OVER",
        "EPOCH",
        "PORTS",
        "PACKET-INS",
        "DROPPED",
        "GUARDED",
        "FLOW-MODS",
        "PACKET-OUTS",
        "REFUSED",
        "ERRORS",
        "FLOWS",
    ]);
    for switch in switches {
        table.row([
            &switch.dpid,
            &switch.version,
            &switch.address,
            &switch.transport,
            &switch.epoch.to_string(),
            &switch.ports.to_string(),
            &switch.packet_ins.to_string(),
            &switch.dropped.to_string(),
            &switch.guarded.to_string(),
            &switch.flow_mods.to_string(),
            &switch.packet_outs.to_string(),
            &switch.refused.to_string(),
            &switch.errors.to_string(),
            &flows(switch),
        ]);
    }
    table.text()
}

/// Formats the number of flows, and the fullest table if that is nearly full.
fn flows(switch: &SwitchStatus) -> String {
    let mut text = switch.flows.map_or("-".to_owned(), |flows| flows.to_string());
    if let Some(Fullest { table, flows, size, nearly_full: true, app }) = &switch.fullest {
        let most = app.as_ref().map_or(String::new(), |app| format!(", most by {app}"));
        let _ = write!(text, ", table {table} nearly full ({flows} of {size}{most})"); // cannot fail
    }
    text
}

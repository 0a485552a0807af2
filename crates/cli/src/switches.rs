//! `rosemary switches`: shows the connected switches and their counters.

use anyhow::Context as _;
use clap::Args;
use control::query::{Fullest, SwitchStatus};
use monitor::options::InstancePaths;

use crate::client::Monitor;
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
CONNECTION is the number of the present connection, which no other connection gets. The counters start with it. \
DROPPED counts packet-ins that were dropped because apps did not keep up, UNGUARDED those that were dropped because a \
guard was silent or down. FLOW-MODS and PACKET-OUTS count messages of apps to the switch, REFUSED those that the kernel \
refused, ERRORS error messages of the switch. FLOWS is the number that the switch reported last.

In JSON the columns have the names dpid, version, address, transport, epoch, ports, flows, packet_ins, dropped, guarded, \
flow_mods, packet_outs, refused and errors.

Exit codes: 0 Rosemary answered; 1 it does not run or did not answer; 2 wrong usage.";

/// Options of `rosemary switches`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SwitchesArgs {
    /// Print JSON: a list with an object per switch
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
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
        say::table(&table(&switches).format(output_width(args.wide)))?;
        say::data(nearly_full(&switches))
    }
}

/// Returns one line per switch.
pub(crate) fn table(switches: &[SwitchStatus]) -> Table<14> {
    let mut table = Table::new([
        "SWITCH",
        "OPENFLOW",
        "ADDRESS",
        "TRANSPORT",
        "CONNECTION",
        "PORTS",
        "FLOWS",
        "PACKET-INS",
        "DROPPED",
        "UNGUARDED",
        "FLOW-MODS",
        "PACKET-OUTS",
        "REFUSED",
        "ERRORS",
    ])
    .expendable(&[
        "CONNECTION",
        "UNGUARDED",
        "TRANSPORT",
        "PACKET-OUTS",
        "FLOW-MODS",
        "REFUSED",
        "ERRORS",
        "OPENFLOW",
        "DROPPED",
        "PACKET-INS",
    ]);
    for switch in switches {
        table.row([
            &switch.dpid,
            &switch.version,
            &switch.address,
            &switch.transport,
            &switch.epoch.to_string(),
            &switch.ports.to_string(),
            &switch.flows.map_or("-".to_owned(), |flows| flows.to_string()),
            &switch.packet_ins.to_string(),
            &switch.dropped.to_string(),
            &switch.guarded.to_string(),
            &switch.flow_mods.to_string(),
            &switch.packet_outs.to_string(),
            &switch.refused.to_string(),
            &switch.errors.to_string(),
        ]);
    }
    table
}

/// Returns a line for each switch with a table that is nearly full.
pub(crate) fn nearly_full(switches: &[SwitchStatus]) -> String {
    let line = |switch: &SwitchStatus| Some(format!("{}: {}\n", switch.dpid, fullest(switch)?));
    switches.iter().filter_map(line).collect()
}

/// Describes the fullest table of a switch, if that is nearly full.
pub(crate) fn fullest(switch: &SwitchStatus) -> Option<String> {
    match &switch.fullest {
        Some(Fullest { table, flows, size, nearly_full: true, app }) => {
            let most = app.as_ref().map_or(String::new(), |app| format!(", most by {app}"));
            Some(format!("table {table} nearly full ({flows} of {size}{most})"))
        }
        _ => None,
    }
}

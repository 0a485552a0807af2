//! `rosemary switch drain|undrain`: keeps traffic away from a switch, or ends that.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use monitor::options::InstancePaths;
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::services::topology::{Request, decode_answer};
use sdk::topology::Graph;

use crate::client;
use crate::say;
use crate::switch_name::SwitchName;

const AFTER_HELP: &str = "\
Apps such as `forwarding` move their paths away from a drained switch; only traffic of its own hosts still passes it. A \
drain stays until `undrain`, also over restarts of Rosemary and of the switch. The switch need not be connected \
if its datapath id names it.

Exit codes: 0 done; 1 Rosemary or the service does not run, or it could not store the change; 2 wrong usage.";

/// Changes a switch.
#[derive(Debug, Clone, Subcommand)]
pub enum SwitchCommand {
    /// Keep traffic away from a switch, except that of its own hosts
    #[command(after_help = AFTER_HELP)]
    Drain(DrainArgs),
    /// End the drain of a switch
    #[command(after_help = AFTER_HELP)]
    Undrain(DrainArgs),
}

/// Options of `rosemary switch drain` and `undrain`.
#[derive(Debug, Clone, Args)]
pub struct DrainArgs {
    /// The switch: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name
    pub switch: SwitchName,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Begins or ends the drain of a switch.
///
/// # Errors
/// Rosemary or the service does not run, or it refuses.
pub fn run(command: &SwitchCommand) -> anyhow::Result<()> {
    let (args, on) = match command {
        SwitchCommand::Drain(args) => (args, true),
        SwitchCommand::Undrain(args) => (args, false),
    };
    let monitor = client::connect(&args.instance)?;
    let switch = args.switch.dpid(&monitor)?;
    let service = monitor.service(Service::Topology)?;
    let answer = service.request(&Request::Drain { dpid: switch, on }.encode())?;
    match decode_answer(&answer) {
        Some(Ok(())) => {}
        Some(Err(refused)) => return Err(refused).context("the topology service refused"),
        None => bail!("the topology service sent an unexpected answer"),
    }
    let is_connected = Graph::of(service.records().map(|(_, it)| it)).switch(switch).is_some();
    let what = if on { "is drained" } else { "is no longer drained" };
    say::note(format_args!("switch {switch} {what}"));
    if !is_connected {
        say::note("it is not connected now");
    }
    Ok(())
}

//! `rosemary topology`: shows the switches and links that the topology service has found.

mod dot;
pub mod drain;
pub mod links;
pub mod path;
mod svg;

use anyhow::Context as _;
use clap::Args;
use monitor::options::InstancePaths;
use sdk::openflow::PortNo;
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::services::topology::{PortRecord, SwitchRecord};
use sdk::topology::Graph;
use view::topology::{switches, topology};

use crate::client;
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
PORTS counts the ports, LINKS those with a link to another switch, and EDGE those that have none: hosts are there. NEIGHBOURS \
are the switches at the other ends. STATE is `drained` after `rosemary switch drain`.

--dot prints the input of Graphviz: `rosemary topology --dot | dot -Tsvg`. --svg prints a drawing that needs no other \
program. Broken lines are links of which only one direction is known, red ones are suspicious: their latency is that of a relay.

The app `topology` finds the links. It runs if an app names it in `services`, or if an [[app]] of this name is configured.

Exit codes: 0 shown; 1 Rosemary or the service does not run; 2 wrong usage.";

/// Options of `rosemary topology`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct TopologyArgs {
    /// Print JSON: an object with switches, their ports, and links
    #[arg(long)]
    pub json: bool,
    /// Print the input of Graphviz
    #[arg(long, conflicts_with = "json")]
    pub dot: bool,
    /// Print a drawing as SVG
    #[arg(long, conflicts_with_all = ["json", "dot"])]
    pub svg: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Shows the topology.
///
/// # Errors
/// Rosemary or the service does not run, or the output cannot be written.
pub fn run(args: &TopologyArgs) -> anyhow::Result<()> {
    let graph = load(&args.instance)?;
    if args.json {
        let json = serde_json::to_string(&topology(&graph)).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if args.dot {
        return say::data(dot::write(&graph));
    }
    if args.svg {
        return say::data(svg::write(&graph));
    }
    let (switches, links) = (switches(&graph), links::pairs(&graph).len());
    if switches.is_empty() {
        say::note("no switch is connected");
    } else {
        say::table(&table(&graph, &switches).format(output_width(args.wide)))?;
        say::note(format_args!("{} switches, {links} links", switches.len()));
    }
    note_unsettled(&graph);
    Ok(())
}

/// Reads the table of the service.
///
/// # Errors
/// Rosemary or the service does not run.
pub fn load(instance: &InstancePaths) -> anyhow::Result<Graph> {
    let table = client::connect(instance)?.service(Service::Topology)?;
    Ok(Graph::of(table.records().map(|(_, record)| record)))
}

/// Says that links may be missing, if that is so.
fn note_unsettled(graph: &Graph) {
    if !graph.is_settled() {
        say::note("the service has not probed all ports yet: links may be missing");
    }
}

fn table(graph: &Graph, switches: &[SwitchRecord]) -> Table<6> {
    let head = ["SWITCH", "PORTS", "LINKS", "EDGE", "NEIGHBOURS", "STATE"];
    let mut table = Table::new(head).expendable(&["EDGE"]).prose("NEIGHBOURS");
    for switch in switches {
        let ports: Vec<&PortRecord> =
            graph.ports(switch.dpid).filter(|port| port.at.port != PortNo::LOCAL).collect();
        let count =
            |is: fn(&PortRecord) -> bool| ports.iter().filter(|port| is(port)).count().to_string();
        let links = ports.iter().filter_map(|port| graph.link_from(port.at));
        let mut neighbours: Vec<String> = links.map(|link| link.to.dpid.to_string()).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        let neighbours = neighbours.join(" ");
        table.row([
            &switch.dpid.to_string(),
            &ports.len().to_string(),
            &count(|port| port.link),
            &count(|port| port.edge && port.live),
            if neighbours.is_empty() { "-" } else { &neighbours },
            if switch.drained { "drained" } else { "-" },
        ]);
    }
    table
}

#[cfg(test)]
mod tests;

//! `rosemary topology`: shows the switches and links that the topology service has found.

mod dot;
pub mod drain;
pub mod links;
pub mod path;
mod svg;

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use config::instance::InstancePaths;
use sdk::Dpid;
use sdk::openflow::PortNo;
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::services::topology::{Endpoint, PortRecord, SwitchRecord};
use sdk::topology::Graph;
use view::hosts::{AtSwitch, by_switch};
use view::topology::{is_unused, pairs_down, remaining, switches, topology};

use crate::client;
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
PORTS counts the ports, LINKS those with a link to another switch, and EDGE those that have none: hosts are there. NEIGHBOURS \
are the switches at the other ends. STATE is `drained` after `rosemary switch drain`. Below the table are drained switches that \
still carry traffic, and ports that are not used, because a bridge without OpenFlow joins them with another port.

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
        let topology = topology(&graph, hosts(&args.instance).as_ref(), sys::clock::now_ns());
        let json = serde_json::to_string(&topology).context("cannot write JSON")?;
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
        let down = pairs_down(&graph).len();
        let down = if down > 0 {
            format!(", {down} down: type rosemary links --down")
        } else {
            String::new()
        };
        say::note(format_args!("{} switches, {links} links{down}", switches.len()));
        let is_drained = switches.iter().any(|switch| switch.drained);
        let hosts = is_drained.then(|| hosts(&args.instance)).flatten();
        for SwitchRecord { dpid, .. } in switches.iter().filter(|switch| switch.drained) {
            for why in remaining(*dpid, &graph, hosts.as_ref()) {
                say::note(format_args!("switch {dpid} is drained, and traffic remains: {why}"));
            }
        }
        for port in unused_ports(&graph) {
            say::note(format_args!(
                "{port} is not used, because another port of the same bridge without OpenFlow is used (`rosemary incidents` names it)"
            ));
        }
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

/// Returns the hosts at each switch; `None` if the service `hosts` does not run.
fn hosts(instance: &InstancePaths) -> Option<BTreeMap<Dpid, AtSwitch>> {
    let table = client::connect(instance).ok()?.service(Service::Hosts).ok()?;
    Some(by_switch(&table))
}

/// Says that links may be missing, if that is so.
fn note_unsettled(graph: &Graph) {
    if !graph.is_settled() {
        say::note("the service has not probed all ports yet: links may be missing");
    }
}

/// Returns the ports that another port of the same bridge replaces.
fn unused_ports(graph: &Graph) -> Vec<Endpoint> {
    let switches = switches(graph);
    let ports = switches.iter().flat_map(|switch| graph.ports(switch.dpid));
    ports.filter(|port| is_unused(port)).map(|port| port.at).collect()
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

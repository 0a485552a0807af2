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
use sdk::services::topology::{Endpoint, LinkRecord, PortRecord, SwitchRecord};
use sdk::topology::Graph;
use serde::Serialize;

use crate::client::Monitor;
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

/// A port; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
struct End {
    dpid: String,
    port: String,
}

/// One direction of a link; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
struct Link {
    from: End,
    to: End,
    metric: u32,
    /// Microseconds; `None` if not measured.
    latency_us: Option<f64>,
    suspicious: bool,
    both_directions: bool,
}

/// A port of a switch; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_field_names, reason = "the other commands call the number so in JSON")]
struct Port {
    port: String,
    name: String,
    hw_addr: String,
    speed_kbps: Option<u64>,
    live: bool,
    edge: bool,
    link: bool,
}

/// A switch; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
struct Switch {
    dpid: String,
    drained: bool,
    ports: Vec<Port>,
}

/// The whole topology; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
struct Topology {
    settled: bool,
    switches: Vec<Switch>,
    links: Vec<Link>,
}

impl From<Endpoint> for End {
    fn from(at: Endpoint) -> Self {
        Self { dpid: at.dpid.to_string(), port: at.port.to_string() }
    }
}

impl Link {
    fn of(record: &LinkRecord, graph: &Graph) -> Self {
        Self {
            from: record.from.into(),
            to: record.to.into(),
            metric: record.metric,
            latency_us: latency_us(record),
            suspicious: record.suspicious,
            both_directions: has_both_directions(record, graph),
        }
    }
}

impl From<&PortRecord> for Port {
    fn from(port: &PortRecord) -> Self {
        Self {
            port: port.at.port.to_string(),
            name: name_of(port),
            hw_addr: port.hw_addr.to_string(),
            speed_kbps: (port.speed_kbps > 0).then_some(port.speed_kbps),
            live: port.live,
            edge: port.edge,
            link: port.link,
        }
    }
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
    let table = Monitor::connect(instance)?.service(Service::Topology)?;
    Ok(Graph::of(table.records().map(|(_, record)| record)))
}

/// Says that links may be missing, if that is so.
fn note_unsettled(graph: &Graph) {
    if !graph.is_settled() {
        say::note("the service has not probed all ports yet: links may be missing");
    }
}

/// Returns the switches by datapath identifier.
fn switches(graph: &Graph) -> Vec<SwitchRecord> {
    let mut switches: Vec<SwitchRecord> = graph.switches().copied().collect();
    switches.sort_unstable_by_key(|switch| switch.dpid);
    switches
}

/// Returns all directions of links, by the ports where they begin.
fn directions(graph: &Graph) -> Vec<LinkRecord> {
    let mut links: Vec<LinkRecord> = graph.links().copied().collect();
    links.sort_unstable_by_key(|link| (link.from, link.to));
    links
}

fn has_both_directions(link: &LinkRecord, graph: &Graph) -> bool {
    graph.link_from(link.to).is_some_and(|back| back.to == link.from)
}

fn topology(graph: &Graph) -> Topology {
    let switch = |switch: &SwitchRecord| Switch {
        dpid: switch.dpid.to_string(),
        drained: switch.drained,
        ports: graph.ports(switch.dpid).map(Port::from).collect(),
    };
    Topology {
        settled: graph.is_settled(),
        switches: switches(graph).iter().map(switch).collect(),
        links: directions(graph).iter().map(|link| Link::of(link, graph)).collect(),
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

/// The name of a port: printable ASCII; other bytes are escaped, because the switch chooses them.
fn name_of(port: &PortRecord) -> String {
    port.name().escape_ascii().to_string()
}

/// The latency of a link in microseconds, if it was measured.
#[expect(clippy::cast_precision_loss, reason = "no latency has 52 bits of nanoseconds")]
fn latency_us(link: &LinkRecord) -> Option<f64> {
    (link.latency_ns > 0).then_some(link.latency_ns as f64 / 1000.0)
}

#[cfg(test)]
mod tests;

//! `rosemary links`: shows the links between switches.

use anyhow::Context as _;
use clap::Args;
use monitor::options::InstancePaths;
use sdk::services::topology::{Endpoint, LinkRecord};
use sdk::topology::Graph;

use view::topology::{Link, directions, has_both_directions, is_bridge, latency_us, name_of};

use super::{load, note_unsettled};
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
Each line is a link between two ports. METRIC is its cost, from the speed of its ports: 1 at 100 Gbit/s, 10 at 10 Gbit/s \
or an unknown speed, 100 at 1 Gbit/s. LATENCY is the estimated time of a packet on it, a dash if it was not measured.

STATE is `one-way` if only one direction is known, which no path uses, `suspicious` if its latency is that of a relay \
rather than of a cable, and `bridge` if a bridge without OpenFlow joins the ports, with hosts of its own. JSON lists each \
direction.

Exit codes: 0 shown; 1 Rosemary or the service does not run; 2 wrong usage.";

/// Options of `rosemary links`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct LinksArgs {
    /// Print JSON: a list with an object per direction
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Shows the links.
///
/// # Errors
/// Rosemary or the service does not run, or the output cannot be written.
pub fn run(args: &LinksArgs) -> anyhow::Result<()> {
    let graph = load(&args.instance)?;
    if args.json {
        let links: Vec<Link> = directions(&graph).iter().map(|it| Link::of(it, &graph)).collect();
        let json = serde_json::to_string(&links).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    let links = pairs(&graph);
    if links.is_empty() {
        say::note("no link was found");
    } else {
        say::table(&table(&graph, &links).format(output_width(args.wide)))?;
    }
    note_unsettled(&graph);
    Ok(())
}

/// Returns each link once: the direction from the lower port, or the only one.
pub(super) fn pairs(graph: &Graph) -> Vec<LinkRecord> {
    let mut links = directions(graph);
    links.retain(|link| link.from <= link.to || !has_both_directions(link, graph));
    links
}

pub(super) fn table(graph: &Graph, links: &[LinkRecord]) -> Table<9> {
    let head = ["FROM", "PORT", "NAME", "TO", "TO-PORT", "TO-NAME", "METRIC", "LATENCY", "STATE"];
    let mut table = Table::new(head).expendable(&["LATENCY", "METRIC", "TO-NAME", "NAME"]);
    for link in links {
        let name = |at: Endpoint| graph.port(at).map_or_else(|| "-".to_owned(), name_of);
        let latency = latency_us(link);
        table.row([
            &link.from.dpid.to_string(),
            &link.from.port.to_string(),
            &name(link.from),
            &link.to.dpid.to_string(),
            &link.to.port.to_string(),
            &name(link.to),
            &link.metric.to_string(),
            &latency.map_or_else(|| "-".to_owned(), |us| format!("{:.2} ms", us / 1000.0)),
            state(graph, link),
        ]);
    }
    table
}

fn state(graph: &Graph, link: &LinkRecord) -> &'static str {
    if is_bridge(link, graph) {
        return "bridge"; // both directions are known, and its latency is not measured
    }
    let back = graph.link_from(link.to).filter(|back| back.to == link.from);
    let is_suspicious = link.suspicious || back.is_some_and(|back| back.suspicious);
    match (back.is_some(), is_suspicious) {
        (true, false) => "-",
        (true, true) => "suspicious",
        (false, false) => "one-way",
        (false, true) => "one-way, suspicious",
    }
}

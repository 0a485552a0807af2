//! `rosemary links`: shows the links between switches.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use config::instance::InstancePaths;
use sdk::services::topology::{Endpoint, LinkDownRecord, LinkRecord, WhyDown};
use sdk::topology::Graph;

use view::topology::{
    Link, directions, has_both_directions, is_bridge, latency_us, links_down, name_of, pairs_down,
};

use super::{load, note_unsettled};
use crate::say;
use crate::status::duration;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
Each line is a link between two ports. METRIC is its cost, from the speed of its ports: 1 at 100 Gbit/s, 10 at 10 Gbit/s \
or an unknown speed, 100 at 1 Gbit/s. LATENCY is the estimated time of a packet on it, a dash if it was not measured.

STATE is `one-way` if only one direction is known, which no path uses, `suspicious` if its latency is that of a relay \
rather than of a cable, and `bridge` if a bridge without OpenFlow joins the ports, with hosts of its own. Links that were \
there and are down follow, with the reason and for how long. They are forgotten when one of their ports has a link again, \
after a week, and when the app `topology` restarts. --down shows only them. JSON lists each direction: without --down of the \
links that are up, with --down of the others.

Exit codes: 0 shown; 1 Rosemary or the service does not run; 2 wrong usage.";

/// Options of `rosemary links`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct LinksArgs {
    /// Print JSON: a list with an object per direction
    #[arg(long)]
    pub json: bool,
    /// Show only links that were there and are down
    #[arg(long)]
    pub down: bool,
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
    let now_ns = sys::clock::now_ns();
    if args.json {
        let json = if args.down {
            serde_json::to_string(&links_down(&graph, now_ns))
        } else {
            let links = directions(&graph);
            serde_json::to_string(&links.iter().map(|it| Link::of(it, &graph)).collect::<Vec<_>>())
        };
        return say::data(format_args!("{}\n", json.context("cannot write JSON")?));
    }
    let links = if args.down { Vec::new() } else { pairs(&graph) };
    let down = pairs_down(&graph);
    if links.is_empty() && down.is_empty() {
        say::note(if args.down { "no link is down" } else { "no link was found" });
    } else {
        say::table(&table(&graph, &links, (&down, now_ns)).format(output_width(args.wide)))?;
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

/// Makes the table of links, and of links that are down at a time of the clock of records.
pub(super) fn table(
    graph: &Graph,
    links: &[LinkRecord],
    (down, now_ns): (&[LinkDownRecord], u64),
) -> Table<9> {
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
    for link in down {
        let name = |at: Endpoint| graph.port(at).map_or_else(|| "-".to_owned(), name_of);
        let since = Duration::from_nanos(now_ns.saturating_sub(link.since_ns));
        table.row([
            &link.from.dpid.to_string(),
            &link.from.port.to_string(),
            &name(link.from),
            &link.to.dpid.to_string(),
            &link.to.port.to_string(),
            &name(link.to),
            "-",
            "-",
            &format!("down for {}: {}", duration(since.as_secs_f64()), reason(link)),
        ]);
    }
    table
}

/// Returns why a link is down, with the end that it is about if the link's line does not say it.
fn reason(link: &LinkDownRecord) -> String {
    match link.why {
        WhyDown::Silent => link.why.to_string(),
        why => format!("{why} ({})", if link.is_far_end { "TO" } else { "FROM" }),
    }
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

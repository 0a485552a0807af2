//! `rosemary path`: shows how packets get from one place of the network to another.

use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use monitor::options::InstancePaths;
use sdk::services::Service;
use sdk::topology::{Graph, Path};
use sdk::{Dpid, PortNo};

use view::topology::{PathEnd, PathLine, host_at, name_of};

use super::{load, note_unsettled};
use crate::client;
use crate::say;
use crate::switch_name::SwitchName;
use crate::table::{Table, output_width};

/// Most paths that are shown.
const MOST_PATHS: u8 = 64;

const AFTER_HELP: &str = "\
FROM and TO are Ethernet or IP addresses of hosts, which the service `hosts` knows, or switches: \
their datapath ids, or their names as `rosemary switches` shows them.

Each line is a link that the path takes. `forwarding` may use any path of the least cost. With --count, further paths follow in \
the order of their cost; with --disjoint these have no link in common, and their costs add up to the least sum.

Exit codes: 0 shown; 1 there is no path, or Rosemary or a service does not run; 2 wrong usage.";

/// Options of `rosemary path`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PathArgs {
    /// Where the path begins
    pub from: EndName,
    /// Where the path ends
    pub to: EndName,
    /// Show up to this number of paths
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_PATHS)))]
    pub count: u8,
    /// Show paths that share no link
    #[arg(long)]
    pub disjoint: bool,
    /// Print JSON: a list with an object per path
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// An operator's word for an end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndName {
    /// A host, or the datapath id of a switch.
    End(PathEnd),
    /// The name of a switch.
    Named(SwitchName),
}

impl FromStr for EndName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mistake = match text.parse() {
            Ok(end) => return Ok(Self::End(end)),
            Err(mistake) => mistake,
        };
        text.parse().map(Self::Named).map_err(|_| format!("{mistake}, or its name"))
    }
}

impl EndName {
    /// Returns the end that is meant.
    fn end(&self, instance: &InstancePaths) -> anyhow::Result<PathEnd> {
        match self {
            Self::End(end) => Ok(*end),
            Self::Named(switch) => Ok(PathEnd::Switch(switch.dpid(&client::connect(instance)?)?)),
        }
    }
}

/// Shows the paths.
///
/// # Errors
/// There is no path, Rosemary or a service does not run, or the output cannot be written.
pub fn run(args: &PathArgs) -> anyhow::Result<()> {
    let graph = load(&args.instance)?;
    let (from_end, to_end) = (args.from.end(&args.instance)?, args.to.end(&args.instance)?);
    let at = |end| switch_of(end, &graph, &args.instance);
    let ((from, from_port), (to, to_port)) = (at(from_end)?, at(to_end)?);
    let count = usize::from(args.count);
    let paths = if args.disjoint && from != to {
        graph.disjoint_paths(from, to, count)
    } else {
        graph.paths(from, to, count)
    };
    if args.json {
        let lines: Vec<PathLine> = paths.iter().map(PathLine::from).collect();
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    }
    if paths.is_empty() {
        note_unsettled(&graph);
        bail!("no path leads from {from} to {to}: see `rosemary links`");
    }
    if !args.json {
        for (place, dpid, port) in [(from_end, from, from_port), (to_end, to, to_port)] {
            if let Some(port) = port {
                say::note(format_args!("{place} is at switch {dpid}, port {port}"));
            }
        }
        show(&paths, &graph, output_width(args.wide))?;
    }
    Ok(())
}

fn show(paths: &[Path], graph: &Graph, width: Option<usize>) -> anyhow::Result<()> {
    for (number, path) in (1..).zip(paths) {
        let hops = path.hops.len();
        say::note(format_args!("path {number}: {hops} links, cost {}", path.cost));
        if hops > 0 {
            say::table(&table(path, graph).format(width))?;
        }
    }
    Ok(())
}

fn table(path: &Path, graph: &Graph) -> Table<7> {
    let head = ["FROM", "PORT", "NAME", "TO", "TO-PORT", "TO-NAME", "METRIC"];
    let mut table = Table::new(head).expendable(&["METRIC", "TO-NAME", "NAME"]);
    for hop in &path.hops {
        let name = |at| graph.port(at).map_or_else(|| "-".to_owned(), name_of);
        table.row([
            &hop.from.dpid.to_string(),
            &hop.from.port.to_string(),
            &name(hop.from),
            &hop.to.dpid.to_string(),
            &hop.to.port.to_string(),
            &name(hop.to),
            &hop.metric.to_string(),
        ]);
    }
    table
}

/// Returns the switch of a place, and the port if the place is a host.
fn switch_of(
    place: PathEnd,
    graph: &Graph,
    instance: &InstancePaths,
) -> anyhow::Result<(Dpid, Option<PortNo>)> {
    let (dpid, port) = match place {
        PathEnd::Switch(dpid) => (dpid, None),
        PathEnd::Host(name) => {
            let table = client::connect(instance)?.service(Service::Hosts)?;
            let (dpid, port) = host_at(name, &table).map_err(|why| anyhow!("{why}"))?;
            (dpid, Some(port))
        }
    };
    if graph.switch(dpid).is_none() {
        bail!("switch {dpid} is not connected: see `rosemary topology`");
    }
    Ok((dpid, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_a_host_or_a_switch() {
        let place = |text: &str| text.parse::<EndName>();
        assert_eq!(place("0x1"), Ok(EndName::End(PathEnd::Switch(Dpid(1)))));
        assert!(matches!(place("10.0.0.1"), Ok(EndName::End(PathEnd::Host(_)))));
        assert_eq!(place("s1"), Ok(EndName::Named(SwitchName::Name("s1".into()))));
        assert!(place("no place").unwrap_err().ends_with("datapath id of a switch, or its name"));
    }
}

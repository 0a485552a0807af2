//! `rosemary path`: shows how packets get from one place of the network to another.

use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use config::instance::InstancePaths;
use sdk::services::Service;
use sdk::topology::{Graph, Path};

use view::topology::{
    Attachment, PathEnd, PathLine, bridge_at, host_at, is_bridge, name_of, paths,
};

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

Each line is a link that the path takes. Packets of a host at a bridge that joins two parts of the network enter at the nearer \
port of the bridge. Between hosts at the same port or bridge no link is needed. `forwarding` may use any path of the least cost. With --count, further paths follow in \
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
    let names = [args.from.end(&args.instance)?, args.to.end(&args.instance)?];
    let ends =
        [place_of(names[0], &graph, &args.instance)?, place_of(names[1], &graph, &args.instance)?];
    let paths = paths(&graph, ends, usize::from(args.count), args.disjoint);
    if args.json {
        let lines: Vec<PathLine> = paths.iter().map(PathLine::from).collect();
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    }
    if paths.is_empty() {
        note_unsettled(&graph);
        let [from, to] = ends.map(Attachment::dpid);
        bail!("no path leads from {from} to {to}: see `rosemary links`");
    }
    if !args.json {
        for note in notes(names, ends, &graph) {
            say::note(note);
        }
        show(&paths, &graph, output_width(args.wide))?;
    }
    Ok(())
}

/// Says where hosts are, and what is not a cable between switches.
fn notes(names: [PathEnd; 2], ends: [Attachment; 2], graph: &Graph) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, end) in names.iter().zip(ends) {
        let Attachment::Host(at) = end else { continue };
        notes.push(match bridge_at(at, graph) {
            Some(bridge) => {
                format!(
                    "{name} is at the bridge without OpenFlow between switch {at} and switch {}",
                    bridge.to
                )
            }
            None => format!("{name} is at switch {}, port {}", at.dpid, at.port),
        });
    }
    if names[0] != names[1] && ends[0] == ends[1] && matches!(ends[0], Attachment::Host(_)) {
        notes.push(
            "both are at the same port: the bridge or hub there carries their packets, and no switch need see them"
                .to_owned(),
        );
    }
    notes
}

fn show(paths: &[Path], graph: &Graph, width: Option<usize>) -> anyhow::Result<()> {
    for (number, path) in (1..).zip(paths) {
        let hops = path.hops.len();
        say::note(format_args!("path {number}: {hops} links, cost {}", path.cost));
        if hops > 0 {
            say::table(&table(path, graph).format(width))?;
        }
        for hop in &path.hops {
            if graph.link_from(hop.from).is_some_and(|link| is_bridge(link, graph)) {
                say::note(format_args!(
                    "between {} and {} is a bridge without OpenFlow, which may have hosts of its own",
                    hop.from, hop.to
                ));
            }
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

/// Returns the place that an operator means. Its switch is connected.
fn place_of(end: PathEnd, graph: &Graph, instance: &InstancePaths) -> anyhow::Result<Attachment> {
    let place = match end {
        PathEnd::Switch(dpid) => Attachment::Switch(dpid),
        PathEnd::Host(name) => {
            let table = client::connect(instance)?.service(Service::Hosts)?;
            Attachment::Host(host_at(name, &table).map_err(|why| anyhow!("{why}"))?)
        }
    };
    let dpid = place.dpid();
    if graph.switch(dpid).is_none() {
        bail!("switch {dpid} is not connected: see `rosemary topology`");
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use sdk::services::topology::Endpoint;
    use sdk::{Dpid, PortNo};

    use super::*;
    use crate::topology::tests::bridges;

    fn end(dpid: u64, port: u32) -> Endpoint {
        Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
    }

    #[test]
    fn path_of_a_host_at_a_bridge_enters_at_the_nearer_port() {
        let graph = bridges();
        let names = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<PathEnd>().unwrap());
        let at_bridge = Attachment::Host(end(1, 2));
        let links = |ends: [Attachment; 2]| -> Vec<usize> {
            paths(&graph, ends, 1, false).iter().map(|path| path.hops.len()).collect()
        };
        // The bridge joins 1 and 2; another cable leads from 2 to 3.
        assert_eq!(links([Attachment::Host(end(1, 1)), at_bridge]), [0]);
        assert_eq!(
            links([at_bridge, Attachment::Host(end(2, 1))]),
            [0],
            "switch 1 does not see it"
        );
        assert_eq!(links([Attachment::Host(end(3, 1)), at_bridge]), [1]);
        assert_eq!(links([Attachment::Host(end(1, 1)), Attachment::Host(end(2, 1))]), [1]);
        assert_eq!(links([Attachment::Switch(Dpid(2)), Attachment::Switch(Dpid(1))]), [1]);
        let said = notes(names, [Attachment::Host(end(1, 1)), at_bridge], &graph).join("; ");
        assert_eq!(
            said,
            "host 10.0.0.1 is at switch 00:00:00:00:00:00:00:01, port 1; host 10.0.0.2 is at the bridge without OpenFlow \
             between switch 00:00:00:00:00:00:00:01 port 2 and switch 00:00:00:00:00:00:00:02 port 2"
        );
        let said = notes(names, [at_bridge, at_bridge], &graph);
        assert!(said[2].starts_with("both are at the same port"), "{said:?}");
        assert_eq!(
            notes(names, [Attachment::Host(end(1, 1)), Attachment::Host(end(3, 1))], &graph).len(),
            2
        );
    }

    #[test]
    fn place_is_a_host_or_a_switch() {
        let place = |text: &str| text.parse::<EndName>();
        assert_eq!(place("0x1"), Ok(EndName::End(PathEnd::Switch(Dpid(1)))));
        assert!(matches!(place("10.0.0.1"), Ok(EndName::End(PathEnd::Host(_)))));
        assert_eq!(place("s1"), Ok(EndName::Named(SwitchName::Name("s1".into()))));
        assert!(place("no place").unwrap_err().ends_with("datapath id of a switch, or its name"));
    }
}

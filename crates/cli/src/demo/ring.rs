//! The demo's network: a ring of three switches with a host each, drawn as Rosemary has discovered it, and a cut of one of
//! its links.

use std::time::Duration;

use anyhow::Context as _;
use config::instance::InstancePaths;
use sdk::topology::Graph;
use sdk::{Dpid, PortNo};

use super::transcript::Transcript;
use super::{INTERVAL, ms, pings};
use crate::lab::{Host, Lab, Switch};
use crate::topology;

/// Time until all links and the ports of all hosts are known: the probe windows, and slack for a busy machine.
const DISCOVERY: Duration = Duration::from_secs(15);

/// Waits until Rosemary knows this number of links, in both directions, and the ports of the three hosts; returns the
/// drawing.
///
/// # Errors
/// It did not find them in time.
pub(super) fn discovered(
    lab: &Lab,
    switches: [&Switch<'_>; 3],
    links: usize,
) -> anyhow::Result<Vec<String>> {
    let dpids = dpids(switches)?;
    let drawing = lab.wait_for("Rosemary finds the links", DISCOVERY, |evidence| {
        let Ok(graph) = topology::load(&InstancePaths::default()) else {
            return Ok(None);
        };
        evidence.0 = draw(&graph, dpids).join("\n");
        let has_host = |dpid: &Dpid| graph.ports(*dpid).any(|port| port.edge && port.live);
        let is_known = graph.link_count() == 2 * links && dpids.iter().all(has_host);
        Ok(is_known.then(|| draw(&graph, dpids)))
    })?;
    Ok(drawing)
}

/// Returns the datapath identifiers of the switches.
fn dpids(switches: [&Switch<'_>; 3]) -> anyhow::Result<[Dpid; 3]> {
    let dpid = |switch: &Switch<'_>| {
        let text = switch.dpid();
        text.parse().with_context(|| format!("{text} is no datapath identifier"))
    };
    let [s1, s2, s3] = switches.map(dpid);
    Ok([s1?, s2?, s3?])
}

/// Draws the three switches, their hosts, and the links between them that were found, with the ports of s1.
fn draw(graph: &Graph, [s1, s2, s3]: [Dpid; 3]) -> Vec<String> {
    let is_linked = |a: Dpid, b: Dpid| {
        graph
            .links()
            .any(|link| link.from.dpid == a && link.to.dpid == b && graph.is_usable(link.from))
    };
    let is_edge =
        |dpid: Dpid| graph.ports(dpid).any(|port| port.edge && port.at.port != PortNo::LOCAL);
    let bar =
        |there: bool, drawn: &str| if there { drawn.to_owned() } else { " ".repeat(drawn.len()) };
    let (left, right) = (is_linked(s1, s2), is_linked(s1, s3));
    let below = bar(is_linked(s2, s3), " ------- ");
    vec![
        "            h1".to_owned(),
        format!("            {}", bar(is_edge(s1), "|")),
        "            s1".to_owned(),
        format!("           {}  {}", bar(left, "/"), bar(right, "\\")),
        format!("          {}    {}", bar(left, "/"), bar(right, "\\")),
        format!("         {}      {}", bar(left, "/"), bar(right, "\\")),
        format!("  h2 {} s2{below}s3 {} h3", bar(is_edge(s2), "--"), bar(is_edge(s3), "--"),),
    ]
}

/// Cuts the link between two switches while two hosts behind them ping, and shows that the path moves.
///
/// # Errors
/// A program of the lab failed.
pub(super) fn link_is_cut(
    lab: &Lab,
    transcript: &mut Transcript,
    switches: [&Switch<'_>; 3],
    [h1, h2]: [&Host<'_>; 2],
) -> anyhow::Result<()> {
    transcript.step("The link between s1 and s2 is cut while h1 pings h2.");
    let [s1, s2, s3] = switches;
    let mut pinging = h1.ping_in_background(h2, 150, INTERVAL)?;
    pinging.wait_for(25, Duration::from_secs(5))?;
    s1.unlink_from(s2)?;
    let report = pinging.finish()?;
    // The promise is 300 ms on an idle machine.
    let lost = INTERVAL * report.lost();
    let is_short = lost < Duration::from_secs(3) && report.received > 25;
    let outage = match report.lost() {
        0 => String::new(),
        _ => format!("; the pings of {} were lost", ms(lost)),
    };
    let text = format!("{}{outage}", pings(&report));
    transcript.check(is_short, text);
    transcript.note("rosemary topology knows these links now:");
    for line in discovered(lab, switches, 2)? {
        transcript.note(line);
    }
    let flows = s3.dump_flows()?;
    let leads = flows.iter().any(|flow| flow.contains(&format!("dl_dst={}", h2.mac())));
    transcript.check(leads, "the path leads over s3");
    transcript.written()
}

#[cfg(test)]
mod tests {
    use sdk::services::topology::{Endpoint, LinkRecord, PortRecord, Record, SwitchRecord};

    use super::*;

    fn graph(links: &[(u64, u64)]) -> Graph {
        let switch = |dpid| SwitchRecord { dpid: Dpid(dpid), epoch: 1, ports: 3, drained: false };
        let end = |dpid, to: u64| Endpoint {
            dpid: Dpid(dpid),
            port: PortNo(u32::try_from(to + 10).expect("a small number")),
        };
        let directions = links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let links = directions.map(|(a, b)| {
            Record::Link(LinkRecord {
                from: end(a, b),
                to: end(b, a),
                metric: 1,
                latency_ns: 0,
                found_ns: 0,
                suspicious: false,
            })
        });
        let host = |dpid| {
            Record::Port(PortRecord {
                at: Endpoint { dpid: Dpid(dpid), port: PortNo(1) },
                hw_addr: sdk::MacAddr([0; 6]),
                speed_kbps: 0,
                name: [0; 16],
                live: true,
                edge: true,
                link: false,
                shared: false,
            })
        };
        let switches = (1..=3).flat_map(|dpid| [Record::Switch(switch(dpid)), host(dpid)]);
        Graph::of(switches.chain(links).map(|record| record.encode()))
    }

    #[test]
    fn drawing_shows_the_links_that_are_there() {
        let dpids = [1, 2, 3].map(Dpid);
        let ring = draw(&graph(&[(1, 2), (2, 3), (3, 1)]), dpids);
        assert_eq!(
            ring,
            [
                "            h1",
                "            |",
                "            s1",
                "           /  \\",
                "          /    \\",
                "         /      \\",
                "  h2 -- s2 ------- s3 -- h3",
            ]
        );
        let cut = draw(&graph(&[(2, 3), (3, 1)]), dpids);
        assert_eq!(cut[4], "               \\");
        assert_eq!(cut[6], ring[6]);
    }
}

use sdk::services::topology::{Endpoint, LinkDownRecord, LinkRecord, Record, Slot, WhyDown};
use sdk::{Dpid, MacAddr, PortNo};

use super::*;

fn end(dpid: u64, port: u32) -> Endpoint {
    Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
}

fn port(at: Endpoint, name: &[u8], link: bool) -> Slot {
    let mut padded = [0; 16];
    padded[..name.len()].copy_from_slice(name);
    Record::Port(PortRecord {
        at,
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        speed_kbps: 1_000_000,
        name: padded,
        live: true,
        edge: !link,
        link,
        shared: false,
    })
    .encode()
}

fn link(from: Endpoint, to: Endpoint, suspicious: bool) -> Slot {
    let (metric, latency_ns, found_ns) = (100, 1_500_000, 9);
    Record::Link(LinkRecord { from, to, metric, latency_ns, found_ns, suspicious }).encode()
}

/// A hostile name: it would end a string, an attribute and an element, and change the terminal.
const NAME: &[u8] = b"\"'<b>\\\x1b[2J&\n\xff";

/// Two linked switches, the second drained, and a third with a link of one direction.
fn graph() -> Graph {
    let switch = |dpid, drained| {
        let (dpid, epoch, ports) = (Dpid(dpid), 1, 2);
        Record::Switch(SwitchRecord { dpid, epoch, ports, drained }).encode()
    };
    Graph::of([
        Record::Status { settled: true }.encode(),
        switch(1, false),
        switch(2, true),
        switch(3, false),
        port(end(1, 1), NAME, true),
        port(end(1, 2), b"h1", false),
        port(end(2, 1), b"s2-s1", true),
        link(end(1, 1), end(2, 1), true),
        link(end(2, 1), end(1, 1), false),
        link(end(3, 1), end(1, 2), false),
    ])
}

/// The time of the clock of records.
const NOW_NS: u64 = 100_000_000_000;

#[test]
fn links_that_are_down_are_listed_with_reason_and_age() {
    let down = |from, to, is_far_end| {
        let (why, since_ns) = (WhyDown::PortDown, 30_000_000_000);
        Record::LinkDown(LinkDownRecord { from, to, why, is_far_end, since_ns }).encode()
    };
    let slots = [down(end(1, 7), end(4, 9), false), down(end(4, 9), end(1, 7), true)];
    let graph = Graph::of(slots);
    let pairs = pairs_down(&graph);
    assert_eq!(pairs.len(), 1);
    let text = links::table(&graph, &links::pairs(&graph), (&pairs, NOW_NS)).text();
    assert!(text.contains("down for 1 min: port down (FROM)"), "{text}");
    let json = serde_json::to_value(topology(&graph, None, NOW_NS)).unwrap();
    assert_eq!(json["links_down"].as_array().unwrap().len(), 2);
    let second = &json["links_down"][1];
    assert_eq!(
        (second["why"].as_str(), second["down_seconds"].as_u64()),
        (Some("port-down"), Some(70))
    );
    assert_eq!(
        (second["cause"]["dpid"].as_str(), second["cause"]["port"].as_str()),
        (Some("00:00:00:00:00:00:00:01"), Some("7"))
    );
}

/// Whether text has no byte that a terminal or a parser could take for more than text.
fn is_harmless(text: &str) -> bool {
    !text.contains(['\x1b', '\u{fffd}']) && text.chars().all(|it| it == '\n' || !it.is_control())
}

/// Switches 1 and 2, which a bridge joins at their ports 2, and 3, with a cable from port 2 to port 3 of 2. A second bridge
/// leads to port 4 of 1 and, not used, to port 4 of 2. Hosts are at each port 1 and at the bridges.
pub(super) fn bridges() -> Graph {
    let port = |at: Endpoint, edge, link, shared| {
        let (hw_addr, speed_kbps, name) = (MacAddr([2, 0, 0, 0, 0, 1]), 1_000_000, [0; 16]);
        let record = PortRecord { at, hw_addr, speed_kbps, name, live: true, edge, link, shared };
        Record::Port(record).encode()
    };
    let switch = |dpid| {
        let (epoch, ports, drained) = (1, 4, false);
        Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch, ports, drained }).encode()
    };
    Graph::of([
        Record::Status { settled: true }.encode(),
        switch(1),
        switch(2),
        switch(3),
        port(end(1, 1), true, false, false),
        port(end(2, 1), true, false, false),
        port(end(3, 1), true, false, false),
        port(end(1, 2), true, true, true),
        port(end(2, 2), false, true, true),
        port(end(1, 4), true, false, true),
        port(end(2, 4), false, false, true),
        port(end(2, 3), false, true, false),
        port(end(3, 2), false, true, false),
        link(end(1, 2), end(2, 2), false),
        link(end(2, 2), end(1, 2), false),
        link(end(2, 3), end(3, 2), false),
        link(end(3, 2), end(2, 3), false),
    ])
}

#[test]
fn bridges_without_openflow_are_shown() {
    let graph = bridges();
    let json = serde_json::to_value(topology(&graph, None, NOW_NS)).unwrap();
    let shared = |switch: usize, place: usize| &json["switches"][switch]["ports"][place]["shared"];
    assert_eq!([shared(0, 0), shared(0, 1), shared(1, 3)], [false, true, true], "{json}");
    assert_eq!(unused_ports(&graph), [end(2, 4)]);
    let text = links::table(&graph, &links::pairs(&graph), (&[], NOW_NS)).text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].ends_with("  bridge") && lines[2].ends_with("  -"), "{text}");
}

#[test]
fn tables_list_switches_and_links() {
    let graph = graph();
    assert_eq!(
        table(&graph, &switches(&graph)).text(),
        "\
SWITCH                   PORTS  LINKS  EDGE  NEIGHBOURS               STATE
00:00:00:00:00:00:00:01  2      1      1     00:00:00:00:00:00:00:02  -
00:00:00:00:00:00:00:02  1      1      0     00:00:00:00:00:00:00:01  drained
00:00:00:00:00:00:00:03  0      0      0     -                        -
"
    );
    let text = links::table(&graph, &links::pairs(&graph), (&[], NOW_NS)).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].ends_with("100     1.50 ms  suspicious"), "{}", lines[1]);
    assert!(lines[2].ends_with("one-way"), "{}", lines[2]);
    assert!(is_harmless(&text));
}

#[test]
fn json_has_all_of_the_topology() {
    let json = serde_json::to_value(topology(&graph(), None, NOW_NS)).unwrap();
    assert_eq!(json["settled"], true);
    assert_eq!(json["switches"][1]["drained"], true);
    assert_eq!(json["switches"][0]["ports"][1]["name"], "h1");
    assert_eq!(json["switches"][0]["ports"][0]["name"], "\\\"\\'<b>\\\\\\x1b[2J&\\n\\xff");
    assert_eq!(json["links"].as_array().unwrap().len(), 3);
    assert_eq!(json["links"][0]["latency_us"], 1500.0);
    assert_eq!(json["links"][2]["both_directions"], false);
}

#[test]
fn traffic_that_remains_on_a_drained_switch_is_explained() {
    // 1 to 4 are a ring, and 5 is behind 1.
    let network = |drained: &[u64]| {
        let switch = |dpid| {
            let (epoch, ports) = (1, 2);
            let drained = drained.contains(&dpid);
            Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch, ports, drained }).encode()
        };
        let pairs = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 5)];
        let cables = pairs.into_iter().zip(1..).flat_map(|((from, to), number)| {
            let ends = (end(from, number), end(to, number));
            let ports = [port(ends.0, b"", true), port(ends.1, b"", true)];
            ports.into_iter().chain([link(ends.0, ends.1, false), link(ends.1, ends.0, false)])
        });
        Graph::of((1..=5).map(switch).chain(cables))
    };
    let none = BTreeMap::new();
    let why = |drained: &[u64], of: u64| remaining(Dpid(of), &network(drained), Some(&none));
    assert_eq!(why(&[2], 2), [""; 0], "the others are a line");
    assert_eq!(why(&[5], 5), [""; 0], "it is an end");
    let text = &why(&[1], 1)[0];
    assert!(
        text.starts_with("no other path leads from switch 00:00:00:00:00:00:00:02 to"),
        "{text}"
    );
    assert!(text.contains(":05, except over drained"), "{text}");
    assert_eq!(
        (why(&[2, 4], 2).len(), why(&[2, 4], 4).len()),
        (1, 1),
        "each is in the other's way"
    );
    assert_eq!(why(&[2, 3], 2), [""; 0], "a drained neighbour is reached from the other side");
    let at = |count, ports: &[u32]| AtSwitch {
        count,
        ports: ports.iter().map(|port| PortNo(*port)).collect(),
    };
    let twelve: Vec<u32> = (1..=12).collect();
    let hosts = BTreeMap::from([(Dpid(2), at(1, &[7])), (Dpid(3), at(12, &twelve))]);
    let graph = network(&[2, 3]);
    let why = |of: u64, hosts| remaining(Dpid(of), &graph, hosts).join("; ");
    assert_eq!(
        why(2, Some(&hosts)),
        "1 host is attached to it, at port 7: move it to another switch"
    );
    assert!(
        why(3, Some(&hosts)).starts_with(
            "12 hosts are attached to it, at ports 1, 2, 3, 4, 5, 6, 7, 8 and others: move them"
        ),
        "{}",
        why(3, Some(&hosts))
    );
    assert!(why(3, None).contains("the service `hosts` does not run"));
    let json = serde_json::to_value(topology(&graph, Some(&hosts), NOW_NS)).unwrap();
    assert_eq!(json["switches"][1]["remaining"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["switches"][0]["remaining"].as_array().map(Vec::len), Some(0), "{json}");
}

#[test]
fn names_of_ports_stay_text_in_drawings() {
    let graph = graph();
    let dot = dot::write(&graph);
    assert!(is_harmless(&dot), "{dot}");
    // Only the quotation marks that are not escaped delimit strings.
    let plain = dot.replace("\\\\", "").replace("\\\"", "");
    assert_eq!(plain.matches('"').count() % 2, 0);
    let label = "taillabel=\"1 \\\\\\\"\\\\'<b>\\\\\\\\\\\\x1b[2J&\\\\n\\\\xff\"";
    assert!(dot.contains(label), "{dot}");
    assert!(dot.contains("style=dashed") && dot.contains("color=red"));

    let svg = svg::write(&graph);
    assert!(is_harmless(&svg) && !svg.contains("<b>"), "{svg}");
    assert!(svg.contains("&quot;") && svg.contains("&lt;b&gt;") && svg.contains("&amp;"));
    let count = |what| svg.matches(what).count();
    assert_eq!((count("<rect"), count("<line"), count("class=\"drained\"")), (3, 2, 1));
}

#[test]
fn empty_topology_is_drawn() {
    let graph = Graph::default();
    assert!(svg::write(&graph).ends_with("</svg>\n") && dot::write(&graph).ends_with("}\n"));
}

#[test]
fn large_topology_is_drawn_in_time() {
    for switches in [1_000, 50_000_u64] {
        let mut slots = Vec::new();
        for dpid in 1..=switches {
            let (dpid_, epoch, ports) = (Dpid(dpid), 1, 2);
            slots.push(
                Record::Switch(SwitchRecord { dpid: dpid_, epoch, ports, drained: false }).encode(),
            );
            let next = dpid % switches + 1;
            slots.push(link(end(dpid, 1), end(next, 2), false));
            slots.push(link(end(next, 2), end(dpid, 1), false));
        }
        let clock = std::time::Instant::now();
        let svg = svg::write(&Graph::of(slots));
        assert_eq!(svg.matches("<rect").count() as u64, switches);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(clock.elapsed().as_secs() < 30, "{switches}: {:?}", clock.elapsed());
    }
}

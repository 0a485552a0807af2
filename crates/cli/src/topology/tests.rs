use sdk::services::topology::{Endpoint, LinkRecord, Record, Slot};
use sdk::{Dpid, MacAddr};

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

/// Whether text has no byte that a terminal or a parser could take for more than text.
fn is_harmless(text: &str) -> bool {
    !text.contains(['\x1b', '\u{fffd}']) && text.chars().all(|it| it == '\n' || !it.is_control())
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
    let text = links::table(&graph, &links::pairs(&graph)).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].ends_with("100     1.50 ms  suspicious"), "{}", lines[1]);
    assert!(lines[2].ends_with("one-way"), "{}", lines[2]);
    assert!(is_harmless(&text));
}

#[test]
fn json_has_all_of_the_topology() {
    let json = serde_json::to_value(topology(&graph())).unwrap();
    assert_eq!(json["settled"], true);
    assert_eq!(json["switches"][1]["drained"], true);
    assert_eq!(json["switches"][0]["ports"][1]["name"], "h1");
    assert_eq!(json["switches"][0]["ports"][0]["name"], "\\\"\\'<b>\\\\\\x1b[2J&\\n\\xff");
    assert_eq!(json["links"].as_array().unwrap().len(), 3);
    assert_eq!(json["links"][0]["latency_us"], 1500.0);
    assert_eq!(json["links"][2]["both_directions"], false);
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
    let mut slots = Vec::new();
    for dpid in 1..=1000_u64 {
        let (dpid_, epoch, ports) = (Dpid(dpid), 1, 2);
        slots.push(
            Record::Switch(SwitchRecord { dpid: dpid_, epoch, ports, drained: false }).encode(),
        );
        let next = dpid % 1000 + 1;
        slots.push(link(end(dpid, 1), end(next, 2), false));
        slots.push(link(end(next, 2), end(dpid, 1), false));
    }
    let clock = std::time::Instant::now();
    let svg = svg::write(&Graph::of(slots));
    assert_eq!(svg.matches("<rect").count(), 1000);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert!(clock.elapsed().as_secs() < 30, "{:?}", clock.elapsed());
}

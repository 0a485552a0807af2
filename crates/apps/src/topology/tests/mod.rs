//! Discovery in a simulated network of honest switches: links, edges, timeouts and bounds.
//!
//! | file | content |
//! | --- | --- |
//! | `net.rs` | the simulation: cables with a latency |
//! | `segments.rs` | bridges without OpenFlow |
//! | `attacks.rs` | attackers that do what the published attacks do |

mod attacks;
mod net;
mod segments;

use std::time::Duration;

use rosemary_sdk::services::topology::{Endpoint, Record, WhyDown};

use self::net::{DOWN, MS, Net, arp, at, line, line_links, pair};
use crate::discovery::Discovery;

#[test]
fn links_are_found_at_once_and_edges_after_the_window() {
    let mut net = line();
    net.run(MS * 20);
    assert_eq!(net.links(), line_links());
    assert!(net.records().all(|it| !matches!(it, Record::Port(port) if port.edge)));
    net.run(MS * 900);
    assert!(!net.is_edge(at(1, 1)));
    net.run(MS * 200);
    let edges: Vec<_> = [at(1, 1), at(1, 2), at(2, 1), at(2, 2), at(2, 3), at(3, 1), at(3, 4)]
        .into_iter()
        .filter(|at| net.is_edge(*at))
        .collect();
    assert_eq!(edges, [at(1, 1), at(2, 3), at(3, 4)]);
    assert!(net.port_record(at(2, 1)).link && !net.port_record(at(2, 3)).link);
    assert_eq!(net.incidents, [""; 0]);
    // The metric is that of 10 Gbit/s.
    assert!(net.link_records().all(|link| link.metric == 10 && !link.suspicious));
    net.run(Duration::from_secs(60));
    assert_eq!(net.links(), line_links());
}

#[test]
fn new_port_is_probed_several_times_in_its_window() {
    let mut net = Net::new(1);
    net.run(MS * 1100);
    let sent = net.sent.iter().filter(|(_, from, _)| *from == at(1, 1));
    let times: Vec<u128> = sent.map(|(time, ..)| time.as_millis() - 100_000).collect();
    assert_eq!(times, [1, 101, 301, 601]);
    // A lost probe delays the link by one of these intervals.
    net.set_port(1, 1, DOWN);
    net.connect(2);
    net.run(MS * 5);
    net.cable(at(1, 1), at(2, 1), MS);
    net.run(MS * 130);
    assert_eq!(net.links(), []);
    net.set_port(1, 1, 0);
    net.run(MS * 5);
    assert_eq!(net.links(), pair(at(1, 1), at(2, 1)));
}

#[test]
fn link_whose_first_probes_were_lost_is_found_soon() {
    let mut net = Net::new(2);
    net.run(MS * 1100);
    assert!(net.links().is_empty() && net.is_edge(at(1, 1)));
    net.cable(at(1, 1), at(2, 1), MS);
    net.run(MS * 1000);
    assert_eq!(net.links(), pair(at(1, 1), at(2, 1)));
}

#[test]
fn link_goes_at_once_with_a_port_or_a_switch() {
    for cause in 0..3 {
        let mut net = line();
        net.run(Duration::from_secs(2));
        match cause {
            0 => net.set_port(1, 2, DOWN),
            1 => net.disconnect(1),
            _ => net.connect(1),
        }
        net.work();
        assert_eq!(net.links(), pair(at(2, 2), at(3, 1)), "{cause}");
        assert!(!net.is_edge(at(2, 1)), "its other end is probed before it floods");
    }
}

#[test]
fn silent_link_goes_after_a_timeout_and_comes_back() {
    let mut net = line();
    net.run(Duration::from_secs(10));
    net.cables.remove(&at(1, 2));
    net.cables.remove(&at(2, 1));
    net.run(Duration::from_secs(6));
    assert_eq!(net.links(), line_links());
    net.run(Duration::from_secs(6));
    assert_eq!(net.links(), pair(at(2, 2), at(3, 1)));
    net.cable(at(1, 2), at(2, 1), MS);
    net.run(Duration::from_secs(11));
    assert_eq!(net.links(), line_links());
    let [incident] = &net.incidents[..] else { panic!("{:?}", net.incidents) };
    assert!(incident.starts_with("the link from ") && incident.ends_with(" is down"), "{incident}");
}

/// An overloaded controller loses packet-ins of all links: they stay, and fewer probes are sent.
#[test]
fn links_stay_while_the_controller_is_overloaded() {
    let mut net = Net::new(40);
    for dpid in 1..40 {
        net.cable(at(dpid, 2), at(dpid + 1, 1), MS);
    }
    net.run(Duration::from_secs(10));
    let cables = std::mem::take(&mut net.cables);
    net.run(Duration::from_secs(12));
    assert_eq!(net.links().len(), 2 * 39);
    net.cables = cables;
    // One link is really gone.
    net.cables.remove(&at(5, 2));
    net.run(Duration::from_secs(20));
    assert_eq!(net.links().len(), 2 * 39 - 1);
    net.cables.clear();
    net.run(Duration::from_secs(45));
    assert_eq!(net.links(), []);
}

#[test]
fn port_is_no_edge_while_only_one_direction_works() {
    let mut net = line();
    net.cables.remove(&at(1, 2));
    net.run(Duration::from_secs(5));
    assert!(net.links().contains(&(at(2, 1), at(1, 2))));
    assert!(!net.links().contains(&(at(1, 2), at(2, 1))));
    assert!(!net.is_edge(at(1, 2)) && !net.is_edge(at(2, 1)));
}

/// A switch that connects late: its hosts were seen behind the port of its neighbour.
#[test]
fn late_switch_gets_its_link_with_an_incident() {
    let mut net = Net::new(1);
    net.cable(at(1, 2), at(2, 1), MS);
    net.run(Duration::from_secs(2));
    net.packet(at(1, 2), &arp());
    net.run(Duration::from_secs(2));
    net.connect(2);
    net.run(MS * 20);
    assert_eq!(net.links(), pair(at(1, 2), at(2, 1)));
    assert!(net.has_incident("accepted a link"));
}

/// A busy controller delivers the probes after the window, and after a packet that a neighbour flooded over the same link.
#[test]
fn late_probe_makes_a_link_despite_traffic_since_it_left() {
    let mut net = Net::new(2);
    net.cable(at(1, 2), at(2, 1), MS * 1500);
    net.run(MS * 1100);
    assert!(net.is_edge(at(1, 2)) && net.is_edge(at(2, 1)));
    net.packet(at(1, 2), &arp());
    net.packet(at(2, 1), &arp());
    net.run(MS * 500);
    assert_eq!(net.links(), pair(at(1, 2), at(2, 1)));
    assert!(!net.has_incident("refused a link"));
}

#[test]
fn window_lasts_longer_while_probes_take_long() {
    let mut net = Net::new(1);
    net.discovery.delay = MS * 200;
    net.run(MS * 1300);
    assert!(!net.is_edge(at(1, 1)), "the last probe left 700 ms ago and may take 800 ms");
    net.run(MS * 200);
    assert!(net.is_edge(at(1, 1)));
}

#[test]
fn host_is_remembered_while_its_switch_is_away_and_forgotten_at_port_down() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.packet(at(1, 1), &arp());
    net.packet(at(3, 4), &arp());
    net.cable(at(1, 1), at(3, 4), MS);
    net.disconnect(3);
    net.run(Duration::from_secs(1));
    net.connect(3);
    net.run(Duration::from_secs(2));
    assert_eq!(net.links(), line_links());
    for (dpid, number) in [(1, 1), (3, 4)] {
        net.set_port(dpid, number, DOWN);
        net.set_port(dpid, number, 0);
    }
    net.run(MS * 100);
    assert_eq!(net.links().len(), 6);
}

#[test]
fn flapping_port_does_not_delay_others() {
    let mut net = Net::new(40);
    for dpid in 1..40 {
        net.cable(at(dpid, 2), at(dpid + 1, 1), MS);
    }
    for turn in 0..200 {
        net.set_port(1, 3, if turn % 2 == 0 { DOWN } else { 0 });
        net.run(MS);
        if turn == 20 {
            assert_eq!(net.links().len(), 2 * 39);
        }
    }
    let probes = net.sent.iter().filter(|(_, from, _)| *from == at(1, 3)).count();
    assert!(probes < 10, "{probes}");
    // It is out of use until it is calm.
    assert!(!net.port_record(at(1, 3)).live);
    net.set_port(1, 3, 0);
    net.run(MS * 1100);
    assert!(net.port_record(at(1, 3)).live);
    net.run(MS * 1200);
    assert!(net.is_edge(at(1, 3)));
}

/// The directions of links that the table states as down, with the reason and the port that it is about.
fn down(net: &Net) -> Vec<(Endpoint, Endpoint, WhyDown, Endpoint)> {
    let down = net.records().filter_map(|record| match record {
        Record::LinkDown(it) => Some((it.from, it.to, it.why, it.cause())),
        _ => None,
    });
    let mut down: Vec<_> = down.collect();
    down.sort_unstable();
    down
}

#[test]
fn link_that_is_down_is_remembered_until_it_is_found_again() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    assert_eq!(down(&net), []);
    let (one, other) = (at(1, 2), at(2, 1));
    assert!(net.links().contains(&(one, other)), "{:?}", net.links());
    net.set_port(1, 2, DOWN);
    net.run(MS * 5);
    let why = |why, cause| [(one, other, why, cause), (other, one, why, cause)];
    assert_eq!(down(&net), why(WhyDown::PortDown, one));
    assert!(net.has_incident(&format!("the link from {one} to {other} is down")));
    // The other end follows, and a cable that is plugged in again ends it.
    let incidents = net.incidents.len();
    net.set_port(2, 1, DOWN);
    net.run(Duration::from_secs(100));
    assert_eq!(down(&net), why(WhyDown::PortDown, one));
    assert_eq!(net.incidents.len(), incidents, "one incident for both ends");
    net.set_port(1, 2, 0);
    net.set_port(2, 1, 0);
    net.run(Duration::from_secs(2));
    assert_eq!(down(&net), []);
    assert!(net.links().contains(&(one, other)));
}

#[test]
fn reason_names_switches_that_left_and_silence() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.disconnect(1);
    net.run(MS * 5);
    let (one, other) = (at(1, 2), at(2, 1));
    let of = |why, cause| [(one, other, why, cause), (other, one, why, cause)];
    assert_eq!(down(&net), of(WhyDown::SwitchGone, one));
    assert_eq!(net.incidents, [""; 0], "the switch's end is an event of its own");
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.cables.clear();
    net.run(Duration::from_secs(40));
    assert!(down(&net).iter().any(|it| (it.0, it.1, it.2) == (one, other, WhyDown::Silent)));
    assert!(net.has_incident("is down"), "{:?}", net.incidents);
}

#[test]
fn ports_of_a_switch_are_bounded() {
    let mut net = Net::new(1);
    for number in 5..10_000 {
        net.set_port(1, number, 0);
    }
    net.connect(2);
    net.cable(at(1, 1), at(2, 1), MS);
    net.run(MS * 60);
    assert_eq!(net.links(), pair(at(1, 1), at(2, 1)));
    let ports = net.records().filter(|record| matches!(record, Record::Port(_))).count();
    assert_eq!(ports, 4096 + 4);
    assert_eq!(net.incidents, ["switch 00:00:00:00:00:00:00:01 has more than 4096 ports"]);
}

#[test]
fn full_table_is_reported_once() {
    let mut net = Net::new(0);
    net.discovery = Discovery::new(net.seal.clone(), 8);
    net.connect(1);
    net.connect(2);
    net.run(MS * 10);
    net.connect(3);
    net.run(MS * 10);
    assert_eq!(net.table.len(), 8);
    assert_eq!(net.incidents, ["the table of the topology is full"]);
}

#[test]
fn table_is_settled_after_the_first_windows() {
    let mut net = line();
    let is_settled = |net: &Net| net.records().any(|it| it == Record::Status { settled: true });
    net.run(MS * 2900);
    assert!(!is_settled(&net));
    net.run(MS * 1200);
    assert!(is_settled(&net));
    // The kernel repeats what exists: nothing changes.
    net.discovery.snapshot_begin(net.now);
    for dpid in [1, 2, 3] {
        net.discovery.switch_up(net.switch(dpid), net.now);
        (1..=4).for_each(|number| net.set_port(dpid, number, 0));
    }
    net.discovery.snapshot_end(net.now);
    net.run(MS);
    assert!(is_settled(&net));
    assert_eq!(net.links(), line_links());
    // A port is gone in the next one.
    net.discovery.snapshot_begin(net.now);
    for dpid in [1, 2, 3] {
        net.discovery.switch_up(net.switch(dpid), net.now);
        (1..=4).filter(|it| (dpid, *it) != (1, 2)).for_each(|it| net.set_port(dpid, it, 0));
    }
    net.discovery.snapshot_end(net.now);
    net.run(MS);
    assert_eq!(net.links(), pair(at(2, 2), at(3, 1)));
    // Another kernel knows no switch.
    net.discovery.snapshot_begin(net.now);
    net.discovery.snapshot_end(net.now);
    net.run(MS);
    assert!(!is_settled(&net));
    assert_eq!(net.links(), []);
}

//! Bridges without OpenFlow, which drop the probes that find links.

use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;

use super::net::{MS, Net, arp, at, line, line_links, pair};

/// Returns three flags of a port's record: edge, link, shared.
fn states(net: &Net, end: Endpoint) -> (bool, bool, bool) {
    let port = net.port_record(end);
    (port.edge, port.link, port.shared)
}

const NOT_USED: (bool, bool, bool) = (false, false, true);
const USED: (bool, bool, bool) = (true, false, true);

#[test]
fn bridge_between_linked_switches_is_used_at_one_port() {
    let mut net = line();
    net.bridges.push(vec![at(1, 3), at(3, 3), at(3, 4)]);
    net.run(MS * 1200);
    assert_eq!(net.links(), line_links(), "a bridge is no further link");
    assert_eq!(states(&net, at(1, 3)), USED);
    assert_eq!([at(3, 3), at(3, 4)].map(|end| states(&net, end)), [NOT_USED; 2]);
    assert_eq!(states(&net, at(2, 3)), (true, false, false));
    net.run(MS * 1000);
    let what = "loop behind 00:00:00:00:00:00:00:03 port 3: the port is not used";
    assert!(net.has_incident(what), "{:?}", net.incidents);
    net.run(Duration::from_secs(100));
    assert_eq!(states(&net, at(3, 4)), NOT_USED, "it stays so");
    assert_eq!(net.incidents.len(), 2, "{:?}", net.incidents);
    // The used port goes: another takes its place.
    net.set_port(1, 3, super::DOWN);
    net.work();
    assert_eq!([at(3, 3), at(3, 4)].map(|end| states(&net, end)), [USED, NOT_USED]);
}

#[test]
fn used_port_never_looks_like_one_that_is_not_used() {
    let mut net = line();
    net.bridges.push(vec![at(1, 3), at(3, 3)]);
    // In the window it is not decided.
    for _ in 0..12 {
        net.run(MS * 100);
        assert_ne!(states(&net, at(1, 3)), NOT_USED);
    }
    assert_eq!(states(&net, at(1, 3)), USED);
    // A host of the bridge sends a probe back: the port receives no floods, and its hosts stay.
    net.run(Duration::from_secs(5));
    let mut probes = net.sent_second.iter().rev();
    let (_, from, probe) = probes.find(|(_, from, _)| *from == at(1, 3)).unwrap().clone();
    net.packet(from, &probe);
    net.run(MS * 10);
    assert!(net.has_incident("loop behind"), "{:?}", net.incidents);
    assert_eq!(states(&net, at(1, 3)), (false, false, false));
}

#[test]
fn bridge_that_alone_joins_two_parts_is_a_link() {
    let mut net = Net::new(2);
    net.bridges.push(vec![at(1, 1), at(2, 1)]);
    net.run(MS * 1200);
    assert_eq!(net.links(), pair(at(1, 1), at(2, 1)));
    assert_eq!(states(&net, at(1, 1)), (true, true, true), "its hosts are known here");
    assert_eq!(states(&net, at(2, 1)), (false, true, true));
    net.run(MS * 1000);
    assert!(net.has_incident("a bridge without OpenFlow joins"), "{:?}", net.incidents);
    // A direct link replaces it.
    net.cable(at(1, 2), at(2, 2), MS);
    net.set_port(1, 2, super::DOWN);
    net.set_port(1, 2, 0);
    net.run(MS * 60);
    assert_eq!(net.links(), pair(at(1, 2), at(2, 2)));
    assert_eq!([at(1, 1), at(2, 1)].map(|end| states(&net, end)), [USED, NOT_USED]);
}

#[test]
fn bridge_that_begins_to_forward_first_probes_stays() {
    let mut net = Net::new(2);
    net.bridges.push(vec![at(1, 1), at(2, 1)]);
    net.run(MS * 1200);
    net.packet(at(1, 1), &arp());
    net.run(MS * 2000);
    let incidents = net.incidents.clone();
    net.bridges_forward_all = true;
    net.run(Duration::from_secs(40));
    assert_eq!(net.links(), pair(at(1, 1), at(2, 1)));
    assert_eq!(states(&net, at(1, 1)), (true, true, true));
    assert_eq!(net.incidents, incidents);
}

#[test]
fn unplugged_bridge_is_forgotten_and_its_ports_are_probed() {
    let mut net = Net::new(2);
    net.bridges.push(vec![at(1, 1), at(2, 1)]);
    net.run(MS * 2000);
    net.bridges.clear();
    net.run(Duration::from_secs(18));
    assert_eq!(net.links().len(), 2, "a few lost probes change nothing");
    net.run(Duration::from_secs(10));
    assert_eq!(net.links(), []);
    assert_eq!([at(1, 1), at(2, 1)].map(|end| states(&net, end)), [(true, false, false); 2]);
}

#[test]
fn old_and_reflected_second_probes_join_nothing() {
    let mut net = Net::new(2);
    net.run(MS * 1200);
    let (_, from, old) = net.sent_second[0].clone();
    net.run(Duration::from_secs(5));
    net.packet(at(2, 4), &old);
    net.run(MS * 10);
    assert!(net.has_incident("an old probe of"), "{:?}", net.incidents);
    assert_eq!(states(&net, from), (true, false, false));
    assert_eq!(states(&net, at(2, 4)), (true, false, false));
    net.run(Duration::from_secs(10));
    let (_, from, fresh) = net.sent_second.last().unwrap().clone();
    net.packet(from, &fresh);
    net.run(MS * 10);
    assert!(net.has_incident("loop behind"), "{:?}", net.incidents);
    assert_eq!(states(&net, from), (false, false, false), "it receives no floods");
}

#[test]
fn link_costs_no_second_probe() {
    let mut net = line();
    net.run(Duration::from_secs(30));
    let ends = [at(1, 2), at(2, 1), at(2, 2), at(3, 1)];
    assert!(!net.sent_second.iter().any(|(_, from, _)| ends.contains(from)));
    // Two in the window, then after 2, 4, 8 and 16 s, and one every ten seconds.
    let count = net.sent_second.iter().filter(|(_, from, _)| *from == at(1, 1)).count();
    assert_eq!(count, 7);
}

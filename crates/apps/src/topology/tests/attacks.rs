//! Attackers that do what the published attacks on discovery do: forge, replay, relay and fabricate.

use std::time::Duration;

use rosemary_sdk::MacAddr;

use super::net::{DOWN, MS, Net, arp, at, line, line_links, pair};
use crate::probe::{Probe, Reach, Seal};

#[test]
fn forged_probe_makes_no_link_and_raises_an_incident() {
    let mut net = line();
    net.run(Duration::from_secs(6));
    let nonce = u64::try_from(net.now.as_nanos()).unwrap();
    let forged = Probe { reach: Reach::Link, from: at(1, 1), nonce }
        .write(MacAddr([2; 6]), &net.seal.forged());
    net.packet(at(3, 4), &forged);
    // Another port in the place of that of a valid probe.
    let mut changed = net.last_probe(at(1, 1));
    let place = changed.len() - 2 - 16 - 9;
    changed[place] = 9;
    net.packet(at(2, 4), &changed);
    net.run(MS * 5);
    assert_eq!(net.links(), line_links());
    assert!(net.has_incident("forged LLDP arrived at 00:00:00:00:00:00:00:03 port 4"));
    assert!(net.has_incident("forged LLDP arrived at 00:00:00:00:00:00:00:02 port 4"));
    // LLDP of a host's own is nothing special.
    let count = net.incidents.len();
    let id = rosemary_sdk::packet::lldp::Id { subtype: 7, id: b"host" };
    let frame = rosemary_sdk::packet::lldp::frame(MacAddr([2; 6]), id, id, 9, &[]).unwrap();
    net.packet(at(3, 3), &frame);
    net.run(MS * 5);
    assert_eq!(net.incidents.len(), count);
}

#[test]
fn replayed_probe_makes_no_link_and_raises_an_incident() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    // A probe that crossed its link is used up.
    let used = net.last_probe(at(1, 2));
    net.packet(at(3, 4), &used);
    net.run(MS);
    assert!(net.has_incident("a second time"));
    // The probe of a port without a link, later.
    let old = net.last_probe(at(1, 1));
    net.run(Duration::from_secs(4));
    net.packet(at(3, 3), &old);
    net.run(MS);
    assert!(net.has_incident("an old probe of 00:00:00:00:00:00:00:01 port 1"));
    assert_eq!(net.links(), line_links());
    assert_eq!(net.incidents.len(), 2);
}

#[test]
fn incidents_of_a_port_are_bounded() {
    let mut net = line();
    net.run(Duration::from_secs(6));
    for _ in 0..1000 {
        let frame = Probe { reach: Reach::Link, from: at(1, 1), nonce: 1 }
            .write(MacAddr([2; 6]), &net.seal.forged());
        net.packet(at(3, 4), &frame);
        net.run(MS);
    }
    assert_eq!(net.incidents.len(), 1);
}

#[test]
fn incidents_of_a_switch_are_bounded() {
    let mut net = line();
    (5..1000).for_each(|port| net.set_port(3, port, 0));
    net.run(Duration::from_secs(6));
    let before = net.incidents.len();
    for port in 5..1000 {
        let frame = Probe { reach: Reach::Link, from: at(1, 1), nonce: 1 }
            .write(MacAddr([2; 6]), &net.seal.forged());
        net.packet(at(3, port), &frame);
    }
    net.run(MS);
    assert_eq!(net.incidents.len() - before, 8);
}

#[test]
fn probes_of_another_rosemary_are_one_incident_and_a_problem_while_they_come() {
    let mut net = line();
    let other = Seal::random();
    let frame = |port| {
        Probe { reach: Reach::Link, from: at(1, port), nonce: 1 }.write(MacAddr([2; 6]), &other)
    };
    net.packet(at(3, 4), &frame(1));
    net.run(MS);
    assert!(
        net.incidents.is_empty() && net.problem.is_none(),
        "an earlier process may have sent it"
    );
    net.run(Duration::from_secs(6));
    for _ in 0..50 {
        net.packet(at(3, 4), &frame(1));
        net.packet(at(2, 4), &frame(2));
        net.run(MS * 1000);
    }
    assert_eq!(net.links(), line_links());
    assert_eq!(net.incidents.len(), 1);
    assert!(net.has_incident("LLDP of another Rosemary arrived at 00:00:00:00:00:00:00:03 port 4"));
    assert!(net.problem.as_ref().is_some_and(|it| it.contains("stop one of them")));
    net.run(Duration::from_secs(70));
    assert_eq!(net.problem, None);
}

#[test]
fn relay_between_known_hosts_is_refused() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.packet(at(1, 1), &arp());
    net.packet(at(3, 4), &arp());
    net.cable(at(1, 1), at(3, 4), MS);
    net.run(Duration::from_secs(12));
    assert_eq!(net.links(), line_links());
    assert!(net.has_incident("hosts are known at"));
    assert!(!net.is_edge(at(1, 1)) && !net.is_edge(at(3, 4)), "nothing floods into the relay");
    // One host suffices.
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.packet(at(3, 4), &arp());
    net.cable(at(1, 1), at(3, 4), MS);
    net.run(Duration::from_secs(12));
    assert_eq!(net.links(), line_links());
}

/// "Port amnesia": the attacker takes its port down and up, so that it is not known as a host any more, and relays a probe
/// that it got before.
#[test]
fn probe_from_before_a_port_flap_is_ignored() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.packet(at(1, 1), &arp());
    net.run(Duration::from_secs(9));
    let before = net.last_probe(at(1, 1));
    net.set_port(3, 4, DOWN);
    net.set_port(3, 4, 0);
    net.packet(at(3, 4), &before);
    net.run(MS * 2);
    net.set_port(1, 1, DOWN);
    net.set_port(1, 1, 0);
    net.packet(at(3, 3), &before);
    net.run(MS * 2);
    assert_eq!(net.links(), line_links());
}

#[test]
fn slow_relay_is_flagged_and_cables_are_not() {
    let mut net = Net::new(6);
    for dpid in 1..6 {
        net.cable(at(dpid, 2), at(dpid + 1, 1), MS * u32::try_from(1 + dpid % 3).unwrap());
    }
    net.run(Duration::from_secs(12));
    assert_eq!(net.incidents, [""; 0]);
    net.cable(at(1, 3), at(6, 4), MS * 40);
    net.run(Duration::from_secs(30));
    let suspicious: Vec<_> =
        net.link_records().filter(|link| link.suspicious).map(|link| link.from).collect();
    assert_eq!(suspicious.len(), 2, "{suspicious:?}");
    assert!(suspicious.contains(&at(1, 3)) && suspicious.contains(&at(6, 4)));
    assert!(net.has_incident("may be a relay"));
}

#[test]
fn fabricated_links_of_a_fake_switch_are_refused() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    net.connect(9);
    net.run(MS * 1);
    // It reports its own probes, and one that it received on a link, at other ports.
    let own = net.last_probe(at(9, 1));
    net.packet(at(9, 1), &own);
    net.cable(at(3, 4), at(9, 2), MS);
    net.run(Duration::from_secs(12));
    let received = net.last_probe(at(3, 4));
    net.packet(at(9, 3), &received);
    net.packet(at(9, 4), &received);
    net.run(MS * 2);
    let mut expected = line_links();
    expected.extend(pair(at(3, 4), at(9, 2)));
    expected.sort_unstable();
    assert_eq!(net.links(), expected);
    assert!(net.has_incident("came back to 00:00:00:00:00:00:00:09 port 1"));
    assert!(net.has_incident("a second time"));
}

#[test]
fn port_with_two_neighbours_keeps_the_first() {
    let mut net = line();
    net.run(Duration::from_secs(2));
    // A relay that is faster than the cable, and the cable's own answers afterwards.
    net.cables.insert(at(1, 2), (at(3, 4), MS));
    net.run(Duration::from_secs(4));
    assert!(net.links().contains(&(at(1, 2), at(2, 1))));
    assert!(net.has_incident("refused a link from 00:00:00:00:00:00:00:01 port 2"));
}

proptest::proptest! {
    /// Whatever arrives, nothing panics, and only cables make links.
    #[test]
    fn hostile_packets_make_no_link(
        frames in proptest::collection::vec((0_u64..4, 0_u32..5, proptest::collection::vec(proptest::num::u8::ANY, 0..90), proptest::bool::ANY), 0..40),
    ) {
        let mut net = line();
        net.run(Duration::from_secs(2));
        let lldp = net.last_probe(at(1, 1));
        for (dpid, number, mut bytes, is_lldp) in frames {
            if is_lldp {
                let mut frame = lldp.clone();
                let keep = 14 + usize::from(bytes.first().copied().unwrap_or(0) % 50);
                frame.truncate(keep);
                frame.append(&mut bytes);
                bytes = frame;
            }
            net.packet(at(dpid, number), &bytes);
            net.run(MS);
        }
        proptest::prop_assert_eq!(net.links(), line_links());
    }
}

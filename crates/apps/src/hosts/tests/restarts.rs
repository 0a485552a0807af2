//! Checks what a process of the app knows of the hosts that an earlier one has stored.

use rosemary_sdk::services::hosts::{Host, UNTAGGED};
use rosemary_sdk::{Dpid, PortNo};

use super::super::archive::shelf_of;
use super::super::kept::{Clocks, Kept, decode, encode};
use super::super::ports::Behind;
use super::super::settings::Settings;
use super::super::tracker::Tracker;
use super::Report;
use super::net::{ALICE, BOB, IP, Net, SLOTS, arp, at, seconds, udp};

/// Gives what a process has stored to a new one, a minute later. Its switches have not connected.
fn restart(net: &Net) -> Net {
    let (stored_s, now_s) = (net.now.as_secs(), net.now.as_secs() + 60);
    let mut later = Net {
        tracker: Tracker::new(Settings::default(), SLOTS).unwrap(),
        table: vec![[0; 7]; SLOTS as usize],
        now: seconds(now_s),
    };
    for shelf in 0..=255 {
        let clocks = Clocks { now_s: stored_s, unix_s: 1_000_000 };
        let (value, left_out) = encode(&net.tracker.directory.shelf(shelf), clocks);
        assert_eq!(left_out, 0);
        let clocks = Clocks { now_s, unix_s: 1_000_060 };
        later.tracker.restore(shelf, &decode(&value, clocks).unwrap(), now_s);
    }
    later.write();
    later
}

/// Connects both switches.
fn connect(net: &mut Net) {
    for dpid in [1, 2] {
        net.tracker.switch_up(Dpid(dpid), 1, net.now);
        for port in 1..=4 {
            net.port(at(dpid, port), 1, true);
            net.behind(at(dpid, port), Behind::Edge);
        }
    }
}

fn is_doubted(net: &Net) -> bool {
    net.host(ALICE).unwrap().is_doubted
}

/// A process that knew Alice with her address at port 2 of switch 1.
fn before() -> Net {
    let mut net = Net::new();
    net.packet(at(1, 2), &arp(ALICE, IP));
    net
}

#[test]
fn stored_host_is_doubted_until_a_packet_confirms_it() {
    let mut net = restart(&before());
    let host = net.host(ALICE).unwrap();
    assert_eq!((host.dpid, host.port, host.is_doubted), (Dpid(1), PortNo(2), true));
    assert_eq!(net.now.as_secs() - host.last_seen_s, 60, "when it was last seen");
    assert_eq!(net.owner(IP), Some(ALICE));
    assert!(net.tracker.directory.dirty.is_empty(), "what was read is not written again");
    connect(&mut net);
    assert!(is_doubted(&net));
    net.packet(at(1, 2), &udp(ALICE, IP));
    assert!(!is_doubted(&net));
    assert_eq!(net.host(ALICE).unwrap().last_seen_s, net.now.as_secs());
    assert!(net.tracker.directory.dirty.contains(&shelf_of(ALICE, UNTAGGED)));
}

#[test]
fn doubted_host_is_asked_and_forgotten_without_an_answer() {
    let mut net = restart(&before());
    connect(&mut net);
    let probes = net.pass(seconds(50));
    assert_eq!(probes.len(), 3, "one every 20 s: {probes:?}");
    assert!(probes.iter().all(|probe| probe.at == at(1, 2)));
    assert!(is_doubted(&net));
    net.pass(seconds(30));
    assert_eq!(net.host(ALICE), None);
}

#[test]
fn doubted_host_without_an_address_stays_as_long_as_any() {
    let mut net = Net::new();
    net.packet(at(1, 2), &arp(ALICE, std::net::Ipv4Addr::UNSPECIFIED));
    let mut net = restart(&net);
    connect(&mut net);
    net.pass(seconds(500));
    assert!(is_doubted(&net));
    net.pass(seconds(200));
    assert_eq!(net.host(ALICE), None, "max-age has passed");
}

#[test]
fn moved_host_is_found_at_its_new_port() {
    let mut net = restart(&before());
    connect(&mut net);
    net.packet(at(2, 1), &arp(ALICE, IP));
    assert!(net.host(ALICE).unwrap().is_contested, "it may be at its former port");
    net.pass(seconds(2));
    let host = net.host(ALICE).unwrap();
    assert_eq!((host.dpid, host.port, host.is_doubted), (Dpid(2), PortNo(1), false));
    assert!(matches!(net.reports()[..], [Report::Moved { .. }]));
}

#[test]
fn host_that_answers_keeps_its_place_against_a_claim() {
    let mut net = restart(&before());
    connect(&mut net);
    net.packet(at(2, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &udp(ALICE, IP));
    net.pass(seconds(2));
    assert_eq!((net.place(ALICE), is_doubted(&net)), (Some(at(1, 2)), false));
    assert!(matches!(net.reports()[..], [Report::HijackRefused { .. }]));
}

#[test]
fn place_that_is_gone_holds_no_host() {
    let events: [fn(&mut Net); 4] = [
        |net| net.port(at(1, 2), 1, false),
        |net| net.behind(at(1, 2), Behind::Link),
        |net| net.tracker.port_gone(at(1, 2)),
        |net| drop(net.pass(seconds(70))), // its switch does not connect
    ];
    for (number, event) in events.into_iter().enumerate() {
        let mut net = restart(&before());
        assert!(is_doubted(&net));
        if number < 3 {
            net.tracker.switch_up(Dpid(1), 1, net.now);
        }
        event(&mut net);
        net.write();
        assert_eq!(net.host(ALICE), None, "event {number}");
        assert!(net.tracker.directory.dirty.contains(&shelf_of(ALICE, UNTAGGED)));
    }
}

#[test]
fn switch_that_comes_back_without_the_port_loses_the_host() {
    let mut net = restart(&before());
    net.tracker.switch_up(Dpid(1), 1, net.now);
    net.port(at(1, 1), 1, true);
    net.pass(seconds(5));
    assert_eq!(net.host(ALICE), None);
}

#[test]
fn packet_counts_more_than_what_was_stored() {
    let stored = before().tracker.directory.shelf(shelf_of(ALICE, UNTAGGED));
    let mut net = Net::new();
    net.packet(at(2, 3), &arp(ALICE, IP));
    net.packet(at(2, 4), &arp(BOB, "10.0.0.2".parse().unwrap()));
    let host = Host { is_doubted: true, ..stored[0].host };
    let kept = Kept { host, ..stored[0].clone() };
    net.tracker.restore(shelf_of(ALICE, UNTAGGED), &[kept], net.now.as_secs());
    net.write();
    assert_eq!((net.place(ALICE), is_doubted(&net)), (Some(at(2, 3)), false));
    let at_link = Kept { host: Host { port: PortNo(4), ..host }, ..stored[0].clone() };
    let mut net = Net::new();
    net.behind(at(1, 4), Behind::Link);
    net.tracker.restore(shelf_of(ALICE, UNTAGGED), &[at_link], net.now.as_secs());
    net.write();
    assert_eq!(net.host(ALICE), None, "a link leads to other switches");
}

//! Checks what packets do in simulated networks.

mod many;
mod restarts;
pub(crate) mod sim;

use std::collections::BTreeSet;
use std::time::Duration;

use openflow::Version;
use proptest::prelude::*;
use rosemary_sdk::packet::Arp;
use rosemary_sdk::{Dpid, MacAddr, PortNo};

use self::sim::{Bridge, OUTSIDE, Sim, frame, mac_of};
use crate::net::End;
use crate::routes::PRIORITY;
use crate::world::Location;

const V1_0: Version = Version::V1_0;
const V1_3: Version = Version::V1_3;

fn ring(count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|at| (at, (at + 1) % count)).collect()
}

fn host(number: usize) -> (End, MacAddr) {
    ((Dpid(number as u64), PortNo(1)), mac_of(number))
}

/// Sends a packet from each host to each other, and checks where it arrives.
fn ping_all(sim: &mut Sim, count: usize, what: &str) {
    for from in 1..=count {
        for to in (1..=count).filter(|to| *to != from) {
            let (at, src) = host(from);
            let is_reachable = sim.reachable(at.0).contains(&host(to).0);
            let expected = if is_reachable { vec![host(to).0] } else { Vec::new() };
            let arrivals = sim.arrivals(at, frame(src, host(to).1, None, 0));
            assert_eq!(arrivals, expected, "{what}: from {from} to {to}");
        }
    }
}

/// Sends a broadcast from each host, and checks that each reachable host gets it once.
fn flood_all(sim: &mut Sim, count: usize) {
    for from in 1..=count {
        let (at, src) = host(from);
        let mut arrivals = sim.arrivals(at, frame(src, MacAddr::BROADCAST, None, 0));
        arrivals.sort();
        let mut expected = sim.reachable(at.0);
        expected.remove(&at);
        assert_eq!(arrivals, expected.into_iter().collect::<Vec<_>>(), "flood from {from}");
    }
}

/// Versions of the switches, links, a seed, and the links that are cut.
type Case = (Vec<Version>, Vec<(usize, usize)>, u64, Vec<usize>);

fn networks() -> impl Strategy<Value = Case> {
    (2..8_usize).prop_flat_map(|count| {
        let version = prop_oneof![1 => Just(V1_0), 3 => Just(V1_3)];
        let pair = (0..count, 0..count).prop_filter("a link joins two", |(a, b)| a != b);
        (
            proptest::collection::vec(version, count),
            proptest::collection::vec(pair, 1..14),
            any::<u64>(),
            proptest::collection::vec(
                any::<prop::sample::Index>().prop_map(|it| it.index(1 << 20)),
                0..4,
            ),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_reach_their_hosts_in_any_network((versions, pairs, seed, cuts) in networks()) {
        let count = versions.len();
        let mut sim = Sim::new(&versions, &pairs, seed);
        flood_all(&mut sim, count);
        ping_all(&mut sim, count, "at first");
        ping_all(&mut sim, count, "again");
        for cut in cuts {
            let ends: Vec<End> = sim.world.links.keys().copied().collect();
            sim.cut(ends[cut % ends.len()]);
            sim.report_cuts();
            ping_all(&mut sim, count, "after a cut");
            flood_all(&mut sim, count);
        }
        sim.restart();
        sim.world.seen_packet_ins = 0;
        ping_all(&mut sim, count, "after a restart");
        sim.expire_idle_flows();
        prop_assert_eq!(sim.flow_count(), 0, "flows stay behind");
        prop_assert_eq!(sim.forwarder.routes().len(), 0);
    }
}

/// Hosts behind a bridge, and behind switches, reach each other: each packet arrives once, and established pairs cause no
/// packet-in.
fn reaches_all_with_a_bridge(pairs: &[(usize, usize)], count: usize, joins_parts: bool) {
    for seed in 0..20 {
        let version = if seed % 2 == 0 { V1_3 } else { V1_0 };
        let mut sim = Sim::new(&vec![version; count], pairs, seed);
        let end = |dpid, port| (Dpid(dpid), PortNo(port));
        let behind = [end(0, 1), end(0, 2)];
        let mut ends = vec![end(1, 9), end(2, 9)];
        if !joins_parts {
            ends.push(end(2, 10));
        }
        ends.extend(behind);
        sim.world.bridge = Bridge::new(ends, joins_parts);
        let mut hosts: Vec<(End, MacAddr)> = (1..=count).map(host).collect();
        hosts.extend(behind.into_iter().zip([mac_of(101), mac_of(102)]));
        for (at, mac) in &hosts[count..] {
            sim.world.hosts.insert(*at, *mac);
        }
        sim.update_topology();
        sim.settle();
        let others = |from: &End| {
            let ends = hosts.iter().map(|(at, _)| *at).filter(|at| at != from);
            ends.collect::<BTreeSet<End>>()
        };
        for (at, mac) in &hosts {
            let mut arrivals = sim.arrivals(*at, frame(*mac, MacAddr::BROADCAST, None, 0));
            arrivals.sort();
            assert_eq!(arrivals, others(at).into_iter().collect::<Vec<_>>(), "{at:?}: {seed}");
        }
        for round in 0..2 {
            for (at, src) in &hosts {
                for (to, dst) in hosts.iter().filter(|(to, _)| to != at) {
                    let arrivals = sim.arrivals(*at, frame(*src, *dst, None, 0));
                    assert_eq!(arrivals, [*to], "{at:?} to {to:?}, round {round}, seed {seed}");
                }
            }
            if round == 0 {
                sim.world.seen_packet_ins = 0;
            }
        }
        assert_eq!(sim.world.seen_packet_ins, 0, "seed {seed}");
        // The same topology once more moves no route.
        sim.update_topology();
        sim.settle();
        let (at, to) = (hosts[0], hosts[count]);
        assert_eq!(sim.arrivals(at.0, frame(at.1, to.1, None, 0)), [to.0]);
        assert_eq!(sim.arrivals(to.0, frame(to.1, at.1, None, 0)), [at.0]);
        assert_eq!(sim.world.seen_packet_ins, 0, "seed {seed}");
    }
}

#[test]
fn bridge_at_two_switches_of_a_ring_closes_no_loop() {
    reaches_all_with_a_bridge(&ring(3), 3, false);
}

#[test]
fn bridge_that_alone_joins_two_switches_carries_their_traffic() {
    reaches_all_with_a_bridge(&[(1, 2)], 3, true);
}

#[test]
fn established_pairs_cause_no_packet_in() {
    let mut sim = Sim::new(&[V1_3; 6], &ring(6), 1);
    flood_all(&mut sim, 6);
    ping_all(&mut sim, 6, "at first");
    sim.world.seen_packet_ins = 0;
    ping_all(&mut sim, 6, "again");
    assert_eq!(sim.world.seen_packet_ins, 0);
}

#[test]
fn ring_survives_a_cut_before_the_app_hears_of_it() {
    for cut in 0..6 {
        let mut sim = Sim::new(&[V1_3; 6], &ring(6), 7 + cut as u64);
        flood_all(&mut sim, 6);
        ping_all(&mut sim, 6, "at first");
        sim.world.seen_packet_ins = 0;
        let ends: Vec<End> = sim.world.links.keys().copied().collect();
        sim.cut(ends[cut * 2]);
        ping_all(&mut sim, 6, "by fast failover");
        assert_eq!(sim.world.seen_packet_ins, 0, "the switches did it alone");
        sim.report_cuts();
        ping_all(&mut sim, 6, "after the app's reaction");
        assert_eq!(sim.world.seen_packet_ins, 0);
    }
}

#[test]
fn equal_paths_share_by_a_select_group() {
    // Two switches with two between them.
    let mut sim = Sim::new(&[V1_3; 4], &[(0, 1), (0, 2), (1, 3), (2, 3)], 3);
    flood_all(&mut sim, 4);
    ping_all(&mut sim, 4, "at first");
    let groups = &sim.world.switches[&Dpid(1)].groups;
    let select = groups.values().filter(|it| it.kind == openflow::GroupKind::Select).count();
    assert_eq!(select, 1);
}

#[test]
fn drained_switch_carries_only_its_own_hosts_and_nothing_is_lost() {
    for version in [V1_0, V1_3] {
        for seed in 0..10 {
            let mut sim = Sim::new(&[version; 4], &[(0, 1), (1, 3), (0, 2), (2, 3)], seed);
            flood_all(&mut sim, 4);
            ping_all(&mut sim, 4, "at first");
            let cookies = |sim: &Sim| -> BTreeSet<u64> {
                sim.world.switches[&Dpid(1)].flows.iter().map(|it| it.cookie).collect()
            };
            let before = cookies(&sim);
            sim.world.received.clear();
            sim.drain(Dpid(2));
            let mut sent = 0;
            for _ in 0..200 {
                sim.send(host(1).0, frame(host(1).1, host(4).1, None, sent));
                sent += 1;
                for _ in 0..3 {
                    sim.step();
                }
                sim.world.now += Duration::from_millis(3);
                sim.forwarder.go_on(&mut sim.world);
            }
            sim.settle();
            assert_eq!(sim.world.received.len(), sent as usize, "none is lost, none comes twice");
            assert!(cookies(&sim).is_subset(&before), "the flows keep their cookies");
            let through = sim.world.switches[&Dpid(2)].flows.iter().filter(|flow| {
                let text = flow.match_.to_string();
                !text.contains(&host(2).1.to_string())
            });
            let through: Vec<_> = through.collect();
            assert!(through.is_empty(), "{through:#?} flows of others at the drained switch");
            ping_all(&mut sim, 4, "afterwards");
        }
    }
}

/// All routes move away from a switch and back, by change sets that the switches apply late or refuse.
#[test]
fn moves_of_all_routes_lose_nothing_and_use_change_sets() {
    let (mut applied, mut refused) = (0, 0);
    for seed in 0..20 {
        let version = if seed % 2 == 0 { V1_3 } else { Version::V1_5 };
        let pairs = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 4), (4, 3)];
        let mut sim = Sim::new(&[version; 5], &pairs, seed);
        flood_all(&mut sim, 5);
        ping_all(&mut sim, 5, "at first");
        sim.world.received.clear();
        sim.world.seen_packet_ins = 0;
        let mut sent = 0_u32;
        for round in 0..4 {
            let drained = Dpid(1 + u64::from(round % 2 == 0));
            if round < 2 {
                sim.drain(drained);
            } else {
                sim.undrain(drained);
            }
            for _ in 0..100 {
                let from = 1 + sim.world.random(5);
                let to = 1 + (from + sim.world.random(4)) % 5;
                if from != to {
                    sim.send(host(from).0, frame(host(from).1, host(to).1, None, sent));
                    sent += 1;
                }
                for _ in 0..4 {
                    sim.step();
                }
                sim.world.now += Duration::from_millis(3);
                sim.forwarder.go_on(&mut sim.world);
            }
        }
        sim.settle();
        assert_eq!(sim.world.received.len(), sent as usize, "seed {seed}");
        assert_eq!(sim.world.seen_packet_ins, 0, "seed {seed}: no hop was missing");
        let sets = sim.world.sets.iter();
        applied += sets.clone().filter(|(count, is_applied)| *is_applied && *count > 1).count();
        refused += sets.filter(|(_, is_applied)| !is_applied).count();
        ping_all(&mut sim, 5, "afterwards");
    }
    assert!(applied > 100 && refused > 10, "{applied} sets of several flows, {refused} refused");
}

#[test]
fn restart_sends_no_flow_again() {
    let mut sim = Sim::new(&[V1_3; 6], &ring(6), 1);
    flood_all(&mut sim, 6);
    ping_all(&mut sim, 6, "at first");
    let before = format!("{:?}", sim.world.switches);
    sim.restart();
    assert_eq!(format!("{:?}", sim.world.switches), before);
    assert_eq!(sim.forwarder.routes().len(), 30);
}

/// Sends packets to a host that becomes known while copies of the first are under way.
fn learned_during_a_flood(pairs: &[(usize, usize)], count: usize) {
    for (seed, run) in (0_u64..).zip(0..600_usize) {
        let version = if run % 2 == 0 { V1_3 } else { V1_0 };
        let mut sim = Sim::new(&vec![version; count], pairs, seed);
        let (from, to) = (run % count + 1, (run / count + 1) % count + 1);
        let ((at, src), (place, dst)) = (host(from), host(to));
        if from == to {
            continue;
        }
        sim.world.received.clear();
        for number in 1..=4 {
            sim.send(at, frame(src, dst, None, number));
            for _ in 0..sim.world.random(2 * count) {
                sim.step();
            }
            if number == 2 {
                sim.world.table.insert((dst, 0), Location::sure(place));
            }
        }
        sim.run();
        let numbers = |sim: &Sim| {
            let here = sim.world.received.iter().filter(|(end, _)| *end == place);
            let mut numbers: Vec<u8> = here.filter_map(|(_, it)| it.last().copied()).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(&sim), [1, 2, 3, 4], "from {from} to {to}, seed {seed}");
        sim.settle();
        assert_eq!(sim.arrivals(at, frame(src, dst, None, 5)), [place], "seed {seed}");
        assert_eq!(sim.arrivals(place, frame(dst, src, None, 5)), [at], "seed {seed}");
        // The routes have left the tree: in a ring of three, all switches are neighbours.
        if count == 3 && version == V1_0 {
            let routes = sim.forwarder.routes();
            let hops = routes.keys().filter_map(|key| Some(routes.get(&key)?.hops.len()));
            assert_eq!(hops.collect::<Vec<_>>(), [2, 2], "seed {seed}");
        }
        sim.world.seen_packet_ins = 0;
        assert_eq!(sim.arrivals(at, frame(src, dst, None, 6)), [place], "seed {seed}");
        assert_eq!(sim.world.seen_packet_ins, 0);
    }
}

#[test]
fn host_that_is_learned_during_a_flood_gets_the_packet_once() {
    learned_during_a_flood(&ring(3), 3);
    learned_during_a_flood(&ring(4), 4);
    learned_during_a_flood(&ring(6), 6);
    learned_during_a_flood(&[(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 1)], 5);
}

/// Restarts the app after its band has moved: its flows have this priority then.
fn restart_with_moved_flows(version: Version, priority: u16) -> Sim {
    let mut sim = Sim::new(&[version; 6], &ring(6), 1);
    flood_all(&mut sim, 6);
    ping_all(&mut sim, 6, "at first");
    ping_all(&mut sim, 6, "with all routes");
    let flows = sim.world.switches.values_mut().flat_map(|it| &mut it.flows);
    flows.for_each(|flow| flow.priority = priority);
    sim.restart();
    sim
}

#[test]
fn flows_with_another_priority_are_written_again() {
    for version in [V1_0, V1_3] {
        for priority in [0, 7, OUTSIDE] {
            let mut sim = restart_with_moved_flows(version, priority);
            let switches = &sim.world.switches;
            let flows = || switches.values().flat_map(|it| &it.flows);
            let moved = flows().filter(|flow| flow.priority == priority).count();
            let now = flows().filter(|flow| flow.priority == PRIORITY).count();
            let before = if priority == OUTSIDE { now } else { 0 };
            assert_eq!(moved, before, "{version}: flows with priority {priority}");
            assert_eq!(sim.forwarder.routes().len(), 30);
            // The kernel removes those outside of the band.
            for switch in sim.world.switches.values_mut() {
                switch.flows.retain(|flow| flow.priority == PRIORITY);
            }
            sim.world.seen_packet_ins = 0;
            ping_all(&mut sim, 6, "after the band has moved");
            assert_eq!(sim.world.seen_packet_ins, 0, "{version}: each flow was written again");
            sim.expire_idle_flows();
            assert_eq!(sim.flow_count(), 0, "{version}: flows stay behind");
        }
    }
}

/// A switch that connects again doubles no broadcast elsewhere.
#[test]
fn question_is_sent_again_only_where_its_flood_did_not_come() {
    let mut sim = Sim::new(&[V1_3; 3], &ring(3), 5);
    (sim.world.undetermined, sim.world.undetermined_at) = (1, Some(Dpid(3)));
    sim.update_topology();
    let (at, src) = host(1);
    let question = [&[0xff; 6][..], &src.0, &[0x08, 0x06], &[0; 28]].concat();
    assert_eq!(sim.arrivals(at, question), [host(2).0]);
    sim.world.received.clear();
    sim.world.undetermined = 0;
    sim.update_topology();
    sim.settle();
    let arrivals: Vec<End> = sim.world.received.iter().map(|(end, _)| *end).collect();
    assert_eq!(arrivals, [host(3).0]);
}

#[test]
fn question_before_discovery_is_flooded_after_it() {
    let mut sim = Sim::new(&[V1_3; 3], &ring(3), 5);
    sim.world.undetermined = 1;
    sim.update_topology();
    let (at, src) = host(1);
    let question = [&[0xff; 6][..], &src.0, &[0x08, 0x06], &[0; 28]].concat();
    assert_eq!(sim.arrivals(at, question.clone()), [], "nobody knows where hosts are");
    sim.world.undetermined = 0;
    sim.update_topology();
    sim.settle();
    let mut arrivals: Vec<End> = sim.world.received.iter().map(|(end, _)| *end).collect();
    arrivals.sort();
    assert_eq!(arrivals, [host(2).0, host(3).0], "once each");
    sim.world.received.clear();
    sim.update_topology();
    sim.settle();
    assert_eq!(sim.world.received, []);
}

/// A gratuitous ARP of a host, to all hosts or to one.
fn claim(mac: MacAddr, ip: &str, to: MacAddr) -> Vec<u8> {
    let ip = ip.parse().unwrap();
    let target_mac = MacAddr([0; 6]);
    Arp { operation: Arp::REPLY, sender_mac: mac, sender_ip: ip, target_mac, target_ip: ip }
        .frame(to)
}

/// A network of three hosts. The second host has the address 10.0.0.2.
fn with_an_address() -> Sim {
    let mut sim = Sim::new(&[V1_3, V1_0, V1_3], &ring(3), 9);
    flood_all(&mut sim, 3);
    sim.world.addresses.insert(("10.0.0.2".parse().unwrap(), 0), host(2).1);
    sim.world.received.clear();
    sim
}

#[test]
fn address_of_another_host_is_not_announced() {
    let mut sim = with_an_address();
    let (at, mallory) = host(1);
    for to in [MacAddr::BROADCAST, host(3).1] {
        assert_eq!(sim.arrivals(at, claim(mallory, "10.0.0.2", to)), [], "{to}");
    }
    assert_eq!(sim.forwarder.routes().len(), 0, "a route would carry the next one unseen");
    let mut own = sim.arrivals(host(2).0, claim(host(2).1, "10.0.0.2", MacAddr::BROADCAST));
    own.sort();
    assert_eq!(own, [host(1).0, host(3).0]);
    assert_eq!(sim.arrivals(at, claim(mallory, "10.0.0.9", host(3).1)), [host(3).0], "a free one");
    sim.world.received.clear();
    sim.world.addresses.clear();
    sim.settle();
    assert_eq!(sim.world.received, [], "they were dropped");
}

#[test]
fn announcement_passes_when_the_address_has_moved() {
    let mut sim = with_an_address();
    let (at, mac) = host(1);
    sim.send(at, claim(mac, "10.0.0.2", MacAddr::BROADCAST));
    sim.pass(Duration::from_secs(1));
    assert_eq!(sim.world.received, []);
    sim.world.addresses.insert(("10.0.0.2".parse().unwrap(), 0), mac);
    sim.settle();
    let mut arrivals: Vec<End> = sim.world.received.iter().map(|(end, _)| *end).collect();
    arrivals.sort();
    assert_eq!(arrivals, [host(2).0, host(3).0], "once each");
}

#[test]
fn held_announcements_are_bounded_for_each_port() {
    let mut sim = with_an_address();
    for number in 0..100 {
        let claim = claim(mac_of(50 + number), "10.0.0.2", MacAddr::BROADCAST);
        sim.send(host(1).0, claim);
    }
    sim.pass(Duration::from_secs(1));
    assert_eq!(sim.world.received, []);
    sim.world.addresses.clear();
    sim.settle();
    assert_eq!(sim.world.received.len(), 8 * 2, "eight, at two other hosts");
}

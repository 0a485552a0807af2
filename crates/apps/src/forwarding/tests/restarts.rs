//! Checks that routes are moved after restarts of this app and of the services that it uses.

use std::collections::BTreeSet;
use std::time::Duration;

use openflow::Version;
use rosemary_sdk::{Dpid, PortNo};

use super::sim::{Sim, frame};
use super::{V1_0, V1_3, flood_all, host, ping_all, ring};
use crate::forwarder::Facts;
use crate::net::{End, LinkFacts};
use crate::world::{Act, Location};

/// What restarts before a link is cut.
type Restart = fn(&mut Sim);

const HOSTS: Restart = Sim::forget_hosts;
const FORWARDING: Restart = Sim::restart;
/// Without the storage.
const ROSEMARY: Restart = |sim| {
    sim.world.table.clear();
    sim.restart();
};
/// The table of hosts has what it knew before.
const ROSEMARY_WITH_HOSTS: Restart = |sim| {
    sim.world.table.values_mut().for_each(|it| it.is_doubted = true);
    sim.restart();
};

fn established(versions: &[Version], seed: u64) -> Sim {
    let mut sim = Sim::new(versions, &ring(versions.len()), seed);
    flood_all(&mut sim, versions.len());
    ping_all(&mut sim, versions.len(), "at first");
    sim
}

/// Returns the first end of the link between two switches.
fn link_between(sim: &Sim, one: u64, other: u64) -> End {
    let is_it = |(from, to): &(&End, &End)| from.0 == Dpid(one) && to.0 == Dpid(other);
    *sim.world.links.iter().find(is_it).unwrap().0
}

#[test]
fn cut_after_a_restart_moves_the_routes_without_a_packet_in() {
    for version in [V1_0, V1_3] {
        for restart in [HOSTS, FORWARDING, ROSEMARY, ROSEMARY_WITH_HOSTS] {
            for (seed, other) in (0..).zip([2, 3].repeat(4)) {
                let mut sim = established(&[version; 3], seed);
                restart(&mut sim);
                let used = link_between(&sim, 1, other);
                sim.cut(used);
                sim.report_cuts();
                sim.world.seen_packet_ins = 0;
                ping_all(&mut sim, 3, "after the cut");
                assert_eq!(sim.world.seen_packet_ins, 0, "{version:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn drain_after_a_restart_of_the_hosts_moves_all_routes() {
    for version in [V1_0, V1_3] {
        for restart in [HOSTS, FORWARDING, ROSEMARY, ROSEMARY_WITH_HOSTS] {
            let mut sim = Sim::new(&[version; 4], &[(0, 1), (1, 3), (0, 2), (2, 3)], 4);
            flood_all(&mut sim, 4);
            ping_all(&mut sim, 4, "at first");
            restart(&mut sim);
            sim.drain(Dpid(2));
            sim.settle();
            let mac = host(2).1.to_string();
            let flows = &sim.world.switches[&Dpid(2)].flows;
            let through = flows.iter().filter(|flow| !flow.match_.to_string().contains(&mac));
            assert_eq!(through.count(), 0, "{version:?}: flows of others at the drained switch");
            sim.world.seen_packet_ins = 0;
            ping_all(&mut sim, 4, "afterwards");
            assert_eq!(sim.world.seen_packet_ins, 0, "{version:?}");
        }
    }
}

/// The packets of a pair keep to the spanning tree for a while after a flood, without backups.
#[test]
fn provisional_routes_are_moved_after_a_restart_of_the_hosts() {
    for version in [V1_0, V1_3] {
        for seed in 0..8 {
            let mut sim = Sim::new(&[version; 3], &ring(3), seed);
            flood_all(&mut sim, 3);
            let ((from, src), (to, dst)) = (host(1), host(2));
            sim.world.table.clear();
            for number in 0..3 {
                for (at, frame) in
                    [(from, frame(src, dst, None, number)), (to, frame(dst, src, None, number))]
                {
                    sim.send(at, frame);
                    sim.run();
                }
            }
            sim.world.table.clear();
            sim.forwarder.examine_all();
            let is_route = |act: &Act| matches!(act, Act::Port(_));
            let flows = &sim.world.switches[&Dpid(1)].flows;
            assert!(flows.iter().all(|flow| is_route(&flow.act)), "no group before: {flows:#?}");
            let used = link_between(&sim, 1, 2);
            sim.cut(used);
            sim.report_ports();
            sim.world.seen_packet_ins = 0;
            assert_eq!(sim.arrivals(from, frame(src, dst, None, 9)), [to], "seed {seed}");
            assert_eq!(sim.arrivals(to, frame(dst, src, None, 9)), [from], "seed {seed}");
            assert_eq!(sim.world.seen_packet_ins, 0, "{version:?}, seed {seed}");
        }
    }
}

/// Rosemary restarts, and a link is cut before the topology has found it again.
#[test]
fn cut_before_the_links_are_found_again_loses_nothing_for_good() {
    let (old, new) = (V1_0, V1_3);
    let mixed = [[new, old, new, new, old], [new, new, old, old, new], [old, new, new, new, new]];
    let networks = [[old; 3], [new; 3]].map(Vec::from).into_iter().chain(mixed.map(Vec::from));
    for versions in networks {
        let count = versions.len();
        for (has_hosts, is_reported_late) in
            [(true, false), (true, true), (false, false), (false, true)]
        {
            for other in [2, count as u64] {
                let mut sim = established(&versions, other);
                if has_hosts {
                    sim.world.table.values_mut().for_each(|it| it.is_doubted = true);
                } else {
                    sim.world.table.clear();
                }
                (sim.world.is_searching, sim.world.is_settled) = (true, false);
                let used = link_between(&sim, 1, other);
                if is_reported_late {
                    sim.restart();
                    sim.cut(used);
                } else {
                    sim.cut(used);
                    sim.restart();
                }
                sim.report_ports();
                ping_all_or_none(&mut sim, count);
                // The topology has found the links that are left, and is still searching.
                sim.world.is_searching = false;
                sim.update_topology();
                sim.settle();
                reaches_all(&mut sim, count);
                sim.world.is_settled = true;
                sim.update_topology();
                sim.settle();
                ping_all(&mut sim, count, "over all links that are left");
                sim.world.seen_packet_ins = 0;
                ping_all(&mut sim, count, "afterwards");
                assert_eq!(sim.world.seen_packet_ins, 0, "{versions:?}");
            }
        }
    }
}

/// The kernel or Rosemary restarts, a link is cut in its absence, and the switches connect again one by one: packets pass on the
/// backups that the switches use already.
#[test]
fn backups_stay_while_the_network_is_found_again() {
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        for (one, other) in [(1, 2), (2, 3), (3, 1)] {
            for is_app_new in [false, true] {
                let mut sim = established(&[V1_3; 3], 1);
                (sim.world.is_searching, sim.world.is_settled) = (true, false);
                let used = link_between(&sim, one, other);
                sim.cut(used);
                sim.lose_switches(is_app_new);
                for dpid in order {
                    sim.connect_again(Dpid(dpid));
                    let until = format!("{one}-{other} is cut, {dpid} connected of {order:?}");
                    pass_without_the_app(&mut sim, &until);
                }
            }
        }
    }
}

/// The same with a switch that takes longer to connect than the others: its routes stay at the others.
#[test]
fn routes_of_a_late_switch_stay_after_a_restart() {
    for version in [V1_0, V1_3] {
        for late in 1..=3 {
            let mut sim = established(&[version; 3], 1);
            (sim.world.is_searching, sim.world.is_settled) = (true, false);
            sim.lose_switches(true);
            for dpid in (1..=3).filter(|dpid| *dpid != late) {
                sim.connect_again(Dpid(dpid));
                sim.pass(Duration::from_secs(1));
            }
            pass_without_the_app(&mut sim, &format!("{version:?}, {late} is late"));
            sim.connect_again(Dpid(late));
            sim.pass(Duration::from_secs(1));
            pass_without_the_app(&mut sim, &format!("{version:?}, {late} is there"));
        }
    }
}

/// Checks that established packets arrive on the flows of the switches, while no time passes.
fn pass_without_the_app(sim: &mut Sim, when: &str) {
    sim.pass(Duration::from_millis(50));
    sim.world.seen_packet_ins = 0;
    for (from, to) in [(1, 2), (2, 3), (3, 1), (2, 1), (3, 2), (1, 3)] {
        let ((at, src), (place, dst)) = (host(from), host(to));
        sim.world.received.clear();
        sim.send(at, frame(src, dst, None, 0));
        sim.run();
        let arrivals: Vec<End> = sim.world.received.iter().map(|(end, _)| *end).collect();
        assert_eq!(arrivals, [place], "{from} to {to}, {when}");
    }
    assert_eq!(sim.world.seen_packet_ins, 0, "{when}");
}

/// The kernel restarts, and a packet comes before the app has taken the switches together.
#[test]
fn packet_before_the_first_snapshot_is_not_dropped_for_a_while() {
    for version in [V1_0, V1_3] {
        let mut sim = established(&[version; 3], 1);
        let switches = sim.switches();
        sim.forwarder.on_snapshot(true, &mut sim.world);
        sim.forwarder.on_snapshot(false, &mut sim.world);
        sim.world.now += Duration::from_secs(1);
        for switch in switches {
            sim.world.switches.get_mut(&switch.dpid).unwrap().flows.clear();
            sim.forwarder.on_switch_up(switch, &mut sim.world);
            sim.list_flows(switch);
        }
        let ((from, src), (to, dst)) = (host(1), host(2));
        sim.send(from, frame(src, dst, None, 0));
        sim.run();
        let flows = sim.world.switches.values().flat_map(|it| &it.flows);
        assert_eq!(flows.filter(|flow| flow.act == Act::Drop).count(), 0, "{version:?}");
        sim.settle();
        assert_eq!(sim.arrivals(from, frame(src, dst, None, 1)), [to], "{version:?}");
    }
}

/// Returns up to seven ports of switches, some of which do not exist.
fn random_ends(sim: &mut Sim) -> Vec<End> {
    let dpids = [0, 1, 2, 3, 9, u64::MAX].map(Dpid);
    let ports = [0, 1, 2, 3, 0xffff_fff8, 0xffff_fffd, 0xffff_fffe, u32::MAX].map(PortNo);
    let count = sim.world.random(8);
    let mut end = || (dpids[sim.world.random(dpids.len())], ports[sim.world.random(ports.len())]);
    (0..count).map(|_| end()).collect()
}

/// The provider of the topology sends noise, as one of a stranger may.
#[test]
fn noise_instead_of_a_topology_ends_nothing() {
    for seed in 0..60 {
        let mut sim = established(&[V1_3, V1_0, V1_3], seed);
        for _ in 0..4 {
            let ends = random_ends(&mut sim).into_iter().zip(random_ends(&mut sim));
            let link = |(from, to)| LinkFacts {
                from,
                to,
                metric: [0, 1, 10, u32::MAX][sim.world.random(4)],
                is_suspicious: sim.world.random(2) == 0,
            };
            let links = ends.map(link).collect();
            let facts = Facts {
                switches: random_ends(&mut sim).into_iter().map(|it| (it.0, false)).collect(),
                edges: random_ends(&mut sim),
                links,
                blocked: random_ends(&mut sim),
                segments: random_ends(&mut sim),
                undetermined: sim.world.random(2),
                is_settled: sim.world.random(2) == 0,
            };
            sim.forwarder.on_topology(facts, &mut sim.world);
            let ((from, src), (_, dst)) = (host(1), host(2));
            sim.send(from, frame(src, dst, None, 0));
            let steps = (0..100).take_while(|_| sim.step()).count();
            assert!(steps <= 100);
            sim.world.now += Duration::from_millis(60);
            sim.forwarder.go_on(&mut sim.world);
        }
    }
}

/// Checks that each host reaches each other; the first packet to an unknown host is flooded.
fn reaches_all(sim: &mut Sim, count: usize) {
    for (from, to) in (1..=count).flat_map(|it| (1..=count).map(move |to| (it, to))) {
        let ((at, src), (place, dst)) = (host(from), host(to));
        let arrivals = sim.arrivals(at, frame(src, dst, None, 0));
        let copies = arrivals.iter().filter(|it| **it == place).count();
        assert_eq!(copies, usize::from(from != to), "{from} to {to}: {arrivals:?}");
    }
}

/// Sends packets that may be lost.
fn ping_all_or_none(sim: &mut Sim, count: usize) {
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        let ((at, src), (place, dst)) = (host(from), host(to));
        let arrivals = sim.arrivals(at, frame(src, dst, None, 0));
        assert!(arrivals.iter().all(|it| *it == place), "{from} to {to} of {count}: {arrivals:?}");
    }
}

/// The storage had an earlier place of a host than the flows.
#[test]
fn doubted_place_moves_no_route() {
    for version in [V1_0, V1_3] {
        let mut sim = established(&[version; 4], 5);
        let elsewhere = (host(4).0.0, PortNo(9));
        let stale = Location { is_doubted: true, ..Location::sure(elsewhere) };
        sim.world.table.insert((host(2).1, 0), stale);
        let flows = |sim: &Sim| -> BTreeSet<String> {
            let all = sim.world.switches.values().flat_map(|it| &it.flows);
            all.map(|it| format!("{} {:?}", it.match_, it.act)).collect()
        };
        let before = flows(&sim);
        sim.restart();
        assert_eq!(flows(&sim), before, "{version:?}");
        sim.world.seen_packet_ins = 0;
        ping_all(&mut sim, 4, "afterwards");
        assert_eq!(sim.world.seen_packet_ins, 0);
    }
}

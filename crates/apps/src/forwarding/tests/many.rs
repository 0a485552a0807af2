//! Checks the work in networks of thousands of switches, by counts rather than by time.

use std::net::IpAddr;
use std::time::Duration;

use openflow::{GroupFeatures, Version};
use rosemary_sdk::{Dpid, MacAddr, PortNo, Switch};

use crate::config::Config;
use crate::forwarder::{Facts, Forwarder};
use crate::net::{End, LinkFacts};
use crate::world::{Location, Message, World};

/// Ports of a switch.
const PORTS: u32 = 4;

/// Time from one switch to the next: 10,000 connect in a second.
const STEP: Duration = Duration::from_micros(100);

/// Switches that accept everything and answer nothing.
#[derive(Debug, Default)]
struct Silent {
    now: Duration,
}

impl World for Silent {
    fn now(&self) -> Duration {
        self.now
    }
    fn host(&self, _: MacAddr, _: u16) -> Option<Location> {
        None
    }
    fn address(&self, _: IpAddr, _: u16) -> Option<MacAddr> {
        None
    }
    fn send(&mut self, _: Switch, _: Message) {}
    fn incident(&mut self, summary: &str, _: &str) {
        panic!("{summary}");
    }
}

fn switch(dpid: u64) -> Switch {
    Switch { dpid: Dpid(dpid), epoch: 1, version: Version::V1_3 }
}

fn ends(dpids: std::ops::Range<u64>) -> impl Iterator<Item = End> {
    dpids.flat_map(|dpid| (1..=PORTS).map(move |port| (Dpid(dpid), PortNo(port))))
}

/// The app beside a topology that reads all ports as soon as it may.
struct Network {
    forwarder: Forwarder,
    world: Silent,
    links: Vec<LinkFacts>,
    read: Duration,
}

impl Network {
    /// Connects `count` switches to an app that runs already. They state their groups, and list their flows.
    fn connect(count: u64, links: Vec<LinkFacts>) -> Self {
        let forwarder = Forwarder::new(Config::default());
        let world = Silent { now: Duration::from_secs(100) };
        let mut network = Self { forwarder, world, links, read: Duration::ZERO };
        network.forwarder.on_snapshot(true, &mut network.world);
        network.forwarder.on_snapshot(false, &mut network.world);
        for dpid in 1..=count {
            network.forwarder.on_switch_up(switch(dpid), &mut network.world);
            let groups = &mut network.forwarder.peers.get_mut(Dpid(dpid)).unwrap().groups;
            groups.on_features(&GroupFeatures {
                types: 0xf,
                capabilities: 0xf,
                max_groups: [9; 4],
                actions: [1; 4],
            });
            groups.on_all_known();
            network.forwarder.on_groups_changed(&mut network.world);
            network.forwarder.on_all_flows_kept(switch(dpid), &mut network.world);
            network.pass(STEP, dpid);
        }
        network
    }

    /// Lets time pass, and reads the topology if it is time. It knows the switches up to `known`.
    fn pass(&mut self, time: Duration, known: u64) {
        self.world.now += time;
        if self.world.now >= self.read + self.forwarder.pace() {
            self.read = self.world.now;
            let facts = Facts {
                switches: (1..=known).map(|dpid| (Dpid(dpid), false)).collect(),
                edges: ends(1..known + 1).collect(),
                links: self
                    .links
                    .iter()
                    .filter(|it| it.from.0.0.max(it.to.0.0) <= known)
                    .copied()
                    .collect(),
                is_settled: true,
                ..Facts::default()
            };
            self.forwarder.on_topology(facts, &mut self.world);
        }
        self.forwarder.go_on(&mut self.world);
    }
}

/// A line of switches.
fn line(count: u64) -> Vec<LinkFacts> {
    let link = |from, to| LinkFacts { from, to, metric: 1, is_suspicious: false };
    let pairs = (1..count).map(|dpid| ((Dpid(dpid), PortNo(1)), (Dpid(dpid + 1), PortNo(2))));
    pairs.flat_map(|(one, other)| [link(one, other), link(other, one)]).collect()
}

#[test]
fn work_is_proportional_to_switches_without_links() {
    for count in [400, 4_000] {
        let mut network = Network::connect(count, Vec::new());
        let size = usize::try_from(count).unwrap() * (1 + PORTS as usize);
        let work = network.forwarder.work;
        assert!(work < 20 * size, "{count} switches: {work} for {size} switches and ports");
        for dpid in 1..=count {
            network.forwarder.on_switch_down(Dpid(dpid), &mut network.world);
            network.pass(STEP, count);
        }
        let work = network.forwarder.work - work;
        assert!(work < 20 * size, "{count} switches leave: {work}");
    }
}

#[test]
fn work_after_many_failures_is_bounded_by_their_time() {
    const COUNT: u64 = 2_000;
    let mut network = Network::connect(COUNT, line(COUNT));
    for _ in 0..2 {
        network.pass(Duration::from_secs(1), COUNT); // the last switches are known, too
    }
    network.world.now += Duration::from_secs(1);
    let before = network.forwarder.work;
    network.forwarder.on_port(switch(1), PortNo(1), false, &mut network.world);
    let one = network.forwarder.work - before;
    assert!(one > 0, "a failure is handled at once");
    for dpid in 2..COUNT {
        network.forwarder.on_port(switch(dpid), PortNo(1), false, &mut network.world);
        network.world.now += STEP / 100;
        network.forwarder.go_on(&mut network.world);
    }
    let work = network.forwarder.work - before;
    assert!(work < 4 * one, "{work}, where one failure costs {one}");
    network.pass(Duration::from_secs(1), COUNT);
    assert!(network.forwarder.work > before + work, "the last failures are handled");
}

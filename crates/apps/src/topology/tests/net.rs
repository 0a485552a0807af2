//! A simulated network of switches, whose cables have a latency.

use std::collections::BTreeMap;
use std::time::Duration;

use rosemary_sdk::openflow::Version;
use rosemary_sdk::services::topology::{Endpoint, LinkRecord, PortRecord, Record, Slot};
use rosemary_sdk::{Dpid, MacAddr, Port, PortChange, PortNo, Switch};

use crate::discovery::{Discovery, Effect};
use crate::probe::Seal;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const DOWN: u32 = 1;

pub(super) fn at(dpid: u64, port: u32) -> Endpoint {
    Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
}

pub(super) fn port(number: u32, state: u32) -> Port {
    Port {
        port_no: PortNo(number),
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        name: *b"port\0\0\0\0\0\0\0\0\0\0\0\0",
        config: 0,
        state,
        curr_speed: 10_000_000,
    }
}

/// A broadcast ARP request of a host.
pub(super) fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 9, 9, 8, 6]);
    frame.resize(60, 0);
    frame
}

/// A network of switches with cables.
pub(super) struct Net {
    pub(super) discovery: Discovery,
    pub(super) seal: Seal,
    pub(super) now: Duration,
    epochs: BTreeMap<Dpid, u32>,
    /// Where a frame arrives that leaves a port, and after what time.
    pub(super) cables: BTreeMap<Endpoint, (Endpoint, Duration)>,
    /// Bridges without OpenFlow, by their ports.
    pub(super) bridges: Vec<Vec<Endpoint>>,
    /// Whether bridges forward also what must stay on its link.
    pub(super) bridges_forward_all: bool,
    underway: Vec<(Duration, Endpoint, Vec<u8>)>,
    /// All first probes that left, with their time.
    pub(super) sent: Vec<(Duration, Endpoint, Vec<u8>)>,
    /// The same for second probes.
    pub(super) sent_second: Vec<(Duration, Endpoint, Vec<u8>)>,
    pub(super) table: BTreeMap<u32, Slot>,
    pub(super) incidents: Vec<String>,
    /// The problem that the status shows.
    pub(super) problem: Option<String>,
}

impl Net {
    /// Makes switches 1 to `switches` with ports 1 to 4; some time passes before they connect.
    pub(super) fn new(switches: u64) -> Self {
        let seal = Seal::random();
        let mut net = Self {
            discovery: Discovery::new(seal.clone(), 10_000),
            seal,
            now: Duration::from_secs(100),
            epochs: BTreeMap::new(),
            cables: BTreeMap::new(),
            bridges: Vec::new(),
            bridges_forward_all: false,
            underway: Vec::new(),
            sent: Vec::new(),
            sent_second: Vec::new(),
            table: BTreeMap::new(),
            incidents: Vec::new(),
            problem: None,
        };
        net.discovery.snapshot_begin(net.now);
        net.discovery.snapshot_end(net.now);
        for dpid in 1..=switches {
            net.connect(dpid);
        }
        net
    }

    pub(super) fn switch(&self, dpid: u64) -> Switch {
        let epoch = self.epochs.get(&Dpid(dpid)).copied().unwrap_or(0);
        Switch { dpid: Dpid(dpid), epoch, version: Version::V1_3 }
    }

    pub(super) fn connect(&mut self, dpid: u64) {
        *self.epochs.entry(Dpid(dpid)).or_default() += 1;
        self.discovery.switch_up(self.switch(dpid), self.now);
        for number in 1..=4 {
            self.set_port(dpid, number, 0);
        }
    }

    pub(super) fn disconnect(&mut self, dpid: u64) {
        self.discovery.switch_down(Dpid(dpid), self.now);
    }

    pub(super) fn set_port(&mut self, dpid: u64, number: u32, state: u32) {
        let switch = self.switch(dpid);
        self.discovery.port(switch, PortChange::Modified, &port(number, state), self.now);
    }

    pub(super) fn cable(&mut self, one: Endpoint, other: Endpoint, latency: Duration) {
        self.cables.insert(one, (other, latency));
        self.cables.insert(other, (one, latency));
    }

    pub(super) fn packet(&mut self, at: Endpoint, frame: &[u8]) {
        self.discovery.packet(self.switch(at.dpid.0), at.port, frame, self.now);
    }

    /// Lets time pass, in steps of a millisecond.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += MS;
            let now = self.now;
            let (arrived, underway) = self.underway.drain(..).partition(|(time, ..)| *time <= now);
            self.underway = underway;
            let arrived: Vec<_> = arrived;
            for (_, at, frame) in arrived {
                self.packet(at, &frame);
            }
            self.work();
        }
    }

    pub(super) fn work(&mut self) {
        let now = self.now;
        self.discovery.round(now);
        while let Some(probe) = self.discovery.next_probe(now) {
            let from = Endpoint { dpid: probe.switch.dpid, port: probe.port };
            if let Some((to, latency)) = self.cables.get(&from) {
                self.underway.push((now + *latency, *to, probe.frame.clone()));
            }
            let is_second = probe.frame[..6] == [0xff; 6];
            if is_second || self.bridges_forward_all {
                for bridge in self.bridges.iter().filter(|ends| ends.contains(&from)) {
                    let others = bridge.iter().filter(|end| **end != from);
                    self.underway.extend(others.map(|to| (now + MS, *to, probe.frame.clone())));
                }
            }
            let sent = if is_second { &mut self.sent_second } else { &mut self.sent };
            sent.push((now, from, probe.frame));
        }
        for (slot, record) in self.discovery.flush(now) {
            self.table.insert(slot, record);
        }
        for effect in self.discovery.take_effects() {
            match effect {
                Effect::Incident { summary, .. } => self.incidents.push(summary),
                Effect::Problem(problem) => self.problem = problem,
                _ => {}
            }
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        self.table.values().filter_map(Record::decode)
    }

    pub(super) fn links(&self) -> Vec<(Endpoint, Endpoint)> {
        let mut links: Vec<_> = self.link_records().map(|link| (link.from, link.to)).collect();
        links.sort_unstable();
        links
    }

    pub(super) fn link_records(&self) -> impl Iterator<Item = LinkRecord> {
        self.records().filter_map(|record| match record {
            Record::Link(link) => Some(link),
            _ => None,
        })
    }

    pub(super) fn port_record(&self, at: Endpoint) -> PortRecord {
        let port = self.records().find_map(|record| match record {
            Record::Port(port) if port.at == at => Some(port),
            _ => None,
        });
        port.expect("the port is published")
    }

    pub(super) fn is_edge(&self, at: Endpoint) -> bool {
        self.port_record(at).edge
    }

    /// Returns the last probe that left a port.
    pub(super) fn last_probe(&self, from: Endpoint) -> Vec<u8> {
        self.sent.iter().rfind(|(_, at, _)| *at == from).expect("it was probed").2.clone()
    }

    pub(super) fn has_incident(&self, what: &str) -> bool {
        self.incidents.iter().any(|summary| summary.contains(what))
    }
}

/// Three switches in a line: port 2 of each leads to port 1 of the next.
pub(super) fn line() -> Net {
    let mut net = Net::new(3);
    net.cable(at(1, 2), at(2, 1), MS);
    net.cable(at(2, 2), at(3, 1), MS);
    net
}

pub(super) fn pair(one: Endpoint, other: Endpoint) -> [(Endpoint, Endpoint); 2] {
    [(one, other), (other, one)]
}

pub(super) fn line_links() -> Vec<(Endpoint, Endpoint)> {
    let mut links = [pair(at(1, 2), at(2, 1)), pair(at(2, 2), at(3, 1))].concat();
    links.sort_unstable();
    links
}

//! Discovery in a simulated network: cables with a latency, and attackers that do what the published attacks do.

use std::collections::BTreeMap;

use rosemary_sdk::openflow::Version;
use rosemary_sdk::services::topology::{Endpoint, LinkRecord, PortRecord, Record, Slot};
use rosemary_sdk::{Dpid, MacAddr, Port, PortChange, Switch};

use super::probe::Probe;
use super::*;

const MS: Duration = Duration::from_millis(1);
const DOWN: u32 = 1;

fn at(dpid: u64, port: u32) -> Endpoint {
    Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
}

fn port(number: u32, state: u32) -> Port {
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
fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 9, 9, 8, 6]);
    frame.resize(60, 0);
    frame
}

/// A network of switches with cables.
struct Net {
    discovery: Discovery,
    seal: Seal,
    now: Duration,
    epochs: BTreeMap<Dpid, u32>,
    /// Where a frame arrives that leaves a port, and after what time.
    cables: BTreeMap<Endpoint, (Endpoint, Duration)>,
    underway: Vec<(Duration, Endpoint, Vec<u8>)>,
    /// All probes that left, with their time.
    sent: Vec<(Duration, Endpoint, Vec<u8>)>,
    table: BTreeMap<u32, Slot>,
    incidents: Vec<String>,
}

impl Net {
    /// Makes switches 1 to `switches` with ports 1 to 4; some time passes before they connect.
    fn new(switches: u64) -> Self {
        let seal = Seal::random();
        let mut net = Self {
            discovery: Discovery::new(seal.clone(), 10_000),
            seal,
            now: Duration::from_secs(100),
            epochs: BTreeMap::new(),
            cables: BTreeMap::new(),
            underway: Vec::new(),
            sent: Vec::new(),
            table: BTreeMap::new(),
            incidents: Vec::new(),
        };
        net.discovery.snapshot_begin(net.now);
        net.discovery.snapshot_end(net.now);
        for dpid in 1..=switches {
            net.connect(dpid);
        }
        net
    }

    fn switch(&self, dpid: u64) -> Switch {
        let epoch = self.epochs.get(&Dpid(dpid)).copied().unwrap_or(0);
        Switch { dpid: Dpid(dpid), epoch, version: Version::V1_3 }
    }

    fn connect(&mut self, dpid: u64) {
        *self.epochs.entry(Dpid(dpid)).or_default() += 1;
        self.discovery.switch_up(self.switch(dpid), self.now);
        for number in 1..=4 {
            self.set_port(dpid, number, 0);
        }
    }

    fn disconnect(&mut self, dpid: u64) {
        self.discovery.switch_down(Dpid(dpid), self.now);
    }

    fn set_port(&mut self, dpid: u64, number: u32, state: u32) {
        let switch = self.switch(dpid);
        self.discovery.port(switch, PortChange::Modified, &port(number, state), self.now);
    }

    fn cable(&mut self, one: Endpoint, other: Endpoint, latency: Duration) {
        self.cables.insert(one, (other, latency));
        self.cables.insert(other, (one, latency));
    }

    fn packet(&mut self, at: Endpoint, frame: &[u8]) {
        self.discovery.packet(self.switch(at.dpid.0), at.port, frame, self.now);
    }

    /// Lets time pass, in steps of a millisecond.
    fn run(&mut self, time: Duration) {
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

    fn work(&mut self) {
        let now = self.now;
        self.discovery.round(now);
        while let Some(probe) = self.discovery.next_probe(now) {
            let from = Endpoint { dpid: probe.switch.dpid, port: probe.port };
            if let Some((to, latency)) = self.cables.get(&from) {
                self.underway.push((now + *latency, *to, probe.frame.clone()));
            }
            self.sent.push((now, from, probe.frame));
        }
        for (slot, record) in self.discovery.flush(now) {
            self.table.insert(slot, record);
        }
        for effect in self.discovery.take_effects() {
            if let Effect::Incident { summary, .. } = effect {
                self.incidents.push(summary);
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = Record> {
        self.table.values().filter_map(Record::decode)
    }

    fn links(&self) -> Vec<(Endpoint, Endpoint)> {
        let mut links: Vec<_> = self.link_records().map(|link| (link.from, link.to)).collect();
        links.sort_unstable();
        links
    }

    fn link_records(&self) -> impl Iterator<Item = LinkRecord> {
        self.records().filter_map(|record| match record {
            Record::Link(link) => Some(link),
            _ => None,
        })
    }

    fn port_record(&self, at: Endpoint) -> PortRecord {
        let port = self.records().find_map(|record| match record {
            Record::Port(port) if port.at == at => Some(port),
            _ => None,
        });
        port.expect("the port is published")
    }

    fn is_edge(&self, at: Endpoint) -> bool {
        self.port_record(at).edge
    }

    /// Returns the last probe that left a port.
    fn last_probe(&self, from: Endpoint) -> Vec<u8> {
        self.sent.iter().rfind(|(_, at, _)| *at == from).expect("it was probed").2.clone()
    }

    fn has_incident(&self, what: &str) -> bool {
        self.incidents.iter().any(|summary| summary.contains(what))
    }
}

/// Three switches in a line: port 2 of each leads to port 1 of the next.
fn line() -> Net {
    let mut net = Net::new(3);
    net.cable(at(1, 2), at(2, 1), MS);
    net.cable(at(2, 2), at(3, 1), MS);
    net
}

fn pair(one: Endpoint, other: Endpoint) -> [(Endpoint, Endpoint); 2] {
    [(one, other), (other, one)]
}

fn line_links() -> Vec<(Endpoint, Endpoint)> {
    let mut links = [pair(at(1, 2), at(2, 1)), pair(at(2, 2), at(3, 1))].concat();
    links.sort_unstable();
    links
}

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
    assert_eq!(net.incidents, [""; 0]);
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

#[test]
fn forged_probe_makes_no_link_and_raises_an_incident() {
    let mut net = line();
    net.run(Duration::from_secs(6));
    let nonce = u64::try_from(net.now.as_nanos()).unwrap();
    let forged = Probe { from: at(1, 1), nonce }.write(MacAddr([2; 6]), &Seal::random());
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
        let frame = Probe { from: at(1, 1), nonce: 1 }.write(MacAddr([2; 6]), &Seal::random());
        net.packet(at(3, 4), &frame);
        net.run(MS);
    }
    assert_eq!(net.incidents.len(), 1);
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
    assert!(net.has_incident("more than 4096 ports"));
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

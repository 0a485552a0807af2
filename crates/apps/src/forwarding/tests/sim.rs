//! Simulates switches, links and hosts around a [`Forwarder`]. Messages to different switches, packets and packet-ins
//! overtake each other in an order that a seed determines.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use openflow::{
    Field, FlowModCommand, FlowRemovedReason, GroupFeatures, GroupKind, GroupMod, Match, Version,
};
use rosemary_sdk::{Action, Dpid, MacAddr, PacketIn, PortNo, Switch};

use crate::config::Config;
use crate::forwarder::{Facts, Forwarder, Kept};
use crate::net::{End, LinkFacts};
use crate::world::{Act, Flow, Location, Message, World};

/// Packets that one packet may cause: more would be a loop.
const MOST_STEPS: usize = 20_000;

/// The lowest priority above the app's band.
pub(crate) const OUTSIDE: u16 = 4096;

#[derive(Debug, Default)]
pub(crate) struct SimSwitch {
    pub(crate) flows: Vec<Flow>,
    pub(crate) groups: HashMap<u32, GroupMod>,
    inbox: VecDeque<Message>,
}

/// A bridge without OpenFlow. Its ports are ports of switches, and hosts as ports of a switch 0.
#[derive(Debug, Default)]
pub(crate) struct Bridge {
    pub(crate) ends: Vec<End>,
    /// Whether it is the only connection of two switches, the first two ends; otherwise only the first is used.
    pub(crate) joins_parts: bool,
    learned: HashMap<MacAddr, End>,
}

impl Bridge {
    pub(crate) fn new(ends: Vec<End>, joins_parts: bool) -> Self {
        Self { ends, joins_parts, learned: HashMap::new() }
    }
}

/// All but the forwarder.
#[derive(Debug)]
pub(crate) struct World1 {
    pub(crate) now: Duration,
    pub(crate) switches: BTreeMap<Dpid, SimSwitch>,
    versions: BTreeMap<Dpid, Version>,
    pub(crate) links: BTreeMap<End, End>,
    /// Links that are cut; a switch knows it at once.
    cut: BTreeSet<End>,
    pub(crate) hosts: BTreeMap<End, MacAddr>,
    pub(crate) bridge: Bridge,
    pub(crate) table: HashMap<(MacAddr, u16), Location>,
    pub(crate) addresses: HashMap<(IpAddr, u16), MacAddr>,
    /// Packets under way: where they arrive.
    packets: Vec<(End, Vec<u8>)>,
    packet_ins: Vec<(End, Vec<u8>)>,
    /// Outcomes of change sets under way.
    outcomes: Vec<(Switch, u64, bool)>,
    /// The numbers of flows of change sets so far, and whether the switch applied them. It refuses one of eight.
    pub(crate) sets: Vec<(usize, bool)>,
    /// Hosts that received a packet.
    pub(crate) received: Vec<(End, Vec<u8>)>,
    pub(crate) incidents: Vec<String>,
    pub(crate) seen_packet_ins: usize,
    drained: BTreeSet<Dpid>,
    /// Ports whose neighbours the topology does not know yet; then it knows no edge.
    pub(crate) undetermined: usize,
    /// Whether the topology has just started and has found no link yet, and whether it has found all.
    pub(crate) is_searching: bool,
    pub(crate) is_settled: bool,
    /// The switch with the undetermined ports; `None` for all switches.
    pub(crate) undetermined_at: Option<Dpid>,
    seed: u64,
}

impl World for World1 {
    fn now(&self) -> Duration {
        self.now
    }
    fn host(&self, mac: MacAddr, vlan: u16) -> Option<Location> {
        self.table.get(&(mac, vlan)).copied()
    }
    fn address(&self, ip: IpAddr, vlan: u16) -> Option<MacAddr> {
        self.addresses.get(&(ip, vlan)).copied()
    }
    fn send(&mut self, to: Switch, message: Message) {
        if let Some(switch) = self.switches.get_mut(&to.dpid) {
            switch.inbox.push_back(message);
        }
    }
    fn incident(&mut self, summary: &str, _: &str) {
        self.incidents.push(summary.to_owned());
    }
}

#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) forwarder: Forwarder,
    pub(crate) world: World1,
}

/// A frame from `src` to `dst` with a number.
pub(crate) fn frame(src: MacAddr, dst: MacAddr, tag: Option<u16>, number: u32) -> Vec<u8> {
    let tag = tag.map_or(Vec::new(), |vid| [[0x81, 0], vid.to_be_bytes()].concat());
    [&dst.0[..], &src.0, &tag, &[0x88, 0xb5], &number.to_be_bytes()].concat()
}

pub(crate) fn mac_of(number: usize) -> MacAddr {
    let [.., a, b] = number.to_be_bytes();
    MacAddr([2, 0, 0, 0, a, b])
}

impl Sim {
    /// Makes switches of these versions, with these links between them and a host at every switch.
    pub(crate) fn new(versions: &[Version], pairs: &[(usize, usize)], seed: u64) -> Self {
        let dpid = |at: usize| Dpid(at as u64 + 1);
        let mut next_port: Vec<u32> = vec![1; versions.len()];
        let mut port = |at: usize| {
            next_port[at] += 1;
            (dpid(at), PortNo(next_port[at]))
        };
        let mut links = BTreeMap::new();
        for &(a, b) in pairs {
            let ends = (port(a), port(b));
            links.insert(ends.0, ends.1);
            links.insert(ends.1, ends.0);
        }
        let hosts = (0..versions.len()).map(|at| ((dpid(at), PortNo(1)), mac_of(at + 1))).collect();
        let world = World1 {
            now: Duration::from_secs(100),
            switches: (0..versions.len()).map(|at| (dpid(at), SimSwitch::default())).collect(),
            versions: versions.iter().enumerate().map(|(at, it)| (dpid(at), *it)).collect(),
            links,
            cut: BTreeSet::new(),
            hosts,
            bridge: Bridge::default(),
            table: HashMap::new(),
            addresses: HashMap::new(),
            packets: Vec::new(),
            packet_ins: Vec::new(),
            outcomes: Vec::new(),
            sets: Vec::new(),
            received: Vec::new(),
            incidents: Vec::new(),
            seen_packet_ins: 0,
            drained: BTreeSet::new(),
            undetermined: 0,
            is_searching: false,
            is_settled: true,
            undetermined_at: None,
            seed,
        };
        let config = Config::read("[storm-control]\nenabled = false").unwrap();
        let mut sim = Self { forwarder: Forwarder::new(config), world };
        sim.connect();
        sim
    }

    /// Restarts the service `hosts`, which forgets all hosts.
    pub(crate) fn forget_hosts(&mut self) {
        self.world.table.clear();
        self.forwarder.examine_all();
        self.settle();
    }

    /// Starts the app, as after a crash: it knows nothing, and switches list their flows.
    pub(crate) fn restart(&mut self) {
        let config = Config::read("[storm-control]\nenabled = false").unwrap();
        self.forwarder = Forwarder::new(config);
        self.connect();
    }

    fn connect(&mut self) {
        self.forwarder.on_snapshot(true, &mut self.world);
        for switch in self.switches() {
            self.forwarder.on_switch_up(switch, &mut self.world);
        }
        self.announce_cuts();
        self.forwarder.on_snapshot(false, &mut self.world);
        self.update_topology();
        self.settle();
        for switch in self.switches() {
            self.list_flows(switch);
        }
        self.settle();
    }

    /// The kernel restarts, or the app as well: no switch is connected. The switches keep their flows.
    pub(crate) fn lose_switches(&mut self, is_app_new: bool) {
        if is_app_new {
            let config = Config::read("[storm-control]\nenabled = false").unwrap();
            self.forwarder = Forwarder::new(config);
        }
        self.forwarder.on_snapshot(true, &mut self.world);
        self.forwarder.on_snapshot(false, &mut self.world);
    }

    /// Lets everything happen that is under way, then time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.run();
        self.world.now += time;
        self.forwarder.go_on(&mut self.world);
        self.run();
    }

    /// Connects a switch again that has kept its flows.
    pub(crate) fn connect_again(&mut self, dpid: Dpid) {
        let switch = self.switches().into_iter().find(|it| it.dpid == dpid).unwrap();
        self.forwarder.on_switch_up(switch, &mut self.world);
        self.announce_cuts();
        self.update_topology();
        self.list_flows(switch);
    }

    pub(crate) fn switches(&self) -> Vec<Switch> {
        let switch = |(dpid, version): (&Dpid, &Version)| Switch {
            dpid: *dpid,
            epoch: 1,
            version: *version,
        };
        self.world.versions.iter().map(switch).collect()
    }

    pub(crate) fn list_flows(&mut self, switch: Switch) {
        let kept = |flow: &Flow| Kept {
            match_: flow.match_.clone(),
            cookie: flow.cookie,
            priority: (flow.priority < OUTSIDE).then_some(flow.priority),
            is_idle_limited: flow.idle_timeout > 0,
            act: flow.act,
        };
        let flows: Vec<Kept> = self.world.switches[&switch.dpid].flows.iter().map(kept).collect();
        self.forwarder.on_flows_kept(switch, flows, &mut self.world);
        self.forwarder.on_all_flows_kept(switch, &mut self.world);
    }

    pub(crate) fn update_topology(&mut self) {
        let world = &self.world;
        let is_found = |from: &End| !world.is_searching && !world.cut.contains(from);
        let links = world.links.iter().filter(|(from, _)| is_found(from));
        let links = links.map(|(from, to)| LinkFacts {
            from: *from,
            to: *to,
            metric: 1,
            is_suspicious: false,
        });
        let bridge = &world.bridge;
        let used = bridge.ends.first().copied();
        let on_switches = bridge.ends.iter().copied().filter(|(dpid, _)| *dpid != Dpid(0));
        let over_bridge = |from: usize, to: usize| LinkFacts {
            from: bridge.ends[from],
            to: bridge.ends[to],
            metric: 1,
            is_suspicious: false,
        };
        let links: Vec<LinkFacts> = if bridge.joins_parts {
            links.chain([over_bridge(0, 1), over_bridge(1, 0)]).collect()
        } else {
            links.collect()
        };
        let edges = world.hosts.keys().copied().filter(|(dpid, _)| *dpid != Dpid(0));
        let is_determined = |(dpid, _): &End| {
            world.undetermined == 0 || world.undetermined_at.is_some_and(|at| at != *dpid)
        };
        let facts = Facts {
            switches: world.versions.keys().map(|it| (*it, world.drained.contains(it))).collect(),
            edges: edges.chain(used).filter(is_determined).collect(),
            links,
            blocked: on_switches.skip(1).filter(|_| !bridge.joins_parts).collect(),
            segments: used.into_iter().filter(|_| bridge.joins_parts).collect(),
            undetermined: world.undetermined,
            is_settled: world.is_settled,
        };
        self.forwarder.on_topology(facts, &mut self.world);
    }

    pub(crate) fn drain(&mut self, dpid: Dpid) {
        self.world.drained.insert(dpid);
        self.update_topology();
    }

    pub(crate) fn undrain(&mut self, dpid: Dpid) {
        self.world.drained.remove(&dpid);
        self.update_topology();
    }

    /// Cuts a link. The switches know it; the app does not yet.
    pub(crate) fn cut(&mut self, from: End) {
        let to = self.world.links[&from];
        self.world.cut.extend([from, to]);
    }

    /// Reports the port-down events of all cut links, then the topology's change.
    pub(crate) fn report_cuts(&mut self) {
        self.report_ports();
        self.update_topology();
        self.settle();
    }

    /// Reports the port-down events of all cut links. The topology does not know them yet.
    pub(crate) fn report_ports(&mut self) {
        self.announce_cuts();
        self.settle();
    }

    fn announce_cuts(&mut self) {
        let cut: Vec<End> = self.world.cut.iter().copied().collect();
        for switch in self.switches() {
            for (_, port) in cut.iter().filter(|(dpid, _)| *dpid == switch.dpid) {
                self.forwarder.on_port(switch, *port, false, &mut self.world);
            }
        }
    }

    /// Puts a packet into the port of a host.
    pub(crate) fn send(&mut self, from: End, frame: Vec<u8>) {
        self.world.packets.push((from, frame));
    }

    /// Sends a packet and returns where it arrives.
    pub(crate) fn arrivals(&mut self, from: End, frame: Vec<u8>) -> Vec<End> {
        self.world.received.clear();
        self.send(from, frame);
        self.settle();
        self.world.received.iter().map(|(end, _)| *end).collect()
    }

    /// Lets everything happen that is under way, and time pass.
    pub(crate) fn settle(&mut self) {
        for _ in 0..40 {
            self.run();
            self.world.now += Duration::from_millis(50);
            self.forwarder.go_on(&mut self.world);
        }
        self.run();
    }

    /// Lets everything happen that is under way.
    pub(crate) fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < MOST_STEPS, "a loop");
        }
    }

    /// Does one thing that is under way, chosen at random; returns false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let busy: Vec<Dpid> = self
            .world
            .switches
            .iter()
            .filter(|(_, it)| !it.inbox.is_empty())
            .map(|(it, _)| *it)
            .collect();
        let outcomes = self.world.outcomes.len();
        let count = busy.len() + self.world.packets.len() + self.world.packet_ins.len() + outcomes;
        if count == 0 {
            return false;
        }
        let mut chosen = self.world.random(count);
        if chosen < outcomes {
            let (at, set, is_applied) = self.world.outcomes.swap_remove(chosen);
            self.forwarder.on_changed(at, set, is_applied, &mut self.world);
            return true;
        }
        chosen -= outcomes;
        if let Some(dpid) = busy.get(chosen) {
            let message = self.world.switches.get_mut(dpid).unwrap().inbox.pop_front().unwrap();
            self.handle(*dpid, message);
            return true;
        }
        chosen -= busy.len();
        if chosen < self.world.packets.len() {
            let (at, frame) = self.world.packets.swap_remove(chosen);
            self.world.on_packet(at, frame);
            return true;
        }
        let (at, frame) = self.world.packet_ins.swap_remove(chosen - self.world.packets.len());
        self.packet_in(at, &frame);
        true
    }

    fn packet_in(&mut self, at: End, frame: &[u8]) {
        self.world.seen_packet_ins += 1;
        let switch = Switch { dpid: at.0, epoch: 1, version: self.world.versions[&at.0] };
        let mac = MacAddr(*frame[6..].first_chunk().unwrap());
        if self.world.hosts.contains_key(&at) || self.world.bridge.ends.first() == Some(&at) {
            let vlan = if frame[12..14] == [0x81, 0] {
                u16::from_be_bytes([frame[14], frame[15]])
            } else {
                0
            };
            let known = self.world.table.entry((mac, vlan)).or_insert(Location::sure(at));
            if known.at == at {
                known.is_doubted = false;
            }
        }
        let packet_in = PacketIn {
            switch,
            in_port: at.1,
            buffer_id: None,
            reason: 0,
            table_id: 0,
            cookie: 0,
            data: frame,
            total_len: u16::try_from(frame.len()).unwrap(),
            message: frame,
            repeated: false,
        };
        self.forwarder.on_packet(&packet_in, &mut self.world);
    }

    fn handle(&mut self, dpid: Dpid, message: Message) {
        let at = Switch { dpid, epoch: 1, version: self.world.versions[&dpid] };
        match message {
            Message::Flow(flow) => {
                for (match_, _) in self.world.apply(dpid, flow) {
                    let reason = FlowRemovedReason::Delete;
                    self.forwarder.on_flow_removed(dpid, &match_, reason, &mut self.world);
                }
            }
            Message::Changes(set, flows) => {
                let is_applied = self.world.random(8) > 0;
                self.world.sets.push((flows.len(), is_applied));
                for flow in flows.into_iter().filter(|_| is_applied) {
                    self.world.apply(dpid, flow);
                }
                self.world.outcomes.push((at, set, is_applied));
            }
            Message::Group(group) => {
                assert_ne!(at.version, Version::V1_0);
                let switch = self.world.switches.get_mut(&dpid).unwrap();
                let old = switch.groups.insert(group.group_id, group);
                assert!(old.is_none(), "a group is added twice");
            }
            Message::Barrier => self.forwarder.on_barrier(at, &mut self.world),
            Message::GroupFeatures => {
                let features = GroupFeatures {
                    types: 0xf,
                    capabilities: 0xf,
                    max_groups: [9; 4],
                    actions: [1; 4],
                };
                self.forwarder.peers.get_mut(dpid).unwrap().groups.on_features(&features);
            }
            Message::GroupDesc => {
                let groups = self.world.switches[&dpid].groups.clone();
                let known = &mut self.forwarder.peers.get_mut(dpid).unwrap().groups;
                for (id, group) in groups {
                    let GroupMod { kind, group_id, buckets, .. } = group;
                    known.on_desc(id, &openflow::GroupDesc { kind, group_id, buckets });
                }
                known.on_all_known();
                self.forwarder.on_groups_changed(&mut self.world);
            }
            Message::Packet { in_port, out, data, .. } => {
                for port in out {
                    let port = if port == PortNo::IN_PORT { in_port } else { port };
                    self.world.output((dpid, port), data.clone());
                }
            }
        }
    }

    /// Ends all flows with a timeout, as a switch does when no packet has used them for a while.
    pub(crate) fn expire_idle_flows(&mut self) {
        for switch in self.switches() {
            let flows = &mut self.world.switches.get_mut(&switch.dpid).unwrap().flows;
            let ended: Vec<Flow> = flows
                .extract_if(.., |flow| flow.idle_timeout > 0 || flow.hard_timeout > 0)
                .collect();
            for flow in ended.into_iter().filter(|it| it.is_reported) {
                let reason = FlowRemovedReason::IdleTimeout;
                self.forwarder.on_flow_removed(switch.dpid, &flow.match_, reason, &mut self.world);
            }
        }
        self.settle();
    }

    pub(crate) fn flow_count(&self) -> usize {
        self.world.switches.values().map(|it| it.flows.len()).sum()
    }

    /// The hosts that can be reached from a switch over links that are not cut.
    pub(crate) fn reachable(&self, from: Dpid) -> BTreeSet<End> {
        let mut seen = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for ((_, _), (to, _)) in self
                .world
                .links
                .iter()
                .filter(|(end, _)| end.0 == at && !self.world.cut.contains(end))
            {
                if seen.insert(*to) {
                    open.push(*to);
                }
            }
        }
        self.world.hosts.keys().copied().filter(|(dpid, _)| seen.contains(dpid)).collect()
    }
}

impl World1 {
    pub(crate) fn random(&mut self, below: usize) -> usize {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below.max(1)
    }

    fn on_packet(&mut self, at: End, frame: Vec<u8>) {
        if at.0 == Dpid(0) {
            return self.over_bridge(at, &frame);
        }
        let switch = &self.switches[&at.0];
        let matching = switch.flows.iter().filter(|flow| covers(&flow.match_, at.1, &frame));
        let Some(flow) = matching.max_by_key(|flow| flow.priority) else {
            self.packet_ins.push((at, frame));
            return;
        };
        let out = match flow.act {
            Act::Port(PortNo::IN_PORT) => Some(at.1),
            Act::Port(port) => {
                assert_ne!(port, at.1, "a switch drops packets to their in-port");
                Some(port)
            }
            Act::Group(id) => self.choose(at, &switch.groups[&id].clone()),
            Act::Drop => None,
        };
        if let Some(out) = out {
            self.output((at.0, out), frame);
        }
    }

    /// The port of a live bucket.
    fn choose(&mut self, at: End, group: &GroupMod) -> Option<PortNo> {
        let live: Vec<PortNo> = group
            .buckets
            .iter()
            .filter(|bucket| !self.cut.contains(&(at.0, bucket.watch_port)))
            .map(|bucket| match bucket.actions[..] {
                [Action::Output { port: PortNo::IN_PORT, .. }] => at.1,
                [Action::Output { port, .. }] => {
                    assert_ne!(port, at.1, "a switch drops packets to their in-port");
                    port
                }
                _ => panic!("{bucket:?}"),
            })
            .collect();
        let chosen = if group.kind == GroupKind::Select { self.random(live.len()) } else { 0 };
        live.get(chosen).copied()
    }

    /// Forwards a packet as a bridge does that learns.
    fn over_bridge(&mut self, from: End, frame: &[u8]) {
        let address = |at: usize| MacAddr(*frame[at..].first_chunk().unwrap());
        let bridge = &mut self.bridge;
        bridge.learned.insert(address(6), from);
        let known = bridge.learned.get(&address(0));
        let to = known.map_or(&bridge.ends[..], std::slice::from_ref);
        for end in to.iter().filter(|end| **end != from) {
            let into = if end.0 == Dpid(0) { &mut self.received } else { &mut self.packets };
            into.push((*end, frame.to_vec()));
        }
    }

    fn output(&mut self, from: End, frame: Vec<u8>) {
        if self.bridge.ends.contains(&from) {
            return self.over_bridge(from, &frame);
        }
        if let Some(to) = self.links.get(&from) {
            if !self.cut.contains(&from) {
                self.packets.push((*to, frame));
            }
        } else if self.hosts.contains_key(&from) {
            self.received.push((from, frame));
        }
    }

    /// Handles a flow-mod; returns the flows that were deleted and are to be reported.
    fn apply(&mut self, dpid: Dpid, flow: Flow) -> Vec<(Match, u64)> {
        let flows = &mut self.switches.get_mut(&dpid).unwrap().flows;
        let is_same = |it: &Flow| it.match_ == flow.match_ && it.priority == flow.priority;
        let gone: Vec<Flow> = match flow.command {
            FlowModCommand::Add => {
                flows.retain(|it| !is_same(it));
                flows.push(flow);
                return Vec::new();
            }
            FlowModCommand::DeleteStrict => flows.extract_if(.., |it| is_same(it)).collect(),
            FlowModCommand::Delete => {
                let wanted: Vec<Field> = flow.match_.fields().collect();
                let is_covered =
                    |it: &Flow| wanted.iter().all(|field| it.match_.fields().any(|f| f == *field));
                let outputs =
                    |it: &Flow| flow.out_port == PortNo::ANY || it.act == Act::Port(flow.out_port);
                flows.extract_if(.., |it| is_covered(it) && outputs(it)).collect()
            }
            _ => panic!("{flow:?}"),
        };
        gone.into_iter().filter(|it| it.is_reported).map(|it| (it.match_, it.cookie)).collect()
    }
}

fn covers(match_: &Match, in_port: PortNo, frame: &[u8]) -> bool {
    let tag = (frame[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([frame[14], frame[15]]));
    match_.fields().all(|field| match field {
        Field::InPort(port) => port == in_port,
        Field::EthDst(mac) => frame[..6] == mac.value.0,
        Field::EthSrc(mac) => frame[6..12] == mac.value.0,
        Field::VlanVid(vid) => tag.map_or(0, |tag| 0x1000 | tag & 0xfff) == vid.value,
        other => panic!("{other:?}"),
    })
}

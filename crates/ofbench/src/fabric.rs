//! A network of emulated switches connected by links, without sockets.
//!
//! A frame that leaves a port arrives at the other end of the link and passes that switch's flow
//! tables. Controller messages go in, switch messages come out. Topology discovery works: an LLDP
//! frame in a packet-out becomes a packet-in of the neighbour.
//!
//! Frames are forwarded unchanged: the effect of a set-field action is visible to later tables of
//! the same switch only. A frame enters each port at most once, which ends loops.

use std::collections::{HashMap, HashSet, VecDeque};

use openflow::{Dpid, PacketIn, PacketInReason, PacketOut, PortNo, Version, append};

use crate::switch::table::{LookupResult, Packet};
use crate::switch::{Event, Fault, Identity, Switch};
use crate::topology::{LinkEnd, Topology};

/// Counters of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricCounters {
    /// Packet-ins sent by switches.
    pub packet_ins: u64,
    /// Packet-outs received from the controller.
    pub packet_outs: u64,
    /// Frames that crossed a link.
    pub crossings: u64,
    /// Flow-mods received from the controller.
    pub flow_mods: u64,
    /// Error messages received from the controller.
    pub errors: u64,
}

/// A network of switches; see the module's documentation.
#[derive(Debug)]
pub struct Fabric {
    switches: Vec<Switch>,
    /// The other end of each link.
    peers: HashMap<LinkEnd, LinkEnd>,
    counters: FabricCounters,
}

/// Messages from switches to the controller: index of the switch, and the bytes.
pub type SwitchOutput = Vec<(usize, Vec<u8>)>;

impl Fabric {
    /// Creates the switches of a topology. Datapath ids start at `first_dpid`; each switch has
    /// `more_ports` ports without a link.
    pub fn new(topology: &Topology, version: Version, first_dpid: u64, more_ports: u16) -> Self {
        let mut ports = vec![0; topology.switches()];
        let mut peers = HashMap::new();
        for [a, b] in topology.links() {
            for (from, to) in [(a, b), (b, a)] {
                ports[from.switch] = from.port.max(ports[from.switch]);
                peers.insert(*from, *to);
            }
        }
        let switch = |(number, ports): (usize, &u16)| {
            Switch::new(Identity {
                dpid: Dpid(first_dpid.wrapping_add(number as u64)),
                version,
                ports: ports.saturating_add(more_ports),
                n_buffers: 0,
                max_flows: 100_000,
            })
        };
        let switches = ports.iter().enumerate().map(switch).collect();
        Self { switches, peers, counters: FabricCounters::default() }
    }

    /// The switches.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// Returns the counters.
    pub fn counters(&self) -> FabricCounters {
        self.counters
    }

    /// Resets a switch that lost its connection: it also loses its flows, as after a power cycle.
    pub fn reset_switch(&mut self, which: usize) {
        let identity = *self.switches[which].identity();
        self.switches[which] = Switch::new(identity);
    }

    /// Appends a switch's hello.
    pub fn send_hello(&mut self, which: usize, out: &mut Vec<u8>) {
        self.switches[which].send_hello(out);
    }

    /// Handles one complete message from the controller to a switch. Messages of this and other
    /// switches are appended to `output`.
    ///
    /// # Errors
    /// [`Fault`] if the connection must be closed, after the bytes in `output` have been sent.
    pub fn receive(
        &mut self,
        which: usize,
        message: &[u8],
        output: &mut SwitchOutput,
    ) -> Result<(), Fault> {
        let mut replies = Vec::new();
        let event = self.switches[which].receive(message, &mut replies);
        if !replies.is_empty() {
            output.push((which, replies));
        }
        match event? {
            Event::PacketOut(packet_out) => {
                self.counters.packet_outs += 1;
                self.send(which, &packet_out, output);
            }
            Event::FlowMod { .. } => self.counters.flow_mods += 1,
            Event::Error(_) => self.counters.errors += 1,
            Event::Barrier | Event::Nothing => {}
        }
        Ok(())
    }

    /// Injects a frame into a port, as a host would.
    pub fn inject(&mut self, at: LinkEnd, frame: &[u8], output: &mut SwitchOutput) {
        self.forward(VecDeque::from([at]), frame, output);
    }

    fn send(&mut self, which: usize, packet_out: &PacketOut<'_>, output: &mut SwitchOutput) {
        if packet_out.buffer_id.is_some() {
            return; // these switches announce no buffers, so no id is valid
        }
        let (mut packet, mut result) =
            (Packet::new(packet_out.in_port, packet_out.data), LookupResult::default());
        let actions: Vec<_> = packet_out.actions.iter().collect();
        packet.apply_actions(&actions, &mut result);
        if result.ports.contains(&PortNo::TABLE) {
            let looked_up = self.switches[which].tables().lookup(&packet);
            result.to_controller |= looked_up.to_controller;
            result.ports.extend(looked_up.ports);
        }
        let arrivals =
            self.output_frame(which, packet_out.in_port, packet_out.data, &result, output);
        self.forward(arrivals.into(), packet_out.data, output);
    }

    /// Forwards a frame from its arrivals until it reaches no new port.
    fn forward(
        &mut self,
        mut arrivals: VecDeque<LinkEnd>,
        frame: &[u8],
        output: &mut SwitchOutput,
    ) {
        let mut been = HashSet::new();
        while let Some(at) = arrivals.pop_front() {
            if !been.insert(at) {
                continue;
            }
            let in_port = PortNo(at.port.into());
            let result = self.switches[at.switch].tables().lookup(&Packet::new(in_port, frame));
            arrivals.extend(self.output_frame(at.switch, in_port, frame, &result, output));
        }
    }

    /// Sends a frame out of a switch; returns the link ends where it arrives.
    fn output_frame(
        &mut self,
        which: usize,
        in_port: PortNo,
        frame: &[u8],
        result: &LookupResult,
        output: &mut SwitchOutput,
    ) -> Vec<LinkEnd> {
        if result.to_controller {
            self.send_packet_in(which, in_port, frame, result.missed, output);
        }
        let ports = self.switches[which].identity().ports;
        let mut leaves = HashSet::new();
        for port in &result.ports {
            match *port {
                PortNo::FLOOD | PortNo::ALL | PortNo::NORMAL => {
                    let others = (1..=ports).filter(|port| PortNo((*port).into()) != in_port);
                    leaves.extend(others);
                }
                PortNo::IN_PORT => leaves.extend(u16::try_from(in_port.0)),
                port => leaves.extend(u16::try_from(port.0)),
            }
        }
        let crossed =
            leaves.into_iter().filter_map(|port| self.peers.get(&LinkEnd { switch: which, port }));
        let mut arrivals: Vec<LinkEnd> = crossed.copied().collect();
        // A hash set has no stable order; sorting makes runs repeatable.
        arrivals.sort_unstable();
        self.counters.crossings += arrivals.len() as u64;
        arrivals
    }

    /// Sends a packet-in.
    fn send_packet_in(
        &mut self,
        which: usize,
        in_port: PortNo,
        frame: &[u8],
        missed: bool,
        output: &mut SwitchOutput,
    ) {
        let switch = &self.switches[which];
        if !switch.has_sent_features() {
            return; // the controller has not completed its handshake
        }
        let version = switch.identity().version;
        let packet_in = PacketIn {
            reason: if missed { PacketInReason::NoMatch } else { PacketInReason::Action },
            cookie: if version.features().packet_in_cookie { 0 } else { PacketIn::NO_COOKIE },
            ..PacketIn::new(in_port, frame)
        };
        let mut message = Vec::new();
        // A frame that fits a packet-out may be too long for a packet-in, and OpenFlow 1.0 cannot
        // express every in-port. Such a frame is dropped.
        if append(&mut message, |room| packet_in.encode(version, 0, room)).is_ok() {
            self.counters.packet_ins += 1;
            output.push((which, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Action, FlowMod, Hello, Kind, MacAddr, Match};

    use super::*;

    const LLDP: [u8; 18] = [1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1, 0x88, 0xcc, 1, 2, 3, 4];

    struct Controller {
        fabric: Fabric,
        version: Version,
    }

    impl Controller {
        /// Completes the handshake of all switches and installs a table-miss entry, where
        /// supported.
        fn new(topology: &Topology, version: Version) -> Self {
            let mut controller = Self { fabric: Fabric::new(topology, version, 100, 2), version };
            for which in 0..topology.switches() {
                controller.say(which, |room| Hello::new(&[version]).encode(0, room));
                controller.say(which, |room| Kind::FeaturesRequest.encode_empty(version, 1, room));
                let to = [Action::output(PortNo::CONTROLLER)];
                let miss = FlowMod::add(Match::new()).priority(0).apply(&to);
                controller.say(which, |room| miss.encode(version, 2, room));
            }
            controller
        }

        /// Sends a message; returns the resulting packet-ins as (switch, in-port).
        fn say(
            &mut self,
            which: usize,
            encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>,
        ) -> Vec<(usize, u32)> {
            let (mut message, mut output) = (Vec::new(), Vec::new());
            append(&mut message, encode).unwrap();
            self.fabric.receive(which, &message, &mut output).unwrap();
            let packet_in = |(which, message): (usize, Vec<u8>)| {
                let packet_in = PacketIn::decode(&message).ok()?;
                Some((which, packet_in.in_port.0))
            };
            output.into_iter().filter_map(packet_in).collect()
        }

        fn send(&mut self, which: usize, port: PortNo) -> Vec<(usize, u32)> {
            let (version, to) = (self.version, [Action::output(port)]);
            let packet_out = PacketOut::new(PortNo::CONTROLLER, &to, &LLDP);
            self.say(which, |room| packet_out.encode(version, 9, room))
        }
    }

    #[test]
    fn every_link_is_discovered_in_both_directions() {
        for &version in Version::ALL {
            for topology in ["line:4", "ring:5", "mesh:4", "tree:3,2", "fat-tree:4"] {
                let topology = Topology::named(topology).unwrap();
                let mut controller = Controller::new(&topology, version);
                for [a, b] in topology.links() {
                    for (from, to) in [(a, b), (b, a)] {
                        let heard = controller.send(from.switch, PortNo(from.port.into()));
                        assert_eq!(heard, [(to.switch, u32::from(to.port))]);
                    }
                }
                // Ports without a link lead nowhere.
                let free = controller.fabric.switches()[0].identity().ports;
                assert_eq!(controller.send(0, PortNo(free.into())), []);
            }
        }
    }

    #[test]
    fn flood_reaches_every_neighbour_once() {
        for &version in Version::ALL {
            let mut controller = Controller::new(&Topology::mesh(4), version);
            let heard = controller.send(1, PortNo::FLOOD);
            let switches: Vec<usize> = heard.iter().map(|(which, _)| *which).collect();
            assert_eq!(switches, [0, 2, 3]);
        }
    }

    #[test]
    fn flooded_frame_in_a_ring_stops() {
        for &version in Version::ALL {
            let mut controller = Controller::new(&Topology::ring(4), version);
            let flood = [Action::output(PortNo::FLOOD)];
            let to = Match::new().eth_dst(MacAddr([1, 0x80, 0xc2, 0, 0, 0xe]));
            for which in 0..4 {
                let flow_mod = FlowMod::add(to.clone()).apply(&flood);
                controller.say(which, |room| flow_mod.encode(version, 1, room));
            }
            assert_eq!(controller.send(0, PortNo::FLOOD), []);
            // Both directions, and each port once.
            assert_eq!(controller.fabric.counters().crossings, 10);
        }
    }

    #[test]
    fn injected_frame_follows_the_flow_tables() {
        for &version in Version::ALL {
            let mut controller = Controller::new(&Topology::line(2), version);
            let mut output = Vec::new();
            controller.fabric.inject(LinkEnd { switch: 0, port: 3 }, &LLDP, &mut output);
            let [(0, message)] = output.as_slice() else { panic!("{output:?}") };
            let packet_in = PacketIn::decode(message).unwrap();
            assert_eq!((packet_in.in_port, packet_in.data), (PortNo(3), &LLDP[..]));
            let table = controller.send(0, PortNo::TABLE);
            assert_eq!(table, [(0, PortNo::CONTROLLER.0)]);
        }
    }
}

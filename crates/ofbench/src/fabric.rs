//! A network of emulated switches: what one sends out of a port comes in at the other end of the
//! link, goes through that switch's tables, and on.
//!
//! No sockets: messages of the controller go in, messages of switches come out. With it discovery
//! works: an LLDP frame in a packet-out becomes a packet-in of the neighbour. Frames are moved as
//! they are; of actions that change them, later tables see the change, the next switch does not. A
//! frame comes into a port once: one that goes round in a ring ends where it was.

use std::collections::{HashMap, HashSet, VecDeque};

use openflow::{Dpid, PacketIn, PacketInReason, PacketOut, PortNo, Version, append};

use crate::switch::table::{Fate, Packet};
use crate::switch::{Event, Fault, Identity, Switch};
use crate::topology::{End, Topology};

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Packet-ins of switches.
    pub packet_ins: u64,
    /// Packet-outs of the controller.
    pub packet_outs: u64,
    /// Frames that crossed a link.
    pub crossings: u64,
    /// Flow-mods of the controller.
    pub flow_mods: u64,
    /// Error messages of the controller.
    pub errors: u64,
}

/// See the module's description.
#[derive(Debug)]
pub struct Fabric {
    switches: Vec<Switch>,
    /// The other end of each link.
    peers: HashMap<End, End>,
    moved: Moved,
}

/// Messages of switches to the controller: of which switch, and the bytes.
pub type Output = Vec<(usize, Vec<u8>)>;

impl Fabric {
    /// The switches of a topology, with datapath-ids from `first_dpid` on; each has `more_ports`
    /// ports without a link.
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
        Self { switches, peers, moved: Moved::default() }
    }

    /// The switches.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// What was moved so far.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// A switch loses its connection, and with it its flows, as if it had been switched off.
    pub fn hang_up(&mut self, which: usize) {
        let identity = *self.switches[which].identity();
        self.switches[which] = Switch::new(identity);
    }

    /// Appends a switch's hello.
    pub fn greet(&mut self, which: usize, out: &mut Vec<u8>) {
        self.switches[which].greet(out);
    }

    /// Takes in a whole message of the controller to a switch; `output` gets what that switch and
    /// others say.
    ///
    /// # Errors
    /// [`Fault`]: that connection is to be closed, after what is in `output` has been sent.
    pub fn receive(
        &mut self,
        which: usize,
        message: &[u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        let mut said = Vec::new();
        let event = self.switches[which].receive(message, &mut said);
        if !said.is_empty() {
            output.push((which, said));
        }
        match event? {
            Event::PacketOut(packet_out) => {
                self.moved.packet_outs += 1;
                self.send(which, &packet_out, output);
            }
            Event::FlowMod { .. } => self.moved.flow_mods += 1,
            Event::Error(_) => self.moved.errors += 1,
            Event::Barrier | Event::Nothing => {}
        }
        Ok(())
    }

    /// A frame from outside comes into a port, as if a host had sent it.
    pub fn inject(&mut self, at: End, frame: &[u8], output: &mut Output) {
        self.travel(VecDeque::from([at]), frame, output);
    }

    fn send(&mut self, which: usize, packet_out: &PacketOut<'_>, output: &mut Output) {
        if packet_out.buffer_id.is_some() {
            return; // there are no buffers
        }
        let (mut packet, mut fate) =
            (Packet::new(packet_out.in_port, packet_out.data), Fate::default());
        let actions: Vec<_> = packet_out.actions.iter().collect();
        packet.suffer(&actions, &mut fate);
        if fate.ports.contains(&PortNo::TABLE) {
            let looked_up = self.switches[which].tables().lookup(&packet);
            fate.to_controller |= looked_up.to_controller;
            fate.ports.extend(looked_up.ports);
        }
        let arrivals = self.leave(which, packet_out.in_port, packet_out.data, &fate, output);
        self.travel(arrivals.into(), packet_out.data, output);
    }

    /// Moves a frame on from where it comes in, until it is nowhere new.
    fn travel(&mut self, mut arrivals: VecDeque<End>, frame: &[u8], output: &mut Output) {
        let mut been = HashSet::new();
        while let Some(at) = arrivals.pop_front() {
            if !been.insert(at) {
                continue;
            }
            let in_port = PortNo(at.port.into());
            let fate = self.switches[at.switch].tables().lookup(&Packet::new(in_port, frame));
            arrivals.extend(self.leave(at.switch, in_port, frame, &fate, output));
        }
    }

    /// A frame leaves a switch; returns where it comes in next.
    fn leave(
        &mut self,
        which: usize,
        in_port: PortNo,
        frame: &[u8],
        fate: &Fate,
        output: &mut Output,
    ) -> Vec<End> {
        if fate.to_controller {
            self.tell(which, in_port, frame, fate.missed, output);
        }
        let ports = self.switches[which].identity().ports;
        let mut leaves = HashSet::new();
        for port in &fate.ports {
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
            leaves.into_iter().filter_map(|port| self.peers.get(&End { switch: which, port }));
        let mut arrivals: Vec<End> = crossed.copied().collect();
        arrivals.sort_unstable();
        self.moved.crossings += arrivals.len() as u64;
        arrivals
    }

    /// A packet-in.
    fn tell(
        &mut self,
        which: usize,
        in_port: PortNo,
        frame: &[u8],
        missed: bool,
        output: &mut Output,
    ) {
        let switch = &self.switches[which];
        if !switch.is_described() {
            return; // nobody listens yet
        }
        let version = switch.identity().version;
        let packet_in = PacketIn {
            reason: if missed { PacketInReason::NoMatch } else { PacketInReason::Action },
            cookie: if version == Version::V1_0 { PacketIn::NO_COOKIE } else { 0 },
            ..PacketIn::new(in_port, frame)
        };
        let mut message = Vec::new();
        // A frame that fitted a packet-out may be too long for a packet-in: then it is dropped, and
        // so is one whose in-port OpenFlow 1.0 cannot say.
        if append(&mut message, |room| packet_in.encode(version, 0, room)).is_ok() {
            self.moved.packet_ins += 1;
            output.push((which, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Action, FlowMod, Hello, Kind, MacAddr, Match};

    use super::*;

    const VERSIONS: [Version; 2] = [Version::V1_0, Version::V1_3];
    const LLDP: [u8; 18] = [1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1, 0x88, 0xcc, 1, 2, 3, 4];

    struct Controller {
        fabric: Fabric,
        version: Version,
    }

    impl Controller {
        /// One that has asked all switches, and made a table-miss entry where it takes one.
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

        /// Packet-ins that a message brings: of which switch, from which port.
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
        for version in VERSIONS {
            for topology in ["line:4", "ring:5", "mesh:4", "tree:3,2", "fat-tree:4"] {
                let topology = Topology::named(topology).unwrap();
                let mut controller = Controller::new(&topology, version);
                for [a, b] in topology.links() {
                    for (from, to) in [(a, b), (b, a)] {
                        let heard = controller.send(from.switch, PortNo(from.port.into()));
                        assert_eq!(heard, [(to.switch, u32::from(to.port))]);
                    }
                }
                // Behind the other ports is nobody.
                let free = controller.fabric.switches()[0].identity().ports;
                assert_eq!(controller.send(0, PortNo(free.into())), []);
            }
        }
    }

    #[test]
    fn flood_reaches_every_neighbour_once() {
        for version in VERSIONS {
            let mut controller = Controller::new(&Topology::mesh(4), version);
            let heard = controller.send(1, PortNo::FLOOD);
            let switches: Vec<usize> = heard.iter().map(|(which, _)| *which).collect();
            assert_eq!(switches, [0, 2, 3]);
        }
    }

    #[test]
    fn flows_lead_a_frame_on_and_a_ring_ends_it() {
        for version in VERSIONS {
            let mut controller = Controller::new(&Topology::ring(4), version);
            let flood = [Action::output(PortNo::FLOOD)];
            let to = Match::new().eth_dst(MacAddr([1, 0x80, 0xc2, 0, 0, 0xe]));
            for which in 0..4 {
                let flow_mod = FlowMod::add(to.clone()).apply(&flood);
                controller.say(which, |room| flow_mod.encode(version, 1, room));
            }
            assert_eq!(controller.send(0, PortNo::FLOOD), []);
            // Both ways round, and each port once.
            assert_eq!(controller.fabric.moved().crossings, 10);
        }
    }

    #[test]
    fn frame_of_a_host_goes_where_the_tables_say() {
        for version in VERSIONS {
            let mut controller = Controller::new(&Topology::line(2), version);
            let mut output = Vec::new();
            controller.fabric.inject(End { switch: 0, port: 3 }, &LLDP, &mut output);
            let [(0, message)] = output.as_slice() else { panic!("{output:?}") };
            let packet_in = PacketIn::decode(message).unwrap();
            assert_eq!((packet_in.in_port, packet_in.data), (PortNo(3), &LLDP[..]));
            let table = controller.send(0, PortNo::TABLE);
            assert_eq!(table, [(0, PortNo::CONTROLLER.0)]);
        }
    }
}

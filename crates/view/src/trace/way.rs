//! Follows a packet from switch to switch.

use std::collections::{BTreeSet, VecDeque};

use openflow::Dpid;
use serde::Serialize;

use super::packet::Packet;
use super::pipeline::{Lookup, Tables, To, Trace};

/// Most switches that a packet and its copies visit.
const MOST_HOPS: usize = 256;

/// Finds what the simulation needs of a network.
pub(super) trait Network {
    /// Simulates a switch; the error is why that is not possible.
    fn trace(&mut self, at: Dpid, packet: &Packet) -> Result<Hop, String>;

    /// Returns the port at the other end of a link.
    fn link(&self, from: Dpid, port: u32) -> Option<(Dpid, u32)>;

    /// Returns whether a bridge without OpenFlow joins a port with other ports of switches.
    fn is_shared(&self, at: Dpid, port: u32) -> bool;
}

/// The way of a packet, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Way {
    /// The switches, in the order in which the packet reaches them.
    pub(super) hops: Vec<Hop>,
    /// Gaps of the simulation, and loops.
    pub(super) notes: Vec<String>,
}

/// The way through one switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Hop {
    pub(super) switch: String,
    pub(super) in_port: u32,
    /// The packet as it enters.
    pub(super) packet: String,
    /// The tables in which it was looked up.
    pub(super) lookups: Vec<Found>,
    /// Where it goes; empty if it is dropped.
    pub(super) outputs: Vec<Sent>,
    pub(super) notes: Vec<String>,
    #[serde(skip)]
    pub(super) packets: Vec<(To, Packet)>,
}

/// A look-up in a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    pub(super) table: u8,
    /// The entry that matched, `None` if there is none.
    pub(super) entry: Option<Matched>,
}

/// The entry that a packet takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Matched {
    pub(super) priority: u16,
    pub(super) owner: String,
    pub(super) cookie: String,
    #[serde(rename = "match")]
    pub(super) match_: String,
    pub(super) actions: String,
}

/// An output of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sent {
    /// The port's number, or `controller`, `local`, `normal`.
    pub(super) port: String,
    /// The switch at the other end of the link, if there is one.
    pub(super) to_switch: Option<String>,
    pub(super) to_port: Option<u32>,
    /// The packet as it leaves.
    pub(super) packet: String,
}

impl Hop {
    /// Describes what the tables of a switch do with a packet.
    pub(super) fn of(at: Dpid, packet: &Packet, trace: Trace<'_>) -> Self {
        let found = |lookup: &Lookup<'_>| Found {
            table: lookup.table,
            entry: lookup.entry.map(|entry| Matched {
                priority: entry.flow.priority,
                owner: entry.owner.clone(),
                cookie: format!("{:#x}", entry.cookie),
                match_: entry.flow.match_.to_string(),
                actions: entry.flow.instructions.to_string(),
            }),
        };
        let packets: Vec<(To, Packet)> =
            trace.outputs.iter().map(|output| (output.to, output.packet.clone())).collect();
        let sent = |(to, packet): &(To, Packet)| Sent {
            port: to.to_string(),
            to_switch: None,
            to_port: None,
            packet: packet.to_string(),
        };
        Self {
            switch: at.to_string(),
            in_port: packet.in_port(),
            packet: packet.to_string(),
            lookups: trace.lookups.iter().map(found).collect(),
            outputs: packets.iter().map(sent).collect(),
            notes: trace.notes,
            packets,
        }
    }

    /// Simulates a switch.
    pub(super) fn through(tables: &Tables<'_>, at: Dpid, packet: &Packet) -> Self {
        Self::of(at, packet, tables.trace(packet))
    }
}

impl std::fmt::Display for To {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port(port) => port.fmt(f),
            Self::Controller => f.write_str("controller"),
            Self::Local => f.write_str("local"),
            Self::Normal => f.write_str("normal"),
        }
    }
}

/// Follows a packet that enters the switch `at`.
///
/// # Errors
/// The first switch cannot be simulated.
pub(super) fn follow(at: Dpid, packet: &Packet, network: &mut impl Network) -> Result<Way, String> {
    let mut way = Way { hops: Vec::new(), notes: Vec::new() };
    let mut waiting = VecDeque::from([(at, packet.clone())]);
    let mut seen = BTreeSet::new();
    while let Some((at, packet)) = waiting.pop_front() {
        if !seen.insert((at, packet.clone())) {
            way.notes.push(format!("loop: {packet} enters {at} again"));
            continue;
        }
        if way.hops.len() == MOST_HOPS {
            way.notes.push(format!("ends after {MOST_HOPS} switches"));
            break;
        }
        let mut hop = match network.trace(at, &packet) {
            Ok(hop) => hop,
            Err(why) if way.hops.is_empty() => return Err(why),
            Err(why) => {
                way.notes.push(why);
                continue;
            }
        };
        for ((to, packet), sent) in hop.packets.iter().zip(&mut hop.outputs) {
            let To::Port(port) = to else { continue };
            if network.is_shared(at, *port) {
                hop.notes.push(format!(
                    "behind port {port} is a bridge without OpenFlow: it decides which of its hosts and switches get the packet"
                ));
            }
            if let Some((dpid, far_port)) = network.link(at, *port) {
                sent.to_switch = Some(dpid.to_string());
                sent.to_port = Some(far_port);
                waiting.push_back((dpid, packet.entering(far_port)));
            }
        }
        way.hops.push(hop);
    }
    Ok(way)
}

/// One paragraph for each switch.
impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for hop in &self.hops {
            writeln!(f, "{} {}", hop.switch, hop.packet)?;
            for Found { table, entry } in &hop.lookups {
                match entry {
                    Some(it) => {
                        let match_ = if it.match_.is_empty() { "any" } else { &it.match_ };
                        writeln!(
                            f,
                            "  table {table}: {} priority={} cookie={} {match_} -> {}",
                            it.owner, it.priority, it.cookie, it.actions
                        )?;
                    }
                    None => writeln!(f, "  table {table}: no entry")?,
                }
            }
            for sent in &hop.outputs {
                write!(f, "  output {}", sent.port)?;
                if let (Some(switch), Some(port)) = (&sent.to_switch, sent.to_port) {
                    write!(f, " -> {switch} port {port}")?;
                }
                if sent.packet != hop.packet {
                    write!(f, " as {}", sent.packet)?;
                }
                writeln!(f)?;
            }
            if hop.outputs.is_empty() {
                writeln!(f, "  dropped")?;
            }
            hop.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openflow::{Action, FlowModFlags, FlowStats, Instructions, Match, PortNo, Version};

    use super::super::pipeline::{FlowEntry, Port};
    use super::*;

    /// Switches that output everything to port 2, and links from port 2 of each to port 1 of the next.
    struct Ring {
        switches: u64,
        is_closed: bool,
    }

    impl Network for Ring {
        fn trace(&mut self, at: Dpid, packet: &Packet) -> Result<Hop, String> {
            let out = [Action::output(PortNo(2))];
            let flow = FlowStats {
                table_id: 0,
                duration: Duration::ZERO,
                priority: 7,
                idle_timeout: 0,
                hard_timeout: 0,
                importance: 0,
                flags: FlowModFlags::default(),
                cookie: 5,
                packet_count: 0,
                byte_count: 0,
                match_: Match::new(),
                instructions: Instructions { apply: (&out).into(), ..Instructions::default() },
            };
            let entry = FlowEntry { flow, owner: "forwarding".into(), cookie: 5 };
            let ports = vec![Port { number: 2, is_up: true }];
            let tables = Tables::new(Version::V1_3, vec![entry], Vec::new(), ports);
            Ok(Hop::through(&tables, at, packet))
        }

        fn link(&self, from: Dpid, port: u32) -> Option<(Dpid, u32)> {
            let next = from.0 % self.switches + 1;
            (port == 2 && (self.is_closed || next != 1)).then_some((Dpid(next), 1))
        }

        fn is_shared(&self, at: Dpid, port: u32) -> bool {
            (at, port) == (Dpid(9), 2)
        }
    }

    fn packet() -> Packet {
        Packet::read("in_port=1,icmp,nw_dst=10.0.0.2", None).unwrap()
    }

    #[test]
    fn packet_is_followed_over_links() {
        let mut network = Ring { switches: 2, is_closed: false };
        let way = follow(Dpid(1), &packet(), &mut network).unwrap();
        assert_eq!(
            way.to_string(),
            "\
00:00:00:00:00:00:00:01 in_port=1,eth_type=0x0800,ip_proto=1,ipv4_dst=10.0.0.2
  table 0: forwarding priority=7 cookie=0x5 any -> output:2
  output 2 -> 00:00:00:00:00:00:00:02 port 1
00:00:00:00:00:00:00:02 in_port=1,eth_type=0x0800,ip_proto=1,ipv4_dst=10.0.0.2
  table 0: forwarding priority=7 cookie=0x5 any -> output:2
  output 2
"
        );
    }

    #[test]
    fn bridge_without_openflow_is_noted() {
        let mut network = Ring { switches: 9, is_closed: false };
        let way = follow(Dpid(8), &packet(), &mut network).unwrap();
        assert!(way.hops[0].notes.is_empty() && way.hops[1].notes.len() == 1, "{way}");
        assert!(way.to_string().ends_with("which of its hosts and switches get the packet\n"));
    }

    #[test]
    fn loop_is_found() {
        let mut network = Ring { switches: 3, is_closed: true };
        let way = follow(Dpid(1), &packet(), &mut network).unwrap();
        assert_eq!((way.hops.len(), way.notes.len()), (3, 1));
        assert!(way.notes[0].starts_with("loop: "), "{:?}", way.notes);
    }
}

//! Decides what happens to a packet.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use rosemary_sdk::openflow::ethernet::{LLDP, is_vlan_tag, may_carry};
use rosemary_sdk::{Dpid, MacAddr, PacketIn, PortNo, Switch};

use super::super::neighbours;
use super::super::net::{End, PortKind};
use super::super::routes::{KIND_SHIFT, Key, LOCAL, PRIORITY};
use super::super::storm::Verdict;
use super::super::world::{Act, Flow, Location, Message, World};
use super::Forwarder;

/// The address from which the service `hosts` asks hosts whether they are there: its answers need not be forwarded.
const PROBE_MAC: MacAddr = rosemary_sdk::services::hosts::PROBE_MAC;

/// Questions that are held, and how long.
const MOST_HELD: usize = 256;
const HELD_FOR: Duration = Duration::from_secs(3);

/// Drop flows in a second at ports of bridges that are not used.
const MOST_DROPS: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);

/// A question of a host that is sent on later.
#[derive(Debug)]
pub(super) struct Held {
    switch: Switch,
    in_port: PortNo,
    data: Vec<u8>,
    since: Duration,
    /// The ports of hosts that the first flood has reached.
    reached: Rc<BTreeSet<End>>,
}

impl Forwarder {
    pub(crate) fn on_packet(&mut self, packet_in: &PacketIn<'_>, world: &mut impl World) {
        let Some((dst, src)) = packet_in.addresses() else { return };
        let (at, data) = ((packet_in.switch.dpid, packet_in.in_port), packet_in.data);
        let is_possible = at.1.is_host_port() || matches!(at.1, PortNo::CONTROLLER | PortNo::ANY);
        if !is_possible || src.is_multicast() || stays_on_its_link(dst) || may_carry(data, LLDP) {
            return;
        }
        let kind = self.net.kind(at);
        if kind == PortKind::Blocked {
            return self.on_blocked(Key { src, dst, tag: tag(data) }, packet_in, world);
        }
        if kind == PortKind::Edge && !self.is_within_budget(packet_in.switch, at, src, world) {
            return;
        }
        // Packets at a link have passed the port of their host.
        let is_of_host = matches!(kind, PortKind::Edge | PortKind::Unknown) && at.1.is_host_port();
        if is_of_host && dst != PROBE_MAC && self.statements.hold(packet_in, world) {
            return send_packet(packet_in, Vec::new(), world);
        }
        self.forward(packet_in, kind, world);
    }

    /// Forwards held messages that the table of hosts agrees with by now.
    pub(super) fn release_statements(&mut self, world: &mut impl World) {
        while let Some(held) = self.statements.next(world) {
            let (dpid, data) = (held.switch.dpid, &held.data[..]);
            if self.peers.switch(dpid) != Some(held.switch) {
                continue; // it has connected again since
            }
            let packet_in = PacketIn {
                switch: held.switch,
                in_port: held.in_port,
                buffer_id: None,
                reason: 0,
                table_id: 0,
                cookie: 0,
                data,
                total_len: u16::try_from(data.len()).unwrap_or(u16::MAX),
                message: data,
                repeated: false,
            };
            self.forward(&packet_in, self.net.kind((dpid, held.in_port)), world);
        }
    }

    /// Drops a packet from a bridge that has sent it to the port that is used, too. The switch drops those that follow, while
    /// there are few such pairs of addresses: somebody may invent any number.
    fn on_blocked(&mut self, key: Key, packet_in: &PacketIn<'_>, world: &mut impl World) {
        send_packet(packet_in, Vec::new(), world);
        let now = world.now();
        if now.saturating_sub(self.drops.0) >= SECOND {
            self.drops = (now, 0);
        }
        if self.drops.1 < MOST_DROPS {
            self.drops.1 += 1;
            drop_for_a_while(key, packet_in, world);
        }
    }

    /// Forwards a packet that is within the budgets.
    fn forward(&mut self, packet_in: &PacketIn<'_>, kind: PortKind, world: &mut impl World) {
        let Some((dst, src)) = packet_in.addresses() else { return };
        if dst == PROBE_MAC {
            return;
        }
        let (port, data) = (packet_in.in_port, packet_in.data);
        let key = Key { src, dst, tag: tag(data) };
        if key.tag.is_some() {
            self.on_tags(world);
        }
        if !dst.is_multicast() {
            let Some(to) = world.host(dst, key.vlan()) else {
                self.flooded.insert(key, world.now());
                return self.flood(packet_in, kind, world);
            };
            return self.on_unicast(packet_in, kind, key, to, world);
        }
        let answer = (kind == PortKind::Edge)
            .then(|| neighbours::answer(data, |ip, vlan| world.address(ip, vlan)))
            .flatten();
        if let Some(data) = answer {
            let (in_port, out) = (PortNo::CONTROLLER, vec![port]);
            let answer = Message::Packet { in_port, out, buffer_id: None, data };
            world.send(packet_in.switch, answer);
            return;
        }
        let is_early = match kind {
            PortKind::Edge => self.facts.undetermined > 0,
            PortKind::Unknown => port.is_host_port(),
            PortKind::Tree | PortKind::OffTree | PortKind::Blocked => false,
        };
        if is_early && packet_in.is_whole() && neighbours::is_question(data) {
            self.hold(packet_in, world.now());
        }
        self.flood(packet_in, kind, world);
    }

    /// Keeps a question that comes before it is known what all ports lead to: a host asks three times, one second apart,
    /// and gives up.
    fn hold(&mut self, packet_in: &PacketIn<'_>, now: Duration) {
        self.held.retain(|held| now.saturating_sub(held.since) < HELD_FOR);
        if self.held.len() < MOST_HELD {
            let (switch, in_port) = (packet_in.switch, packet_in.in_port);
            let reached = self.reached_from((switch.dpid, in_port));
            let data = packet_in.data.to_vec();
            self.held.push(Held { switch, in_port, data, since: now, reached });
        }
    }

    /// Returns the ports of hosts that a flood from a host's port reaches now; none from another port, where floods end.
    /// Questions share them, as many come while one switch connects.
    fn reached_from(&mut self, at: End) -> Rc<BTreeSet<End>> {
        if let Some(known) = self.flood_ends.iter().find(|ends| ends.contains(&at)) {
            return Rc::clone(known);
        }
        let ends = match self.net.kind(at) {
            PortKind::Edge => self.net.flood_ends(at.0),
            _ => return Rc::default(),
        };
        self.flood_ends.push(Rc::new(ends));
        self.flood_ends.last().map(Rc::clone).unwrap_or_default()
    }

    /// Sends held questions to the ports that their first flood has not reached, when it is known what all ports lead to.
    pub(super) fn release(&mut self, world: &mut impl World) {
        if self.held.is_empty() || self.facts.undetermined > 0 {
            return;
        }
        let now = world.now();
        for held in std::mem::take(&mut self.held) {
            let at = (held.switch.dpid, held.in_port);
            let is_current = self.peers.switch(held.switch.dpid) == Some(held.switch);
            if !is_current || now.saturating_sub(held.since) >= HELD_FOR {
                continue;
            }
            if self.net.kind(at) == PortKind::Unknown {
                self.held.push(held);
                continue;
            }
            let mut missed: BTreeMap<Dpid, Vec<PortNo>> = BTreeMap::new();
            for (dpid, port) in self.reached_from(at).difference(&held.reached) {
                if (*dpid, *port) != at {
                    missed.entry(*dpid).or_default().push(*port);
                }
            }
            for (dpid, out) in missed {
                if let Some(switch) = self.peers.switch(dpid) {
                    let (in_port, data) = (PortNo::CONTROLLER, held.data.clone());
                    world.send(switch, Message::Packet { in_port, out, buffer_id: None, data });
                }
            }
        }
    }

    fn is_within_budget(
        &mut self,
        switch: Switch,
        at: End,
        src: MacAddr,
        world: &mut impl World,
    ) -> bool {
        match self.storm.count(at, src, world.now()) {
            Verdict::Pass => true,
            Verdict::Drop => false,
            Verdict::Hold { flow, who, rate, seconds } => {
                world.send(switch, Message::Flow(*flow));
                let evidence = format!(
                    "{who} caused more than {rate} packet-ins per second; the switch drops those of its packets that \
                     have no flow, for {seconds} s"
                );
                world.incident(&format!("storm from {who}"), &evidence);
                false
            }
        }
    }

    /// Sends a packet out of the spanning tree's ports and the ports of hosts, unless it came in through another port.
    fn flood(&self, packet_in: &PacketIn<'_>, kind: PortKind, world: &mut impl World) {
        let may_flood = match kind {
            PortKind::Edge | PortKind::Tree => true,
            PortKind::OffTree | PortKind::Blocked => false,
            PortKind::Unknown => !packet_in.in_port.is_host_port(), // an operator's packet
        };
        let out = if may_flood {
            self.net.flood_ports(packet_in.switch.dpid, packet_in.in_port)
        } else {
            Vec::new()
        };
        send_packet(packet_in, out, world);
    }

    /// Forwards a packet to a host at `to`, and makes a route if the source is where its packets come from. Drops the packet
    /// if no path is known: a flood would take the same links.
    fn on_unicast(
        &mut self,
        packet_in: &PacketIn<'_>,
        kind: PortKind,
        key: Key,
        to: Location,
        world: &mut impl World,
    ) {
        let here = (packet_in.switch.dpid, packet_in.in_port);
        let destination = to.at;
        let to = self.nearest(destination, here.0);
        let out = if to.0 == here.0 { Some(to.1) } else { self.next_port(here.0, to.0, &key) };
        let is_bridged = out == Some(here.1) && self.net.is_bridge(here);
        let Some(out) = out.filter(|_| to != here && !is_bridged) else {
            send_packet(packet_in, Vec::new(), world); // without a path, or it has heard it already
            // A switch that connects again may join the parts.
            if out.is_none() && self.is_whole() && kind == PortKind::Edge {
                drop_for_a_while(key, packet_in, world);
            }
            return;
        };
        let from = world.host(key.src, key.vlan()).filter(|from| !from.is_contested);
        if let Some(Location { at: place, .. }) = from {
            let is_at_segment = self.net.other_end(place).is_some();
            let from = self.nearest(place, to.0);
            let is_from_there = match kind {
                PortKind::Edge => from == here,
                PortKind::Tree | PortKind::OffTree => {
                    is_at_segment || self.net.kind(from) == PortKind::Edge
                }
                PortKind::Blocked | PortKind::Unknown => false,
            };
            let to = self.nearest(destination, from.0);
            if is_from_there && from.0 == to.0 && self.routes.get(&key).is_none() {
                self.join_locally(key, from, to.1, world);
            } else if is_from_there {
                self.ensure_route(key, from, to, world);
            }
        }
        if out == here.1 && kind == PortKind::Tree && self.flooded.contains(&key) {
            send_packet(packet_in, Vec::new(), world); // another copy takes the right branch of the tree
            return;
        }
        let out = if out == here.1 { PortNo::IN_PORT } else { out };
        send_packet(packet_in, vec![out], world);
    }

    /// Adds the flow for a pair of hosts behind one switch. The app keeps no record of it: it expires by itself, and a host
    /// that moves has the flows to it deleted.
    fn join_locally(&mut self, key: Key, from: End, output: PortNo, world: &mut impl World) {
        if !self.has_tags {
            self.local.learn(from.0, key.src, from.1);
            self.local.learn(from.0, key.dst, output);
        }
        if let Some(switch) = self.peers.switch(from.0) {
            let flow = Flow::local(key.match_at(from.1), Act::Port(output));
            world.send(switch, Message::Flow(flow));
        }
    }
}

/// Sends a packet out of these ports; of none, if the switch keeps it in a buffer, to free the buffer. A part of a packet that
/// the switch has not kept is not sent.
fn send_packet(packet_in: &PacketIn<'_>, out: Vec<PortNo>, world: &mut impl World) {
    let (in_port, buffer_id) = (packet_in.in_port.to_answer(), packet_in.buffer_id);
    if buffer_id.is_none() && (out.is_empty() || !packet_in.is_whole()) {
        return;
    }
    let data = if buffer_id.is_some() { Vec::new() } else { packet_in.data.to_vec() };
    world.send(packet_in.switch, Message::Packet { in_port, out, buffer_id, data });
}

/// Lets the switch drop packets to a host without a path, so that they do not all reach the app.
fn drop_for_a_while(key: Key, packet_in: &PacketIn<'_>, world: &mut impl World) {
    let match_ = key.match_at(packet_in.in_port);
    let mut flow = Flow::add(match_, PRIORITY, LOCAL << KIND_SHIFT, Act::Drop);
    flow.hard_timeout = 1;
    world.send(packet_in.switch, Message::Flow(flow));
}

/// Returns whether a bridge must not forward to this address (IEEE 802.1Q-2018 table 8-1).
fn stays_on_its_link(address: MacAddr) -> bool {
    matches!(address.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

/// Returns the VLAN identifier of the outermost tag.
fn tag(frame: &[u8]) -> Option<u16> {
    let [a, b, high, low] = *frame.get(12..)?.first_chunk()?;
    is_vlan_tag(u16::from_be_bytes([a, b])).then(|| u16::from_be_bytes([high, low]) & 0x0fff)
}

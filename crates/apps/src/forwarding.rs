//! Forwards packets over the shortest paths of any network: rings, meshes and trees.
//!
//! | packet | treatment |
//! | --- | --- |
//! | between hosts that the service `hosts` knows | flows along the shortest path, for this pair of hosts |
//! | ARP request or neighbour solicitation for a known host | answered here |
//! | ARP or neighbour advertisement that contradicts `hosts` | sent on when `hosts` agrees, dropped otherwise |
//! | other broadcast or multicast, and to unknown hosts | flooded along the spanning tree and out of the ports of hosts |
//! | to a known host without a path | dropped |
//!
//! Paths of equal cost share the traffic by select groups, and paths without such an alternative have a backup by fast
//! failover groups, in OpenFlow 1.3. When a link fails, the app moves the paths. A switch that is drained carries only the
//! traffic of its own hosts. VLAN tags stay as they are; a host is known by its VLAN and its Ethernet address.
//!
//! ```toml
//! [[app]]
//! name = "forwarding"
//! config = "forwarding.toml"          # optional: the limits of storm control, see forwarding/config.rs
//! services = ["topology", "hosts"]
//! capabilities = ["packet-in", "packet-out", "flow.write", "group.write", "stats.read", "topology.read", "hosts.read"]
//! ```
//!
//! A bridge without OpenFlow is a segment: the topology states which port of it is used in each part of the network. Where a
//! segment is the only connection of two parts, it is a link whose hosts are known at one of its ends.
//!
//! The decisions are in [`forwarder`], without I/O.

#![forbid(unsafe_code)]

#[path = "forwarding/config.rs"]
mod config;
#[path = "forwarding/flooded.rs"]
mod flooded;
#[path = "forwarding/forwarder.rs"]
mod forwarder;
#[path = "forwarding/groups.rs"]
mod groups;
#[path = "known_hosts/mod.rs"]
mod known_hosts;
#[path = "forwarding/moves.rs"]
mod moves;
#[path = "neighbour_discovery/mod.rs"]
mod neighbour_discovery;
#[path = "forwarding/neighbours.rs"]
mod neighbours;
#[path = "forwarding/net.rs"]
mod net;
#[path = "forwarding/outlet.rs"]
mod outlet;
#[path = "forwarding/peers.rs"]
mod peers;
#[path = "forwarding/plan.rs"]
mod plan;
#[path = "forwarding/routes.rs"]
mod routes;
#[path = "forwarding/statements.rs"]
mod statements;
#[path = "forwarding/storm.rs"]
mod storm;
#[path = "forwarding/world.rs"]
mod world;

use std::time::Duration;

use rosemary_sdk::openflow::ethernet::{ARP, is_vlan_tag};
use rosemary_sdk::openflow::{FlowStats, Kind, ReplyBody};
use rosemary_sdk::services::Service;
use rosemary_sdk::services::hosts::HostChange;
use rosemary_sdk::services::table::{TableEvent, TableWatch};
use rosemary_sdk::services::topology::{LinkRecord, PortRecord};
use rosemary_sdk::topology::{Graph, Topology, TopologyEvent};
use rosemary_sdk::{
    Action, App, Batch, Committed, Event, FlowMod, FlowRemoved, FlowsKept, Match, Network,
    NotApplied, PortChange, Reply, SwitchError, Template, export_app,
};

use self::config::Config;
use self::forwarder::{Facts, Forwarder, Kept};
use self::net::LinkFacts;
use self::outlet::{Outbox, Outlet};
use self::routes::{IDLE_TIMEOUT, KIND_SHIFT, LOCAL, PRIORITY};
use self::world::Act;

/// `OFPET_GROUP_MOD_FAILED`.
const GROUP_MOD_FAILED: u16 = 6;

/// See the module's description.
#[derive(Debug)]
struct Forwarding {
    forwarder: Forwarder,
    topology: Topology,
    hosts: TableWatch,
    outbox: Outbox,
    /// The flow for a pair of hosts behind one switch; made with the first.
    pair: Option<Template>,
    /// When the graph is read next, if it has changed.
    read_at: Option<Duration>,
    read: Duration,
}

impl App for Forwarding {
    fn create() -> Self {
        Self {
            forwarder: Forwarder::new(Config::default()),
            topology: Topology::new(),
            hosts: TableWatch::new(Service::Hosts),
            outbox: Outbox::default(),
            pair: None,
            read_at: None,
            read: Duration::ZERO,
        }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.forwarder = Forwarder::new(Config::read(text)?);
        Ok(())
    }

    fn look_ahead(&mut self, batch: &Batch<'_>) {
        if let Some(hosts) = self.forwarder.local_hosts() {
            let packets = batch.packet_ins();
            hosts.prefetch(packets.filter_map(|it| Some((it.switch.dpid, it.addresses()?))));
        }
    }

    fn go_ahead(&mut self, batch: &Batch<'_>, first: usize, network: &mut Network<'_>) -> usize {
        let Some(hosts) = self.forwarder.local_hosts() else { return 0 };
        if self.pair.is_none() {
            self.pair = flow_for_a_pair(network);
        }
        let Some(pair) = &self.pair else { return 0 };
        known_hosts::answer_run(hosts, pair, is_for_flows, (batch, first), network)
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event {
            let outlet = &mut Outlet::new(network, &mut self.outbox, &self.hosts);
            self.forwarder.on_packet(&packet_in, outlet);
        } else {
            self.on_other(&event, network);
        }
        self.go_on(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.go_on(network);
    }
}

impl Forwarding {
    fn on_other(&mut self, event: &Event<'_>, network: &mut Network<'_>) {
        match self.topology.on_event(event, network) {
            Some(TopologyEvent::Replaced | TopologyEvent::Changed(_)) => {
                self.read_at.get_or_insert((self.read + self.forwarder.pace()).max(network.now()));
            }
            Some(TopologyEvent::Unavailable) => {
                network.warn("the service topology has ended; the known network stays in use");
            }
            None => {}
        }
        match event {
            Event::SnapshotBegin => self.outbox.forget_sets(None),
            Event::SwitchDown(switch) => self.outbox.forget_sets(Some(switch.dpid)),
            Event::Committed(committed) => self.on_committed(committed, network),
            _ => {}
        }
        let news = self.hosts.on_event(event);
        let outlet = &mut Outlet::new(network, &mut self.outbox, &self.hosts);
        if let Some(news) = news {
            on_hosts(&mut self.forwarder, &news, outlet);
        }
        let forwarder = &mut self.forwarder;
        match event {
            Event::SnapshotBegin => forwarder.on_snapshot(true, outlet),
            Event::SnapshotEnd => forwarder.on_snapshot(false, outlet),
            Event::SwitchUp(switch) => forwarder.on_switch_up(*switch, outlet),
            Event::SwitchDown(switch) => forwarder.on_switch_down(switch.dpid, outlet),
            Event::FlowsMissing(switch) => forwarder.on_flows_missing(switch.dpid, outlet),
            Event::Port { switch, change, port } => {
                let is_up = *change != PortChange::Deleted && port.is_up();
                forwarder.on_port(*switch, port.port_no, is_up, outlet);
            }
            Event::Reply(reply) => on_reply(forwarder, reply, outlet),
            Event::FlowRemoved(removed) => on_flow_removed(forwarder, removed, outlet),
            Event::FlowsKept(kept) => on_flows_kept(forwarder, kept, outlet),
            Event::Error(error) => on_error(forwarder, error, outlet),
            Event::Lost(_) => forwarder.on_lost(outlet),
            _ => {}
        }
    }

    /// Does what is due, and sets the timer.
    fn go_on(&mut self, network: &mut Network<'_>) {
        if self.read_at.is_some_and(|it| it <= network.now()) {
            self.read_graph(network);
        }
        let outlet = &mut Outlet::new(network, &mut self.outbox, &self.hosts);
        let next = self.forwarder.go_on(outlet);
        let flush = self.outbox.flush(network);
        while let Some((switch, set)) = self.outbox.take_unsent() {
            let outlet = &mut Outlet::new(network, &mut self.outbox, &self.hosts);
            self.forwarder.on_changed(switch, set, false, outlet);
        }
        for at in [next, flush, self.read_at].into_iter().flatten() {
            network.wake_at(at);
        }
    }

    fn on_committed(&mut self, committed: &Committed<'_>, network: &mut Network<'_>) {
        let switch = committed.switch;
        let Some(set) = self.outbox.take_set(switch, committed.commit) else { return };
        let outlet = &mut Outlet::new(network, &mut self.outbox, &self.hosts);
        if let Err(NotApplied::Failed { error, .. }) = &committed.outcome {
            outlet.log_error(switch.dpid, error);
        }
        self.forwarder.on_changed(switch, set, committed.outcome.is_ok(), outlet);
    }

    fn read_graph(&mut self, network: &mut Network<'_>) {
        (self.read, self.read_at) = (network.now(), None);
        let facts = facts(self.topology.graph());
        let outlet = &mut Outlet::new(network, &mut self.outbox, &self.hosts);
        self.forwarder.on_topology(facts, outlet);
    }
}

fn flow_for_a_pair(network: &Network<'_>) -> Option<Template> {
    let flow = FlowMod::add(Match::new()).priority(PRIORITY).idle_timeout(IDLE_TIMEOUT);
    network.template(&flow.cookie(LOCAL << KIND_SHIFT)).ok()
}

/// Whether a packet has an ethertype that is neither a VLAN tag's nor that of ARP, whose statements are checked.
#[inline]
fn is_for_flows(packet: &[u8]) -> bool {
    let ethertype = packet.get(12..).and_then(|rest| rest.first_chunk());
    let ethertype = ethertype.map(|it| u16::from_be_bytes(*it));
    ethertype.is_some_and(|it| it != ARP && !is_vlan_tag(it))
}

fn facts(graph: &Graph) -> Facts {
    let ports =
        || graph.switches().flat_map(|switch| graph.ports(switch.dpid)).filter(|it| it.live);
    let ends = |is_wanted: fn(&PortRecord) -> bool| {
        ports().filter(|port| is_wanted(port)).map(|port| (port.at.dpid, port.at.port)).collect()
    };
    let is_undetermined = |port: &&PortRecord| !has_role(port) && port.at.port.is_physical();
    let link = |link: &LinkRecord| LinkFacts {
        from: (link.from.dpid, link.from.port),
        to: (link.to.dpid, link.to.port),
        metric: link.metric,
        is_suspicious: link.suspicious,
    };
    Facts {
        switches: graph.switches().map(|it| (it.dpid, it.drained)).collect(),
        edges: ends(|port| port.edge),
        links: graph.links().map(link).collect(),
        blocked: ends(|port| port.shared && !port.edge && !port.link),
        segments: ends(|port| port.shared && port.edge && port.link),
        undetermined: ports().filter(is_undetermined).count(),
        is_settled: graph.is_settled(),
    }
}

/// Whether the topology has decided the port's role.
fn has_role(port: &PortRecord) -> bool {
    port.edge || port.link || port.shared
}

fn on_hosts(forwarder: &mut Forwarder, news: &TableEvent, outlet: &mut Outlet<'_, '_>) {
    let TableEvent::Changed(changes) = news else {
        if *news == TableEvent::Reread {
            forwarder.examine_all();
        }
        return;
    };
    for change in changes.iter().flat_map(HostChange::of) {
        match change {
            HostChange::Changed { before, now } => {
                let from = (before.dpid, before.port);
                if now.is_contested {
                    forwarder.on_contested(now.mac, from);
                } else if from != (now.dpid, now.port) {
                    forwarder.on_host_moved((before.mac, before.vlan), from, outlet);
                }
            }
            HostChange::Appeared(host) if host.vlan != 0 => forwarder.on_tags(outlet),
            HostChange::Gone(host) => {
                let from = (host.dpid, host.port);
                forwarder.on_host_gone((host.mac, host.vlan), from, outlet);
            }
            _ => {}
        }
    }
}

fn on_reply(forwarder: &mut Forwarder, reply: &Reply<'_>, outlet: &mut Outlet<'_, '_>) {
    if reply.kind == Kind::BarrierReply {
        forwarder.on_barrier(reply.switch, outlet);
        return;
    }
    let Ok(part) = reply.multipart() else { return };
    let peer = forwarder.peers.get_mut(reply.switch.dpid);
    let Some(peer) = peer.filter(|peer| peer.switch == reply.switch) else { return };
    match part.body {
        ReplyBody::GroupFeatures(features) => peer.groups.on_features(&features),
        ReplyBody::GroupDesc(groups) => {
            for group in groups {
                if let Some(id) = outlet.own_group(group.group_id) {
                    peer.groups.on_desc(id, &group);
                }
            }
            if !part.more {
                peer.groups.on_all_known();
            }
        }
        _ => return,
    }
    if peer.groups.are_usable() {
        forwarder.on_groups_changed(outlet);
    }
}

fn on_flow_removed(
    forwarder: &mut Forwarder,
    removed: &FlowRemoved<'_>,
    outlet: &mut Outlet<'_, '_>,
) {
    // A flow with another priority is of the time before the operator moved this app's band.
    if let Ok(flow) = removed.decode()
        && outlet.own_priority(flow.priority) == Some(PRIORITY)
    {
        let dpid = removed.switch.dpid;
        forwarder.on_flow_removed(dpid, &flow.match_, removed.reason, outlet);
    }
}

fn on_flows_kept(forwarder: &mut Forwarder, kept: &FlowsKept<'_>, outlet: &mut Outlet<'_, '_>) {
    let Ok(part) = kept.decode() else { return };
    if let ReplyBody::Flow(flows) = part.body {
        let flows = flows.iter().filter_map(|flow| kept_flow(flow, outlet)).collect::<Vec<_>>();
        forwarder.on_flows_kept(kept.switch, flows, outlet);
    }
    if !part.more && kept.is_complete {
        forwarder.on_all_flows_kept(kept.switch, outlet);
    }
}

fn kept_flow(flow: &FlowStats<'_>, outlet: &Outlet<'_, '_>) -> Option<Kept> {
    let mut actions = flow.instructions.apply.iter();
    let act = match (actions.next(), actions.next()) {
        (None, _) => Act::Drop,
        (Some(Action::Output { port, .. }), None) => Act::Port(port),
        (Some(Action::Group(id)), None) => Act::Group(outlet.own_group(id)?),
        _ => return None,
    };
    let (match_, cookie) = (flow.match_.clone(), flow.cookie);
    let priority = outlet.own_priority(flow.priority);
    Some(Kept { match_, cookie, priority, is_idle_limited: flow.idle_timeout > 0, act })
}

fn on_error(forwarder: &mut Forwarder, error: &SwitchError<'_>, outlet: &mut Outlet<'_, '_>) {
    let is_about_group =
        error.switch.version.features().groups && error.error.kind == GROUP_MOD_FAILED;
    if let Some(peer) = forwarder.peers.get_mut(error.switch.dpid).filter(|_| is_about_group) {
        peer.groups.give_up();
        forwarder.on_groups_changed(outlet);
    }
    outlet.log_error(error.switch.dpid, &error.error);
}

export_app!(Forwarding, name = "forwarding");

#[cfg(test)]
#[path = "forwarding/tests/mod.rs"]
mod tests;

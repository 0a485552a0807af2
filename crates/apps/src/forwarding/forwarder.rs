//! The core of forwarding, without I/O: [`Forwarder`] takes events and sends messages through [`World`].
//!
//! A packet between known hosts gets a route: flows on its path for packets of that pair. All other packets are flooded
//! along the spanning tree, switch by switch, and out of the ports of hosts. A packet always passes the flow tables of each
//! switch on its way, so flows of guards stop it there. After a flood to an unknown host, the packets of that pair keep to the
//! spanning tree for a while, so that no copy takes another way.
//!
//! Only a source whose place the table of hosts confirms gets a route. Other packets are forwarded one by one: the host is
//! new or moves, or somebody pretends to be it.

mod kept;
mod packets;
mod rerouting;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rosemary_sdk::hosts::HostTable;
use rosemary_sdk::openflow::{FlowRemovedReason, Match};
use rosemary_sdk::{Dpid, MacAddr, PortNo, Switch};

pub(crate) use self::kept::Kept;
use self::rerouting::Why;
use super::config::Config;
use super::flooded::Flooded;
use super::moves::{Move, Moves, remove};
use super::net::{Distances, End, LinkFacts, Net, PortKind, SwitchFacts};
use super::peers::Peers;
use super::plan::{Plan, next_hop, plan, tree_plan};
use super::routes::{Hops, KIND_SHIFT, Key, LOCAL, Route, Routes};
use super::statements::Statements;
use super::storm::Storm;
use super::world::{Act, Flow, Message, World};

/// The flows of a route are not sent again within this time, while its first packets arrive.
const RESEND: Duration = Duration::from_secs(1);

/// Routes that are examined at once after a change of the network, and the time from one such step to the next.
const STEP: usize = 200;
const STEP_EVERY: Duration = Duration::from_millis(10);

/// Shortest time from one snapshot of the network to the next, while it grows or changes without a failure.
const PACE: Duration = Duration::from_millis(50);

/// The same for each switch, port and link of the network, and after a failure. A snapshot takes about a tenth of
/// [`PACE_AFTER_FAILURE`], so snapshots use a bounded share of the processor's time in networks of any size.
const PACE_OF_EACH: Duration = Duration::from_micros(10);
const PACE_AFTER_FAILURE: Duration = Duration::from_micros(1);

/// Time for switches to list the flows that an earlier instance of this app has left.
const LISTING: Duration = Duration::from_secs(10);

/// Plans, and costs of switches to destinations, that are kept.
const MOST_PLANS: usize = 16_384;
const MOST_COSTS: usize = 1 << 23;

/// Different paths of a pair of switches, for hosts behind switches without groups.
const SALTS: u64 = 4;

/// The network, as the topology states it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Facts {
    /// Switches, and whether they are drained.
    pub(crate) switches: Vec<(Dpid, bool)>,
    /// Ports that floods may leave through.
    pub(crate) edges: Vec<End>,
    pub(crate) links: Vec<LinkFacts>,
    /// Ports of bridges that another port of the same bridge replaces.
    pub(crate) blocked: Vec<End>,
    /// Ports at which the hosts of a bridge are known that joins two parts of the network. The bridge is a link, too.
    pub(crate) segments: Vec<End>,
    /// Number of ports that are up and whose probe window has not passed.
    pub(crate) undetermined: usize,
    /// Whether links may be missing because the topology has just started.
    pub(crate) is_settled: bool,
}

/// How soon the app needs a snapshot of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// There may be better paths, or more of them.
    Soon,
    /// Paths may have ended.
    Now,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) peers: Peers,
    facts: Facts,
    net: Net,
    /// When the last snapshot was made.
    rebuilt: Duration,
    /// When the next snapshot is made, if one is needed.
    rebuild_at: Option<Duration>,
    /// The work of all snapshots so far, as [`Net::work`] counts it.
    #[cfg(test)]
    pub(crate) work: usize,
    distances: HashMap<usize, Rc<Distances>>,
    plans: HashMap<(usize, usize, u64), Option<Rc<Plan>>>,
    routes: Routes,
    moves: Moves,
    storm: Storm,
    /// Hosts of a switch to which [`join_locally`](Self::join_locally) has added flows: they are where the table of hosts
    /// says. All are without VLAN.
    local: HostTable<Dpid>,
    /// When the present second of drop flows at blocked ports began, and their number.
    drops: (Duration, u32),
    /// Whether there are packets with a VLAN tag.
    has_tags: bool,
    /// Pairs of hosts with copies of a flooded packet under way.
    flooded: Flooded,
    /// Questions of hosts that are sent later to the ports that their floods have not reached.
    held: Vec<packets::Held>,
    /// Messages that contradict the table of hosts.
    statements: Statements,
    /// The ports of hosts that floods reach, for each part of the present network in which a question was held.
    flood_ends: Vec<Rc<BTreeSet<End>>>,
    /// Routes over a port that is down for which there is no other way yet.
    dead: BTreeSet<Key>,
    /// Routes that are to be compared with the present network.
    to_examine: VecDeque<Key>,
    next_step: Duration,
    /// The time at which the app waits no longer for switches that have not listed their flows. Until then routes may lack hops.
    listing_ends: Option<Duration>,
    /// The time at which the app removes routes whose first flow no switch has listed. The switch with that flow may take long
    /// to connect.
    headless_end: Option<Duration>,
    /// Whether the kernel is listing all switches.
    in_snapshot: bool,
}

impl Forwarder {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            peers: Peers::default(),
            facts: Facts::default(),
            net: Net::default(),
            rebuilt: Duration::ZERO,
            rebuild_at: None,
            #[cfg(test)]
            work: 0,
            distances: HashMap::new(),
            plans: HashMap::new(),
            routes: Routes::default(),
            moves: Moves::default(),
            storm: Storm::new(config.storm_control),
            local: HostTable::new(),
            drops: (Duration::ZERO, 0),
            has_tags: false,
            flooded: Flooded::default(),
            held: Vec::new(),
            statements: Statements::default(),
            flood_ends: Vec::new(),
            to_examine: VecDeque::new(),
            next_step: Duration::ZERO,
            dead: BTreeSet::new(),
            listing_ends: None,
            headless_end: None,
            in_snapshot: false,
        }
    }

    /// Returns the routes.
    #[cfg(test)]
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the hosts whose packets to each other need no decision, by switch. None while packet-ins of hosts are counted,
    /// or while the same host may be at different places in different VLANs.
    pub(crate) fn local_hosts(&mut self) -> Option<&mut HostTable<Dpid>> {
        (!self.storm.is_enabled() && !self.has_tags).then_some(&mut self.local)
    }

    // Switches and the network.

    /// The kernel begins or ends to list all switches.
    pub(crate) fn on_snapshot(&mut self, begins: bool, world: &mut impl World) {
        if begins {
            self.peers.clear();
            self.local.clear();
        }
        self.in_snapshot = begins;
        if !begins {
            self.rebuild(world);
        }
    }

    pub(crate) fn on_switch_up(&mut self, switch: Switch, world: &mut impl World) {
        self.peers.add(switch, world);
        self.local.remove_scope(switch.dpid);
        self.listing_ends = Some(world.now() + LISTING);
        // Not moved by later switches: one that connects again and again must not keep such routes.
        self.headless_end = self.headless_end.or(self.listing_ends);
        self.need(Need::Soon, world);
    }

    pub(crate) fn on_switch_down(&mut self, dpid: Dpid, world: &mut impl World) {
        self.peers.remove(dpid);
        self.local.remove_scope(dpid);
        let has_links = self.net.has_links(dpid);
        self.need(if has_links { Need::Now } else { Need::Soon }, world);
    }

    /// A switch has lost its flows.
    pub(crate) fn on_flows_missing(&mut self, dpid: Dpid, world: &mut impl World) {
        self.peers.forget_groups(dpid, world);
        self.put_back(dpid, |_, _| true, world);
    }

    pub(crate) fn on_port(
        &mut self,
        switch: Switch,
        port: PortNo,
        is_up: bool,
        world: &mut impl World,
    ) {
        let Some(peer) = self.peers.get_mut(switch.dpid) else { return };
        let is_new = if is_up { peer.down.remove(&port) } else { peer.down.insert(port) };
        if !is_new {
            return;
        }
        if !is_up {
            self.local.remove_value(switch.dpid, port);
        }
        let kind = self.net.kind((switch.dpid, port));
        if !is_up && kind == PortKind::Edge {
            // Its hosts may be elsewhere soon; a packet to them is to reach the app.
            let mut flow = Flow::delete(Match::new());
            flow.out_port = port;
            world.send(switch, Message::Flow(flow));
        }
        let is_cut = !is_up && self.net.has_link((switch.dpid, port));
        self.need(if is_cut { Need::Now } else { Need::Soon }, world);
        if !is_up && !self.in_snapshot && kind == PortKind::Unknown {
            // A link, perhaps, that the topology has not found again yet.
            self.move_dead_routes(self.routes.at_switch(switch.dpid), world);
        }
    }

    /// Takes the present state of the topology.
    pub(crate) fn on_topology(&mut self, facts: Facts, world: &mut impl World) {
        self.facts = facts;
        self.rebuild(world);
        self.release(world);
    }

    /// Uses groups of a switch, or uses them no longer.
    pub(crate) fn on_groups_changed(&mut self, world: &mut impl World) {
        self.need(Need::Soon, world);
    }

    /// Returns the shortest time from one reading of the topology to the next.
    pub(crate) fn pace(&self) -> Duration {
        PACE.max(self.each(PACE_OF_EACH))
    }

    /// Returns a time for each switch, port and link of the network.
    fn each(&self, time: Duration) -> Duration {
        time.saturating_mul(u32::try_from(self.net.work()).unwrap_or(u32::MAX))
    }

    /// Makes a snapshot at the next moment at which one may be made, at once if that has passed. Changes that come close
    /// together share one: thousands of switches connect within a second.
    fn need(&mut self, need: Need, world: &mut impl World) {
        let pace = match need {
            Need::Soon => self.pace(),
            Need::Now => self.each(PACE_AFTER_FAILURE),
        };
        let at = self.rebuilt + pace;
        self.rebuild_at = Some(self.rebuild_at.map_or(at, |known| known.min(at)));
        self.rebuild_if_due(world);
    }

    fn rebuild_if_due(&mut self, world: &mut impl World) {
        if self.rebuild_at.is_some_and(|at| at <= world.now()) {
            self.rebuild(world);
        }
    }

    /// Makes a new snapshot of the network. Routes with a link that is gone move at once, the others step by step.
    fn rebuild(&mut self, world: &mut impl World) {
        if self.in_snapshot {
            return;
        }
        (self.rebuilt, self.rebuild_at) = (world.now(), None);
        let peers = &self.peers;
        let switches = self.facts.switches.iter().filter_map(|(dpid, is_drained)| {
            let has_groups = peers.get(*dpid)?.groups.are_usable();
            Some(SwitchFacts { dpid: *dpid, is_drained: *is_drained, has_groups })
        });
        let links = self.facts.links.iter().copied();
        let links = links.filter(|link| peers.is_up(link.from) && peers.is_up(link.to));
        let edges = self.facts.edges.iter().copied().filter(|end| peers.is_up(*end));
        let mut net = Net::new(switches, edges, links);
        net.add_segments(self.facts.blocked.iter().copied(), self.facts.segments.iter().copied());
        #[cfg(test)]
        {
            self.work += net.work();
        }
        let before = std::mem::replace(&mut self.net, net);
        self.distances.clear();
        self.plans.clear();
        self.flood_ends.clear();
        let lost: Vec<End> = before.link_ends().filter(|end| !self.net.has_link(*end)).collect();
        // A link may also be lost because its switch has left the controller, and go on. Packets may then still pass.
        let is_cut = |end: &End| {
            let is_down = self.peers.get(end.0).is_some_and(|peer| peer.down.contains(&end.1));
            let is_connected = |(dpid, _): End| self.net.find(dpid).is_some();
            is_down || is_connected(*end) && before.peer(*end).is_some_and(is_connected)
        };
        let (cut, left): (Vec<End>, Vec<End>) = lost.into_iter().partition(is_cut);
        let keys = self.keys_over(&cut);
        self.move_routes(keys, Why::Cut, world);
        let keys = self.keys_over(&left);
        self.move_routes(keys, Why::Unreachable, world);
        let dead = std::mem::take(&mut self.dead);
        self.move_dead_routes(dead.into_iter().collect(), world);
        self.examine_all();
    }

    /// Returns whether all switches of the topology are connected and have listed their flows, no link is being searched, and the
    /// snapshot of the network has all that is known.
    pub(super) fn is_whole(&self) -> bool {
        let is_connected = |(dpid, _): &(Dpid, bool)| self.peers.get(*dpid).is_some();
        self.listing_ends.is_none()
            && self.facts.is_settled
            && self.rebuild_at.is_none()
            && self.facts.switches.iter().all(is_connected)
    }

    /// Compares all routes with the present network and hosts, step by step.
    pub(crate) fn examine_all(&mut self) {
        self.to_examine = self.routes.keys().collect();
    }

    /// Does what is due, and returns when there is more to do.
    pub(crate) fn go_on(&mut self, world: &mut impl World) -> Option<Duration> {
        let now = world.now();
        self.rebuild_if_due(world);
        self.moves.expire(&self.routes, &mut self.peers, world);
        self.moves.go_on(&self.routes, &mut self.peers, world);
        self.release_statements(world);
        if self.listing_ends.is_some_and(|it| it <= now) {
            self.end_listing(world);
        }
        if self.headless_end.is_some_and(|it| it <= now) {
            self.end_headless_routes(world);
        }
        let expired = self.flooded.expire(now);
        let may_examine = self.listing_ends.is_none() && self.facts.is_settled;
        // Until then, all routes wait for an examination anyway.
        if may_examine {
            self.to_examine.extend(expired);
        }
        if may_examine && !self.to_examine.is_empty() && self.next_step <= now {
            self.next_step = now + STEP_EVERY;
            let count = self.to_examine.len().min(STEP);
            let keys: Vec<Key> = self.to_examine.drain(..count).collect();
            self.move_routes(keys, Why::Better, world);
        }
        let step = (may_examine && !self.to_examine.is_empty()).then_some(self.next_step);
        let expiry = self.flooded.wake_at();
        let rebuild = self.rebuild_at.filter(|_| !self.in_snapshot);
        let statements = self.statements.wake_at();
        [
            rebuild,
            step,
            self.moves.wake_at(),
            self.listing_ends,
            self.headless_end,
            expiry,
            statements,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn on_barrier(&mut self, switch: Switch, world: &mut impl World) {
        self.peers.on_barrier(switch);
        self.moves.go_on(&self.routes, &mut self.peers, world);
    }

    // Hosts.

    /// There is a host with a VLAN tag: from now on all flows match the VLAN.
    pub(crate) fn on_tags(&mut self, world: &mut impl World) {
        if std::mem::replace(&mut self.has_tags, true) {
            return;
        }
        self.local.clear();
        for (dpid, port) in &self.facts.edges {
            let Some(switch) = self.peers.switch(*dpid) else { continue };
            let mut flow = Flow::delete(Match::new());
            if switch.version.features().cookie_masks {
                (flow.cookie, flow.cookie_mask) = (LOCAL << KIND_SHIFT, u64::MAX >> 16);
            } else {
                flow.out_port = *port;
            }
            world.send(switch, Message::Flow(flow));
        }
    }

    /// A host is at another place than before.
    pub(crate) fn on_host_moved(
        &mut self,
        host: (MacAddr, u16),
        from: End,
        world: &mut impl World,
    ) {
        self.forget_flows_to(host.0, from, world);
        let (from_it, to_it): (Vec<Key>, Vec<Key>) =
            self.routes.of_host(host).into_iter().partition(|key| key.source() == host);
        self.move_routes(to_it, Why::Cut, world);
        for key in from_it {
            self.end_route(&key, world); // the next packet begins another
        }
    }

    /// Packets of a host come in at two places.
    pub(crate) fn on_contested(&mut self, mac: MacAddr, at: End) {
        self.local.remove(at.0, mac);
    }

    /// A host is no longer known.
    pub(crate) fn on_host_gone(&mut self, host: (MacAddr, u16), from: End, world: &mut impl World) {
        self.forget_flows_to(host.0, from, world);
        for key in self.routes.of_host(host) {
            self.end_route(&key, world);
        }
    }

    fn forget_flows_to(&mut self, mac: MacAddr, at: End, world: &mut impl World) {
        self.local.remove(at.0, mac);
        if let Some(switch) = self.peers.switch(at.0) {
            let mut flow = Flow::delete(Match::new().eth_dst(mac));
            flow.out_port = at.1;
            world.send(switch, Message::Flow(flow));
        }
    }

    // Routes.

    /// Makes a route, or sends its flows again: a packet of it has missed them.
    fn ensure_route(&mut self, key: Key, from: End, to: End, world: &mut impl World) {
        let known = self.routes.get(&key);
        let is_fresh = known.is_some_and(|it| {
            it.ingress == Some(from) && world.now().saturating_sub(it.sent) < RESEND
        });
        if is_fresh || (known.is_none() && !self.routes.has_room()) {
            return;
        }
        let Some(order) = self.hops(&key, from, to, world) else { return };
        let hops: Hops = order.iter().copied().collect();
        let sent = world.now();
        let route = Route { ingress: Some(from), egress: Some(to), hops, sent };
        let before = self.routes.put(key, route);
        let mut what = Move::default();
        let unused = before.into_iter().filter(|(at, _)| !order.iter().any(|(kept, _)| kept == at));
        what.add(key, &Hops::new(), &order); // all of it: a switch may have lost any
        what.add_removes(key, unused.map(|(at, _)| at));
        self.moves.begin(what, true, &self.routes, &mut self.peers, world);
    }

    /// Removes a route and its flows.
    fn end_route(&mut self, key: &Key, world: &mut impl World) {
        if let Some(route) = self.routes.remove(key) {
            let hops: Vec<(Key, End)> = route.hops.keys().map(|at| (*key, *at)).collect();
            remove(&hops, &self.routes, &self.peers, world);
        }
    }

    /// Computes the hops of a route, from the source on, and adds the groups that they need.
    fn hops(
        &mut self,
        key: &Key,
        from: End,
        to: End,
        world: &mut impl World,
    ) -> Option<Vec<(End, Act)>> {
        let plan = if self.flooded.contains(key) {
            let (from, to) = (self.net.find(from.0)?, self.net.find(to.0)?);
            Rc::new(tree_plan(&self.net, from, to)?)
        } else {
            self.plan(from.0, to.0, key.salt())?
        };
        let mut hops = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let dpid = self.net.node(step.at.0).dpid;
            let in_port = step.at.1.unwrap_or(from.1);
            let peer = self.peers.get_mut(dpid)?;
            let act = if step.next.is_empty() {
                Act::Port(if to.1 == in_port { PortNo::IN_PORT } else { to.1 })
            } else {
                let (act, group) = peer.groups.act(in_port, &step.next, step.backup);
                if let Some(group) = group {
                    world.send(peer.switch, Message::Group(group));
                }
                act
            };
            hops.push(((dpid, in_port), act));
        }
        Some(hops)
    }

    fn plan(&mut self, from: Dpid, to: Dpid, salt: u64) -> Option<Rc<Plan>> {
        let (from, to, salt) = (self.net.find(from)?, self.net.find(to)?, salt % SALTS);
        if self.plans.len() >= MOST_PLANS {
            self.plans.clear();
        }
        let net = &self.net;
        self.plans
            .entry((from, to, salt))
            .or_insert_with(|| plan(net, from, to, salt).map(Rc::new))
            .clone()
    }

    fn next_port(&mut self, from: Dpid, to: Dpid, key: &Key) -> Option<PortNo> {
        let (from, to) = (self.net.find(from)?, self.net.find(to)?);
        if self.flooded.contains(key) {
            return self.net.tree_path(from, to)?.first().map(|link| link.port);
        }
        let salt = key.salt();
        let distances = self.distances(to);
        next_hop(&self.net, from, &distances, salt % SALTS)
    }

    fn distances(&mut self, to: usize) -> Rc<Distances> {
        if self.distances.len() * self.net.len() >= MOST_COSTS {
            self.distances.clear();
        }
        let net = &self.net;
        self.distances.entry(to).or_insert_with(|| Rc::new(net.distances(to, None))).clone()
    }

    /// Returns the port at which packets between a switch and a host at `place` enter or leave: if the host is at a segment,
    /// that of its ports which is nearer to the switch.
    fn nearest(&mut self, place: End, switch: Dpid) -> End {
        let Some(other) = self.net.other_end(place) else { return place };
        let Some(to) = self.net.find(switch) else { return place };
        let distances = self.distances(to);
        let cost = |end: End| self.net.find(end.0).map_or(u64::MAX, |at| distances.cost(at));
        if cost(other) < cost(place) { other } else { place }
    }

    /// A switch removed a flow of this app.
    pub(crate) fn on_flow_removed(
        &mut self,
        dpid: Dpid,
        match_: &Match,
        reason: FlowRemovedReason,
        world: &mut impl World,
    ) {
        let Some((in_port, key)) = Key::of_match(match_) else { return };
        let is_first = self.routes.get(&key).is_some_and(|it| it.ingress == Some((dpid, in_port)));
        // An app that is asked to put its flows back does not end its routes because they are gone.
        if is_first && reason != FlowRemovedReason::Delete {
            self.end_route(&key, world);
        }
    }
}

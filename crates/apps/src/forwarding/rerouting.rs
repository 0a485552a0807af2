//! Moves routes when the network has changed.
//!
//! A route is moved between its own ends. The table of hosts only corrects them: it is empty after a restart of the service
//! `hosts`, and what it has kept from before is doubted until a packet confirms it.

use std::collections::BTreeSet;

use rosemary_sdk::{PortNo, Switch};

use super::super::moves::Move;
use super::super::net::End;
use super::super::routes::{Hops, Key, Route};
use super::super::world::{Act, World};
use super::Forwarder;

/// Why routes are compared with the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// There may be better paths. The present one works.
    Better,
    /// A switch of the path is not connected, or has lost flows.
    Unreachable,
    /// The path is cut.
    Cut,
}

impl Forwarder {
    /// Returns the routes that use one of these ports.
    pub(super) fn keys_over(&self, ends: &[End]) -> BTreeSet<Key> {
        let keys = ends.iter().flat_map(|(dpid, _)| self.routes.at_switch(*dpid));
        keys.filter(|key| self.is_broken(key, ends)).collect()
    }

    /// Whether a hop of a route uses one of these ports without waiting for a failure.
    fn is_broken(&self, key: &Key, lost: &[End]) -> bool {
        let Some(route) = self.routes.get(key) else { return false };
        lost.iter().any(|(dpid, port)| {
            route.hops.range((*dpid, PortNo(0))..=(*dpid, PortNo(u32::MAX))).any(|(_, act)| {
                match act {
                    Act::Port(out) => out == port || *out == PortNo::IN_PORT,
                    Act::Group(_) => true,
                    Act::Drop => false,
                }
            })
        })
    }

    /// Compares routes with the present network, and moves the routes with a difference.
    pub(super) fn move_routes(
        &mut self,
        keys: impl IntoIterator<Item = Key>,
        why: Why,
        world: &mut impl World,
    ) {
        let mut what = Move::default();
        for key in keys {
            let Some(route) = self.routes.get(&key) else { continue };
            let Some(ingress) = route.ingress else { continue };
            let (src, vlan) = key.source();
            let source = world.host(src, vlan).filter(|it| !it.is_contested && !it.is_doubted);
            let to = self.destination(&key, world).map(|to| self.nearest(to, ingress.0));
            let toward = to.map_or(ingress.0, |to| to.0);
            if source.is_some_and(|it| self.nearest(it.at, toward) != ingress) {
                self.end_route(&key, world);
                continue;
            }
            let order = to.and_then(|to| Some((to, self.hops(&key, ingress, to, world)?)));
            let Some((to, order)) = order else {
                // Better flows are not known.
                if why == Why::Cut && self.is_hopeless(&key, to.is_some()) {
                    self.end_route(&key, world);
                }
                continue;
            };
            self.routes.set_egress(&key, to);
            let hops: Hops = order.iter().copied().collect();
            if self.routes.get(&key).is_some_and(|route| route.hops == hops) {
                continue;
            }
            let sent = world.now();
            let route = Route { ingress: Some(ingress), egress: Some(to), hops, sent };
            let before = self.routes.put(key, route);
            what.add(key, &before, &order);
        }
        self.moves.begin(what, why != Why::Better, &self.routes, &mut self.peers, world);
    }

    /// Moves routes among `keys` that use a dead port: it went down while the app did not run or its switch was away. Each new
    /// snapshot of the network tries again to move those for which there is no way yet.
    pub(super) fn move_dead_routes(&mut self, mut keys: Vec<Key>, world: &mut impl World) {
        keys.retain(|key| self.routes.get(key).is_some_and(|route| self.has_dead_hop(route)));
        self.move_routes(keys.iter().copied(), Why::Cut, world);
        keys.retain(|key| self.routes.get(key).is_some_and(|route| self.has_dead_hop(route)));
        self.dead.extend(keys);
    }

    /// Returns whether a hop of a route sends packets out of a port that is down, without a backup.
    fn has_dead_hop(&self, route: &Route) -> bool {
        let is_lost = |end: End| self.peers.get(end.0).is_some() && !self.peers.is_up(end);
        route.outputs().any(is_lost)
    }

    /// Returns whether the packets of a route certainly reach a port that is down. With groups, the hop at that port may be a
    /// part of a backup, while the packets pass elsewhere; while switches list their flows, a hop with a group may be missing.
    fn is_dead(&self, key: &Key) -> bool {
        let is_complete = self.listing_ends.is_none() || !self.peers.may_have_groups();
        self.routes
            .get(key)
            .is_some_and(|route| is_complete && !route.has_groups() && self.has_dead_hop(route))
    }

    /// Returns where the packets of a route are to leave the network: where the table of hosts has seen the destination, or
    /// else where they leave it now.
    fn destination(&self, key: &Key, world: &impl World) -> Option<End> {
        let (dst, vlan) = key.destination();
        let known = world.host(dst, vlan);
        if let Some(known) = known.filter(|it| !it.is_doubted) {
            return Some(known.at);
        }
        let route = self.routes.get(key)?;
        let own = route.egress.or_else(|| self.net.egress(route));
        let is_for_hosts = |end: &End| !self.net.has_link(*end) || self.net.is_bridge(*end);
        let own = own.filter(|end| self.peers.is_up(*end) && is_for_hosts(end));
        own.or(known.map(|it| it.at))
    }

    /// Returns whether the flows of a cut route help no packet. Without a path, flows could send packets round in circles, by
    /// backups of backups; without them, the app forwards the packets as soon as it can. While parts of the network are not
    /// known yet, switches may still have a backup that works.
    fn is_hopeless(&self, key: &Key, has_destination: bool) -> bool {
        let is_used = |route: &Route| has_destination || self.has_dead_hop(route);
        self.is_whole() && self.routes.get(key).is_some_and(is_used) || self.is_dead(key)
    }

    /// A change set of a move has come to its end at a switch.
    pub(crate) fn on_changed(
        &mut self,
        switch: Switch,
        set: u64,
        is_applied: bool,
        world: &mut impl World,
    ) {
        let outcome = (switch, set, is_applied);
        self.moves.on_changed(outcome, &self.routes, &mut self.peers, world);
    }

    /// Outcomes were lost, perhaps those of change sets.
    pub(crate) fn on_lost(&mut self, world: &impl World) {
        self.moves.on_lost(world.now());
    }
}

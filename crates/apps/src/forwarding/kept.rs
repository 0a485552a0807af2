//! Takes over the flows that switches list after a start of this app, of the kernel or of the switch.
//!
//! A flow may have another priority than this app uses now, if the operator has moved the app's priority band. Such a flow is
//! written again with the present priority, and the earlier one is deleted behind a barrier. The app cannot name a flow
//! outside of its band; the kernel removes those a moment later.

use std::time::Duration;

use rosemary_sdk::openflow::Match;
use rosemary_sdk::{Dpid, PortNo, Switch};

use super::super::net::End;
use super::super::routes::{KIND_SHIFT, Key, LOCAL, PRIORITY, ROUTE, Route};
use super::super::world::{Act, Flow, Message, World};
use super::{Forwarder, Why};

/// A flow of this app that a switch has.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) match_: Match,
    pub(crate) cookie: u64,
    /// Its priority, counted from the lowest of this app's band; `None` if it is outside.
    pub(crate) priority: Option<u16>,
    pub(crate) is_idle_limited: bool,
    pub(crate) act: Act,
}

impl Forwarder {
    /// Takes flows of this app that a switch has.
    pub(crate) fn on_flows_kept(
        &mut self,
        switch: Switch,
        flows: impl IntoIterator<Item = Kept>,
        world: &mut impl World,
    ) {
        // Those with the present priority first: they are newer.
        let has_moved = |flow: &Kept| flow.priority != Some(PRIORITY);
        let mut flows: Vec<Kept> = flows.into_iter().collect();
        flows.sort_by_key(has_moved);
        let mut earlier = Vec::new();
        for flow in flows {
            let Some((in_port, key)) = Key::of_match(&flow.match_) else { continue };
            let at = (switch.dpid, in_port);
            let listed = self.peers.get(at.0).map(|peer| &peer.listed);
            let is_there = listed.is_some_and(|listed| listed.contains(&(key, in_port)));
            let (is_right, again) = match flow.cookie >> KIND_SHIFT {
                ROUTE => {
                    let is_right = self.adopt(key, at, &flow, world.now());
                    (is_right, self.hop_flow(&key, at).filter(|_| !is_there))
                }
                LOCAL => {
                    let to = world.host(key.dst, key.vlan());
                    let is_right = to
                        .filter(|to| !to.is_doubted)
                        .is_none_or(|to| flow.act == Act::Port(to.at.1) && to.at.0 == switch.dpid);
                    // Without an idle timeout it drops packets, and expires soon.
                    let again = Flow::local(flow.match_.clone(), flow.act);
                    (is_right, Some(again).filter(|_| flow.is_idle_limited))
                }
                _ => continue, // they expire soon
            };
            if has_moved(&flow) {
                if let Some(again) = again.filter(|_| is_right) {
                    world.send(switch, Message::Flow(again));
                }
                earlier.extend(flow.priority.map(|it| Flow::delete_strict(flow.match_, it)));
            } else if !is_right {
                world.send(switch, Message::Flow(Flow::delete_strict(flow.match_, PRIORITY)));
            }
        }
        if !earlier.is_empty() {
            self.peers.barrier(switch.dpid, world);
            for flow in earlier {
                world.send(switch, Message::Flow(flow));
            }
        }
    }

    /// Returns the flow for a hop of a route, if the route has it.
    fn hop_flow(&self, key: &Key, at: End) -> Option<Flow> {
        let route = self.routes.get(key)?;
        route.hops.get(&at).map(|act| route.flow(key, at, *act))
    }

    /// Takes a hop that a switch has. Returns false if the app does not want it.
    fn adopt(&mut self, key: Key, at: End, flow: &Kept, now: Duration) -> bool {
        if let Some(peer) = self.peers.get_mut(at.0) {
            peer.listed.insert((key, at.1));
        }
        let mut route = match self.routes.get(&key) {
            Some(route) if route.hops.contains_key(&at) => {
                let is_same = route.hops.get(&at) == Some(&flow.act);
                if !is_same && let Some(peer) = self.peers.get_mut(at.0) {
                    peer.listed.remove(&(key, at.1)); // it is sent again
                }
                return true;
            }
            Some(route) if self.listing_ends.is_none() && route.ingress.is_some() => return false,
            Some(route) => route.clone(),
            None if self.routes.has_room() => Route::of_hops(now),
            None => return false,
        };
        if flow.is_idle_limited {
            route.ingress = Some(at);
        }
        route.hops.insert(at, flow.act);
        self.routes.put(key, route);
        true
    }

    /// A switch has listed all flows: those that are missing are sent again.
    pub(crate) fn on_all_flows_kept(&mut self, switch: Switch, world: &mut impl World) {
        let Some(listed) = self.peers.end_listing(switch.dpid) else { return };
        self.put_back(switch.dpid, |key, port| !listed.contains(&(*key, port)), world);
        self.move_dead_routes(self.routes.at_switch(switch.dpid), world);
        if self.listing_ends.is_some() && self.peers.have_listed() {
            self.end_listing(world);
        }
    }

    /// Sends the hops at a switch again that it does not have.
    pub(super) fn put_back(
        &mut self,
        dpid: Dpid,
        is_missing: impl Fn(&Key, PortNo) -> bool,
        world: &mut impl World,
    ) {
        let mut again = Vec::new();
        for key in self.routes.at_switch(dpid) {
            let Some(mut route) = self.routes.get(&key).cloned() else { continue };
            let count = route.hops.len();
            route.hops.retain(|(at, port), _| *at != dpid || !is_missing(&key, *port));
            if route.hops.len() < count {
                self.routes.put(key, route);
                again.push(key);
            }
        }
        self.move_routes(again, Why::Unreachable, world);
    }

    /// Waits no longer for listings: moves the routes that use a port which is down, and then compares all routes with the network
    /// step by step.
    pub(super) fn end_listing(&mut self, world: &mut impl World) {
        self.listing_ends = None;
        self.move_dead_routes(self.routes.keys().collect(), world);
        self.examine_all();
    }

    /// Removes routes without their first flow.
    pub(super) fn end_headless_routes(&mut self, world: &mut impl World) {
        self.headless_end = None;
        let keys: Vec<Key> = self.routes.keys().collect();
        for key in keys {
            if self.routes.get(&key).is_some_and(|route| route.ingress.is_none()) {
                self.end_route(&key, world);
            }
        }
    }
}

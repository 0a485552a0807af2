//! Holds the routes that have flows in switches: a route is the path of one pair of hosts in one direction.
//!
//! A route has a flow, a [`Hop`], at each switch and in-port of its plan. Only its first flow expires when it is idle; its
//! switch reports that, and the app then removes the others. Hops that are ready for a failure carry no packets and would
//! expire too early.
//!
//! A route holds both of its ends itself, so that it can be moved while the service `hosts` does not know them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rosemary_sdk::openflow::{Field, Match};
use rosemary_sdk::{Dpid, MacAddr, PortNo};

use super::net::End;
use super::world::{Act, Flow};

/// Idle timeout of a route, and of the flows for pairs of hosts behind one switch, in seconds.
pub(crate) const IDLE_TIMEOUT: u16 = 60;

/// Priority of the flows of routes: above those that storm control adds.
pub(crate) const PRIORITY: u16 = 1;

/// Most routes; pairs of hosts beyond it are forwarded packet by packet.
const MOST_ROUTES: usize = 1 << 18;

/// The upper bits of this app's cookies, which state the kind of a flow.
pub(crate) const KIND_SHIFT: u32 = 40;
/// A flow of a route; the lower bits are a hash of its key.
pub(crate) const ROUTE: u64 = 1;
/// A flow of a pair of hosts behind one switch. Some match no VLAN.
pub(crate) const LOCAL: u64 = 2;
/// A flow that drops packets for storm control.
pub(crate) const STORM: u64 = 3;

/// The packets of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) src: MacAddr,
    pub(crate) dst: MacAddr,
    /// The VLAN identifier of the tag, if there is a tag.
    pub(crate) tag: Option<u16>,
}

impl Key {
    /// Returns the VLAN as the table of hosts numbers it: 0 for packets without a tag.
    pub(crate) fn vlan(&self) -> u16 {
        self.tag.unwrap_or(0)
    }

    /// Returns the source as the table of hosts names it.
    pub(crate) fn source(&self) -> (MacAddr, u16) {
        (self.src, self.vlan())
    }

    /// Returns the destination as the table of hosts names it.
    pub(crate) fn destination(&self) -> (MacAddr, u16) {
        (self.dst, self.vlan())
    }

    /// Returns a number that chooses between paths of equal cost, the same in each instance of this app.
    pub(crate) fn salt(&self) -> u64 {
        let mut hasher = DefaultHasher::new(); // without keys, so a restarted app finds the same paths
        (self.src.0, self.dst.0, self.tag).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the cookie of the route's flows.
    pub(crate) fn cookie(&self) -> u64 {
        ROUTE << KIND_SHIFT | self.salt() & ((1 << KIND_SHIFT) - 1)
    }

    /// Returns the match of the route's packets that come in through a port.
    pub(crate) fn match_at(&self, in_port: PortNo) -> Match {
        let pair = Match::new().in_port(in_port).eth_dst(self.dst).eth_src(self.src);
        match self.tag {
            Some(vid) => pair.vlan_vid(vid),
            None => pair.untagged(),
        }
    }

    /// Reads a match of [`match_at`](Self::match_at), or one without a VLAN; `None` for any other.
    pub(crate) fn of_match(match_: &Match) -> Option<(PortNo, Self)> {
        let (mut in_port, mut src, mut dst, mut tag) = (None, None, None, None);
        for field in match_.fields() {
            match field {
                Field::InPort(port) => in_port = Some(port),
                Field::EthSrc(mac) if mac.mask.is_none() => src = Some(mac.value),
                Field::EthDst(mac) if mac.mask.is_none() => dst = Some(mac.value),
                Field::VlanVid(vid) if vid.mask.is_none() => {
                    tag = (vid.value != 0).then_some(vid.value & 0x0fff);
                }
                _ => return None,
            }
        }
        Some((in_port?, Self { src: src?, dst: dst?, tag }))
    }
}

/// The hops of a route: what happens to its packets at a switch that they entered through a port.
pub(crate) type Hops = BTreeMap<End, Act>;

/// A route.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The switch and port of the source. `None` while a restarted app knows only other hops of the route.
    pub(crate) ingress: Option<End>,
    /// The switch and port of the destination. `None` while a restarted app does not know which port of the hops that is.
    pub(crate) egress: Option<End>,
    /// The hops that the switches are to have.
    pub(crate) hops: Hops,
    /// When the hops were last sent.
    pub(crate) sent: Duration,
}

impl Route {
    /// Makes a route from flows that switches list; its hops and ends follow.
    pub(crate) fn of_hops(now: Duration) -> Self {
        Self { ingress: None, egress: None, hops: Hops::new(), sent: now }
    }

    /// Returns the output ports of the hops that use no group.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = End> {
        self.hops.iter().filter_map(|((dpid, in_port), act)| match act {
            Act::Port(PortNo::IN_PORT) => Some((*dpid, *in_port)),
            Act::Port(port) => Some((*dpid, *port)),
            Act::Group(_) | Act::Drop => None,
        })
    }

    /// Returns whether a switch of the route chooses between ports itself.
    pub(crate) fn has_groups(&self) -> bool {
        self.hops.values().any(|act| matches!(act, Act::Group(_)))
    }

    /// Returns the flow for a hop.
    pub(crate) fn flow(&self, key: &Key, at: End, act: Act) -> Flow {
        let mut flow = Flow::add(key.match_at(at.1), PRIORITY, key.cookie(), act);
        if self.ingress == Some(at) {
            flow.idle_timeout = IDLE_TIMEOUT;
            flow.is_reported = true;
        }
        flow
    }
}

impl Flow {
    /// Returns the flow for a pair of hosts behind one switch.
    pub(crate) fn local(match_: Match, act: Act) -> Self {
        let flow = Self::add(match_, PRIORITY, LOCAL << KIND_SHIFT, act);
        Self { idle_timeout: IDLE_TIMEOUT, ..flow }
    }
}

/// All routes, with indices.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    all: HashMap<Key, Route>,
    by_switch: HashMap<Dpid, HashSet<Key>>,
    by_host: HashMap<(MacAddr, u16), HashSet<Key>>,
}

impl Routes {
    /// Returns a route.
    pub(crate) fn get(&self, key: &Key) -> Option<&Route> {
        self.all.get(key)
    }

    /// Notes where the packets of a route leave the network.
    pub(crate) fn set_egress(&mut self, key: &Key, egress: End) {
        if let Some(route) = self.all.get_mut(key) {
            route.egress = Some(egress);
        }
    }

    /// Returns the number of routes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there is room for another.
    pub(crate) fn has_room(&self) -> bool {
        self.all.len() < MOST_ROUTES
    }

    /// Adds or replaces a route; returns the former hops.
    pub(crate) fn put(&mut self, key: Key, route: Route) -> Hops {
        let before = self.remove(&key).map_or_else(Hops::new, |it| it.hops);
        for (dpid, _) in route.hops.keys() {
            self.by_switch.entry(*dpid).or_default().insert(key);
        }
        for host in [key.source(), key.destination()] {
            self.by_host.entry(host).or_default().insert(key);
        }
        self.all.insert(key, route);
        before
    }

    /// Removes a route.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Route> {
        let route = self.all.remove(key)?;
        for (dpid, _) in route.hops.keys() {
            take(&mut self.by_switch, dpid, key);
        }
        for host in [key.source(), key.destination()] {
            take(&mut self.by_host, &host, key);
        }
        Some(route)
    }

    /// Returns the routes with a hop at a switch.
    pub(crate) fn at_switch(&self, dpid: Dpid) -> Vec<Key> {
        self.by_switch.get(&dpid).into_iter().flatten().copied().collect()
    }

    /// Returns the routes from or to a host.
    pub(crate) fn of_host(&self, host: (MacAddr, u16)) -> Vec<Key> {
        self.by_host.get(&host).into_iter().flatten().copied().collect()
    }

    /// Returns all routes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.all.keys().copied()
    }
}

fn take<I: Hash + Eq>(index: &mut HashMap<I, HashSet<Key>>, at: &I, key: &Key) {
    if let Some(keys) = index.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}

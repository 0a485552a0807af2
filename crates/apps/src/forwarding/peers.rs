//! Holds what the app knows of each connected switch itself: ports that are down, groups, and barriers under way.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rosemary_sdk::{Dpid, PortNo, Switch};

use super::groups::Groups;
use super::net::End;
use super::routes::Key;
use super::world::{Message, World};

/// A connected switch.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) switch: Switch,
    pub(crate) groups: Groups,
    /// Ports that are down or deleted. The app learns it here before the topology states it.
    pub(crate) down: BTreeSet<PortNo>,
    /// Hops that the switch has, while it lists its flows.
    pub(crate) listed: HashSet<(Key, PortNo)>,
    barriers_sent: u64,
    barriers_answered: u64,
}

/// All connected switches.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<Dpid, Peer>,
    /// Switches that have not listed all of their flows since they connected.
    unlisted: BTreeSet<Dpid>,
}

impl Peers {
    /// Adds a switch, or a new connection of one, and requests its groups.
    pub(crate) fn add(&mut self, switch: Switch, world: &mut impl World) {
        let peer = Peer {
            switch,
            groups: Groups::default(),
            down: BTreeSet::new(),
            listed: HashSet::new(),
            barriers_sent: 0,
            barriers_answered: u64::MAX, // moves do not wait for barriers of an earlier connection
        };
        self.peers.insert(switch.dpid, peer);
        self.unlisted.insert(switch.dpid);
        request_groups(switch, world);
    }

    /// Forgets the groups of a switch that has lost its flows, and requests them.
    pub(crate) fn forget_groups(&mut self, dpid: Dpid, world: &mut impl World) {
        if let Some(peer) = self.peers.get_mut(&dpid) {
            peer.groups = Groups::default();
            request_groups(peer.switch, world);
        }
    }

    pub(crate) fn remove(&mut self, dpid: Dpid) {
        self.peers.remove(&dpid);
        self.unlisted.remove(&dpid);
    }

    pub(crate) fn clear(&mut self) {
        self.peers.clear();
        self.unlisted.clear();
    }

    pub(crate) fn get(&self, dpid: Dpid) -> Option<&Peer> {
        self.peers.get(&dpid)
    }

    pub(crate) fn get_mut(&mut self, dpid: Dpid) -> Option<&mut Peer> {
        self.peers.get_mut(&dpid)
    }

    /// Takes the hops that a switch has listed: it has listed all of its flows. `None` if it is not connected.
    pub(crate) fn end_listing(&mut self, dpid: Dpid) -> Option<HashSet<(Key, PortNo)>> {
        let peer = self.peers.get_mut(&dpid)?;
        self.unlisted.remove(&dpid);
        Some(std::mem::take(&mut peer.listed))
    }

    /// Returns whether a port is up; false if its switch is not connected.
    pub(crate) fn is_up(&self, (dpid, port): End) -> bool {
        self.get(dpid).is_some_and(|peer| !peer.down.contains(&port))
    }

    /// Returns whether all switches have listed their flows.
    pub(crate) fn have_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Returns whether a connected switch speaks a version that has groups.
    pub(crate) fn may_have_groups(&self) -> bool {
        self.peers.values().any(|peer| peer.switch.version.features().groups)
    }

    /// Returns the connection of a switch.
    pub(crate) fn switch(&self, dpid: Dpid) -> Option<Switch> {
        self.peers.get(&dpid).map(|peer| peer.switch)
    }

    /// Sends a barrier and returns its number.
    pub(crate) fn barrier(&mut self, dpid: Dpid, world: &mut impl World) -> Option<u64> {
        let peer = self.peers.get_mut(&dpid)?;
        if peer.barriers_answered == u64::MAX {
            peer.barriers_answered = 0;
        }
        peer.barriers_sent += 1;
        world.send(peer.switch, Message::Barrier);
        Some(peer.barriers_sent)
    }

    /// Notes the answer to the oldest barrier.
    pub(crate) fn on_barrier(&mut self, switch: Switch) {
        let peer = self.peers.get_mut(&switch.dpid).filter(|peer| peer.switch == switch);
        if let Some(peer) = peer
            && peer.barriers_answered < peer.barriers_sent
        {
            peer.barriers_answered += 1;
        }
    }

    /// Returns whether a barrier is answered, or never will be.
    pub(crate) fn is_answered(&self, dpid: Dpid, barrier: u64) -> bool {
        self.peers.get(&dpid).is_none_or(|peer| peer.barriers_answered >= barrier)
    }
}

/// Requests the groups of a switch, if its version has groups.
fn request_groups(switch: Switch, world: &mut impl World) {
    if switch.version.features().groups {
        world.send(switch, Message::GroupFeatures);
        world.send(switch, Message::GroupDesc);
    }
}

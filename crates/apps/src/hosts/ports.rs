//! Keeps the state of the ports that hosts can be behind, and the hosts of each.
//!
//! The kernel's events say which ports there are and whether they are up. The topology service says whether a port leads
//! to another switch. Until its probe window has passed, a port is undecided: senders of its packets may be hosts of
//! another switch. They wait here and are learned at once when the port turns out to be an edge, so a host's first packet
//! counts.

use std::collections::HashMap;

use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{Dpid, PortNo};

use super::directory::HostId;
use super::sighting::Sighting;

/// Most sightings that wait at an undecided port. Others are learned with their next packet.
const WAITING_PER_PORT: usize = 32;

/// Most sightings that wait at all ports.
const WAITING: usize = 16_384;

/// Most ports; a fake switch may announce any number.
const MOST_PORTS: usize = 131_072;

/// Seconds for which the hosts of a switch are kept after its connection ended.
const AWAY_S: u64 = 60;

/// Seconds after a switch's return at which ports that it has not announced are gone.
const ANNOUNCE_S: u64 = 2;

/// The neighbour behind a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// Not known yet.
    Undecided,
    /// No switch.
    Edge,
    /// Another switch.
    Link,
    /// Hosts, and a bridge without OpenFlow to other switches.
    Segment,
}

#[derive(Debug)]
struct Port {
    behind: Behind,
    is_up: bool,
    /// The connection on which the switch last announced it.
    epoch: u32,
    hosts: Vec<HostId>,
    waiting: Vec<Sighting>,
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    epoch: u32,
    is_up: bool,
    /// When it began or ended.
    since_s: u64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Ports {
    known: HashMap<Endpoint, Port>,
    switches: HashMap<Dpid, Connection>,
    waiting: usize,
}

impl Ports {
    /// Returns what is behind a port through which packets can come in; `None` if it is unknown or down.
    pub(super) fn behind(&self, at: Endpoint) -> Option<Behind> {
        let port = self.known.get(&at).filter(|port| port.is_up)?;
        match port.behind {
            // No probe leaves the switch through its own port.
            Behind::Undecided if at.port == PortNo::LOCAL => Some(Behind::Edge),
            behind => Some(behind),
        }
    }

    /// Returns whether a host can still be there: the port is up, the switch is connected, and no link is there.
    pub(super) fn is_live(&self, at: Endpoint) -> bool {
        let is_connected = self.switches.get(&at.dpid).is_some_and(|switch| switch.is_up);
        is_connected && self.behind(at).is_some_and(|behind| behind != Behind::Link)
    }

    pub(super) fn hosts(&self, at: Endpoint) -> &[HostId] {
        self.known.get(&at).map_or(&[], |port| &port.hosts)
    }

    /// Adds a host; returns its position at the port.
    pub(super) fn add_host(&mut self, at: Endpoint, host: HostId) -> Option<u32> {
        let port = self.known.get_mut(&at)?;
        port.hosts.push(host);
        u32::try_from(port.hosts.len() - 1).ok()
    }

    /// Removes the host at a position; returns the host that is at the position now.
    pub(super) fn remove_host(&mut self, at: Endpoint, position: u32) -> Option<HostId> {
        let port = self.known.get_mut(&at)?;
        let position = position as usize;
        if position < port.hosts.len() {
            port.hosts.swap_remove(position);
        }
        port.hosts.get(position).copied()
    }

    /// Keeps a sighting at an undecided port.
    pub(super) fn wait(&mut self, at: Endpoint, sighting: Sighting) {
        let Some(port) = self.known.get_mut(&at) else { return };
        let of = |it: &Sighting| (it.mac, it.vlan);
        if let Some(known) = port.waiting.iter_mut().find(|it| of(it) == of(&sighting)) {
            known.ip = sighting.ip.or(known.ip);
        } else if port.waiting.len() < WAITING_PER_PORT && self.waiting < WAITING {
            port.waiting.push(sighting);
            self.waiting += 1;
        }
    }

    /// States what is behind a port. Returns the sightings that waited, if it is an edge.
    pub(super) fn decide(&mut self, at: Endpoint, behind: Behind) -> Vec<Sighting> {
        let is_room = self.known.len() < MOST_PORTS;
        let port = match self.known.get_mut(&at) {
            Some(port) => port,
            None if is_room && behind != Behind::Undecided => {
                self.known.entry(at).or_insert_with(Port::unannounced)
            }
            None => return Vec::new(),
        };
        port.behind = behind;
        if behind == Behind::Undecided || behind == Behind::Edge && !port.is_up {
            return Vec::new();
        }
        let waited = self.take_waiting(at);
        // At a segment they may be hosts of another switch.
        if behind == Behind::Edge { waited } else { Vec::new() }
    }

    /// Forgets what is behind the ports: the topology service has started again.
    pub(super) fn undecide(&mut self) {
        for port in self.known.values_mut() {
            port.behind = Behind::Undecided;
        }
    }

    /// Notes that a port was announced. Returns whether hosts behind it are gone: it is down.
    pub(super) fn announce(&mut self, at: Endpoint, epoch: u32, is_up: bool) -> bool {
        let is_room = self.known.len() < MOST_PORTS;
        if !is_room && !self.known.contains_key(&at) {
            return false;
        }
        let port = self.known.entry(at).or_insert_with(Port::unannounced);
        (port.epoch, port.is_up) = (epoch, is_up);
        if !is_up {
            port.behind = Behind::Undecided;
            self.take_waiting(at);
        }
        !is_up
    }

    /// Forgets a port; the caller has removed its hosts.
    pub(super) fn remove(&mut self, at: Endpoint) {
        self.take_waiting(at);
        self.known.remove(&at);
    }

    pub(super) fn switch_up(&mut self, dpid: Dpid, epoch: u32, now_s: u64) {
        self.switches.insert(dpid, Connection { epoch, is_up: true, since_s: now_s });
    }

    pub(super) fn switch_down(&mut self, dpid: Dpid, now_s: u64) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            (switch.is_up, switch.since_s) = (false, now_s);
        }
    }

    /// A snapshot begins: each switch that is still there is announced again.
    pub(super) fn all_down(&mut self, now_s: u64) {
        for switch in self.switches.values_mut() {
            (switch.is_up, switch.since_s) = (false, now_s);
        }
    }

    /// Expects that a port is announced, at which an earlier process saw hosts. Returns false if no host can be there: the port
    /// is down or has a link, or its switch has announced its ports without this one.
    pub(super) fn expect(&mut self, at: Endpoint, now_s: u64) -> bool {
        let away = Connection { epoch: 0, is_up: false, since_s: now_s };
        let switch = *self.switches.entry(at.dpid).or_insert(away);
        let has_announced = switch.is_up && now_s >= switch.since_s + ANNOUNCE_S;
        match self.known.get(&at) {
            Some(port) if port.is_announced() => port.is_up && port.behind != Behind::Link,
            Some(port) => !has_announced && port.behind != Behind::Link,
            None if has_announced || self.known.len() >= MOST_PORTS => false,
            None => self.known.insert(at, Port::unannounced()).is_none(),
        }
    }

    /// Returns ports that are gone: their switch has been away too long, or has come back without them.
    pub(super) fn expired(&mut self, now_s: u64) -> Vec<Endpoint> {
        let is_old =
            |switch: &Connection, after: u64| now_s.saturating_sub(switch.since_s) >= after;
        let away = |switch: &Connection| !switch.is_up && is_old(switch, AWAY_S);
        let is_due = self.switches.values().any(|switch| {
            away(switch)
                || switch.is_up
                    && (ANNOUNCE_S..ANNOUNCE_S + 2).any(|it| switch.since_s + it == now_s)
        });
        if !is_due {
            return Vec::new(); // the usual case, without a walk over all ports
        }
        let switches = &self.switches;
        let is_gone = |(at, port): (&Endpoint, &Port)| {
            let switch = switches.get(&at.dpid)?;
            let is_left_out =
                switch.is_up && is_old(switch, ANNOUNCE_S) && port.epoch != switch.epoch;
            // The topology service may list a port before the kernel announces it; an earlier process may have seen hosts there.
            let is_awaited = !port.is_announced() && port.hosts.is_empty();
            (away(switch) || is_left_out && !is_awaited).then_some(*at)
        };
        let gone = self.known.iter().filter_map(is_gone).collect();
        self.switches.retain(|_, switch| !away(switch));
        gone
    }

    fn take_waiting(&mut self, at: Endpoint) -> Vec<Sighting> {
        let waited = self.known.get_mut(&at).map(|port| std::mem::take(&mut port.waiting));
        let waited = waited.unwrap_or_default();
        self.waiting -= waited.len();
        waited
    }
}

impl Port {
    /// Makes a port that the topology service has listed and the kernel has not announced.
    fn unannounced() -> Self {
        let behind = Behind::Undecided;
        Self { behind, is_up: false, epoch: 0, hosts: Vec::new(), waiting: Vec::new() }
    }

    fn is_announced(&self) -> bool {
        self.epoch != 0
    }
}

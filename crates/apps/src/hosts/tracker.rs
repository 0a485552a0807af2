//! Decides where hosts are: takes packets, port states and the time, and returns records, probes and reports.
//!
//! | what comes in | what the tracker does |
//! | --- | --- |
//! | a packet at a port with a link | nothing: it is of a host behind another switch |
//! | a packet at a port that is not decided | keeps it until the port is decided |
//! | a host that a switch without packet-ins has learned | the same as a packet at an edge |
//! | such a host that its switch has forgotten | forgets it |
//! | an unknown host at an edge | learns it, while port and table have room |
//! | a known host at another edge, its port down | moves it |
//! | a known host at another edge, its port up | probes it at its port: a claim |
//! | a known host at a segment, which a bridge joins to other switches | nothing, unless its port is down: a bridge may have forwarded the packet |
//! | an address of another host | gives it to the claimant only if the owner does not answer |
//! | a silent host | probes it, and forgets it without an answer |
//! | a host that an earlier process has stored | publishes it as doubted, and probes it like a silent one |

#![expect(clippy::similar_names, reason = "`shelf` is the word, and `self` is near it")]

use std::net::IpAddr;
use std::time::Duration;

use rosemary_sdk::LearnedHost;
use rosemary_sdk::openflow::{Dpid, MacAddr};
use rosemary_sdk::services::hosts::{Host, PROBE_MAC};
use rosemary_sdk::services::topology::Endpoint;

use super::claims::{Claim, Claims, Due, Subject};
use super::directory::{Added, Directory, HostId};
use super::kept::Kept;
use super::ports::{Behind, Ports};
use super::probe;
use super::reports::{Report, Reports};
use super::settings::Settings;
use super::sighting::{self, Proof, Reading, Sighting};

/// Seconds in which each host's age is looked at once.
const SWEEP_S: u32 = 20;

/// Unanswered probes after which a silent host is forgotten.
const UNANSWERED: u8 = 3;

/// Most probes in a second, those of claims not included.
const PROBES_PER_SECOND: u32 = 200;

/// Seconds for which a host that answered is not asked again.
const ANSWERED_S: u64 = 10;

/// Moves in a minute that are flapping, and the seconds for which the host then stays where it is.
const FLAPPING: u8 = 5;
const FLAPPING_S: u64 = 30;

/// A packet that leaves a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) at: Endpoint,
    pub(super) frame: Vec<u8>,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Tracker {
    settings: Settings,
    ports: Ports,
    pub(super) directory: Directory,
    claims: Claims,
    pub(super) reports: Reports,
    /// Probes that wait to be sent.
    pub(super) probes: Vec<Probe>,
    next_tick: Duration,
    /// The next host whose age is looked at.
    sweep: HostId,
    /// Hosts and addresses that were not learned for want of room.
    pub(super) refused: u64,
}

impl Tracker {
    /// Starts without hosts; `None` if the table is too small.
    pub(super) fn new(settings: Settings, slots: u32) -> Option<Self> {
        Some(Self {
            settings,
            ports: Ports::default(),
            directory: Directory::new(slots)?,
            claims: Claims::default(),
            reports: Reports::default(),
            probes: Vec::new(),
            next_tick: Duration::ZERO,
            sweep: 0,
            refused: 0,
        })
    }

    /// Handles a packet that came in at a port.
    pub(super) fn packet(&mut self, at: Endpoint, frame: &[u8], now: Duration) {
        let Some(behind) = self.ports.behind(at).filter(|it| *it != Behind::Link) else { return };
        if behind == Behind::Segment && !self.is_of_segment(at, frame) {
            return;
        }
        match sighting::read(frame) {
            Reading::Nothing => {}
            Reading::Host(sighting) => self.see(at, behind, sighting, now),
            Reading::Lease { server, client } => {
                self.see(at, behind, server, now);
                self.lease(behind, client, now);
            }
            Reading::Forged { sender, stated, what } => {
                // At an undecided port the sender may be behind another switch, which reports it.
                if matches!(behind, Behind::Edge | Behind::Segment) {
                    let report = Report::Forged { what, sender: sender.mac, stated, at };
                    self.reports.report(report, now.as_secs());
                }
            }
        }
    }

    /// Handles the report of a switch that learns hosts by itself. Probes find no link of such a switch, so its word decides that
    /// hosts are behind the port.
    pub(super) fn learned(&mut self, host: &LearnedHost, now: Duration) {
        let at = Endpoint { dpid: host.switch.dpid, port: host.port };
        if host.is_gone {
            let known = self.directory.find(host.mac, host.vlan);
            let is_here = |id: &HostId| self.directory.get(*id).is_some_and(|it| it.place() == at);
            if let Some(id) = known.filter(is_here) {
                self.remove(id);
            }
            return;
        }
        if self.ports.behind(at) == Some(Behind::Undecided) {
            self.behind(at, Behind::Edge, now);
        }
        let Some(behind) = self.ports.behind(at).filter(|it| *it != Behind::Link) else { return };
        let ip = host.ip.map(|ip| (ip, Proof::Used));
        self.see(at, behind, Sighting { mac: host.mac, vlan: host.vlan, ip }, now);
    }

    /// Takes hosts of a shelf that an earlier process has stored. They are doubted until they send something.
    pub(super) fn restore(&mut self, shelf: u8, hosts: &[Kept], now_s: u64) {
        let was_dirty = self.directory.dirty.contains(&shelf);
        let mut is_same = true;
        for kept in hosts {
            is_same &= self.restore_host(kept, now_s);
        }
        if is_same && !was_dirty {
            self.directory.dirty.remove(&shelf); // it has just been read
        } else {
            self.directory.dirty.insert(shelf);
        }
    }

    /// Returns whether the host is known as it was stored. A packet received since then counts more.
    fn restore_host(&mut self, Kept { host, addresses }: &Kept, now_s: u64) -> bool {
        let at = Endpoint { dpid: host.dpid, port: host.port };
        if self.directory.find(host.mac, host.vlan).is_some()
            || !self.ports.expect(at, now_s)
            || self.ports.hosts(at).len() >= self.settings.hosts_per_port
        {
            return false;
        }
        let Some(id) = self.directory.insert(*host) else { return false };
        self.attach(id, at);
        if let Some(known) = self.directory.get_mut(id) {
            known.heard_s = now_s; // it has as long as any host until it is forgotten
        }
        let mut is_same = true;
        for (ip, proof) in addresses {
            is_same &= self.directory.add_address(id, *ip, *proof, now_s) == Added::Own;
        }
        is_same
    }

    /// States whether a port is there and up, as its switch announced it on this connection.
    pub(super) fn port(&mut self, at: Endpoint, epoch: u32, is_up: bool) {
        if self.ports.announce(at, epoch, is_up) {
            self.remove_hosts(at);
        }
    }

    /// Handles the end of a port.
    pub(super) fn port_gone(&mut self, at: Endpoint) {
        self.remove_hosts(at);
        self.ports.remove(at);
    }

    /// States what the topology service knows to be behind a port.
    pub(super) fn behind(&mut self, at: Endpoint, behind: Behind, now: Duration) {
        let waited = self.ports.decide(at, behind);
        if behind == Behind::Link {
            self.remove_hosts(at);
        }
        for sighting in waited {
            self.learn(at, sighting, now);
        }
    }

    /// Forgets what is behind ports: the topology service will state it again.
    pub(super) fn topology_restarted(&mut self) {
        self.ports.undecide();
    }

    pub(super) fn switch_up(&mut self, dpid: Dpid, epoch: u32, now: Duration) {
        self.ports.switch_up(dpid, epoch, now.as_secs());
    }

    pub(super) fn switch_down(&mut self, dpid: Dpid, now: Duration) {
        self.ports.switch_down(dpid, now.as_secs());
    }

    /// Handles the beginning of a snapshot: all switches that are there will be announced.
    pub(super) fn snapshot(&mut self, now: Duration) {
        self.ports.all_down(now.as_secs());
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Duration) {
        while let Some(due) = self.claims.due(now) {
            match due {
                Due::Probe(claim) => self.probe_owner(&claim),
                Due::Silent(claim) => self.owner_is_silent(&claim, now),
            }
        }
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + Duration::from_secs(1);
        for at in self.ports.expired(now.as_secs()) {
            self.port_gone(at);
        }
        self.age(now.as_secs());
    }

    /// Returns when [`tick`](Self::tick) is due next.
    pub(super) fn wake_at(&self) -> Duration {
        self.claims.next().map_or(self.next_tick, |next| next.min(self.next_tick))
    }

    /// Whether a packet that came in at a segment says something about a host there. A host that is known elsewhere sent it
    /// from there, and a bridge forwarded it. A host whose place is contested must answer the probe: other packets of it may
    /// come from the second place. Switches forward no answers to probes.
    fn is_of_segment(&self, at: Endpoint, frame: &[u8]) -> bool {
        let Some((mac, vlan)) = sighting::sender(frame) else { return false };
        let known = self.directory.find(mac, vlan).and_then(|id| self.directory.get(id));
        known.is_none_or(|known| {
            let is_answer = frame.starts_with(&PROBE_MAC.0);
            let is_here = known.place() == at && (is_answer || !known.host.is_contested);
            is_here || !self.ports.is_live(known.place())
        })
    }

    fn see(&mut self, at: Endpoint, behind: Behind, sighting: Sighting, now: Duration) {
        let is_here = |id| self.directory.get(id).is_some_and(|known| known.place() == at);
        let is_decided = behind != Behind::Undecided;
        let is_known = self.directory.find(sighting.mac, sighting.vlan).is_some_and(is_here);
        if is_decided || is_known {
            self.learn(at, sighting, now);
        } else {
            self.ports.wait(at, sighting);
        }
    }

    fn learn(&mut self, at: Endpoint, sighting: Sighting, now: Duration) {
        let id = match self.directory.find(sighting.mac, sighting.vlan) {
            None => match self.add(at, &sighting, now.as_secs()) {
                Some(id) => id,
                None => return,
            },
            Some(id) if self.directory.get(id).is_some_and(|known| known.place() == at) => {
                self.hear(id, now.as_secs());
                id
            }
            Some(id) => {
                if !self.seen_elsewhere(id, at, now) {
                    return;
                }
                id
            }
        };
        if let Some((ip, proof)) = sighting.ip {
            self.address(id, at, (ip, proof), now);
        }
    }

    fn add(&mut self, at: Endpoint, sighting: &Sighting, now_s: u64) -> Option<HostId> {
        let hosts = self.ports.hosts(at).len();
        if hosts >= self.settings.hosts_per_port {
            self.refused += 1;
            self.reports.report(Report::PortFull { at, hosts }, now_s);
            return None;
        }
        let host = Host {
            mac: sighting.mac,
            vlan: sighting.vlan,
            dpid: at.dpid,
            port: at.port,
            is_contested: false,
            is_doubted: false,
            first_seen_s: now_s,
            last_seen_s: now_s,
        };
        let Some(id) = self.directory.insert(host) else {
            self.no_room(sighting.mac, at, now_s);
            return None;
        };
        self.attach(id, at);
        Some(id)
    }

    fn no_room(&mut self, mac: MacAddr, at: Endpoint, now_s: u64) {
        self.refused += 1;
        let hosts = self.directory.len();
        self.reports.report(Report::TableFull { mac, at, hosts }, now_s);
    }

    /// A host sent a packet from where it is known to be.
    fn hear(&mut self, id: HostId, now_s: u64) {
        self.directory.hear(id, now_s);
        let Some(known) = self.directory.get(id).filter(|known| known.host.is_contested) else {
            return;
        };
        let (mac, first) = (known.host.mac, known.place());
        self.settle(id, now_s + ANSWERED_S);
        if let Some(claim) = self.claims.end(id, Subject::Place) {
            let second = claim.at;
            let report = Report::HijackRefused { mac, first, second, answered: true };
            self.reports.report(report, now_s);
        }
    }

    /// A host sent a packet from another port than its own. Returns whether it has moved there.
    fn seen_elsewhere(&mut self, id: HostId, at: Endpoint, now: Duration) -> bool {
        let Some(known) = self.directory.get(id) else { return false };
        let (mac, is_held) = (known.host.mac, now.as_secs() < known.held_until_s);
        if !self.ports.is_live(known.place()) {
            return self.relocate(id, at, now.as_secs());
        }
        if !is_held && self.claims.note((id, Subject::Place), (mac, at), now) {
            self.directory.change(id, |host| host.is_contested = true);
        }
        false
    }

    /// Moves a host; returns whether its new port has room.
    fn relocate(&mut self, id: HostId, to: Endpoint, now_s: u64) -> bool {
        let hosts = self.ports.hosts(to).len();
        if hosts >= self.settings.hosts_per_port {
            self.refused += 1;
            self.reports.report(Report::PortFull { at: to, hosts }, now_s);
            return false;
        }
        let Some(known) = self.directory.get_mut(id) else { return false };
        let (mac, from, position) = (known.host.mac, known.place(), known.position);
        if now_s >= known.moving_since_s + 60 {
            (known.moves, known.moving_since_s) = (0, now_s);
        }
        known.moves = known.moves.saturating_add(1);
        let moves = known.moves;
        if moves >= FLAPPING {
            known.held_until_s = now_s + FLAPPING_S;
            self.reports.report(Report::Flapping { mac, from, to, moves }, now_s);
        }
        self.detach(from, position);
        self.directory.change(id, |host| {
            (host.dpid, host.port, host.is_contested) = (to.dpid, to.port, false);
        });
        self.directory.hear(id, now_s);
        self.claims.end(id, Subject::Place);
        self.attach(id, to);
        true
    }

    fn address(&mut self, id: HostId, at: Endpoint, (ip, proof): (IpAddr, Proof), now: Duration) {
        let Some(known) = self.directory.get(id) else { return };
        let (by, vlan) = (known.host.mac, known.host.vlan);
        if proof == Proof::Used && self.settings.routers.contains(&by) {
            return;
        }
        match self.directory.add_address(id, ip, proof, now.as_secs()) {
            Added::Own => self.address_answered(id, ip, now.as_secs()),
            Added::NoRoom => self.refused += 1,
            Added::Others { owner, is_stated } => {
                let Some(first) = self.directory.get(owner) else { return };
                let (owner_mac, is_live) = (first.host.mac, self.ports.is_live(first.place()));
                match proof {
                    Proof::Used if is_stated => {
                        let report = Report::AddressUsed { ip, owner: owner_mac, by, at };
                        self.reports.report(report, now.as_secs());
                    }
                    Proof::Used => {} // neither has stated it: two routers, for example
                    Proof::Stated if is_live && is_stated => {
                        self.claims.note((owner, Subject::Address(ip)), (by, at), now);
                    }
                    Proof::Stated => {
                        self.directory.take_address(ip, vlan);
                        self.claims.end(owner, Subject::Address(ip));
                        self.directory.add_address(id, ip, proof, now.as_secs());
                    }
                }
            }
        }
    }

    /// The owner of an address has used it.
    fn address_answered(&mut self, id: HostId, ip: IpAddr, now_s: u64) {
        if self.claims.is_empty() {
            return;
        }
        let Some(claim) = self.claims.end(id, Subject::Address(ip)) else { return };
        if let Some(owner) = self.directory.get(id).map(|known| known.host.mac) {
            let report = Report::AddressRefused { ip, owner, by: claim.by, at: claim.at };
            self.reports.report(report, now_s);
        }
    }

    /// A server gave an address to a client. It counts if the client is known and nobody has the address: anybody can
    /// pretend to be a server.
    fn lease(&mut self, behind: Behind, client: Sighting, now: Duration) {
        let Some((ip, proof)) = client.ip.filter(|_| behind == Behind::Edge) else { return };
        if self.directory.owner(ip, client.vlan).is_none()
            && let Some(id) = self.directory.find(client.mac, client.vlan)
        {
            self.directory.add_address(id, ip, proof, now.as_secs());
        }
    }

    fn probe_owner(&mut self, claim: &Claim) {
        let Some(known) = self.directory.get(claim.owner) else { return };
        let ip = match claim.subject {
            Subject::Address(ip) => Some(ip),
            Subject::Place => known.addresses().first().copied(),
        };
        if let Some(ip) = ip
            && self.probe(claim.owner, ip)
        {
            self.claims.probed(claim.owner, claim.subject);
        }
    }

    fn probe(&mut self, id: HostId, ip: IpAddr) -> bool {
        let Some(known) = self.directory.get(id) else { return false };
        let Some(frame) = probe::frame(known.host.mac, known.host.vlan, ip) else { return false };
        self.probes.push(Probe { at: known.place(), frame });
        true
    }

    fn owner_is_silent(&mut self, claim: &Claim, now: Duration) {
        let Some(known) = self.directory.get(claim.owner) else { return };
        let (mac, from, vlan) = (known.host.mac, known.place(), known.host.vlan);
        match claim.subject {
            Subject::Place if !claim.stands() => {
                self.settle(claim.owner, 0);
                let (first, second) = (from, claim.at);
                let report = Report::HijackRefused { mac, first, second, answered: false };
                self.reports.report(report, now.as_secs());
            }
            Subject::Place => {
                self.settle(claim.owner, 0);
                let is_edge = self.ports.behind(claim.at) == Some(Behind::Edge);
                if is_edge && self.relocate(claim.owner, claim.at, now.as_secs()) {
                    let report = Report::Moved { mac, from, to: claim.at };
                    self.reports.report(report, now.as_secs());
                }
            }
            Subject::Address(ip) => {
                let Some(id) = self.directory.find(claim.by, vlan) else { return };
                self.directory.take_address(ip, vlan);
                self.directory.add_address(id, ip, Proof::Stated, now.as_secs());
                let (by, at) = (claim.by, claim.at);
                let report = Report::AddressMoved { ip, owner: mac, by, at };
                self.reports.report(report, now.as_secs());
            }
        }
    }

    /// Ends the doubt about a host's place.
    fn settle(&mut self, id: HostId, held_until_s: u64) {
        self.directory.change(id, |host| host.is_contested = false);
        if let Some(known) = self.directory.get_mut(id) {
            known.held_until_s = known.held_until_s.max(held_until_s);
        }
    }

    /// Looks at the age of some hosts, so that each has its turn in [`SWEEP_S`] seconds.
    fn age(&mut self, now_s: u64) {
        let numbers = self.directory.numbers();
        let mut left = PROBES_PER_SECOND;
        for _ in 0..numbers.div_ceil(SWEEP_S) {
            let id = self.sweep;
            self.sweep = if id + 1 < numbers { id + 1 } else { 0 };
            let Some(known) = self.directory.get(id) else { continue };
            let is_silent = now_s >= known.heard_s.saturating_add(self.settings.max_age_s);
            let is_asked = known.host.is_doubted && !known.addresses().is_empty();
            if !(is_silent || is_asked)
                || known.host.is_contested
                || !self.ports.is_live(known.place())
            {
                continue;
            }
            let probes = known.probes;
            if probes > 0 && now_s < known.probed_s + u64::from(SWEEP_S) {
                continue; // with few hosts, its turn comes again soon
            }
            // Another address each time: an old one may not be the host's any more.
            let addresses = known.addresses();
            let ip = addresses.get(usize::from(probes) % addresses.len().max(1)).copied();
            match ip {
                Some(ip) if probes < UNANSWERED => {
                    if left > 0 && self.probe(id, ip) {
                        left -= 1;
                        if let Some(known) = self.directory.get_mut(id) {
                            (known.probes, known.probed_s) = (known.probes + 1, now_s);
                        }
                    }
                }
                _ => self.remove(id),
            }
        }
    }

    fn remove_hosts(&mut self, at: Endpoint) {
        for id in self.ports.hosts(at).to_vec() {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: HostId) {
        if let Some(known) = self.directory.remove(id) {
            self.detach(known.place(), known.position);
            self.claims.end_all(id);
        }
    }

    fn attach(&mut self, id: HostId, at: Endpoint) {
        let position = self.ports.add_host(at, id).unwrap_or_default();
        if let Some(known) = self.directory.get_mut(id) {
            known.position = position;
        }
    }

    fn detach(&mut self, at: Endpoint, position: u32) {
        if let Some(id) = self.ports.remove_host(at, position)
            && let Some(known) = self.directory.get_mut(id)
        {
            known.position = position;
        }
    }
}

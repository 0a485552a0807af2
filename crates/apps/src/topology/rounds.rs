//! The part of discovery that time causes: visits of ports that are due, rounds over all links, and the table.

use std::time::Duration;

use rosemary_sdk::services::topology::{Endpoint, LinkRecord, Record, Slot, SwitchRecord, WhyDown};
use rosemary_sdk::{Dpid, PortNo, Switch, Xid};

use super::discovery::{Discovery, Effect};
use super::port::{Link, PortState};
use super::probe::{Probe, Reach};
use super::publication::{Full, Key};
use super::report::Doubt;
use super::segments::Role;

/// The time between two rounds.
const ROUND: Duration = Duration::from_secs(1);

/// The time between two measurements of the way to a switch.
const CONTROL_INTERVAL: Duration = Duration::from_secs(10);

/// Silent links that never mean that the controller is overloaded.
const FEW_LINKS: usize = 16;

/// The usual time from a probe to its packet-in of an overloaded controller.
const LATE: Duration = Duration::from_millis(300);

/// How long switches have to connect before the table counts as settled, and how long that may take at most.
const SETTLE: Duration = Duration::from_secs(3);
const SETTLE_AT_MOST: Duration = Duration::from_secs(10);

/// The metric of a link whose speed is not known: that of 10 Gbit/s.
const USUAL_METRIC: u32 = 10;

/// The speed whose metric is 1, in kbit/s.
const BEST_SPEED_KBPS: u64 = 100_000_000;

/// The highest metric of a link, that of 1 Mbit/s.
const HIGHEST_METRIC: u32 = 100_000;

/// A probe that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) switch: Switch,
    pub(super) port: PortNo,
    pub(super) frame: Vec<u8>,
}

impl Discovery {
    /// Returns the next probe that is due, and notes that it is sent now.
    pub(super) fn next_probe(&mut self, now: Duration) -> Option<Outgoing> {
        if let Some(second) = self.second_probe.take() {
            return Some(second);
        }
        loop {
            let at = self.pacer.next(now)?;
            if let Some(probe) = self.visit(at, now) {
                return Some(probe);
            }
        }
    }

    /// Returns when something is due next.
    pub(super) fn next_time(&self, now: Duration) -> Duration {
        let probe = self.pacer.next_time(now).unwrap_or(Duration::MAX);
        probe.min(self.next_round)
    }

    /// Looks at everything that no event causes, once per round.
    pub(super) fn round(&mut self, now: Duration) {
        if now < self.next_round {
            return;
        }
        self.next_round = now + ROUND;
        self.look_for_overload();
        for state in self.switches.values_mut().filter(|state| now >= state.next_measurement) {
            state.next_measurement = now + CONTROL_INTERVAL;
            self.effects.push(Effect::Measure(state.switch));
        }
        self.settle(now);
        self.look_at_segments(now);
        self.dirty.extend(self.down.expire(now).into_iter().map(Key::LinkDown));
        self.look_for_other_instance(now);
    }

    /// Forgets silent segments, and reports new ones when the windows of their ports have passed: until then the other end
    /// of a link may be taken for one.
    fn look_at_segments(&mut self, now: Duration) {
        if !self.is_overloaded {
            for at in self.segments.expire(now) {
                if let Some(port) = self.state(at).filter(|port| port.is_live(now)) {
                    port.begin_window(); // nobody knows what is there now
                    self.pacer.schedule(at, now);
                }
                self.dirty.insert(Key::Port(at));
            }
        }
        let switches = &self.switches;
        let is_early = |at: Endpoint| {
            let port = switches.get(&at.dpid).and_then(|state| state.ports.get(&at.port));
            port.is_some_and(PortState::is_in_window)
        };
        for (at, role) in self.segments.take_unreported(is_early) {
            let (summary, evidence) = match role {
                Role::Blocked => {
                    let used = self.segments.used(at).map_or(String::new(), |it| it.to_string());
                    let summary = format!("loop behind {at}: the port is not used");
                    let evidence = format!(
                        "a switch or bridge without OpenFlow joins it with {used}, through which its hosts are \
                         reached. Unplug one of them. If no other path joins the switches, join them directly"
                    );
                    (summary, evidence)
                }
                // The other ports of the segment name it.
                Role::Open | Role::Bridge { has_hosts: false, .. } => continue,
                Role::Bridge { to, .. } => {
                    let summary = format!("a bridge without OpenFlow joins {at} and {to}");
                    let evidence = "it is the only connection of two parts of the network, so their traffic passes \
                                    it. Join the switches directly if nobody put it there"
                        .to_owned();
                    (summary, evidence)
                }
            };
            self.report(Doubt::Segment, at, now, summary, evidence);
        }
    }

    /// Notes that a barrier request was sent to a switch.
    pub(super) fn measuring(&mut self, dpid: Dpid, xid: Xid, now: Duration) {
        if let Some(state) = self.switches.get_mut(&dpid) {
            state.measuring = Some((xid, now));
        }
    }

    /// A switch answered a barrier request.
    pub(super) fn measured(&mut self, switch: Switch, xid: Xid, now: Duration) {
        let state = self.switches.get_mut(&switch.dpid).filter(|state| state.switch == switch);
        let Some(state) = state else { return };
        if let Some((_, sent)) = state.measuring.take_if(|(measuring, _)| *measuring == xid) {
            state.control.add(now.saturating_sub(sent));
        }
    }

    /// Begins or ends the drain of a switch.
    pub(super) fn set_drained(&mut self, dpid: Dpid, on: bool) {
        if on {
            self.drained.insert(dpid);
        } else {
            self.drained.remove(&dpid);
        }
        self.dirty.insert(Key::Switch(dpid));
    }

    pub(super) fn is_drained(&self, dpid: Dpid) -> bool {
        self.drained.contains(&dpid)
    }

    /// Returns how many switches are drained, absent ones included.
    pub(super) fn drained(&self) -> usize {
        self.drained.len()
    }

    /// Returns the slots of the table that change, and their records.
    pub(super) fn flush(&mut self, now: Duration) -> Vec<(u32, Slot)> {
        for at in self.assign_segments(now) {
            self.dirty.extend([Key::Port(at), Key::Link(at)]);
        }
        let mut writes = Vec::new();
        for key in std::mem::take(&mut self.dirty) {
            let record = self.record(key, now);
            match self.publication.set(key, record) {
                Ok(write) => writes.extend(write),
                Err(Full { is_first: false }) => {}
                Err(Full { is_first: true }) => {
                    let summary = "the table of the topology is full".to_owned();
                    let evidence = "further switches, ports and links are not published".to_owned();
                    self.effects.push(Effect::Incident { summary, evidence });
                }
            }
        }
        writes
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Looks at a port that is due. Returns its probe if it is time for one.
    fn visit(&mut self, at: Endpoint, now: Duration) -> Option<Outgoing> {
        self.dirty.insert(Key::Port(at)); // what depends on time may have changed
        let (is_overloaded, usual) = (self.is_overloaded, self.delay);
        let is_shared = self.segments.role(at).is_some();
        let port = self.state(at)?;
        if let Some(until) = port.held_until(now) {
            self.pacer.schedule(at, until);
            return None;
        }
        if port.link_is_silent(is_overloaded, now) {
            self.end_silent_link(at, now);
        }
        let port = self.state(at).filter(|port| port.is_up())?;
        let has_ended = port.end_window(usual, now);
        if has_ended || !port.wants_probe() {
            let next = port.next_visit(is_overloaded, is_shared, usual, now);
            self.pacer.schedule(at, next);
            return None;
        }
        let nonce = port.send(now);
        let next = port.next_visit(is_overloaded, is_shared, usual, now);
        let (hw_addr, wants_second) = (port.hw_addr, port.wants_second_probe());
        self.pacer.schedule(at, next);
        let switch = self.switches.get(&at.dpid)?.switch;
        let probe = |reach| {
            let frame = Probe { reach, from: at, nonce }.write(hw_addr, &self.seal);
            Outgoing { switch, port: at.port, frame }
        };
        self.second_probe = wants_second.then(|| probe(Reach::Segment));
        Some(probe(Reach::Link))
    }

    /// Ends the link that begins at a port; the opposite direction may go on.
    fn end_silent_link(&mut self, at: Endpoint, now: Duration) {
        let Some(port) = self.state(at) else { return };
        let Some(link) = port.link.take() else { return };
        self.segments.links_changed();
        let Some(port) = self.state(at) else { return };
        if !port.has_link() {
            port.begin_window();
        }
        if let Some(other) = self.state(link.to) {
            other.incoming.take_if(|from| *from == at);
            if !other.has_link() && !other.is_in_window() {
                other.begin_window();
            }
        }
        self.dirty.extend([Key::Link(at), Key::Port(at), Key::Port(link.to)]);
        self.note_down([Some((at, link.to)), None], (WhyDown::Silent, at), now);
    }

    /// Decides whether probes are unanswered because the controller, or the machine, cannot cope. Then no link ends because
    /// of that, and fewer probes are sent.
    fn look_for_overload(&mut self) {
        let ports = self.switches.values_mut().flat_map(|state| state.ports.values_mut());
        let links: Vec<&mut Link> = ports.filter_map(|port| port.link.as_mut()).collect();
        let silent = links.iter().filter(|link| link.unanswered > 1).count();
        let is_overloaded = (silent > FEW_LINKS && silent * 8 > links.len()) || self.delay > LATE;
        if self.is_overloaded && !is_overloaded {
            // Each gets all its chances again.
            for link in links {
                link.unanswered = 0;
            }
        }
        self.is_overloaded = is_overloaded;
        self.pace();
    }

    /// Sets the rate of the probes, after the time that they lately took.
    pub(super) fn pace(&mut self) {
        if !self.delay.is_zero() {
            let least = if self.is_overloaded { LATE } else { Duration::ZERO };
            self.pacer.set_delay(self.delay.max(least));
        }
    }

    /// Decides whether the ports that were there at the beginning have been probed.
    fn settle(&mut self, now: Duration) {
        if self.is_settled || !self.is_snapshot_complete {
            return;
        }
        let passed = now.saturating_sub(self.began);
        let mut ports = self.switches.values().flat_map(|state| state.ports.values());
        let is_done =
            passed >= SETTLE && !ports.any(|port| port.is_live(now) && port.is_in_window());
        if is_done || passed >= SETTLE_AT_MOST {
            self.is_settled = true;
            self.dirty.insert(Key::Status);
        }
    }

    /// Returns the link over a segment that begins at a port, if the segment carries the traffic of two parts.
    fn segment_link(&self, from: Endpoint) -> Option<Link> {
        match self.segments.role(from)? {
            Role::Bridge { to, found, .. } => Some(Link::new(to, found)),
            Role::Open | Role::Blocked => None,
        }
    }

    /// Returns what the table has to show of a thing; `None` if it does not exist.
    fn record(&self, key: Key, now: Duration) -> Option<Record> {
        match key {
            Key::Status => Some(Record::Status { settled: self.is_settled }),
            Key::Switch(dpid) => {
                let state = self.switches.get(&dpid)?;
                let ports = state.ports.keys().filter(|port| port.is_physical()).count();
                Some(Record::Switch(SwitchRecord {
                    dpid,
                    epoch: state.switch.epoch,
                    ports: u32::try_from(ports).unwrap_or(u32::MAX),
                    drained: self.drained.contains(&dpid),
                }))
            }
            Key::Port(at) => {
                let port = self.switches.get(&at.dpid)?.ports.get(&at.port)?;
                Some(Record::Port(port.record(at, self.segments.role(at), now)))
            }
            Key::LinkDown(from) => self.down.record(from).map(Record::LinkDown),
            Key::Link(from) => {
                let port = self.switches.get(&from.dpid)?.ports.get(&from.port)?;
                let link = port.link.or_else(|| self.segment_link(from))?;
                let far = self.switches.get(&link.to.dpid)?.ports.get(&link.to.port)?;
                let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                Some(Record::Link(LinkRecord {
                    from,
                    to: link.to,
                    metric: metric(port.speed_kbps(), far.speed_kbps()),
                    latency_ns: ns(link.shown_latency),
                    found_ns: ns(link.found),
                    suspicious: link.suspicious,
                }))
            }
        }
    }
}

/// The metric of a link between ports of these speeds; the slower one counts.
fn metric(one_kbps: u64, other_kbps: u64) -> u32 {
    match one_kbps.min(other_kbps) {
        0 => USUAL_METRIC,
        speed => {
            let metric = u32::try_from(BEST_SPEED_KBPS / speed).unwrap_or(HIGHEST_METRIC);
            metric.clamp(1, HIGHEST_METRIC)
        }
    }
}

//! Finds links: follows switches, ports, probes and traffic of hosts, and decides what the table shows.
//!
//! A probe makes a link only if all of this holds; a reason to doubt raises an incident:
//!
//! * Its tag is this process's, so it is not forged.
//! * It is one of the last probes of its port, young, and arrived nowhere else before, so it is not replayed.
//! * Both ports are up since before it was sent, so nobody took a port down and up to be forgotten as a host.
//! * It did not arrive at the port that it left.
//! * No host is known behind either port. A host is known if its traffic entered after the probe window, and before the
//!   probe left.
//! * Neither port has a link to a third one.
//!
//! No rule can find a relay that is as fast as a cable between two ports at which no host has ever spoken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use rosemary_sdk::openflow::ethernet;
use rosemary_sdk::services::topology::{Endpoint, WhyDown};
use rosemary_sdk::{Dpid, MacAddr, Port, PortChange, PortNo, Switch, Xid};

use super::down::{Down, LinksDown};
use super::latency::{Recent, STREAK, Samples};
use super::pacer::Pacer;
use super::port::{Link, PortState};
use super::probe::{NoProbe, Probe, Reach, Seal};
use super::publication::{Key, Publication};
use super::report::{Doubt, Reports};
use super::rounds::Outgoing;
use super::segments::Segments;

/// How long a probe is believed after it was sent.
pub(super) const PROBE_LIFE: Duration = Duration::from_secs(3);

/// The usual time from a probe to its packet-in above which no link is judged by its latency.
const BUSY: Duration = Duration::from_millis(100);

/// The least time between two samples by which a link is judged.
const APART: Duration = Duration::from_secs(1);

/// Ports of a switch that are followed.
const MOST_PORTS: usize = 4096;

/// Ports of absent switches behind which hosts are remembered.
const MOST_REMEMBERED: usize = 65_536;

/// An action of the app besides writing the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Measure the way to this switch with a barrier request.
    Measure(Switch),
    Incident {
        summary: String,
        evidence: String,
    },
    Warn(String),
    Debug(String),
    /// The problem that the status shows from now on; `None` for none.
    Problem(Option<String>),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Discovery {
    pub(super) seal: Seal,
    pub(super) switches: BTreeMap<Dpid, SwitchState>,
    pub(super) drained: BTreeSet<Dpid>,
    pub(super) pacer: Pacer,
    pub(super) publication: Publication,
    /// Switches and ports that the snapshot has not listed yet.
    unconfirmed: BTreeSet<Dpid>,
    unconfirmed_ports: BTreeSet<Endpoint>,
    /// Records that may have changed.
    pub(super) dirty: BTreeSet<Key>,
    pub(super) effects: Vec<Effect>,
    /// Links that were there.
    pub(super) down: LinksDown,
    pub(super) reports: Reports,
    /// When a probe of another instance of Rosemary arrived last.
    pub(super) other_instance: Option<Duration>,
    /// Ports that a bridge joins.
    pub(super) segments: Segments,
    /// The second probe of the port whose first was sent last.
    pub(super) second_probe: Option<Outgoing>,
    /// Ports of absent switches behind which hosts were known, and since when.
    remembered: HashMap<Endpoint, Duration>,
    /// The latest samples of the latency of links.
    recent: Recent,
    /// The usual time from a probe to its packet-in, lately.
    pub(super) delay: Duration,
    /// Whether probes are unanswered or late in such numbers that the controller is the reason.
    pub(super) is_overloaded: bool,
    pub(super) next_round: Duration,
    /// When the present view of the network began.
    pub(super) began: Duration,
    pub(super) is_snapshot_complete: bool,
    pub(super) is_settled: bool,
}

#[derive(Debug)]
pub(super) struct SwitchState {
    pub(super) switch: Switch,
    up_since: Duration,
    pub(super) ports: BTreeMap<PortNo, PortState>,
    /// Times of the way to the switch and back.
    pub(super) control: Samples,
    /// The barrier request that is underway, and when it was sent.
    pub(super) measuring: Option<(Xid, Duration)>,
    pub(super) next_measurement: Duration,
}

impl Discovery {
    pub(super) fn new(seal: Seal, capacity: u32) -> Self {
        Self {
            seal,
            switches: BTreeMap::new(),
            drained: BTreeSet::new(),
            pacer: Pacer::default(),
            publication: Publication::new(capacity),
            unconfirmed: BTreeSet::new(),
            unconfirmed_ports: BTreeSet::new(),
            dirty: BTreeSet::new(),
            effects: Vec::new(),
            reports: Reports::default(),
            down: LinksDown::default(),
            other_instance: None,
            segments: Segments::default(),
            second_probe: None,
            remembered: HashMap::new(),
            recent: Recent::default(),
            delay: Duration::ZERO,
            is_overloaded: false,
            next_round: Duration::ZERO,
            began: Duration::ZERO,
            is_snapshot_complete: false,
            is_settled: false,
        }
    }

    /// A snapshot begins: it lists what exists. The kernel repeats it when the app missed events.
    pub(super) fn snapshot_begin(&mut self, now: Duration) {
        self.reports.begin(now);
        self.unconfirmed = self.switches.keys().copied().collect();
        let ports = self.switches.iter().flat_map(|(dpid, state)| {
            state.ports.keys().map(|port| Endpoint { dpid: *dpid, port: *port })
        });
        self.unconfirmed_ports = ports.collect();
    }

    /// The snapshot is complete: what it did not list is gone.
    pub(super) fn snapshot_end(&mut self, now: Duration) {
        let gone = std::mem::take(&mut self.unconfirmed);
        if !gone.is_empty() || !self.is_snapshot_complete {
            // After a restart of the kernel, switches connect again one after the other.
            (self.began, self.is_snapshot_complete, self.is_settled) = (now, true, false);
            self.dirty.insert(Key::Status);
        }
        for dpid in gone {
            self.switch_down(dpid, now);
        }
        for at in std::mem::take(&mut self.unconfirmed_ports) {
            self.delete_port(at, now);
        }
    }

    pub(super) fn switch_up(&mut self, switch: Switch, now: Duration) {
        self.unconfirmed.remove(&switch.dpid);
        if self.switches.get(&switch.dpid).is_some_and(|known| known.switch == switch) {
            return; // its state is repeated
        }
        self.switch_down(switch.dpid, now);
        let state = SwitchState {
            switch,
            up_since: now,
            ports: BTreeMap::new(),
            control: Samples::default(),
            measuring: None,
            next_measurement: Duration::ZERO,
        };
        self.switches.insert(switch.dpid, state);
        self.dirty.insert(Key::Switch(switch.dpid));
    }

    pub(super) fn switch_down(&mut self, dpid: Dpid, now: Duration) {
        let Some(ports) = self.switches.get(&dpid).map(|state| &state.ports) else { return };
        for (port, state) in ports {
            let at = Endpoint { dpid, port: *port };
            if let Some(since) =
                state.host_since.filter(|_| self.remembered.len() < MOST_REMEMBERED)
            {
                self.remembered.insert(at, since);
            }
        }
        let ports: Vec<PortNo> = ports.keys().copied().collect();
        for port in ports {
            let at = Endpoint { dpid, port };
            self.end_links(at, WhyDown::SwitchGone, now);
            self.dirty.insert(Key::Port(at));
        }
        self.switches.remove(&dpid);
        self.pacer.forget_switch(dpid);
        self.dirty.insert(Key::Switch(dpid));
    }

    pub(super) fn port(&mut self, switch: Switch, change: PortChange, port: &Port, now: Duration) {
        let at = Endpoint { dpid: switch.dpid, port: port.port_no };
        let Some(state) = self.switches.get_mut(&switch.dpid) else { return };
        if state.switch != switch || !port.port_no.is_host_port() {
            return;
        }
        self.unconfirmed_ports.remove(&at);
        self.dirty.extend([Key::Port(at), Key::Switch(at.dpid)]);
        if change == PortChange::Deleted {
            return self.delete_port(at, now);
        }
        if state.ports.len() >= MOST_PORTS && !state.ports.contains_key(&at.port) {
            let summary = format!("switch {} has more than {MOST_PORTS} ports", at.dpid);
            self.report(Doubt::TooManyPorts, at, now, summary, "the others are ignored".to_owned());
            return;
        }
        let known = state.ports.entry(at.port).or_insert_with(|| PortState::new(port));
        let incoming = known.incoming;
        if known.is_up() && !port.is_up() {
            self.end_links(at, WhyDown::PortDown, now);
            self.pacer.forget(at);
        }
        if !port.is_up() {
            self.remembered.remove(&at);
        }
        let remembered = self.remembered.get(&at).copied();
        let Some(known) = self.state(at) else { return };
        if let Some(probe_at) = known.update(port, now) {
            known.host_since = remembered;
            self.remembered.remove(&at);
            if at.port.is_physical() {
                self.pacer.schedule(at, probe_at);
            }
        }
        // The speed decides about the metrics.
        self.dirty.extend([at].into_iter().chain(incoming).map(Key::Link));
    }

    fn delete_port(&mut self, at: Endpoint, now: Duration) {
        self.remembered.remove(&at);
        self.end_links(at, WhyDown::PortRemoved, now);
        self.pacer.forget(at);
        if let Some(state) = self.switches.get_mut(&at.dpid) {
            state.ports.remove(&at.port);
        }
        self.dirty.extend([Key::Port(at), Key::Switch(at.dpid)]);
    }

    /// Handles a packet that came in at a port.
    pub(super) fn packet(&mut self, switch: Switch, in_port: PortNo, frame: &[u8], now: Duration) {
        let at = Endpoint { dpid: switch.dpid, port: in_port };
        if self.switches.get(&at.dpid).is_none_or(|state| state.switch != switch) {
            return;
        }
        let is_lldp = ethernet::packet(frame).is_some_and(|it| it.ethertype == ethernet::LLDP);
        if !is_lldp {
            return self.host_traffic(at, frame, now);
        }
        match Probe::read(frame, &self.seal) {
            Ok(probe) if probe.reach == Reach::Link => self.probe(probe, at, now),
            Ok(probe) => self.second_probe(probe, at, now),
            Err(NoProbe::Forged) => {
                let summary = format!("forged LLDP arrived at {at}: it made no link");
                let evidence =
                    "its tag is not that of this process. A host or a switch forges links";
                self.report(Doubt::Forged, at, now, summary, evidence.to_owned());
            }
            Err(NoProbe::Another) => self.other_instance(at, now),
            Err(NoProbe::Other) => {}
        }
    }

    /// Notes that a host is behind a port, if its packet entered there after the probe window.
    fn host_traffic(&mut self, at: Endpoint, frame: &[u8], now: Duration) {
        let Some(source) = frame.get(6..12).and_then(|it| it.first_chunk()) else { return };
        let is_unicast = !MacAddr(*source).is_multicast();
        let Some(port) = self.state(at) else { return };
        if is_unicast && port.is_edge(now) {
            port.host_since.get_or_insert(now);
        }
    }

    /// Handles a probe with the right tag.
    fn probe(&mut self, probe: Probe, at: Endpoint, now: Duration) {
        let from = probe.from;
        let sent_at = Duration::from_nanos(probe.nonce);
        let age = now.saturating_sub(sent_at);
        let is_known_link =
            self.state(from).and_then(|port| port.link).is_some_and(|link| link.to == at);
        if is_known_link {
            // Only known links count, so that forged probes do not change what is usual.
            self.delay = (self.delay * 15 + age) / 16;
            self.pace();
        }
        if age > PROBE_LIFE {
            if is_known_link || self.is_overloaded {
                return; // it is late, like others
            }
            return self.report_old(from, at, age, "made no link", now);
        }
        let up = [from, at]
            .map(|end| self.state(end).filter(|port| port.is_live(now)).map(|it| it.up_since()));
        let [Some(from_up), Some(at_up)] = up else { return };
        if sent_at < from_up.max(at_up) {
            return; // it was underway when its port or switch went
        }
        let Some(sent) = self.state(from).and_then(|port| port.probe(probe.nonce)).copied() else {
            return;
        };
        if self.is_over_segment(from, at) {
            return self.segments.hear(from, at, now);
        }
        match sent.arrived {
            Some(first) if first == at => return, // the switch reported it twice
            Some(first) => {
                let summary =
                    format!("a probe of {from} arrived at {at} a second time: it made no link");
                let evidence = format!("it arrived at {first} before");
                return self.report(Doubt::Replayed, at, now, summary, evidence);
            }
            None => {}
        }
        if from == at {
            let summary = format!("a probe came back to {at}, where it had left");
            let evidence =
                "a loop is behind this port, or a host sends probes back; it receives no floods";
            self.refuse_relay(from, at, now);
            return self.report(Doubt::Reflected, at, now, summary, evidence.to_owned());
        }
        if self.has_hosts(from, at, sent_at, now) || self.has_other_link(from, at, now) {
            return self.refuse_relay(from, at, now);
        }
        if let Some(sent) = self.state(from).and_then(|port| port.probe(probe.nonce)) {
            sent.arrived = Some(at);
        }
        self.crossed(from, at, age, now);
    }

    /// Reports a probe that arrived too late to be believed. `effect` is what it did not do.
    pub(super) fn report_old(
        &mut self,
        from: Endpoint,
        at: Endpoint,
        age: Duration,
        effect: &str,
        now: Duration,
    ) {
        let summary = format!("an old probe of {from} arrived at {at}: it {effect}");
        let seconds = age.as_secs_f64();
        let evidence = format!("it was sent {seconds:.1} s before; it was replayed or kept back");
        self.report(Doubt::Replayed, at, now, summary, evidence);
    }

    /// Whether hosts behind one of the ports speak against a link. Reports it if so.
    ///
    /// The traffic may have come over the link itself. That is so if the first of it entered while the probe was underway:
    /// something delayed the probe beyond the window. A host that relays probes gains nothing by this, as it need not have
    /// sent any traffic. The hosts may also be those of a switch that was not connected yet. Then that switch is newer than
    /// the first traffic of these hosts. In both cases the port forgets them.
    fn has_hosts(&mut self, from: Endpoint, at: Endpoint, sent: Duration, now: Duration) -> bool {
        let mut outdated = Vec::new();
        let mut late = Vec::new();
        for (end, other) in [(from, at), (at, from)] {
            let Some(since) = self.state(end).and_then(|port| port.host_since) else { continue };
            if since >= sent {
                late.push(end);
                continue;
            }
            let other_is_newer =
                self.switches.get(&other.dpid).is_some_and(|state| state.up_since > since);
            if !other_is_newer || other.dpid == end.dpid {
                let summary =
                    format!("refused a link from {from} to {at}: hosts are known at {end}");
                let evidence = format!(
                    "traffic of hosts entered there {:.1} s ago, so a host relays probes. If a cable was moved, take \
                     the port down and up",
                    now.saturating_sub(since).as_secs_f64()
                );
                self.report(Doubt::Relayed, end, now, summary, evidence);
                return true;
            }
            outdated.push(end);
        }
        for end in late {
            if let Some(port) = self.state(end) {
                port.host_since = None;
            }
        }
        for end in outdated {
            let summary =
                format!("accepted a link from {from} to {at} though hosts were known at {end}");
            let evidence = "the other switch connected after the traffic of these hosts, which may have passed it";
            self.report(Doubt::Outdated, end, now, summary, evidence.to_owned());
            if let Some(port) = self.state(end) {
                port.host_since = None;
            }
        }
        false
    }

    /// Whether one of the ports has a link to a third port. Reports it if so.
    fn has_other_link(&mut self, from: Endpoint, at: Endpoint, now: Duration) -> bool {
        let to = self.state(from).and_then(|port| port.link).map(|link| link.to);
        let incoming = self.state(at).and_then(|port| port.incoming);
        let third = to.filter(|to| *to != at).or(incoming.filter(|incoming| *incoming != from));
        let Some(third) = third else { return false };
        let summary =
            format!("refused a link from {from} to {at}: one of them has a link with {third}");
        let evidence = "a hub joins more than two switches, or a probe was relayed".to_owned();
        self.report(Doubt::Conflict, at, now, summary, evidence);
        true
    }

    /// Keeps floods away from two ports that something joins.
    pub(super) fn refuse_relay(&mut self, from: Endpoint, at: Endpoint, now: Duration) {
        for end in [from, at] {
            if let Some(port) = self.state(end) {
                port.note_relay(now);
            }
            self.dirty.insert(Key::Port(end));
        }
    }

    /// A probe crossed a link in this time.
    fn crossed(&mut self, from: Endpoint, at: Endpoint, age: Duration, now: Duration) {
        let control = [from, at].map(|end| {
            self.switches.get(&end.dpid).map_or(Duration::ZERO, |state| state.control.least() / 2)
        });
        let sample = age.saturating_sub(control[0] + control[1]);
        let Some(port) = self.state(from) else { return };
        let is_new = port.link.is_none();
        let link = port.link.get_or_insert_with(|| Link::new(at, now));
        (link.unanswered, link.last_seen) = (0, now);
        link.latency.add(sample);
        let latency = link.latency.least();
        if latency.abs_diff(link.shown_latency) > link.shown_latency / 2 {
            link.shown_latency = latency;
            self.dirty.insert(Key::Link(from));
        }
        self.judge(from, at, sample, now);
        if !is_new {
            return;
        }
        if let Some(port) = self.state(at) {
            port.incoming = Some(from);
        }
        for end in [from, at] {
            self.segments.forget(end);
            self.dirty.extend(self.down.forget(end).into_iter().map(Key::LinkDown));
        }
        self.segments.links_changed();
        self.dirty.extend([Key::Link(from), Key::Port(from), Key::Port(at)]);
        self.effects.push(Effect::Debug(format!("found a link from {from} to {at}")));
        // The other direction is probably there, too.
        if self.state(at).is_some_and(|port| port.link.is_none() && port.wants_probe()) {
            self.pacer.schedule(at, now);
        }
    }

    /// Decides whether a link is suspicious.
    fn judge(&mut self, from: Endpoint, at: Endpoint, sample: Duration, now: Duration) {
        let limit = self.recent.add(sample);
        // Samples of a busy moment say little about a link, and those of the same moment no more than one of them.
        let Some(limit) = limit.filter(|_| self.delay <= BUSY) else { return };
        let Some(link) = self.state(from).and_then(|port| port.link.as_mut()) else { return };
        if now.saturating_sub(link.judged) < APART {
            return;
        }
        link.judged = now;
        let is_slow = sample > limit;
        link.contrary = if is_slow == link.suspicious { 0 } else { link.contrary + 1 };
        if link.contrary < STREAK {
            return;
        }
        (link.suspicious, link.contrary) = (is_slow, 0);
        self.dirty.insert(Key::Link(from));
        if is_slow {
            let summary = format!("the link from {from} to {at} may be a relay");
            let evidence = format!(
                "its latency is {:.1} ms; that of most links is below {:.1} ms",
                sample.as_secs_f64() * 1e3,
                limit.as_secs_f64() * 1e3
            );
            self.report(Doubt::Slow, from, now, summary, evidence);
        }
    }

    /// Ends the links at a port. The ports at their other ends begin a probe window.
    fn end_links(&mut self, at: Endpoint, why: WhyDown, now: Duration) {
        self.segments.forget(at);
        self.segments.links_changed();
        let Some(port) = self.state(at) else { return };
        let out = port.link.take().map(|link| link.to);
        let incoming = port.incoming.take();
        let ends = [out.map(|to| (at, to)), incoming.map(|from| (from, at))];
        self.note_down(ends, (why, at), now);
        for other in [out, incoming].into_iter().flatten() {
            if let Some(port) = self.state(other) {
                if port.incoming == Some(at) {
                    port.incoming = None;
                }
                port.link.take_if(|link| link.to == at);
                if !port.has_link() && !port.is_in_window() {
                    port.begin_window();
                }
            }
            self.dirty.extend([Key::Link(at), Key::Link(other), Key::Port(at), Key::Port(other)]);
            if self.state(other).is_some_and(|port| port.is_live(now)) && other.port.is_physical() {
                self.pacer.schedule(other, now);
            }
        }
    }

    /// Remembers directions of a link that have ended for this reason, which is about a port, and reports them once.
    pub(super) fn note_down(
        &mut self,
        ends: [Option<(Endpoint, Endpoint)>; 2],
        (why, cause): (WhyDown, Endpoint),
        now: Duration,
    ) {
        let Some((from, to)) = ends[0].or(ends[1]) else { return };
        let is_known = self.down.has(from, to) || self.down.has(to, from);
        for (from, to) in ends.into_iter().flatten() {
            let changed = self.down.add(from, Down { to, why, cause, since: now });
            self.dirty.extend(changed.into_iter().map(Key::LinkDown));
        }
        let text = format!("the link from {from} to {to} is down");
        // A switch that leaves is an event of its own.
        if is_known || why == WhyDown::SwitchGone {
            self.effects.push(Effect::Debug(format!("{text}: {why}")));
            return;
        }
        let evidence = match why {
            WhyDown::Silent => {
                "both ports are up, and probes no longer cross it: look for a converter or a bridge on the cable that is \
                 down"
                    .to_owned()
            }
            why => format!("{cause}: {why}. Look at its cable and at the device at the other end"),
        };
        self.report(Doubt::LinkDown, cause, now, text, evidence);
    }

    pub(super) fn state(&mut self, at: Endpoint) -> Option<&mut PortState> {
        self.switches.get_mut(&at.dpid)?.ports.get_mut(&at.port)
    }

    pub(super) fn report(
        &mut self,
        doubt: Doubt,
        at: Endpoint,
        now: Duration,
        summary: String,
        evidence: String,
    ) {
        self.effects.extend(self.reports.report(doubt, at, now, summary, evidence));
    }
}

//! The part of discovery about bridges without OpenFlow: handles second probes, which such bridges forward, and gives ports at
//! one bridge their roles.
//!
//! A second probe joins two ports only if it is young, one of the last of its port, and sent while both ports were up without
//! a link. It makes no link by itself: [`Segments`](super::segments::Segments) decides.

use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;

use super::discovery::{Discovery, PROBE_LIFE};
use super::probe::Probe;
use super::report::Doubt;

impl Discovery {
    /// Whether a probe comes over a bridge that forwards also first probes now: the ports are known to be joined, and the
    /// hosts that are known there are those of the segment.
    pub(super) fn is_over_segment(&mut self, from: Endpoint, at: Endpoint) -> bool {
        let mut knows_hosts = |end| self.state(end).is_some_and(|port| port.host_since.is_some());
        (knows_hosts(from) || knows_hosts(at)) && self.segments.are_joined(from, at)
    }

    /// Handles a second probe with the right tag: its port and this one are joined by a bridge, if no link is known.
    pub(super) fn second_probe(&mut self, probe: Probe, at: Endpoint, now: Duration) {
        let from = probe.from;
        let sent_at = Duration::from_nanos(probe.nonce);
        let age = now.saturating_sub(sent_at);
        if age > PROBE_LIFE {
            if self.is_overloaded || self.segments.are_joined(from, at) {
                return; // it is late, like others
            }
            return self.report_old(from, at, age, "joined no ports", now);
        }
        let mut is_usable = |end| {
            let port = self.state(end).filter(|port| port.is_live(now));
            port.is_some_and(|port| !port.has_link() && sent_at >= port.up_since())
        };
        if !is_usable(from) || !is_usable(at) {
            return;
        }
        if self.state(from).and_then(|port| port.probe(probe.nonce)).is_none() {
            return;
        }
        if from == at {
            let summary =
                format!("loop behind {at}: a probe came back to the port where it had left");
            let evidence = "a bridge behind this port has a loop, or a host sends probes back; the port receives no \
                            floods. Remove the loop";
            self.refuse_relay(from, at, now);
            return self.report(Doubt::Reflected, at, now, summary, evidence.to_owned());
        }
        self.segments.hear(from, at, now);
    }

    /// Decides which ports of segments are used. Returns those for which this has changed.
    pub(super) fn assign_segments(&mut self, now: Duration) -> Vec<Endpoint> {
        let switches = &self.switches;
        let link = |at: &Endpoint| switches.get(&at.dpid)?.ports.get(&at.port)?.link;
        let links = || {
            let ends = switches.iter().flat_map(|(dpid, state)| {
                state.ports.keys().map(|port| Endpoint { dpid: *dpid, port: *port })
            });
            let pairs = ends.filter_map(|from| {
                let to = link(&from)?.to;
                link(&to).filter(|back| back.to == from).map(|_| (from.dpid, to.dpid))
            });
            pairs.collect()
        };
        self.segments.assign(links, now)
    }
}

//! Provides the service `topology`: finds switches, ports and links, and publishes them.
//!
//! It finds links with LLDP (IEEE 802.1AB-2016): it sends a probe out of each port, and if a switch reports the probe at
//! another port, there is a link. `docs/networks.md` describes what a probe proves and what it cannot prove.
//!
//! | file | purpose |
//! | --- | --- |
//! | `topology/probe.rs` | the frame of a probe, and its tag |
//! | `topology/pacer.rs` | which port is probed next |
//! | `topology/port.rs` | the state of a port, with its probe window |
//! | `topology/discovery.rs` | what events mean: which links exist, and which probes are refused |
//! | `topology/rounds.rs` | what time means: probes that are due, silent links, the records of the table |
//! | `topology/down.rs` | which links were there and are down, since when and why |
//! | `topology/segments.rs` | ports that a bridge without OpenFlow joins, and which of them are used |
//! | `topology/latency.rs` | which links are too slow to be a cable |
//! | `topology/report.rs` | incidents, a bounded number |
//! | `topology/publication.rs` | the slots of the table |
//! | `topology/drain.rs` | which switches are drained, and requests of clients |
//!
//! The monitor starts it when an app names the service. Its settings can be changed in an `[[app]]` of this name:
//!
//! ```toml
//! [[app]]
//! name = "topology"
//! stage = "observe"
//! ethertypes = [0x88cc, 0x0806, 0x86dd]
//! capabilities = ["packet-in", "packet-out", "topology.probe"]
//! services = ["storage"]
//! ```
//!
//! ARP and IPv6 show that a host is behind a port. IPv4 is left out: a host sends ARP before, and each new flow of the
//! network would be reported here once more.

#![forbid(unsafe_code)]

#[path = "topology/bridges.rs"]
mod bridges;
#[path = "topology/discovery.rs"]
mod discovery;
#[path = "topology/down.rs"]
mod down;
#[path = "topology/drain.rs"]
mod drain;
#[path = "topology/latency.rs"]
mod latency;
#[path = "topology/other_instance.rs"]
mod other_instance;
#[path = "topology/pacer.rs"]
mod pacer;
#[path = "topology/port.rs"]
mod port;
#[path = "topology/probe.rs"]
mod probe;
#[path = "topology/publication.rs"]
mod publication;
#[path = "topology/report.rs"]
mod report;
#[path = "topology/rounds.rs"]
mod rounds;
#[path = "topology/segments.rs"]
mod segments;

use std::time::Duration;

use rosemary_sdk::abi::Refusal;
use rosemary_sdk::openflow::Kind;
use rosemary_sdk::services::Service;
use rosemary_sdk::{
    Action, App, Batch, Dpid, Event, Network, PacketOut, PortNo, Repeats, SendError, export_app,
};

use self::discovery::{Discovery, Effect};
use self::drain::Drains;
use self::probe::Seal;
use self::rounds::Outgoing;

/// Most probes that one call sends, so that the time of the call is that of its probes.
const PROBES_AT_ONCE: usize = 256;

/// Room for messages that a call leaves free.
const ROOM: usize = 4096;

/// How soon the app continues that had more to send than it could.
const SOON: Duration = Duration::from_millis(1);

/// See the module's description.
#[derive(Debug)]
struct Topology {
    discovery: Discovery,
    drains: Drains,
    /// Whether a warning about missing capabilities was logged.
    has_warned: bool,
    /// Failures that were logged: by switch, and [`None`] for the table.
    failures: Repeats<Option<Dpid>>,
}

/// Time from one log line about failed messages to a switch to the next, and most switches with such lines.
const SELDOM: Duration = Duration::from_secs(60);
const MOST_SWITCHES: usize = 1024;

impl App for Topology {
    fn create() -> Self {
        let slots = Service::Topology.table_slots().unwrap_or(0);
        Self {
            discovery: Discovery::new(Seal::random(), slots),
            drains: Drains::default(),
            has_warned: false,
            failures: Repeats::new(SELDOM, MOST_SWITCHES),
        }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let now = network.now();
        match event {
            Event::SnapshotBegin => self.discovery.snapshot_begin(now),
            Event::SnapshotEnd => self.discovery.snapshot_end(now),
            Event::SwitchUp(switch) => self.discovery.switch_up(switch, now),
            Event::SwitchDown(switch) => self.discovery.switch_down(switch.dpid, now),
            Event::Port { switch, change, port } => {
                self.discovery.port(switch, change, &port, now);
            }
            Event::PacketIn(packet) => {
                self.discovery.packet(packet.switch, packet.in_port, packet.data, now);
            }
            Event::Reply(reply) if reply.kind == Kind::BarrierReply => {
                self.discovery.measured(reply.switch, reply.xid, now);
            }
            Event::Refused { why: Some(Refusal::Capability), .. } if !self.has_warned => {
                self.has_warned = true;
                network.error(
                    "links cannot be found: add \"packet-out\" and \"topology.probe\" to the capabilities of the \
                     app topology",
                );
            }
            other => self.drains.on_event(&other, &mut self.discovery, network),
        }
    }

    /// Handles all events before it sends: what changes back and forth within a batch does not reach the table.
    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        for event in batch.iter().flatten() {
            self.on_event(event, network);
        }
        self.work(network);
        batch.len()
    }
}

impl Topology {
    /// Sends what is due, publishes what changed, and sets the timer.
    fn work(&mut self, network: &mut Network<'_>) {
        let now = network.now();
        self.discovery.round(now);
        let mut left = PROBES_AT_ONCE;
        while left > 0 && network.room() > ROOM {
            let Some(probe) = self.discovery.next_probe(now) else { break };
            left -= 1;
            self.send(&probe, network);
        }
        for (slot, record) in self.discovery.flush(now) {
            if let Err(error) = network.publish(slot, &record)
                && self.failures.admit(None, (), now).is_some()
            {
                network.error(&format!("could not publish record {slot}: {error}"));
            }
        }
        for effect in self.discovery.take_effects() {
            self.carry_out(effect, network);
        }
        let next = self.discovery.next_time(now);
        network.wake_at(next.max(now + SOON));
    }

    fn carry_out(&mut self, effect: Effect, network: &mut Network<'_>) {
        match effect {
            Effect::Measure(switch) => {
                // Without room, or capability, the latency contains the way to the switch.
                if let Ok(xid) = network.barrier(switch) {
                    self.discovery.measuring(switch.dpid, xid, network.now());
                }
            }
            Effect::Incident { summary, evidence } => {
                network.warn(&format!("{summary}: {evidence}"));
                network.report_incident(&summary, &evidence);
            }
            Effect::Warn(text) => network.warn(&text),
            Effect::Debug(text) => network.debug(&text),
            Effect::Problem(problem) => network.set_problem(problem.as_deref()),
        }
    }

    fn send(&mut self, probe: &Outgoing, network: &mut Network<'_>) {
        let out = [Action::output(probe.port)];
        let packet_out = PacketOut::new(PortNo::CONTROLLER, &out, &probe.frame);
        let dpid = probe.switch.dpid;
        match network.packet_out(probe.switch, &packet_out) {
            Ok(()) | Err(SendError::Full) => {} // the next probe of this port follows anyway
            Err(error) => {
                if self.failures.admit(Some(dpid), (), network.now()).is_some() {
                    network
                        .warn(&format!("could not probe port {} of {dpid}: {error}", probe.port));
                }
            }
        }
    }
}

export_app!(Topology, name = "topology");

#[cfg(test)]
#[path = "topology/app_tests.rs"]
mod app_tests;
#[cfg(test)]
#[path = "topology/tests/mod.rs"]
mod tests;

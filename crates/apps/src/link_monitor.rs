//! Logs which switches, ports and links come and go.
//!
//! It finds links with LLDP (IEEE 802.1AB-2016): every few seconds it sends a frame out of each port that is up.
//! If another switch sends the frame to the controller, there is a link. This needs `packet-out` and
//! `topology.probe`; without them it logs only switches and ports.
//!
//! ```toml
//! [[app]]
//! name = "link-monitor"
//! stage = "observe"
//! ethertypes = [0x88cc]
//! capabilities = ["packet-in", "packet-out", "topology.probe"]
//! ```
//!
//! Each frame carries a keyed hash of its content, so that no host can invent links. A link is gone if no frame has
//! crossed it for three rounds.

#![forbid(unsafe_code)]

#[path = "link_monitor/lldp.rs"]
mod lldp;

use std::collections::BTreeMap;
use std::time::Duration;

use rosemary_sdk::abi::Refusal;
use rosemary_sdk::{
    Action, App, Dpid, Event, Network, PacketIn, PacketOut, Port, PortChange, PortNo, Repeats,
    SendError, Switch, export_app,
};

use self::lldp::{Probe, Seal};

/// The time from one round of probes to the next.
const EVERY: Duration = Duration::from_secs(3);

/// Rounds after which a link that was not seen is gone.
const PATIENCE: u32 = 3;

/// One end of a link.
type End = (Dpid, PortNo);

/// See the module's description.
#[derive(Debug)]
struct LinkMonitor {
    seal: Seal,
    switches: BTreeMap<Dpid, Switch>,
    ports: BTreeMap<End, Port>,
    /// From where, to where, and when a frame last crossed it.
    links: BTreeMap<(End, End), Duration>,
    next_round: Duration,
    /// Ports that are still to be probed in this round, the next one last.
    to_probe: Vec<End>,
    /// Whether the operator has not granted the capabilities for probing.
    blind: bool,
    /// The log lines about probes that could not be sent.
    failures: Repeats<Dpid>,
}

/// Time from one log line about failed probes at a switch to the next, and most switches with such lines.
const SELDOM: Duration = Duration::from_secs(60);
const MOST_SWITCHES: usize = 1024;

impl App for LinkMonitor {
    fn create() -> Self {
        Self {
            seal: Seal::new(),
            switches: BTreeMap::new(),
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            next_round: Duration::ZERO,
            to_probe: Vec::new(),
            blind: false,
            failures: Repeats::new(SELDOM, MOST_SWITCHES),
        }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SnapshotBegin => {
                // The known links may be of another network; probing finds the present ones.
                self.switches.clear();
                self.ports.clear();
                self.links.clear();
                self.to_probe.clear();
            }
            Event::SwitchUp(switch) => {
                self.forget(switch.dpid, network);
                self.switches.insert(switch.dpid, switch);
                network.info(&format!(
                    "switch {} is there and speaks OpenFlow {}",
                    switch.dpid, switch.version
                ));
            }
            Event::SwitchDown(switch) => {
                self.forget(switch.dpid, network);
                network.info(&format!("switch {} is gone", switch.dpid));
            }
            Event::Port { switch, change, port } => self.on_port(switch, change, port, network),
            Event::PacketIn(packet_in) => self.on_packet(&packet_in, network),
            Event::Refused { why: Some(Refusal::Capability), .. } if !self.blind => {
                self.blind = true;
                network.warn(
                    "links are not looked for: add \"packet-out\" and \"topology.probe\" to its \
                     capabilities",
                );
            }
            _ => {}
        }
        self.go_on(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.go_on(network);
    }
}

impl LinkMonitor {
    fn on_port(
        &mut self,
        switch: Switch,
        change: PortChange,
        port: Port,
        network: &mut Network<'_>,
    ) {
        let end = (switch.dpid, port.port_no);
        let before = match change {
            PortChange::Deleted => self.ports.remove(&end),
            PortChange::Added | PortChange::Modified => self.ports.insert(end, port),
        };
        let is = match change {
            PortChange::Deleted => "gone",
            _ if port.is_up() => "up",
            _ => "down",
        };
        let was_up = before.map(|port| port.is_up());
        if change == PortChange::Deleted || was_up != Some(port.is_up()) {
            let speed = match port.curr_speed {
                0 => String::new(),
                speed => format!(", {} Mbit/s", speed / 1000),
            };
            let name = name_of(&port);
            network.info(&format!("port {name} of {} is {is}{speed}", switch.dpid));
        }
        if is != "up" {
            self.end_links(|from, to| from == end || to == end, network);
        }
    }

    fn on_packet(&mut self, packet_in: &PacketIn<'_>, network: &mut Network<'_>) {
        let Some(probe) = Probe::read(packet_in.data, &self.seal) else { return };
        let to = (packet_in.switch.dpid, packet_in.in_port);
        // One that was underway when its switch or port went.
        let there = [probe.from, to].iter().all(|end| self.ports.contains_key(end));
        if !there {
            return;
        }
        if self.links.insert((probe.from, to), network.now()).is_none() {
            network.info(&format!("link {} is there", self.shown(probe.from, to)));
        }
    }

    /// Begins a round if it is due, and sends the next probes of the present round while there is room.
    fn go_on(&mut self, network: &mut Network<'_>) {
        let now = network.now();
        if now >= self.next_round && self.to_probe.is_empty() {
            self.next_round = now + EVERY;
            let oldest = now.saturating_sub(EVERY * PATIENCE);
            let old: Vec<_> =
                self.links.iter().filter(|(_, seen)| **seen < oldest).map(|(it, _)| *it).collect();
            self.end_links(|from, to| old.contains(&(from, to)), network);
            let up =
                self.ports.iter().filter(|(_, port)| port.is_up() && port.port_no.is_physical());
            if !self.blind {
                self.to_probe = up.map(|(end, _)| *end).collect();
            }
        }
        let mut wake_at = self.next_round;
        while let Some((dpid, port)) = self.to_probe.last().copied() {
            match self.probe(dpid, port, network) {
                Ok(()) => {}
                Err(SendError::Full) => {
                    wake_at = now + Duration::from_millis(1);
                    break;
                }
                Err(error) => {
                    if self.failures.admit(dpid, (), now).is_some() {
                        network.warn(&format!("could not probe port {port} of {dpid}: {error}"));
                    }
                }
            }
            self.to_probe.pop();
        }
        network.wake_at(wake_at);
    }

    fn probe(&self, dpid: Dpid, port: PortNo, network: &mut Network<'_>) -> Result<(), SendError> {
        let (Some(switch), Some(known)) = (self.switches.get(&dpid), self.ports.get(&(dpid, port)))
        else {
            return Ok(());
        };
        let frame = Probe { from: (dpid, port) }.write(known.hw_addr, &self.seal);
        let out = [Action::output(port)];
        network.packet_out(*switch, &PacketOut::new(PortNo::CONTROLLER, &out, &frame))
    }

    /// All that is known of a switch goes.
    fn forget(&mut self, dpid: Dpid, network: &mut Network<'_>) {
        self.switches.remove(&dpid);
        self.end_links(|from, to| from.0 == dpid || to.0 == dpid, network);
        self.ports.retain(|(of, _), _| *of != dpid);
    }

    fn end_links(&mut self, which: impl Fn(End, End) -> bool, network: &mut Network<'_>) {
        let gone: Vec<(End, End)> =
            self.links.keys().filter(|(from, to)| which(*from, *to)).copied().collect();
        for (from, to) in gone {
            network.info(&format!("link {} is gone", self.shown(from, to)));
            self.links.remove(&(from, to));
        }
    }

    /// A link as people name it.
    fn shown(&self, from: End, to: End) -> String {
        let end = |end: End| {
            let name = self.ports.get(&end).map_or_else(|| end.1.to_string(), name_of);
            format!("{} port {name}", end.0)
        };
        format!("from {} to {}", end(from), end(to))
    }
}

/// A port's number and name.
fn name_of(port: &Port) -> String {
    let name = port.name.split(|byte| *byte == 0).next().unwrap_or_default();
    format!("{} ({})", port.port_no, String::from_utf8_lossy(name))
}

export_app!(LinkMonitor, name = "link-monitor");

#[cfg(test)]
#[path = "link_monitor/tests.rs"]
mod tests;

//! Learns where the hosts of the network are, and publishes it as the service `hosts`.
//!
//! It sees copies of all packets that reach the controller, and learns from ARP, IPv6 neighbour discovery, DHCP and IP
//! (`hosts/sighting.rs`). A switch that sends no packets reports the hosts that it has learned by itself. The service `topology`
//! says behind which ports a host can be. A host that seems to move, and an
//! address that seems to be another host's, are probed first (`hosts/tracker.rs`): no host takes a host's place or address
//! while the host answers. What looks like an attack becomes an incident (`hosts/reports.rs`).
//!
//! A port is undecided until its probe window has passed. Hosts seen there are published at the moment when the port becomes
//! an edge, without another packet. Before, a host of another switch could be learned there, and a flood could not
//! reach the port anyway.
//!
//! The hosts outlive the process: they are in the storage (`hosts/archive.rs`). After a restart, they are published as doubted,
//! with the time when they were last seen, until a packet of each confirms its place.
//!
//! The monitor starts the app when another one names the service. Its configuration is in `hosts/settings.rs`.

#![forbid(unsafe_code)]

#[path = "hosts/archive.rs"]
mod archive;
#[path = "hosts/claims.rs"]
mod claims;
#[path = "hosts/directory.rs"]
mod directory;
#[path = "hosts/kept.rs"]
mod kept;
#[path = "neighbour_discovery/mod.rs"]
mod neighbour_discovery;
#[path = "hosts/ports.rs"]
mod ports;
#[path = "hosts/probe.rs"]
mod probe;
#[path = "hosts/reports.rs"]
mod reports;
#[path = "hosts/settings.rs"]
mod settings;
#[path = "hosts/sighting.rs"]
mod sighting;
#[path = "hosts/tracker.rs"]
mod tracker;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use rosemary_sdk::abi::Refusal;
use rosemary_sdk::services::Service;
use rosemary_sdk::services::table::{Change, Slot, Table, TableEvent, TableWatch};
use rosemary_sdk::services::topology::{Endpoint, PortRecord, Record};
use rosemary_sdk::{
    Action, App, Dpid, Event, Network, PacketOut, Port, PortChange, PortNo, Repeats, SendError,
    Switch, export_app,
};

use self::archive::Archive;
use self::kept::Clocks;
use self::ports::Behind;
use self::settings::Settings;
use self::tracker::{Probe, Tracker};

/// Time after which the log says that a service is not available.
const SERVICE_WAIT: Duration = Duration::from_secs(10);

/// See the module's description.
#[derive(Debug)]
struct Hosts {
    settings: Settings,
    /// Made with the first event, when the configuration is known.
    tracker: Option<Tracker>,
    topology: TableWatch,
    archive: Archive,
    switches: BTreeMap<Dpid, Switch>,
    /// When the log says that the topology service, or the storage, is not available.
    complain_at: Option<Duration>,
    complain_of_storage_at: Option<Duration>,
    /// Whether the log already says that hosts cannot be probed, or that records cannot be published.
    said_mute: bool,
    said_unpublished: bool,
    /// The log lines about probes that could not be sent.
    failures: Repeats<Dpid>,
}

/// Time from one log line about failed probes at a switch to the next, and most switches with such lines.
const SELDOM: Duration = Duration::from_secs(60);
const MOST_SWITCHES: usize = 1024;

impl App for Hosts {
    fn create() -> Self {
        Self {
            settings: Settings::default(),
            tracker: None,
            topology: TableWatch::new(Service::Topology),
            archive: Archive::default(),
            switches: BTreeMap::new(),
            complain_at: None,
            complain_of_storage_at: None,
            said_mute: false,
            said_unpublished: false,
            failures: Repeats::new(SELDOM, MOST_SWITCHES),
        }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.settings = Settings::read(text)?;
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let now = network.now();
        if self.tracker.is_none() {
            let slots = Service::Hosts.table_slots().unwrap_or_default();
            self.tracker = Tracker::new(self.settings.clone(), slots);
            self.complain_at = Some(now + SERVICE_WAIT);
            self.complain_of_storage_at = Some(now + SERVICE_WAIT);
        }
        let news = self.topology.on_event(&event);
        let Some(tracker) = &mut self.tracker else { return };
        self.archive.on_event(&event, tracker, clocks(now), network);
        match (event, news) {
            (_, Some(TableEvent::Reread)) => {
                self.complain_at = None;
                tracker.topology_restarted();
                let table = self.topology.table(network);
                let records: Vec<Slot> =
                    table.iter().flat_map(Table::records).map(|(_, record)| record).collect();
                for record in records {
                    state_port(tracker, &record, now);
                }
            }
            (_, Some(TableEvent::Changed(changes))) => {
                for change in &changes {
                    on_change(tracker, change, now);
                }
            }
            (_, Some(TableEvent::Gone)) => self.complain_at = Some(now + SERVICE_WAIT),
            (Event::PacketIn(packet_in), None) => {
                let at = Endpoint { dpid: packet_in.switch.dpid, port: packet_in.in_port };
                tracker.packet(at, packet_in.data, now);
            }
            (Event::Host(host), None) => tracker.learned(&host, now),
            (Event::SnapshotBegin, None) => {
                self.switches.clear();
                tracker.snapshot(now);
            }
            (Event::SwitchUp(switch), None) => {
                self.switches.insert(switch.dpid, switch);
                tracker.switch_up(switch.dpid, switch.epoch, now);
            }
            (Event::SwitchDown(switch), None) => {
                self.switches.remove(&switch.dpid);
                tracker.switch_down(switch.dpid, now);
            }
            (Event::Port { switch, change, port }, None) => on_port(tracker, switch, change, &port),
            (Event::Refused { why: Some(Refusal::Capability), .. }, None) if !self.said_mute => {
                self.said_mute = true;
                network.warn(
                    "cannot ask hosts whether they are still there: add \"packet-out\" to its capabilities",
                );
            }
            _ => {}
        }
        self.act(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.act(network);
    }
}

impl Hosts {
    /// Does what is due, and passes on what the tracker has decided.
    fn act(&mut self, network: &mut Network<'_>) {
        let now = network.now();
        let Some(tracker) = &mut self.tracker else { return };
        tracker.tick(now);
        for (slot, record) in tracker.directory.writes.drain(..) {
            if let Err(error) = network.publish(slot, &record)
                && !std::mem::replace(&mut self.said_unpublished, true)
            {
                network.error(&format!("nobody can read where the hosts are: {error}"));
            }
        }
        for probe in tracker.probes.drain(..) {
            if let Some(switch) = self.switches.get(&probe.at.dpid) {
                send(*switch, &probe, &mut self.failures, network);
            }
        }
        for report in tracker.reports.pending.drain(..) {
            network.report_incident(report.summary(), &report.evidence());
        }
        if self.complain_at.is_some_and(|at| now >= at) {
            self.complain_at = None;
            network.warn(
                "the service `topology` is not available: new hosts are not learned, because their ports may \
                 lead to other switches",
            );
        }
        if self.complain_of_storage_at.take_if(|at| now >= *at).is_some()
            && self.archive.is_missing()
        {
            network.warn(
                "the service `storage` is not available: after a restart, hosts are known again only when they send something. \
                 If its [[app]] has `services`, add \"storage\"",
            );
        }
        let next = self.archive.go_on(tracker, now, clocks(now), network);
        network.wake_at(next.map_or(tracker.wake_at(), |next| next.min(tracker.wake_at())));
    }
}

fn clocks(now: Duration) -> Clocks {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Clocks { now_s: now.as_secs(), unix_s: unix.map_or(0, |it| it.as_secs()) }
}

/// Sends a probe. One for which there is no room is left out: two more follow.
fn send(switch: Switch, probe: &Probe, failures: &mut Repeats<Dpid>, network: &mut Network<'_>) {
    let actions = [Action::output(probe.at.port)];
    let packet_out = PacketOut::new(PortNo::CONTROLLER, &actions, &probe.frame);
    match network.packet_out(switch, &packet_out) {
        Ok(()) | Err(SendError::Full) => {}
        Err(error) => {
            if failures.admit(switch.dpid, (), network.now()).is_some() {
                network.warn(&format!("could not probe a host at {}: {error}", probe.at));
            }
        }
    }
}

fn on_port(tracker: &mut Tracker, switch: Switch, change: PortChange, port: &Port) {
    let at = Endpoint { dpid: switch.dpid, port: port.port_no };
    match change {
        PortChange::Deleted => tracker.port_gone(at),
        PortChange::Added | PortChange::Modified => {
            tracker.port(at, switch.epoch, port.is_up());
        }
    }
}

/// Handles a change of the topology's table.
fn on_change(tracker: &mut Tracker, change: &Change, now: Duration) {
    let port = |record: &Slot| match Record::decode(record) {
        Some(Record::Port(port)) => Some(port.at),
        _ => None,
    };
    if let Some(gone) = port(&change.before).filter(|gone| port(&change.after) != Some(*gone)) {
        tracker.behind(gone, Behind::Undecided, now);
    }
    state_port(tracker, &change.after, now);
}

/// Returns the statement about a port in a record of the topology's table, if the record has one.
fn state_port(tracker: &mut Tracker, record: &Slot, now: Duration) {
    if let Some(Record::Port(PortRecord { at, link, edge, shared, .. })) = Record::decode(record) {
        let behind = match (link, edge, shared) {
            (true, true, true) => Behind::Segment,
            (true, _, _) | (false, false, true) => Behind::Link,
            (false, true, _) => Behind::Edge,
            (false, false, false) => Behind::Undecided,
        };
        tracker.behind(at, behind, now);
    }
}

export_app!(Hosts, name = "hosts");

#[cfg(test)]
#[path = "hosts/tests/mod.rs"]
mod tests;

#[cfg(test)]
#[path = "hosts/app_tests.rs"]
mod app_tests;

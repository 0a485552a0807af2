//! Logs which switches, ports and links come and go, as the service `topology` sees them.
//!
//! It is an example of an app that follows the service with the SDK's [`Topology`].
//!
//! ```toml
//! [[app]]
//! name = "link-monitor"
//! stage = "observe"
//! ethertypes = [0x0806]               # it needs no packet
//! services = ["topology"]
//! capabilities = ["packet-in", "topology.read"]
//! ```

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rosemary_sdk::services::topology::PortRecord;
use rosemary_sdk::topology::{Graph, Topology, TopologyEvent};
use rosemary_sdk::{App, Event, Network, export_app};

/// See the module's description.
#[derive(Debug)]
struct LinkMonitor {
    topology: Topology,
    /// The network as the log has it: the state of each thing by its name.
    logged: BTreeMap<String, String>,
}

impl App for LinkMonitor {
    fn create() -> Self {
        Self { topology: Topology::new(), logged: BTreeMap::new() }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match self.topology.on_event(&event, network) {
            Some(TopologyEvent::Replaced | TopologyEvent::Changed(_)) => self.compare(network),
            Some(TopologyEvent::Unavailable) => network.warn("the service topology has ended"),
            None => {}
        }
    }
}

impl LinkMonitor {
    /// Logs the differences between the present network and the one in the log.
    fn compare(&mut self, network: &mut Network<'_>) {
        let present = states(self.topology.graph());
        for name in self.logged.keys().filter(|name| !present.contains_key(*name)) {
            network.info(&format!("{name} is gone"));
        }
        for (name, state) in
            present.iter().filter(|(name, state)| self.logged.get(*name) != Some(*state))
        {
            network.info(&format!("{name} is {state}"));
        }
        self.logged = present;
    }
}

/// Returns the state of each switch, port and direction of a link by its name.
fn states(graph: &Graph) -> BTreeMap<String, String> {
    let mut states = BTreeMap::new();
    for switch in graph.switches() {
        states.insert(format!("switch {}", switch.dpid), "there".to_owned());
        for port in graph.ports(switch.dpid) {
            // The name comes from the switch and can have any content.
            let name = port.name().escape_ascii();
            states
                .insert(format!("port {} ({name}) of {}", port.at.port, port.at.dpid), state(port));
        }
    }
    for link in graph.links() {
        states.insert(format!("link from {} to {}", link.from, link.to), "there".to_owned());
    }
    states
}

fn state(port: &PortRecord) -> String {
    match (port.live, port.speed_kbps) {
        (false, _) => "down".to_owned(),
        (true, 0) => "up".to_owned(),
        (true, kbps) => format!("up, {} Mbit/s", kbps / 1000),
    }
}

export_app!(LinkMonitor, name = "link-monitor");

#[cfg(test)]
#[path = "link_monitor/tests.rs"]
mod tests;

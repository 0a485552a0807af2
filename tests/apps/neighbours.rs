//! A control app that answers a packet-in of one switch with a flow on every other switch. The cookie is the first
//! switch's number.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use rosemary_sdk::{App, Dpid, Event, FlowMod, Match, Network, PortNo, Switch, export_app};

/// Above the table-miss entry.
const PRIORITY: u16 = 1;

#[derive(Default)]
struct Neighbours {
    switches: HashMap<Dpid, Switch>,
}

impl App for Neighbours {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SnapshotBegin => self.switches.clear(),
            Event::SwitchUp(switch) => {
                self.switches.insert(switch.dpid, switch);
            }
            Event::SwitchDown(switch) => {
                self.switches.remove(&switch.dpid);
            }
            Event::PacketIn(packet_in) => {
                let from = packet_in.switch.dpid;
                let number = u32::try_from(from.0).unwrap_or(u32::MAX);
                // These ports receive no packets, so the flows do not reduce the packet-ins.
                let match_ = Match::new().in_port(PortNo(1000 + number));
                let flow_mod = FlowMod::add(match_).priority(PRIORITY).cookie(from.0);
                for other in self.switches.values().filter(|other| other.dpid != from) {
                    if let Err(error) = network.flow_mod(*other, &flow_mod) {
                        network.error(&format!("no flow on {}: {error}", other.dpid));
                    }
                }
            }
            Event::Refused { switch, why, .. } => {
                network.error(&format!("refused on {}: {why:?}", switch.dpid));
            }
            _ => {}
        }
    }
}

export_app!(Neighbours, name = "neighbours");

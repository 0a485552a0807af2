//! Forwards between ports 1 and 2 of each switch with what only Open vSwitch has: registers, resubmit and connection tracking.
//!
//! | table | match | actions |
//! | --- | --- | --- |
//! | 0 | `in_port` | the other port into register 0, then table 1 |
//! | 1 | ARP | output as register 0 says |
//! | 1 | IPv4 | commit the connection in zone 5, then table 2 |
//! | 2 | tracked, register 0 | output as register 0 says |

#![forbid(unsafe_code)]

use rosemary_sdk::nicira::{Ct, CtZone, FieldId, NiciraAction};
use rosemary_sdk::{Action, App, Event, FlowMod, Match, Network, PortNo, Switch, export_app};

/// The register that has the output port.
const OUT: FieldId = FieldId::reg(0);

/// The bit of `ct_state` of a tracked packet.
const TRACKED: u128 = 0x20;

/// The zone of the connections.
const ZONE: u16 = 5;

#[derive(Default)]
struct Tracker {
    has_reported: bool,
}

impl App for Tracker {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) => {
                if let Err(error) = add_flows(switch, network) {
                    network.warn(&format!("could not be sent: {error}"));
                }
            }
            Event::Refused { why: Some(why), .. } if !self.has_reported => {
                self.has_reported = true;
                network.info(&format!("refused: {why}"));
            }
            _ => {}
        }
    }
}

fn add_flows(switch: Switch, network: &mut Network<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let mut add = |table, matching: Match, actions: &[Action]| {
        network.flow_mod(switch, &FlowMod::add(matching).table(table).priority(10).apply(actions))
    };
    let track = Ct { commit: true, zone: CtZone::Number(ZONE), table: Some(2), ..Ct::default() };
    add(1, Match::new().eth_type(0x0800), &[NiciraAction::Ct(track).into()])?;
    let tracked = FieldId::by_name("ct_state").ok_or("no field ct_state")?;
    let tracked = tracked.with_value(TRACKED, Some(TRACKED))?;
    for (from, to) in [(1, 2), (2, 1)] {
        let chosen = OUT.with_value(to.into(), None)?;
        let output = [Action::output(PortNo(to))];
        let choose = [
            NiciraAction::Load { to: OUT.into(), value: to.into() }.into(),
            NiciraAction::ResubmitTable { in_port: PortNo::IN_PORT, table: 1, ct: false }.into(),
        ];
        add(0, Match::new().in_port(PortNo(from)), &choose)?;
        add(1, Match::new().eth_type(0x0806).with(&chosen), &output)?;
        add(2, Match::new().eth_type(0x0800).with(&chosen).with(&tracked), &output)?;
    }
    Ok(())
}

export_app!(Tracker, name = "tracker");

//! Adds the configured number of flows to each switch, one after the other and repeatedly, and logs the first refusal.

#![forbid(unsafe_code)]

use std::time::Duration;

use rosemary_sdk::abi::Refusal;
use rosemary_sdk::{App, Event, FlowMod, MacAddr, Match, Network, Switch, export_app};

/// Interval between two flows.
const EVERY: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Adder {
    most: u32,
    switch: Option<Switch>,
    next: u32,
    refused: Option<Refusal>,
}

impl App for Adder {
    fn create() -> Self {
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.most = text.trim().parse().map_err(|why| format!("line 1: {why}"))?;
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) => (self.switch, self.next) = (Some(switch), 0),
            Event::SwitchDown(_) => self.switch = None,
            Event::Refused { why: Some(why), .. } if self.refused != Some(why) => {
                self.refused = Some(why);
                network.info(&format!("refused: {why}"));
            }
            _ => {}
        }
        network.wake_at(network.now() + EVERY);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        network.wake_at(network.now() + EVERY);
        let Some(switch) = self.switch else { return };
        let [_, _, a, b] = self.next.to_be_bytes();
        self.next = (self.next + 1) % self.most.max(1);
        let to = Match::new().eth_dst(MacAddr([2, 0xf1, 0, 0, a, b]));
        if let Err(error) = network.flow_mod(switch, &FlowMod::add(to)) {
            network.warn(&format!("could not be sent: {error}"));
        }
    }
}

export_app!(Adder, name = "adder");

//! Adds and deletes a flow of its own at one switch, at a rate: `DPID RATE` in its configuration, flow-mods per second.

#![forbid(unsafe_code)]

use std::time::Duration;

use rosemary_sdk::{App, Dpid, Event, FlowMod, MacAddr, Match, Network, Switch, export_app};

/// Time from one group of flow-mods to the next.
const EVERY: Duration = Duration::from_millis(5);

/// Flows that it has at most.
const FLOWS: u32 = 2_000;

#[derive(Default)]
struct Changer {
    dpid: Option<Dpid>,
    rate: u64,
    switch: Option<Switch>,
    began: Option<Duration>,
    sent: u64,
    refused: u64,
}

impl App for Changer {
    fn create() -> Self {
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let (dpid, rate) = text.trim().split_once(' ').ok_or("line 1: expected DPID RATE")?;
        self.dpid = Some(dpid.parse().map_err(|_| "line 1: not a datapath id")?);
        self.rate = rate.parse().map_err(|why| format!("line 1: {why}"))?;
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) if Some(switch.dpid) == self.dpid => {
                self.switch = Some(switch);
                self.began = None;
            }
            Event::SwitchDown(switch) if Some(switch.dpid) == self.dpid => self.switch = None,
            Event::Refused { why: Some(why), .. } => {
                self.refused += 1;
                if self.refused == 1 {
                    network.info(&format!("refused: {why}"));
                }
            }
            _ => {}
        }
        self.on_wake(network); // the call has cleared the timer
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        let Some(switch) = self.switch else { return };
        let now = network.now();
        let began = *self.began.get_or_insert(now);
        let passed = u64::try_from(now.saturating_sub(began).as_micros()).unwrap_or(0);
        let due = passed * self.rate / 1_000_000;
        if due > self.sent + self.rate {
            // It was stopped for more than a second: it does not catch up.
            (self.began, self.sent) = (Some(now), 0);
        }
        while self.sent < due {
            let [_, _, a, b] = (u32::try_from(self.sent / 2).unwrap_or(0) % FLOWS).to_be_bytes();
            let to = Match::new().eth_dst(MacAddr([2, 0xf1, 0, 0, a, b]));
            let change =
                if self.sent.is_multiple_of(2) { FlowMod::add(to) } else { FlowMod::delete(to) };
            if network.flow_mod(switch, &change).is_err() {
                break; // there is no room now
            }
            self.sent += 1;
        }
        network.wake_at(now + EVERY);
    }
}

export_app!(Changer, name = "changer");

//! Changes flows of its own at one switch, at a rate: `DPID RATE [RULES]` in its configuration, flow-mods per second.
//!
//! Without RULES it adds one flow and deletes it, in turns. Otherwise it adds RULES flows first, and then modifies four of them
//! by one flow-mod with a prefix, for which a switch has to look through all flows.

#![forbid(unsafe_code)]

use std::time::Duration;

use rosemary_sdk::openflow::{Field, FlowModCommand, Masked};
use rosemary_sdk::{
    Action, App, Dpid, Event, FlowMod, MacAddr, Match, Network, PortNo, SendError, Switch,
    export_app,
};

/// Time from one group of flow-mods to the next.
const EVERY: Duration = Duration::from_millis(5);

/// Addresses that it uses in turn if it has one flow.
const ADDRESSES: u64 = 2_000;

/// Flows that one flow-mod modifies.
const GROUP: u64 = 4;

#[derive(Default)]
struct Changer {
    dpid: Option<Dpid>,
    rate: u64,
    rules: u16,
    switch: Option<Switch>,
    began: Option<Duration>,
    /// Flow-mods since `began`.
    sent: u64,
    /// Flow-mods in all.
    in_all: u64,
    refused: u64,
}

impl Changer {
    /// Sends the flow-mod after `sent` others.
    fn change(
        &self,
        sent: u64,
        switch: Switch,
        network: &mut Network<'_>,
    ) -> Result<(), SendError> {
        let rules = u64::from(self.rules);
        let address = |number: u64| {
            let [.., a, b] = number.to_be_bytes();
            MacAddr([2, 0xf1, 0, 0, a, b])
        };
        let flow = |number| Match::new().eth_dst(address(number));
        match sent.checked_sub(rules) {
            None => network.flow_mod(switch, &FlowMod::add(flow(sent))),
            Some(later) if rules == 0 => {
                let flow = flow(later / 2 % ADDRESSES);
                let change =
                    if later % 2 == 0 { FlowMod::add(flow) } else { FlowMod::delete(flow) };
                network.flow_mod(switch, &change)
            }
            Some(later) => {
                let (round, first) = (later * GROUP / rules, later * GROUP % rules);
                let [.., low] = (!(GROUP - 1)).to_be_bytes();
                let prefix = MacAddr([0xff, 0xff, 0xff, 0xff, 0xff, low]);
                let group = Field::EthDst(Masked::new(address(first), prefix));
                // Each round changes the actions.
                let actions = [Action::output(PortNo::IN_PORT)];
                let actions = if round % 2 == 0 { &actions[..] } else { &[] };
                let change = FlowMod::new(FlowModCommand::Modify, Match::new().with(&group));
                network.flow_mod(switch, &change.apply(actions))
            }
        }
    }
}

impl App for Changer {
    fn create() -> Self {
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [dpid, rate, rules @ ..] = &words[..] else {
            return Err("line 1: expected DPID RATE [RULES]".into());
        };
        self.dpid = Some(dpid.parse().map_err(|_| "line 1: not a datapath id")?);
        self.rate = rate.parse().map_err(|why| format!("line 1: {why}"))?;
        let rules = rules.first().map_or(Ok(0), |rules| rules.parse::<u16>());
        let rules = rules.map_err(|why| format!("line 1: {why}"))?;
        self.rules = rules.next_multiple_of(4);
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
            if self.change(self.in_all, switch, network).is_err() {
                break; // there is no room now
            }
            self.sent += 1;
            self.in_all += 1;
        }
        network.wake_at(now + EVERY);
    }
}

export_app!(Changer, name = "changer");

//! Changes flows of its own at one switch, at a rate: `DPID RATE [RULES [delete]]` in its configuration.
//!
//! Without RULES it adds one flow and deletes it, in turns, RATE flow-mods per second. Otherwise it adds RULES flows first, and then
//! modifies four of them by each of RATE flow-mods per second. With `delete` it deletes four flows by each of RATE deletions per
//! second, and adds them again at once. A modification or deletion of four flows has a prefix: a switch looks through all flows for it.

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

/// Flows that one flow-mod modifies or deletes.
const GROUP: u64 = 4;

/// Flows per second that it adds before the changes begin.
const FILL_RATE: u64 = 4_000;

#[derive(Default)]
struct Changer {
    dpid: Option<Dpid>,
    rate: u64,
    rules: u16,
    deletes: bool,
    switch: Option<Switch>,
    began: Option<Duration>,
    /// Steps since `began`: an added flow or a change.
    done: u64,
    /// Steps in all.
    in_all: u64,
    refused: u64,
}

impl Changer {
    /// Takes the step after `done` others.
    fn step(&self, done: u64, switch: Switch, network: &mut Network<'_>) -> Result<(), SendError> {
        let rules = u64::from(self.rules);
        let address = |number: u64| {
            let [.., a, b] = number.to_be_bytes();
            MacAddr([2, 0xf1, 0, 0, a, b])
        };
        let flow = |number| Match::new().eth_dst(address(number));
        match done.checked_sub(rules) {
            None => network.flow_mod(switch, &FlowMod::add(flow(done))),
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
                if self.deletes {
                    network.flow_mod(switch, &FlowMod::delete(Match::new().with(&group)))?;
                    return (first..first + GROUP).try_for_each(|number| {
                        network.flow_mod(switch, &FlowMod::add(flow(number)))
                    });
                }
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
        let (dpid, rate, rules, deletes) = match words[..] {
            [dpid, rate] => (dpid, rate, "0", false),
            [dpid, rate, rules] => (dpid, rate, rules, false),
            [dpid, rate, rules, "delete"] => (dpid, rate, rules, true),
            _ => return Err("line 1: expected DPID RATE [RULES [delete]]".into()),
        };
        self.dpid = Some(dpid.parse().map_err(|_| "line 1: not a datapath id")?);
        self.rate = rate.parse().map_err(|why| format!("line 1: {why}"))?;
        let rules: u16 = rules.parse().map_err(|why| format!("line 1: {why}"))?;
        self.rules = rules.next_multiple_of(4);
        self.deletes = deletes;
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
        let fills = self.in_all < u64::from(self.rules);
        let rate = if fills { FILL_RATE } else { self.rate };
        let due = passed * rate / 1_000_000;
        if due > self.done + rate {
            // It was stopped for more than a second: it does not catch up.
            (self.began, self.done) = (Some(now), 0);
        }
        while self.done < due {
            if self.step(self.in_all, switch, network).is_err() {
                break; // there is no room now
            }
            self.done += 1;
            self.in_all += 1;
            if fills && self.in_all == u64::from(self.rules) {
                (self.began, self.done) = (Some(now), 0);
                break;
            }
        }
        network.wake_at(now + EVERY);
    }
}

export_app!(Changer, name = "changer");

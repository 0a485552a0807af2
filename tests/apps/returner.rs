//! Writes three flows into each new switch, and logs which of its flows a switch has later.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use rosemary_sdk::openflow::ReplyBody;
use rosemary_sdk::{
    Action, App, Dpid, Event, FlowMod, FlowsKept, MacAddr, Match, Network, PortNo, export_app,
};

#[derive(Default)]
struct Returner {
    /// The switches that have its flows.
    written: BTreeSet<Dpid>,
    /// Cookies in the parts so far.
    kept: Vec<u64>,
}

impl App for Returner {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) if self.written.insert(switch.dpid) => {
                for cookie in [1, 2, 3] {
                    let match_ = Match::new().eth_dst(MacAddr([2, 0, 0, 0, 0xdd, cookie]));
                    let out = [Action::output(PortNo(1))];
                    let flow = FlowMod::add(match_).priority(1).cookie(cookie.into()).apply(&out);
                    if let Err(error) = network.flow_mod(switch, &flow) {
                        network.error(&format!("could not send: {error}"));
                    }
                }
            }
            Event::FlowsKept(part) => self.note(&part, network),
            _ => {}
        }
    }
}

impl Returner {
    fn note(&mut self, part: &FlowsKept<'_>, network: &mut Network<'_>) {
        let Ok(reply) = part.decode() else { return network.error("malformed") };
        if let ReplyBody::Flow(flows) = &reply.body {
            self.kept.extend(flows.iter().map(|flow| flow.cookie));
        }
        if !reply.more {
            self.kept.sort_unstable();
            let kept = std::mem::take(&mut self.kept);
            network.info(&format!("kept {kept:?}, complete: {}", part.is_complete));
        }
    }
}

export_app!(Returner, name = "returner");

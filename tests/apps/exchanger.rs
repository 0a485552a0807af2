//! Exchanges two sets of flows at a switch, one for the other: `commit|single PAUSE_MS` in its configuration.
//!
//! Packets from UDP port 7 to ports from 10000 on pass two tables. A flow of table 0 sets the last byte of the source address, a
//! flow of table 1 sets the source port and outputs to port 2. Both write the number of their set. So a packet with two different
//! numbers met flows of both sets. With `single` the flows are sent one by one.

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;
use std::time::Duration;

use rosemary_sdk::openflow::{Field, FlowModCommand, Instructions};
use rosemary_sdk::{
    Action, App, Applied, Change, Committed, Event, FlowMod, Guarantee, Match, Network, PortNo,
    SendError, Switch, export_app,
};

/// Flows of a set in each of the two tables.
const RULES: u16 = 250;

/// The first destination port.
const FIRST: u16 = 10_000;

/// The numbers of the sets, which are their cookies.
const SETS: [u8; 2] = [101, 102];

/// The bits of a cookie that are the app's.
const COOKIE: u64 = (1 << 48) - 1;

const UDP: u8 = 17;

#[derive(Default)]
struct Exchanger {
    commits: bool,
    pause: Duration,
    switch: Option<Switch>,
    /// The index of the present set.
    set: usize,
    /// Number of exchanges.
    done: u32,
}

/// The instructions of a flow of set `number` in a table.
fn actions(table: u8, number: u8) -> Vec<Action> {
    if table == 0 {
        let address = Ipv4Addr::new(10, 0, 0, number);
        return vec![Action::SetField(Field::Ipv4Src(address.into()))];
    }
    let port = Action::SetField(Field::UdpSrc(number.into()));
    vec![port, Action::output(PortNo(2))]
}

impl Exchanger {
    fn exchange(&mut self, network: &mut Network<'_>) {
        let Some(switch) = self.switch else { return };
        let (former, number) = (SETS[self.set], SETS[1 - self.set]);
        let all: Vec<_> = [0, 1].map(|table| (table, actions(table, number))).into();
        let mut changes = Vec::new();
        for (table, actions) in &all {
            for port in FIRST..FIRST + RULES {
                let packets = Match::new().eth_type(0x0800).ip_proto(UDP).udp_dst(port);
                let flow = FlowMod::add(packets).cookie(number.into()).apply(actions);
                let goto = (*table == 0).then_some(1);
                let instructions = Instructions { goto_table: goto, ..flow.instructions };
                // Of another priority than those of the other set, so that they do not replace them.
                let priority = number.into();
                let flow = FlowMod { table_id: *table, instructions, priority, ..flow };
                changes.push(Change::Flow(flow));
            }
        }
        let delete = FlowMod::new(FlowModCommand::Delete, Match::new());
        let (cookie, cookie_mask) = (former.into(), COOKIE);
        let table_id = FlowMod::ALL_TABLES;
        changes.push(Change::Flow(FlowMod { cookie, cookie_mask, table_id, ..delete }));
        let sent = if self.commits {
            network.commit(switch, &changes).map(drop)
        } else {
            send_each(switch, &changes, network)
        };
        match sent {
            Ok(()) => self.set = 1 - self.set,
            Err(error) => network.error(&format!("could not be sent: {error}")),
        }
    }

    fn exchanged(&mut self, network: &mut Network<'_>, how: &str) {
        self.done += 1;
        if self.done == 1 || self.done.is_multiple_of(50) {
            network.info(&format!("exchanges: {}, {how}", self.done));
        }
        network.wake_at(network.now() + self.pause);
    }
}

/// Sends changes one by one, and a barrier request.
fn send_each(
    switch: Switch,
    changes: &[Change<'_>],
    network: &mut Network<'_>,
) -> Result<(), SendError> {
    for change in changes {
        let Change::Flow(flow_mod) = change else { continue };
        network.flow_mod(switch, flow_mod)?;
    }
    network.barrier(switch).map(drop)
}

impl App for Exchanger {
    fn create() -> Self {
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [how @ ("commit" | "single"), pause] = words[..] else {
            return Err("line 1: expected commit|single PAUSE_MS".into());
        };
        self.commits = how == "commit";
        self.pause = Duration::from_millis(pause.parse().map_err(|why| format!("line 1: {why}"))?);
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) => {
                self.switch = Some(switch);
                self.exchange(network);
            }
            Event::SwitchDown(_) => self.switch = None,
            Event::Committed(Committed { outcome: Ok(applied), .. }) => {
                let how = match applied {
                    Applied { guarantee: Guarantee::Atomic, outside: 0 } => "atomic",
                    Applied { guarantee: Guarantee::Atomic, .. } => "atomic in part",
                    Applied { guarantee: Guarantee::Ordered, .. } => "ordered",
                };
                self.exchanged(network, how);
            }
            Event::Committed(Committed { outcome: Err(why), .. }) => {
                network.error(&format!("not applied: {why:?}"));
            }
            Event::Reply(_) if !self.commits => self.exchanged(network, "one by one"),
            Event::Error(error) => network.error(&format!("refused: {}", error.error)),
            Event::Refused { why, .. } => network.error(&format!("refused: {why:?}")),
            _ => {}
        }
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.exchange(network);
    }
}

export_app!(Exchanger, name = "exchanger");

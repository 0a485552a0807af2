//! Connects the core with the SDK: [`Outlet`] looks hosts up and sends messages, and the [`Outbox`] keeps the messages that have no
//! room yet.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use rosemary_sdk::openflow::{ErrorMessage, MultipartRequest};
use rosemary_sdk::services::hosts::{Host, find_address, find_host};
use rosemary_sdk::services::table::TableWatch;
use rosemary_sdk::{
    Action, Change, CommitId, Dpid, MacAddr, Network, PacketOut, Repeats, SendError, Switch,
};

use super::world::{Flow, Location, Message, World};

/// Most messages that wait for room. Packets are dropped earlier: they are soon worthless.
const MOST_WAITING: usize = 1 << 18;
const MOST_WAITING_FOR_PACKETS: usize = 1 << 10;

/// How soon messages without room are sent again.
const AGAIN: Duration = Duration::from_millis(1);

/// Messages that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<(Switch, Message)>,
    dropped: u64,
    sender: Sender,
}

/// Sends messages, and keeps the change sets and failures that their outcomes are compared with.
#[derive(Debug)]
struct Sender {
    /// The numbers of the change sets whose outcomes are outstanding, by switch.
    sets: HashMap<(Switch, CommitId), u64>,
    /// Change sets that could not be sent.
    unsent: Vec<(Switch, u64)>,
    failures: Failures,
}

/// The failures of messages that were logged: by switch, and the kind and code of the switch's error, if it sent one.
type Failures = Repeats<Dpid, Option<(u16, u16)>>;

/// Time from one log line about failures of the same kind to the next, and most switches with such lines.
const SELDOM: Duration = Duration::from_secs(60);
const MOST_SWITCHES: usize = 1024;

impl Default for Sender {
    fn default() -> Self {
        let failures = Repeats::new(SELDOM, MOST_SWITCHES);
        Self { sets: HashMap::new(), unsent: Vec::new(), failures }
    }
}

impl Outbox {
    /// Sends waiting messages while there is room. Returns the time of the next attempt if messages are left.
    pub(crate) fn flush(&mut self, network: &mut Network<'_>) -> Option<Duration> {
        while let Some((to, message)) = self.waiting.front() {
            if self.sender.send(network, *to, message) == Err(SendError::Full) {
                return Some(network.now() + AGAIN);
            }
            self.waiting.pop_front();
        }
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            network.warn(&format!("dropped {dropped} messages that had no room for long"));
        }
        None
    }

    /// Takes the number of a change set whose outcome has come.
    pub(crate) fn take_set(&mut self, from: Switch, commit: CommitId) -> Option<u64> {
        self.sender.sets.remove(&(from, commit))
    }

    /// Takes a change set that could not be sent.
    pub(crate) fn take_unsent(&mut self) -> Option<(Switch, u64)> {
        self.sender.unsent.pop()
    }

    /// Forgets the change sets of a switch that has disconnected, or of all switches: no outcome comes.
    pub(crate) fn forget_sets(&mut self, of: Option<Dpid>) {
        let stays = |switch: &Switch| of.is_some_and(|dpid| switch.dpid != dpid);
        self.sender.sets.retain(|(switch, _), _| stays(switch));
    }

    fn send(&mut self, network: &mut Network<'_>, to: Switch, message: Message) {
        if self.waiting.is_empty()
            && self.sender.send(network, to, &message) != Err(SendError::Full)
        {
            return;
        }
        let most = match message {
            Message::Packet { .. } => MOST_WAITING_FOR_PACKETS,
            _ => MOST_WAITING,
        };
        if self.waiting.len() < most {
            self.waiting.push_back((to, message));
            return;
        }
        self.dropped += 1;
        if let Message::Changes(set, _) = message {
            self.sender.unsent.push((to, set));
        }
    }
}

impl Sender {
    /// Sends a message. A message that has no room is an error; one that cannot be sent at all is logged.
    fn send(
        &mut self,
        network: &mut Network<'_>,
        to: Switch,
        message: &Message,
    ) -> Result<(), SendError> {
        let result = match message {
            Message::Flow(flow) => network.flow_mod(to, &flow.flow_mod(flow.action().as_slice())),
            Message::Changes(set, flows) => self.commit(network, to, (*set, flows)),
            Message::Group(group_mod) => network.group_mod(to, group_mod).map(drop),
            Message::Barrier => network.barrier(to).map(drop),
            Message::GroupFeatures => {
                network.request(to, &MultipartRequest::GroupFeatures).map(drop)
            }
            Message::GroupDesc => network.request(to, &MultipartRequest::GroupDesc).map(drop),
            Message::Packet { in_port, out, buffer_id, data } => {
                let actions: Vec<Action> = out.iter().map(|port| Action::output(*port)).collect();
                let packet_out = match buffer_id {
                    Some(buffer_id) => PacketOut::buffered(*in_port, &actions, *buffer_id),
                    None => PacketOut::new(*in_port, &actions, data),
                };
                network.packet_out(to, &packet_out)
            }
        };
        match result {
            Err(SendError::Full) => Err(SendError::Full),
            Err(error) => {
                if self.failures.admit(to.dpid, None, network.now()).is_some() {
                    network.warn(&format!("could not send a message to {}: {error}", to.dpid));
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Sends flows as a change set with this number.
    fn commit(
        &mut self,
        network: &mut Network<'_>,
        to: Switch,
        (set, flows): (u64, &[Flow]),
    ) -> Result<(), SendError> {
        let actions: Vec<Option<Action>> = flows.iter().map(Flow::action).collect();
        let flow_mods = flows.iter().zip(&actions);
        let changes = flow_mods.map(|(flow, action)| flow.flow_mod(action.as_slice()).into());
        let committed = network.commit(to, &changes.collect::<Vec<Change<'_>>>());
        match committed {
            Ok(commit) => drop(self.sets.insert((to, commit), set)),
            Err(SendError::Full) => {}
            Err(_) => self.unsent.push((to, set)),
        }
        committed.map(drop)
    }
}

/// The world of the core, during one event.
#[derive(Debug)]
pub(crate) struct Outlet<'a, 'n> {
    network: &'a mut Network<'n>,
    outbox: &'a mut Outbox,
    hosts: &'a TableWatch,
}

impl<'a, 'n> Outlet<'a, 'n> {
    pub(crate) fn new(
        network: &'a mut Network<'n>,
        outbox: &'a mut Outbox,
        hosts: &'a TableWatch,
    ) -> Self {
        Self { network, outbox, hosts }
    }

    /// Converts a group's number in a switch's message to this app's.
    pub(crate) fn own_group(&self, on_switch: u32) -> Option<u32> {
        self.network.own_group(on_switch)
    }

    /// Converts a priority in a switch's message to this app's; `None` if it is outside of its band.
    pub(crate) fn own_priority(&self, on_switch: u16) -> Option<u16> {
        self.network.own_priority(on_switch)
    }

    /// Logs that a switch answered a message of this app with an error, unless an error like it was logged lately.
    pub(crate) fn log_error(&mut self, from: Dpid, error: &ErrorMessage<'_>) {
        let kind = Some((error.kind, error.code));
        if let Some(others) = self.outbox.sender.failures.admit(from, kind, self.network.now()) {
            let others = if others > 0 { format!(", and {others} before") } else { String::new() };
            self.network.warn(&format!("{from} refused a message{others}: {error}"));
        }
    }
}

impl World for Outlet<'_, '_> {
    fn now(&self) -> Duration {
        self.network.now()
    }

    fn host(&self, mac: MacAddr, vlan: u16) -> Option<Location> {
        let host = find_host(&self.hosts.table(self.network)?, mac, vlan)?;
        let Host { dpid, port, is_contested, is_doubted, .. } = host;
        Some(Location { at: (dpid, port), is_contested, is_doubted })
    }

    fn address(&self, ip: IpAddr, vlan: u16) -> Option<MacAddr> {
        let table = self.hosts.table(self.network)?;
        let mac = find_address(&table, ip, vlan)?.mac;
        find_host(&table, mac, vlan).filter(|host| !host.is_doubted).map(|host| host.mac)
    }

    fn send(&mut self, to: Switch, message: Message) {
        self.outbox.send(self.network, to, message);
    }

    fn incident(&mut self, summary: &str, evidence: &str) {
        self.network.report_incident(summary, evidence);
    }
}

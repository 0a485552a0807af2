//! Denies packets by rules, in the switches and on the way to other apps.
//!
//! It is a guard. Each rule becomes flows that drop packets; their priorities are in its band, above those of the control
//! apps. A packet may still reach the controller before its flow is installed: the firewall checks it against the rules
//! and stops it.
//!
//! The rules are its configuration (`firewall/rules.rs` has their form):
//!
//! ```toml
//! [[app]]
//! name = "firewall"
//! stage = "guard"
//! config = "firewall.toml"
//! capabilities = ["packet-in", "flow.write", "stats.read"]
//! ```
//!
//! The firewall never remembers which flows a switch has: it requests them every few seconds. It adds missing flows and
//! deletes those that no rule needs since the rules have changed. If the kernel reports that a switch has lost its flows, it
//! adds all at once.

#![forbid(unsafe_code)]

#[path = "firewall/packet.rs"]
mod packet;
#[path = "firewall/rules.rs"]
mod rules;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use rosemary_sdk::abi::Refusal;
use rosemary_sdk::openflow::{
    FlowModCommand, FlowStatsRequest, Match, MultipartRequest, ReplyBody,
};
use rosemary_sdk::{
    App, Dpid, Event, FlowMod, Network, PacketIn, Reply, SendError, Switch, Xid, export_app,
};

use self::packet::Packet;
use self::rules::{Entry, Rules};

/// The time from one request for the switches' flows to the next.
const EVERY: Duration = Duration::from_secs(5);

/// Priority of all its flows: they may overlap, because they do the same.
const PRIORITY: u16 = 0;

/// Most flows of one switch that it reads: it never has more.
const MOST_SEEN: usize = 65_536;

/// See the module's description.
#[derive(Debug)]
struct Firewall {
    rules: Rules,
    posts: BTreeMap<Dpid, Post>,
    /// Changes that wait for room.
    to_send: VecDeque<(Switch, Change)>,
    next_look: Duration,
    /// Whether the log already says that the firewall cannot read the switches' flows.
    said_blind: bool,
}

/// A guarded switch.
#[derive(Debug)]
struct Post {
    switch: Switch,
    /// The pending request for its flows, and the flows in the reply so far.
    asked: Option<(Xid, Vec<Seen>)>,
    /// Whether the log already names the rules that its version of OpenFlow cannot express.
    said_unfit: bool,
}

/// A flow of this app in a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    match_: Match,
    priority: u16,
    rule: u64,
    table: u8,
}

/// A change in a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// A flow of the rules, by its place among [`Rules::entries`].
    Add(usize),
    Delete(Seen),
    Look,
}

impl App for Firewall {
    fn create() -> Self {
        Self {
            rules: Rules::default(),
            posts: BTreeMap::new(),
            to_send: VecDeque::new(),
            next_look: Duration::ZERO,
            said_blind: false,
        }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.rules = Rules::read(text)?;
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SnapshotBegin => {
                self.posts.clear();
                self.to_send.clear();
            }
            Event::SnapshotEnd => {
                let (rules, flows) = (self.rules.len(), self.rules.entries.len());
                network.info(&format!("{rules} rules in force, {flows} flows at each switch"));
            }
            Event::SwitchUp(switch) | Event::FlowsMissing(switch) => self.guard(switch),
            Event::SwitchDown(switch) => {
                self.posts.remove(&switch.dpid);
            }
            Event::PacketIn(packet_in) => self.on_packet(&packet_in, network),
            Event::Reply(reply) => self.on_reply(&reply, network),
            Event::Refused { switch, why, message, .. } => {
                self.on_refused(switch, why, message, network);
            }
            Event::Error(error) => {
                let what = error.error;
                network.error(&format!("{} did not take a flow: {what}", error.switch.dpid));
            }
            _ => {}
        }
        self.send(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        if network.now() >= self.next_look {
            self.next_look = network.now() + EVERY;
            let looks = self.posts.values().map(|post| (post.switch, Change::Look));
            self.to_send.extend(looks);
        }
        self.send(network);
    }
}

impl Firewall {
    /// Handles a new switch, or one that has lost its flows: sends all flows at once, before any packet can pass, and requests the flows it already has.
    fn guard(&mut self, switch: Switch) {
        self.posts.insert(switch.dpid, Post { switch, asked: None, said_unfit: false });
        let here = self.here(switch.dpid).map(|(place, _)| (switch, Change::Add(place)));
        let here: Vec<_> = here.collect();
        self.to_send.extend(here);
        self.to_send.push_back((switch, Change::Look));
    }

    /// Returns the flows that a switch needs, with their places.
    fn here(&self, dpid: Dpid) -> impl Iterator<Item = (usize, &Entry)> {
        let entries = self.rules.entries.iter().enumerate();
        entries.filter(move |(_, entry)| entry.switch.is_none_or(|it| it == dpid))
    }

    fn on_packet(&mut self, packet_in: &PacketIn<'_>, network: &mut Network<'_>) {
        // No rule matches a packet that is too short for a frame.
        let Some(packet) = Packet::of(packet_in.data) else { return };
        if self.rules.deny(packet_in.switch.dpid, packet_in.in_port, &packet) {
            network.stop();
        }
    }

    /// Sends waiting changes while there is room, and sets the timer.
    fn send(&mut self, network: &mut Network<'_>) {
        if self.next_look.is_zero() {
            self.next_look = network.now() + EVERY;
        }
        let mut wake_at = self.next_look;
        while let Some((switch, change)) = self.to_send.front() {
            let is_there = self.posts.get(&switch.dpid).is_some_and(|post| post.switch == *switch);
            match if is_there { self.change(*switch, change, network) } else { Ok(None) } {
                Ok(xid) => {
                    let asked = self.posts.get_mut(&switch.dpid).filter(|_| xid.is_some());
                    if let Some(post) = asked {
                        post.asked = xid.map(|xid| (xid, Vec::new()));
                    }
                }
                Err(SendError::Full) => {
                    wake_at = network.now() + Duration::from_millis(1);
                    break;
                }
                Err(error) => {
                    let (switch, change) = (*switch, change.clone());
                    self.unfit(switch, &change, &error, network);
                }
            }
            self.to_send.pop_front();
        }
        network.wake_at(wake_at);
    }

    /// Sends one change; returns the transaction id if it is a request.
    fn change(
        &self,
        to: Switch,
        change: &Change,
        network: &mut Network<'_>,
    ) -> Result<Option<Xid>, SendError> {
        match change {
            Change::Add(place) => {
                let Some(entry) = self.rules.entries.get(*place) else { return Ok(None) };
                let drop = FlowMod::add(entry.match_.clone()).priority(PRIORITY);
                network.flow_mod(to, &drop.cookie(entry.rule))?;
                Ok(None)
            }
            Change::Delete(seen) => {
                let delete = FlowMod::new(FlowModCommand::DeleteStrict, seen.match_.clone());
                let delete = delete.priority(seen.priority).table(seen.table);
                network.flow_mod(to, &delete)?;
                Ok(None)
            }
            Change::Look => {
                let all = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
                network.request(to, &all).map(Some)
            }
        }
    }

    /// Logs that a switch cannot express a rule, once for each switch.
    fn unfit(
        &mut self,
        switch: Switch,
        change: &Change,
        error: &SendError,
        network: &mut Network<'_>,
    ) {
        let Some(post) = self.posts.get_mut(&switch.dpid) else { return };
        if std::mem::replace(&mut post.said_unfit, true) {
            return;
        }
        let entry = match change {
            Change::Add(place) => self.rules.entries.get(*place),
            Change::Delete(_) | Change::Look => None,
        };
        let rule = entry.map_or(String::new(), |entry| format!("rule {} ", entry.rule));
        network.error(&format!(
            "{rule}cannot be put into {}, which speaks OpenFlow {}: {error}; it holds only for packets \
             that reach the controller, as may others",
            switch.dpid, switch.version
        ));
    }

    /// Handles a reply with a switch's flows: adds those that are missing and deletes those that no rule needs.
    fn on_reply(&mut self, reply: &Reply<'_>, network: &mut Network<'_>) {
        let dpid = reply.switch.dpid;
        let Some(post) = self.posts.get_mut(&dpid).filter(|post| post.switch == reply.switch)
        else {
            return;
        };
        let Some((_, seen)) = post.asked.as_mut().filter(|(xid, _)| *xid == reply.xid) else {
            return;
        };
        let Ok(part) = reply.multipart() else {
            post.asked = None;
            return;
        };
        if let ReplyBody::Flow(flows) = part.body {
            let own = flows.into_iter().filter_map(|flow| {
                let priority = network.own_priority(flow.priority)?;
                let (rule, table) = (flow.cookie, flow.table_id);
                Some(Seen { match_: flow.match_, priority, rule, table })
            });
            seen.extend(own.take(MOST_SEEN.saturating_sub(seen.len())));
        }
        if part.more {
            return;
        }
        let seen = std::mem::take(seen);
        let unfit = post.said_unfit;
        post.asked = None;
        self.reconcile(reply.switch, seen, unfit, network);
    }

    fn reconcile(
        &mut self,
        switch: Switch,
        seen: Vec<Seen>,
        unfit: bool,
        network: &mut Network<'_>,
    ) {
        let mut missing: HashMap<&Match, (usize, u64)> =
            self.here(switch.dpid).map(|(place, it)| (&it.match_, (place, it.rule))).collect();
        let mut changes: Vec<Change> = Vec::new();
        for flow in seen {
            match missing.get(&flow.match_) {
                Some((_, rule)) if flow.priority == PRIORITY && flow.table == 0 => {
                    if *rule == flow.rule {
                        missing.remove(&flow.match_);
                    } // else adding it replaces the old one: the order of the rules has changed
                }
                _ => changes.push(Change::Delete(flow)),
            }
        }
        let deleted = changes.len();
        changes.extend(missing.into_values().map(|(place, _)| Change::Add(place)));
        let added = changes.len() - deleted;
        if deleted > 0 || added > 0 && !unfit {
            network.info(&format!(
                "put {added} flows into {} that were missing, and deleted {deleted} that no rule wants",
                switch.dpid
            ));
        }
        self.to_send.extend(changes.into_iter().map(|change| (switch, change)));
    }

    fn on_refused(
        &mut self,
        switch: Switch,
        why: Option<Refusal>,
        message: &[u8],
        network: &mut Network<'_>,
    ) {
        let post = self.posts.get(&switch.dpid);
        let look = post.and_then(|post| post.asked.as_ref()).map(|(xid, _)| *xid);
        if look.is_none() || look != Xid::of(message) {
            return; // a flow, which will be missing in the next reply
        }
        if why == Some(Refusal::Capability) && !std::mem::replace(&mut self.said_blind, true) {
            network.warn(
                "cannot see what is in the switches: flows of rules that are gone stay, and flows that \
                 go are not put back; add \"stats.read\" to its capabilities",
            );
        }
    }
}

export_app!(Firewall, name = "firewall");

#[cfg(test)]
#[path = "firewall/tests.rs"]
mod tests;

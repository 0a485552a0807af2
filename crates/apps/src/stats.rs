//! Polls the counters of all switches, and publishes them with their rates as the service `stats`.
//!
//! One poll serves all clients. Requests are paced, and a switch has one at a time (`stats/poller.rs`). A rate is published
//! only if two readings agree (`stats/rates.rs`); figures of a switch that does not answer are marked as stale
//! (`stats/figures.rs`). A client requests the history of a port.
//!
//! ```toml
//! interval = 5      # seconds from one poll of a switch's ports to the next
//! ```
//!
//! The monitor starts the app when another one, or an operator, needs the service.

#![forbid(unsafe_code)]

#[path = "stats/figures.rs"]
mod figures;
#[path = "stats/poller.rs"]
mod poller;
#[path = "stats/rates.rs"]
mod rates;

use std::time::Duration;

use rosemary_sdk::abi::Refusal;
use rosemary_sdk::openflow::{
    FlowStatsRequest, GroupMod, Match, MeterMod, MultipartRequest, ReplyBody,
};
use rosemary_sdk::services::Service;
use rosemary_sdk::services::stats::{History, HistoryRequest};
use rosemary_sdk::serving::ClientEvent;
use rosemary_sdk::{
    App, Event, Network, PortChange, PortNo, Reply, SendError, Switch, Xid, export_app,
};
use serde::Deserialize;

use self::figures::Store;
use self::poller::{Poller, Subject};
use self::rates::Moment;

/// Default time from one poll of a switch's ports to the next.
const INTERVAL: Duration = Duration::from_secs(5);

/// The operator's text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    interval: Option<toml::Spanned<u64>>,
}

/// See the module's description.
#[derive(Debug)]
struct Stats {
    poller: Poller,
    /// Made with the first event.
    store: Option<Store>,
    said_blind: bool,
    said_unpublished: bool,
    said_full: bool,
}

impl App for Stats {
    fn create() -> Self {
        Self {
            poller: Poller::new(INTERVAL),
            store: None,
            said_blind: false,
            said_unpublished: false,
            said_full: false,
        }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.poller = Poller::new(interval(text)?);
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let now = network.now();
        if self.store.is_none() {
            self.store = Store::new(Service::Stats.table_slots().unwrap_or_default());
        }
        let Some(store) = &mut self.store else { return };
        match event {
            Event::SnapshotBegin => {
                self.poller.clear();
                store.clear_all();
            }
            Event::SwitchUp(switch) => {
                store.add_switch(switch.dpid);
                self.poller.add(switch, now);
            }
            Event::SwitchDown(switch) => {
                store.remove_switch(switch.dpid);
                self.poller.remove(switch.dpid);
            }
            Event::Port { switch, change, port } => match change {
                PortChange::Deleted => store.remove_port(switch.dpid, port.port_no),
                PortChange::Added | PortChange::Modified => {
                    store.add_port(switch.dpid, port.port_no);
                }
            },
            Event::Reply(reply) => on_reply(&mut self.poller, store, &reply, now),
            Event::Error(error) => {
                self.poller.rejected(error.switch, error.xid, now);
            }
            Event::RequestLost { switch, xid, .. } => self.poller.lost(switch, xid, now),
            Event::Refused { switch, why, message, .. } => {
                self.on_refused(switch, why, message, network);
            }
            Event::Client(ClientEvent::Request { request, body, .. }) => {
                let history = match HistoryRequest::decode(body) {
                    Some(asked) => match store.history(asked.dpid, asked.port) {
                        Some(samples) => History::Samples(samples),
                        None => History::Unknown,
                    },
                    None => History::Malformed,
                };
                network.answer(request, false, &history.encode());
            }
            _ => {}
        }
        self.act(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.act(network);
    }
}

impl Stats {
    /// Sends the requests that are due, and publishes what has changed.
    fn act(&mut self, network: &mut Network<'_>) {
        let now = network.now();
        let Some(store) = &mut self.store else { return };
        for (dpid, unanswered) in self.poller.late(now) {
            store.silent(dpid, unanswered);
        }
        let mut wake_at = Duration::MAX;
        while let Some((switch, subject)) = self.poller.next(now) {
            match network.request(switch, &request(subject)) {
                Ok(xid) => self.poller.sent(switch.dpid, xid, now),
                Err(SendError::Full) => {
                    wake_at = now + Duration::from_millis(1);
                    break;
                }
                Err(error) => {
                    network.warn(&format!("could not poll {}: {error}", switch.dpid));
                    self.poller.not_sent(switch.dpid, now);
                }
            }
        }
        for (slot, record) in store.writes.drain(..) {
            if let Err(error) = network.publish(slot, &record)
                && !std::mem::replace(&mut self.said_unpublished, true)
            {
                network.error(&format!("nobody can read the figures: {error}"));
            }
        }
        if store.without_room() > 0 && !std::mem::replace(&mut self.said_full, true) {
            network.warn(
                "the table is full: figures of some ports, tables, groups and meters are left out",
            );
        }
        network.wake_at(wake_at.min(self.poller.wake_at(now)));
    }

    fn on_refused(
        &mut self,
        switch: Switch,
        why: Option<Refusal>,
        message: &[u8],
        network: &mut Network<'_>,
    ) {
        let Some(xid) = Xid::of(message) else { return };
        let subject = self.poller.rejected(switch, xid, network.now());
        if why == Some(Refusal::Capability)
            && subject.is_some()
            && !std::mem::replace(&mut self.said_blind, true)
        {
            network.warn(
                "cannot read all counters: add \"stats.read\" and \"flow.read\" to its capabilities",
            );
        }
    }
}

/// Handles a part of an answer.
fn on_reply(poller: &mut Poller, store: &mut Store, reply: &Reply<'_>, now: Duration) {
    let (switch, dpid) = (reply.switch, reply.switch.dpid);
    let Ok(answer) = reply.multipart() else {
        poller.rejected(switch, reply.xid, now);
        return;
    };
    let Some(part) = poller.answered(switch, reply.xid, answer.more, now) else { return };
    let at = Moment { asked: part.asked, answered: now };
    if part.is_first {
        store.begin(dpid);
    }
    store.answered(dpid, at);
    match (part.subject, &answer.body) {
        (Subject::Ports, ReplyBody::PortStats(stats)) => store.ports(dpid, stats, at),
        (Subject::Flows, ReplyBody::Aggregate(stats)) => store.flows(dpid, stats, at),
        (Subject::Tables, ReplyBody::Table(stats)) => store.tables(dpid, stats, at),
        (Subject::Groups, ReplyBody::Group(stats)) => store.groups(dpid, stats, at),
        (Subject::Meters, ReplyBody::Meter(stats)) => store.meters(dpid, stats, at),
        _ => return, // an answer to another question
    }
    if part.is_last {
        store.end(dpid, part.subject);
    }
}

fn request(subject: Subject) -> MultipartRequest<'static> {
    match subject {
        Subject::Ports => MultipartRequest::PortStats(PortNo::ANY),
        Subject::Flows => MultipartRequest::Aggregate(FlowStatsRequest::new(Match::new())),
        Subject::Tables => MultipartRequest::Table,
        Subject::Groups => MultipartRequest::Group(GroupMod::ALL_GROUPS),
        Subject::Meters => MultipartRequest::Meter(MeterMod::ALL_METERS),
    }
}

/// Reads the configuration.
fn interval(text: &str) -> Result<Duration, String> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", line(at), error.message().replace('\n', "; "))
    })?;
    let Some(interval) = file.interval else { return Ok(INTERVAL) };
    if !(1..=3600).contains(interval.get_ref()) {
        return Err(format!("line {}: interval is 1 to 3600 seconds", line(interval.span().start)));
    }
    Ok(Duration::from_secs(interval.into_inner()))
}

export_app!(Stats, name = "stats");

#[cfg(test)]
#[path = "stats/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "stats/app_tests.rs"]
mod app_tests;

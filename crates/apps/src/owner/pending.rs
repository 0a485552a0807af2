//! Keeps the requests that wait for a switch or for the storage, and answers them.
//!
//! A change is complete when the switch has confirmed its messages, the library has nothing left to send to that switch, and the
//! storage has the wanted entries.

use std::collections::BTreeMap;
use std::time::Duration;

use rosemary_sdk::services::operator::{Answer, Refused};
use rosemary_sdk::serving::ClientRequest;
use rosemary_sdk::{Dpid, Network, Xid};

use super::change::{Change, Undo};
use super::{PATIENCE, Refusal};

/// Most requests that wait at a time.
const MOST_WAITING: usize = 4096;

/// A change that is not complete.
#[derive(Debug)]
pub(super) struct Waiting {
    request: ClientRequest,
    dpid: Dpid,
    change: Change,
    until: Duration,
    refused: Option<Refusal>,
    /// Why the switch gets it later.
    later: Option<String>,
}

impl Waiting {
    pub(super) fn new(request: ClientRequest, dpid: Dpid, change: Change, now: Duration) -> Self {
        Self { request, dpid, change, until: now + PATIENCE, refused: None, later: None }
    }

    /// Returns the answer, if the change is complete or has waited long enough.
    fn answer(&self, saved: Saved<'_>, is_settled: bool, now: Duration) -> Option<Answer> {
        if let Some((refused, why)) = self.refused.clone() {
            return Some(Answer::Refused { refused, why });
        }
        if let Some(why) = self.later.clone() {
            return Some(Answer::Later { why });
        }
        if saved == Saved::Yes && is_settled && self.change.barrier.is_none() {
            return Some(Answer::Done { priority: self.change.priority });
        }
        (now >= self.until).then(|| {
            let seconds = PATIENCE.as_secs();
            let why = match saved {
                Saved::Yes => format!("the switch has not confirmed it within {seconds} s"),
                Saved::NotYet => format!("the storage has not kept it within {seconds} s"),
                Saved::Refused(why) => not_kept(why),
            };
            Answer::Later { why }
        })
    }
}

/// Whether the storage has kept all entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved<'a> {
    Yes,
    NotYet,
    /// It refused the last request, for this reason.
    Refused(&'a str),
}

fn not_kept(why: &str) -> String {
    format!("the storage does not keep it: {why}")
}

/// A question to a switch that it has not answered.
#[derive(Debug)]
struct Ask {
    request: ClientRequest,
    dpid: Dpid,
    until: Duration,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Vec<Waiting>,
    asks: BTreeMap<u32, Ask>,
}

impl Pending {
    /// Whether no further request can wait.
    pub(super) fn is_full(&self) -> bool {
        self.changes.len() + self.asks.len() >= MOST_WAITING
    }

    /// Adds a change that was made.
    pub(super) fn add(&mut self, waiting: Waiting) {
        self.changes.push(waiting);
    }

    /// Adds a question that was sent.
    pub(super) fn asked(&mut self, xid: Xid, request: ClientRequest, dpid: Dpid, now: Duration) {
        self.asks.insert(xid.0, Ask { request, dpid, until: now + PATIENCE });
    }

    /// Returns whose question a reply answers.
    pub(super) fn asker(&mut self, xid: Xid, now: Duration) -> Option<ClientRequest> {
        let ask = self.asks.get_mut(&xid.0)?;
        ask.until = now + PATIENCE;
        Some(ask.request)
    }

    /// A question was answered completely.
    pub(super) fn answered(&mut self, xid: Xid) {
        self.asks.remove(&xid.0);
    }

    /// A switch has processed everything up to a barrier.
    pub(super) fn confirmed(&mut self, barrier: Xid) {
        for waiting in self.changes.iter_mut().filter(|it| it.change.barrier == Some(barrier)) {
            waiting.change.barrier = None;
        }
    }

    /// A message or a question has failed.
    pub(super) fn failed(&mut self, xid: Xid, (refused, why): Refusal, network: &mut Network<'_>) {
        if let Some(ask) = self.asks.remove(&xid.0) {
            network.answer(ask.request, false, &Answer::Refused { refused, why }.encode());
        } else if let Some(waiting) = self.changes.iter_mut().find(|it| it.change.sent(xid)) {
            waiting.refused.get_or_insert((refused, why));
        }
    }

    /// A switch did not accept an entry. Returns how to undo its declaration if a request has just declared it.
    pub(super) fn entry_failed(&mut self, dpid: Dpid, entry: &str, why: Refusal) -> Option<Undo> {
        let waiting = self.changes.iter_mut().filter(|it| it.dpid == dpid);
        for waiting in waiting {
            let declared = &mut waiting.change.declared;
            if let Some(at) = declared.iter().position(|it| it.name == entry) {
                waiting.refused.get_or_insert(why);
                return Some(declared.swap_remove(at).undo);
            }
        }
        None
    }

    /// A switch has no room for entries.
    pub(super) fn full(&mut self, dpid: Dpid, why: &str) {
        for waiting in self.changes.iter_mut().filter(|it| it.dpid == dpid) {
            waiting.later.get_or_insert_with(|| format!("the switch has no room: {why}"));
        }
    }

    /// The storage does not keep entries.
    pub(super) fn not_kept(&mut self, why: &str) {
        for waiting in &mut self.changes {
            waiting.later.get_or_insert_with(|| not_kept(why));
        }
    }

    /// A switch has disconnected.
    pub(super) fn switch_lost(&mut self, dpid: Dpid, network: &mut Network<'_>) {
        for waiting in self.changes.iter_mut().filter(|it| it.dpid == dpid) {
            waiting.later.get_or_insert_with(|| "the switch has disconnected".into());
        }
        self.end_asks(|ask| ask.dpid == dpid, "the switch has disconnected", network);
    }

    /// Answers what is complete. Returns when the next request has waited long enough.
    pub(super) fn finish(
        &mut self,
        saved: Saved<'_>,
        is_settled: impl Fn(Dpid) -> bool,
        network: &mut Network<'_>,
    ) -> Option<Duration> {
        let now = network.now();
        self.changes.retain(|waiting| {
            let settled = waiting.change.declared.is_empty() || is_settled(waiting.dpid);
            let answer = waiting.answer(saved, settled, now);
            if let Some(answer) = &answer {
                network.audit(&waiting.change.record.text(answer));
                network.answer(waiting.request, false, &answer.encode());
            }
            answer.is_none()
        });
        self.end_asks(|ask| now >= ask.until, "the switch did not answer", network);
        let changes = self.changes.iter().map(|waiting| waiting.until);
        changes.chain(self.asks.values().map(|ask| ask.until)).min()
    }

    fn end_asks(&mut self, ends: impl Fn(&Ask) -> bool, why: &str, network: &mut Network<'_>) {
        self.asks.retain(|_, ask| {
            let ends = ends(ask);
            if ends {
                let (refused, why) = (Refused::Unavailable, why.to_owned());
                network.answer(ask.request, false, &Answer::Refused { refused, why }.encode());
            }
            !ends
        });
    }
}

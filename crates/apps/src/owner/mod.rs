//! Owns entries of switches that people request: carries out the requests of clients, and keeps the entries wanted.
//!
//! An added flow without a timeout becomes a wanted entry (`rosemary_sdk::wanted`): it is stored, and restored where it is lost. Other
//! messages go to the switch once. The client gets its answer when the switch has confirmed the messages and the storage has the
//! entries.
//!
//! | file | purpose |
//! | --- | --- |
//! | `change.rs` | what a change does to the wanted entries, and which messages it sends |
//! | `selection.rs` | which flows a modify or delete covers |
//! | `pending.rs` | requests that wait for a switch |
//! | `record.rs` | what a change did, for the audit record |
//! | `priorities.rs` | assigns priorities of the band to requested ones |

mod change;
mod numbered;
mod pending;
mod priorities;
mod record;
mod selection;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rosemary_sdk::openflow::{Kind, MultipartReply};
use rosemary_sdk::services::operator::{Answer, MOST_BYTES, Numbers, Refused, Request};
use rosemary_sdk::services::storage::{Answer as Stored, Expect};
use rosemary_sdk::services::user::requester;
use rosemary_sdk::services::{RequestId, Service};
use rosemary_sdk::serving::{ClientEvent, ClientId, ClientRequest};
use rosemary_sdk::wanted::{Notice, Settings, Wanted};
use rosemary_sdk::{Dpid, Event, LostRequest, Network, Reply, Switch, Xid};

use self::pending::{Pending, Saved, Waiting};
use self::priorities::Priorities;

/// The key of the assigned priorities in the storage.
const PRIORITIES: &[u8] = b"priorities";

/// Most requests that wait until the entries of an earlier instance are known.
const MOST_EARLY: usize = 64;

/// How the priorities of requests are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// As they are on the switch.
    #[allow(dead_code, reason = "each of the two apps uses one")]
    OnSwitch,
    /// Any; the app assigns priorities of its band.
    #[allow(dead_code, reason = "each of the two apps uses one")]
    Assigned,
}

/// Whether the assigned priorities of an earlier instance are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loading {
    Due,
    Requested(RequestId),
    Done,
}

/// Why a request is refused, with the reason in words.
type Refusal = (Refused, String);

/// See the module's description.
pub(super) struct Owner {
    numbering: Numbering,
    wanted: Wanted,
    switches: BTreeMap<Dpid, Switch>,
    /// The names of the clients that may request changes.
    clients: BTreeMap<ClientId, String>,
    pending: Pending,
    priorities: Priorities,
    loading: Loading,
    early: VecDeque<(ClientRequest, Vec<u8>)>,
}

impl Owner {
    /// Creates it without entries.
    pub(super) fn new(numbering: Numbering) -> Self {
        // People wait for the answer, so an entry is sent before the switch has been read.
        let settings = Settings { at_once: true, ..Settings::default() };
        Self {
            numbering,
            wanted: Wanted::new(settings),
            switches: BTreeMap::new(),
            clients: BTreeMap::new(),
            pending: Pending::default(),
            priorities: Priorities::default(),
            loading: if numbering == Numbering::Assigned { Loading::Due } else { Loading::Done },
            early: VecDeque::new(),
        }
    }

    /// Handles an event.
    pub(super) fn on_event(&mut self, event: &Event<'_>, network: &mut Network<'_>) {
        let notices = self.wanted.on_event(event, network);
        self.notices(notices, network);
        match event {
            Event::SnapshotBegin => self.switches.clear(),
            Event::SwitchUp(switch) => {
                let before = self.switches.insert(switch.dpid, *switch);
                if before.is_some_and(|before| before != *switch) {
                    self.pending.switch_lost(switch.dpid, network);
                }
            }
            Event::SwitchDown(switch) if self.switches.get(&switch.dpid) == Some(switch) => {
                self.switches.remove(&switch.dpid);
                self.pending.switch_lost(switch.dpid, network);
            }
            Event::Reply(reply) => self.reply(reply, network),
            Event::Error(error) => {
                let why = format!("the switch answered {}", error.error);
                self.pending.failed(error.xid, (Refused::Switch, why), network);
            }
            Event::Refused { message, why, remedy, .. } => {
                if let Some(xid) = Xid::of(message) {
                    let why = why.map_or("the kernel refused it".into(), |it| it.to_string());
                    let why =
                        [Some(why.as_str()), *remedy].into_iter().flatten().collect::<Vec<_>>();
                    self.pending.failed(xid, (Refused::Rule, why.join("; ")), network);
                }
            }
            Event::RequestLost { xid, why, .. } => {
                let refused = match why {
                    LostRequest::Malformed => Refused::BadReply,
                    _ => Refused::Unavailable,
                };
                self.pending.failed(*xid, (refused, why.to_string()), network);
            }
            Event::ServiceUp(Service::Storage) => self.load(network),
            Event::Storage { request, answer } => {
                self.stored(*request, answer.as_ref().ok(), network);
            }
            Event::Client(event) => self.client(event, network),
            _ => {}
        }
        self.finish(network);
    }

    /// Continues what waits for time.
    pub(super) fn on_wake(&mut self, network: &mut Network<'_>) {
        let notices = self.wanted.on_wake(network);
        self.notices(notices, network);
        self.finish(network);
    }

    fn client(&mut self, event: &ClientEvent<'_>, network: &mut Network<'_>) {
        match event {
            ClientEvent::Connected { client, rights, name, .. } => {
                if rights.split(' ').any(|right| right == "operator") {
                    self.clients.insert(*client, (*name).to_owned());
                }
            }
            ClientEvent::Disconnected(client) => {
                self.clients.remove(client);
                self.early.retain(|(request, _)| request.client != *client);
            }
            ClientEvent::Request { request, body, .. } => {
                if !self.is_ready() && self.early.len() < MOST_EARLY {
                    self.early.push_back((*request, body.to_vec()));
                } else {
                    self.request(*request, body, network);
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.wanted.is_loaded() && self.loading == Loading::Done
    }

    fn request(&mut self, request: ClientRequest, body: &[u8], network: &mut Network<'_>) {
        let outcome = self.carry_out(request, body, network);
        if let Err((refused, why)) = outcome {
            network.answer(request, false, &Answer::Refused { refused, why }.encode());
        }
    }

    fn carry_out(
        &mut self,
        request: ClientRequest,
        body: &[u8],
        network: &mut Network<'_>,
    ) -> Result<(), Refusal> {
        let malformed = || (Refused::Malformed, "the request is malformed".to_owned());
        let Some(client) = self.clients.get(&request.client) else {
            return Err((Refused::NotGranted, "only operators may use this service".into()));
        };
        let (who, body) = requester(client, body);
        let who = who.to_owned();
        if !self.is_ready() {
            let why = "the entries of the last run are being read; try again";
            return Err((Refused::Unavailable, why.into()));
        }
        match Request::decode(body).ok_or_else(malformed)? {
            Request::Numbers => {
                let own = network.own_numbers();
                let assigned = self.priorities.iter();
                let assigned =
                    assigned.map(|(it, place)| (it, own.priorities.0.saturating_add(place)));
                let numbers = Numbers {
                    priorities: own.priorities,
                    groups: own.groups,
                    meters: own.meters,
                    assigned: assigned.collect(),
                };
                network.answer(request, false, &Answer::Numbers(numbers).encode());
                Ok(())
            }
            Request::Change { .. } | Request::Ask { .. } if self.pending.is_full() => {
                Err((Refused::Unavailable, "too many requests wait; try again".into()))
            }
            Request::Change { dpid, message } => {
                let mut change = self.change(Dpid(dpid), message, network)?;
                change.record.who = who;
                self.pending.add(Waiting::new(request, Dpid(dpid), change, network.now()));
                let notices = self.wanted.on_wake(network);
                self.notices(notices, network);
                Ok(())
            }
            Request::Ask { dpid, message } => {
                let switch = self.switch(Dpid(dpid))?;
                let xid = change::ask(switch, message, network)?;
                self.pending.asked(xid, request, Dpid(dpid), network.now());
                Ok(())
            }
        }
    }

    fn switch(&self, dpid: Dpid) -> Result<Switch, Refusal> {
        let switch = self.switches.get(&dpid).copied();
        switch.ok_or_else(|| (Refused::NoSwitch, format!("no switch {dpid} is connected")))
    }

    fn reply(&mut self, reply: &Reply<'_>, network: &mut Network<'_>) {
        if reply.kind == Kind::BarrierReply {
            self.pending.confirmed(reply.xid);
            return;
        }
        let Some(request) = self.pending.asker(reply.xid, network.now()) else { return };
        let more = MultipartReply::decode(reply.message).is_ok_and(|it| it.more);
        let chunks = reply.message.chunks(MOST_BYTES);
        let last = chunks.len().saturating_sub(1);
        for (number, chunk) in chunks.enumerate() {
            let answer = Answer::Messages(chunk.to_vec()).encode();
            network.answer(request, more || number < last, &answer);
        }
        if !more {
            self.pending.answered(reply.xid);
        }
    }

    fn notices(&mut self, notices: Vec<Notice>, network: &mut Network<'_>) {
        for notice in notices {
            match &notice {
                Notice::Failed { switch, entry, why, .. } => {
                    self.failed(switch.dpid, entry, why);
                    network.warn(&notice.to_string());
                }
                Notice::Full { switch, why, .. } => {
                    self.pending.full(switch.dpid, why);
                    network.warn(&notice.to_string());
                }
                Notice::NotKept { why } => {
                    self.pending.not_kept(why);
                    network.warn(&notice.to_string());
                }
                _ => network.info(&notice.to_string()),
            }
        }
    }

    /// An entry was not accepted. If a request has just declared it, it is not wanted any more.
    fn failed(&mut self, dpid: Dpid, entry: &str, why: &str) {
        let why = (Refused::Switch, why.to_owned());
        if let Some(declared) = self.pending.entry_failed(dpid, entry, why) {
            self.forget(dpid, &declared);
        }
    }

    /// Answers what is complete, and handles early requests.
    fn finish(&mut self, network: &mut Network<'_>) {
        if self.is_ready() {
            while let Some((request, body)) = self.early.pop_front() {
                self.request(request, &body, network);
            }
        }
        let wanted = &self.wanted;
        let saved = match wanted.save_failure() {
            _ if wanted.is_saved() => Saved::Yes,
            None => Saved::NotYet,
            Some(why) => Saved::Refused(why),
        };
        let wake = self.pending.finish(saved, |dpid| wanted.is_settled(dpid), network);
        if let Some(wake) = wake {
            network.wake_at(wake);
        }
    }

    fn load(&mut self, network: &mut Network<'_>) {
        if self.loading != Loading::Done {
            match network.storage().get(PRIORITIES) {
                Ok(request) => self.loading = Loading::Requested(request),
                Err(error) => network.error(&format!("could not read priorities: {error}")),
            }
        }
    }

    fn stored(
        &mut self,
        request: RequestId,
        answer: Option<&Stored<'_>>,
        network: &mut Network<'_>,
    ) {
        if self.loading != Loading::Requested(request) {
            return;
        }
        match answer {
            Some(Stored::Value { value, .. }) => {
                self.loading = Loading::Done;
                match Priorities::from_bytes(value) {
                    Some(priorities) => self.priorities = priorities,
                    None => {
                        network.error("the stored priorities are malformed; assigns them again");
                    }
                }
            }
            Some(Stored::Nothing) => self.loading = Loading::Done,
            Some(_) => network.error("could not read the priorities: see `rosemary status`"),
            None => {} // `ServiceUp` follows
        }
    }

    fn keep_priorities(&mut self, network: &mut Network<'_>) -> Result<(), Refusal> {
        let bytes = self.priorities.to_bytes();
        let stored = network.storage().put(PRIORITIES, &bytes, Expect::Anything);
        stored.map(drop).map_err(|error| (Refused::Unavailable, error.to_string()))
    }
}

/// Time after which a client is answered although the switch or the storage has not.
const PATIENCE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests;

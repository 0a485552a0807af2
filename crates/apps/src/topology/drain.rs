//! Keeps which switches are drained, and answers clients that begin or end a drain.
//!
//! Each drained switch is a key in the app's storage: `drain/`, then the datapath identifier as 16 hexadecimal digits. A
//! change counts when it is on the disk.

use std::collections::{BTreeMap, HashMap};

use rosemary_sdk::services::storage::{Answer, Expect};
use rosemary_sdk::services::topology::{Refused, Request, encode_answer};
use rosemary_sdk::services::user::requester;
use rosemary_sdk::services::{RequestId, Service};
use rosemary_sdk::serving::{ClientEvent, ClientId, ClientRequest};
use rosemary_sdk::{Dpid, Event, Network};

use super::discovery::Discovery;

const PREFIX: &str = "drain/";

/// Switches that may be drained at a time, absent ones included.
const MOST_DRAINED: usize = 4096;

/// A client of the service, and its rights.
#[derive(Debug, Default)]
struct Client {
    name: String,
    may_drain: bool,
    /// Whether it is no app, so that its changes are audited.
    is_operator: bool,
}

/// A request that waits for the storage.
#[derive(Debug)]
enum Waiting {
    /// The keys of an earlier process.
    Keys,
    /// A change, and who requests it. Those of operators are audited.
    Change { dpid: Dpid, on: bool, request: ClientRequest, who: String, is_operator: bool },
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Drains {
    clients: BTreeMap<ClientId, Client>,
    waiting: HashMap<RequestId, Waiting>,
}

impl Drains {
    /// Follows events of the storage and of clients.
    pub(super) fn on_event(
        &mut self,
        event: &Event<'_>,
        discovery: &mut Discovery,
        network: &mut Network<'_>,
    ) {
        match event {
            Event::ServiceUp(Service::Storage) => self.list(b"", network),
            Event::Storage { request, answer } => {
                let Some(waiting) = self.waiting.remove(request) else { return };
                self.answered(&waiting, answer.as_ref().ok(), discovery, network);
            }
            Event::Client(event) => self.client(event, discovery, network),
            _ => {}
        }
    }

    fn client(
        &mut self,
        event: &ClientEvent<'_>,
        discovery: &Discovery,
        network: &mut Network<'_>,
    ) {
        match event {
            ClientEvent::Connected { client, name, rights, .. } => {
                let has = |wanted| rights.split(' ').any(|right| right == wanted);
                let is_operator = has("operator");
                let may_drain = is_operator || has("topology.drain");
                let name = (*name).to_owned();
                self.clients.insert(*client, Client { name, may_drain, is_operator });
            }
            ClientEvent::Disconnected(client) => drop(self.clients.remove(client)),
            ClientEvent::Request { request, body, .. } => {
                if let Err(refused) = self.request(*request, body, discovery, network) {
                    network.answer(*request, false, &encode_answer(Err(refused)));
                }
            }
        }
    }

    /// Passes a request to the storage.
    fn request(
        &mut self,
        request: ClientRequest,
        body: &[u8],
        discovery: &Discovery,
        network: &mut Network<'_>,
    ) -> Result<(), Refused> {
        let client = self.clients.get(&request.client).filter(|client| client.may_drain);
        let (who, body) = match client {
            Some(client) if client.is_operator => requester(&client.name, body),
            Some(client) => (client.name.as_str(), body),
            None => ("", body),
        };
        let Request::Drain { dpid, on } = Request::decode(body).ok_or(Refused::Malformed)?;
        if client.is_none() {
            return Err(Refused::NotGranted);
        }
        if on && !discovery.is_drained(dpid) && discovery.drained() >= MOST_DRAINED {
            return Err(Refused::TooMany);
        }
        let key = format!("{PREFIX}{:016x}", dpid.0);
        let mut storage = network.storage();
        let asked = if on {
            storage.put(key.as_bytes(), b"1", Expect::Anything)
        } else {
            storage.delete(key.as_bytes(), Expect::Anything)
        };
        let id = asked.map_err(|error| {
            network.warn(&format!("could not store the drain of {dpid}: {error}"));
            Refused::NotStored
        })?;
        let is_operator = client.is_some_and(|client| client.is_operator);
        let who = who.to_owned();
        self.waiting.insert(id, Waiting::Change { dpid, on, request, who, is_operator });
        Ok(())
    }

    /// The storage answered, or ended before it did.
    fn answered(
        &mut self,
        waiting: &Waiting,
        answer: Option<&Answer<'_>>,
        discovery: &mut Discovery,
        network: &mut Network<'_>,
    ) {
        match (waiting, answer) {
            (Waiting::Keys, Some(Answer::Keys(keys))) => {
                let mut last: &[u8] = b"";
                for (key, _) in keys.iter() {
                    last = key;
                    if let Some(dpid) = dpid_of(key) {
                        discovery.set_drained(dpid, true);
                    }
                }
                if keys.more && !last.is_empty() {
                    self.list(last, network);
                }
            }
            (Waiting::Keys, None) => {} // `ServiceUp` follows
            (Waiting::Keys, Some(_)) => {
                network.error("could not read which switches are drained: see `rosemary status`");
            }
            (
                Waiting::Change { dpid, on, request, who, is_operator },
                Some(Answer::Done { .. }),
            ) => {
                let before = discovery.is_drained(*dpid);
                discovery.set_drained(*dpid, *on);
                let what = if *on { "began" } else { "ended" };
                network.info(&format!("{what} the drain of switch {dpid}, as {who} requested"));
                if *is_operator {
                    let state = |drained| if drained { "drained" } else { "not drained" };
                    let verb = if *on { "drain" } else { "undrain" };
                    let (before, after) = (state(before), state(*on));
                    network.audit(&format!("{who}: {verb} {dpid}: {before} -> {after}"));
                }
                network.answer(*request, false, &encode_answer(Ok(())));
            }
            (Waiting::Change { request, .. }, _) => {
                network.answer(*request, false, &encode_answer(Err(Refused::NotStored)));
            }
        }
    }

    fn list(&mut self, after: &[u8], network: &mut Network<'_>) {
        match network.storage().list(PREFIX.as_bytes(), after) {
            Ok(id) => drop(self.waiting.insert(id, Waiting::Keys)),
            Err(error) => {
                network.error(&format!("could not read which switches are drained: {error}"));
            }
        }
    }
}

/// Reads a key.
fn dpid_of(key: &[u8]) -> Option<Dpid> {
    let digits = std::str::from_utf8(key.strip_prefix(PREFIX.as_bytes())?).ok()?;
    u64::from_str_radix(digits, 16).ok().map(Dpid)
}

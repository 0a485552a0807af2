//! The storage service: key-value pairs that are durable once acknowledged.
//!
//! The requests of a turn become operations on the [`Engine`] in order of arrival. The engine runs and syncs them
//! together, and then the service answers them. Many small writes cost one sync.
//! [`sdk::services::storage`] defines the messages.

pub mod engine;
pub mod redb;

use std::fs::File;
use std::time::{Duration, Instant};

use sdk::services::storage::{Answer, Refused, Request};
use sys::rate::Rate;
use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;
use tracing::error;

use self::engine::{Engine, Op, Outcome};
use self::redb::Redb;
use crate::disk::DiskError;
use crate::run::{Needs, OpenError, Service, Startup};
use control::clients::{ClientId, ClientRequest, Clients, Reply};
use control::service::ServiceKind;

/// This service.
const OURS: ServiceKind = ServiceKind::Storage;

/// Maximum number of watches per client.
const MAX_WATCHES: usize = 16;

/// The storage service.
#[derive(Debug)]
pub struct Storage<E = Redb<File>> {
    engine: E,
    watches: Vec<Watch>,
    failures: Rate,
    /// Why the last write failed, and when, if it did.
    fails: Option<(String, Instant)>,
}

/// Time after a failed write for which the disk counts as failing, if no client writes again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A client's watch of a key prefix.
#[derive(Debug)]
struct Watch {
    client: ClientId,
    id: u64,
    space: u16,
    prefix: Vec<u8>,
}

/// How a request is handled.
#[derive(Debug)]
enum Plan<'a> {
    /// The engine runs it.
    Run(Op<'a>),
    Watch {
        space: u16,
        prefix: &'a [u8],
    },
    Unwatch {
        request: u64,
    },
    Refuse(Refused),
}

impl Service for Storage {
    const NAME: &'static str = "storage";

    fn needs(_: &Startup) -> Needs {
        let limits = Limits { descriptors: 256, threads: 8, file_size: 1 << 40, memory: None };
        Needs { profile: Profile::Storage, network: false, read: Vec::new(), limits }
    }

    fn open(mut startup: Startup) -> Result<Self, OpenError> {
        let file = startup.take_file()?;
        let engine = Redb::open(File::from(file), startup.quotas)?;
        Ok(Self::of(engine))
    }

    fn serve(&mut self, asked: Vec<ClientRequest>, clients: &mut Clients) {
        self.serve_all(&asked, clients);
        self.fails.take_if(|(_, since)| since.elapsed() >= REMEMBERED);
        if let Some(suppressed) = self.failures.rest(Instant::now()) {
            error!(suppressed, "suppressed further records of disk errors");
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let forgotten = self.fails.as_ref().map(|(_, since)| *since + REMEMBERED);
        self.failures.next_due().into_iter().chain(forgotten).min()
    }

    fn disk_failure(&self) -> Option<String> {
        self.fails.as_ref().map(|(why, _)| why.clone())
    }

    fn disconnected(&mut self, client: ClientId) {
        self.watches.retain(|watch| watch.client != client);
    }
}

impl<E: Engine> Storage<E> {
    /// Creates the service with an engine.
    pub fn of(engine: E) -> Self {
        Self { engine, watches: Vec::new(), failures: Rate::new(Instant::now()), fails: None }
    }

    fn serve_all(&mut self, asked: &[ClientRequest], clients: &mut Clients) {
        let plans: Vec<Plan<'_>> = asked.iter().map(|it| plan(it, clients)).collect();
        let ops: Vec<Op<'_>> = plans
            .iter()
            .filter_map(|plan| if let Plan::Run(op) = plan { Some(*op) } else { None })
            .collect();
        let outcomes = if ops.is_empty() { Ok(Vec::new()) } else { self.engine.run(&ops) };
        let why = outcomes.as_ref().err().map(|error| self.failed(error));
        if outcomes.is_ok() && ops.iter().any(Op::writes) {
            self.fails = None;
        }
        let mut outcomes = outcomes.unwrap_or_default().into_iter();
        for (asked, plan) in asked.iter().zip(plans) {
            let (client, id) = (asked.client, asked.id);
            let mut answer = |answer: Answer<'_>, more| {
                clients.answer(Reply { client, id, more, body: &answer.encode() });
            };
            match plan {
                Plan::Refuse(why) => answer(Answer::Refused(why), false),
                Plan::Watch { space, prefix } => {
                    let count = self.watches.iter().filter(|it| it.client == client).count();
                    if count < MAX_WATCHES {
                        answer(Answer::Watching, true);
                        self.watches.push(Watch { client, id, space, prefix: prefix.to_vec() });
                    } else {
                        answer(Answer::Refused(Refused::TooManyWatches), false);
                    }
                }
                Plan::Unwatch { request } => {
                    let is_it = |it: &Watch| it.client == client && it.id == request;
                    if let Some(place) = self.watches.iter().position(is_it) {
                        self.watches.remove(place);
                        let body = Answer::Done { version: 0 }.encode();
                        clients.answer(Reply { client, id: request, more: false, body: &body });
                    }
                    let body = Answer::Done { version: 0 }.encode();
                    clients.answer(Reply { client, id, more: false, body: &body });
                }
                Plan::Run(op) => match (outcomes.next(), why) {
                    (None, why) => {
                        answer(Answer::Refused(why.unwrap_or(Refused::Failed)), false);
                    }
                    (Some(Outcome::Done { version, changed }), _) => {
                        answer(Answer::Done { version }, false);
                        if changed {
                            self.notify_watchers(&op, version, clients);
                        }
                    }
                    (Some(Outcome::Value { version, value }), _) => {
                        answer(Answer::Value { version, value: &value }, false);
                    }
                    (Some(Outcome::Nothing), _) => answer(Answer::Nothing, false),
                    (Some(Outcome::Conflict { version }), _) => {
                        answer(Answer::Conflict { version }, false);
                    }
                    (Some(Outcome::OverQuota), _) => {
                        answer(Answer::Refused(Refused::Quota), false);
                        let quota = "[storage] bytes-per-app or keys-per-app";
                        clients.record_refusal(client, "storage beyond its quota", quota);
                    }
                    (Some(Outcome::Keys(body)), _) => {
                        clients.answer(Reply { client, id, more: false, body: &body });
                    }
                },
            }
        }
    }

    /// Notifies the watchers of a changed key.
    fn notify_watchers(&self, op: &Op<'_>, version: u64, clients: &mut Clients) {
        let (space, key) = op.namespace_and_key();
        let body = Answer::Changed { version, key }.encode();
        for watch in self.watches.iter().filter(|it| it.space == space) {
            if key.starts_with(&watch.prefix) {
                let Watch { client, id, .. } = *watch;
                clients.answer(Reply { client, id, more: true, body: &body });
            }
        }
    }

    /// Logs an engine failure; returns the reply for the clients.
    fn failed(&mut self, error: &DiskError) -> Refused {
        self.fails = Some((error.to_string(), Instant::now()));
        if let Some(suppressed) = self.failures.admit(Instant::now()) {
            let hint = error.remedy(OURS);
            let hint = hint
                .as_deref()
                .unwrap_or("the operations had no effect; acknowledged data is kept");
            error!(%error, suppressed, hint, "could not use the disk");
        }
        match error {
            DiskError::Full => Refused::DiskFull,
            DiskError::Damaged(_) | DiskError::Failed(_) => Refused::Failed,
        }
    }
}

fn plan<'a>(asked: &'a ClientRequest, clients: &mut Clients) -> Plan<'a> {
    let Some(request) = Request::decode(&asked.request) else {
        return Plan::Refuse(Refused::Malformed);
    };
    let (namespace, write) = match request {
        Request::Unwatch { request } => return Plan::Unwatch { request },
        Request::Put { namespace, .. } | Request::Delete { namespace, .. } => (namespace, true),
        Request::Get { namespace, .. }
        | Request::List { namespace, .. }
        | Request::Watch { namespace, .. } => (namespace, false),
    };
    let Some(space) = space_of(asked.client, namespace, write, clients) else {
        let right = if write { "storage.write" } else { "storage.read" };
        let shown: String = namespace.chars().take(40).flat_map(char::escape_debug).collect();
        let what = if write { "writing another app's data" } else { "reading another app's data" };
        clients.record_refusal(asked.client, what, &format!("{right}:{shown}"));
        return Plan::Refuse(Refused::NotGranted);
    };
    match request {
        Request::Get { key, .. } => Plan::Run(Op::Get { space, key }),
        Request::Put { key, expect, value, .. } => Plan::Run(Op::Put { space, key, expect, value }),
        Request::Delete { key, expect, .. } => Plan::Run(Op::Delete { space, key, expect }),
        Request::List { prefix, after, .. } => Plan::Run(Op::List { space, prefix, after }),
        Request::Watch { prefix, .. } => Plan::Watch { space, prefix },
        Request::Unwatch { request } => Plan::Unwatch { request },
    }
}

/// Returns the namespace of this name if the client may access it: its own, or a granted one.
fn space_of(client: ClientId, name: &str, write: bool, clients: &Clients) -> Option<u16> {
    if name.is_empty() {
        return clients.app(client);
    }
    let granted = clients.rights(client)?.namespaces.iter().find(|it| it.name == name)?;
    (if write { granted.write } else { granted.read }).then_some(granted.app)
}

#[cfg(test)]
mod tests;

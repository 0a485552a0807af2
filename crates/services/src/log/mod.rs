//! The log service stores the log lines of all programs for operators.
//!
//! The monitor collects the lines, sends them here, and receives a confirmation once they are on
//! the disk. Operators read them. The socket identifies the client and thus its rights. The monitor
//! resends lines that could not be stored, within its own bounds: a full disk delays no program and
//! at most loses lines. The service reports this once when it starts and once when it ends.

mod store;

use std::fs::File;

use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;
use tracing::{error, info};

use self::store::{LogStore, Page, Part};
use crate::disk::{Disk, DiskError};
use crate::run::{Needs, OpenError, Service, Startup};
use control::clients::{ClientRequest, Clients, Reply};
use control::log::{LogReply, LogRequest};
use control::service::ServiceKind;
use control::service::{LogRight, ServiceQuotas};

/// This service.
const OURS: ServiceKind = ServiceKind::Log;

/// Maximum number of last lines that an operator can request.
const MAX_LAST: usize = 10_000;

/// The log service.
#[derive(Debug)]
pub struct Log<D = File> {
    store: LogStore<D>,
    /// Why the last lines could not be stored, if so.
    fails: Option<String>,
}

impl Service for Log {
    const NAME: &'static str = "log";

    // Each request may scan many lines, and the monitor's lines must not wait long.
    const PER_TURN: usize = 4;

    fn needs(_: &Startup) -> Needs {
        let limits = Limits { descriptors: 256, threads: 8, file_size: 1 << 40, memory: None };
        Needs { profile: Profile::Log, network: false, read: Vec::new(), limits }
    }

    fn open(mut startup: Startup) -> Result<Self, OpenError> {
        let file = startup.take_file()?;
        Ok(Self::of(File::from(file), startup.quotas))
    }

    fn serve(&mut self, asked: Vec<ClientRequest>, clients: &mut Clients) {
        self.serve_all(&asked, clients);
    }

    fn disk_failure(&self) -> Option<String> {
        self.fails.clone()
    }
}

impl<D: Disk> Log<D> {
    /// Creates the service. The disk is first used by a request, so a log without space starts
    /// working once there is some.
    fn of(disk: D, quotas: ServiceQuotas) -> Self {
        Self { store: LogStore::new(disk, quotas.log_bytes), fails: None }
    }

    fn serve_all(&mut self, asked: &[ClientRequest], clients: &mut Clients) {
        for ClientRequest { client, id, request } in asked {
            let right = clients.rights(*client).and_then(|rights| rights.log);
            let answer = match (serde_json::from_slice(request), right) {
                (Err(_), _) => refused("the request is not of this version"),
                (Ok(request), Some(right)) => self.answer(request, right),
                (Ok(_), None) => refused("you may not use the log"),
            };
            let body = serde_json::to_vec(&answer).expect("replies consist of text and numbers");
            clients.answer(Reply { client: *client, id: *id, more: false, body: &body });
        }
    }

    fn answer(&mut self, request: LogRequest, right: LogRight) -> LogReply {
        let done = match (request, right) {
            (LogRequest::Next, LogRight::Write) => return self.write(LogStore::next),
            (LogRequest::Keep(lines), LogRight::Write) => {
                return self.write(|store| store.keep(&lines));
            }
            (LogRequest::Programs, LogRight::Read) => self.store.programs().map(LogReply::Programs),
            (LogRequest::Last { count, before, filter }, LogRight::Read) => {
                let count = usize::try_from(count).unwrap_or(MAX_LAST).min(MAX_LAST);
                self.store.last(count, before, &filter).map(|Part { from, found, before, end }| {
                    let found = u32::try_from(found).unwrap_or(u32::MAX);
                    LogReply::Last { from, found, before, end }
                })
            }
            (LogRequest::Read { from, filter }, LogRight::Read) => {
                let not_kept = self.fails.clone();
                let lines =
                    |Page { lines, next, end }| LogReply::Lines { lines, next, end, not_kept };
                self.store.read(from, &filter).map(lines)
            }
            _ => return refused("you may not send this request"),
        };
        done.unwrap_or_else(|error| {
            refused(&match error.remedy(OURS) {
                Some(remedy) => format!("the log cannot be read: {error}; {remedy}"),
                None => format!("the log cannot be read: {error}"),
            })
        })
    }

    /// Runs a write request of the monitor; logs the first failure and the first success after it.
    fn write(&mut self, what: impl FnOnce(&mut LogStore<D>) -> Result<u64, DiskError>) -> LogReply {
        match what(&mut self.store) {
            Ok(next) => {
                if self.fails.take().is_some() {
                    info!("stored log lines again; a line in the log counts the missing ones");
                }
                LogReply::Next(next)
            }
            Err(error) => {
                if self.fails.replace(error.to_string()).is_none() {
                    let hint = error.remedy(OURS);
                    let hint = hint
                        .as_deref()
                        .unwrap_or("Rosemary retries until it succeeds; nothing else is affected");
                    error!(%error, hint, "could not store log lines");
                }
                LogReply::NotKept
            }
        }
    }
}

fn refused(why: &str) -> LogReply {
    LogReply::Refused { why: why.to_owned() }
}

#[cfg(test)]
mod tests;

//! The log: what all programs log, kept for operators.
//!
//! The monitor, to which all programs' lines come, hands them in and is told when they are on the disk;
//! operators read. Who may do which is known by the socket. What cannot be kept the monitor hands in
//! again, within bounds of its own, so that a disk that is full delays nobody and costs lines at most; that is
//! said once, when it begins, and once when it is over.

mod book;
pub mod messages;

use std::fs::File;
use std::os::fd::OwnedFd;

use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;
use tracing::{error, info};

use self::book::{Book, Page, Part};
use self::messages::{Answer, Request};
use crate::clients::{Asked, Clients, Reply};
use crate::control::{LogRight, Quotas};
use crate::disk::{Disk, DiskError};
use crate::kind;
use crate::run::{Needs, OpenError, Service};

/// Which service this is.
const OURS: kind::Kind = kind::Kind::Log;

/// Lines that an operator can ask for as the last.
const MOST_LAST: usize = 10_000;

/// The service.
#[derive(Debug)]
pub struct Log<D = File> {
    book: Book<D>,
    /// Why the last lines could not be kept, if so.
    fails: Option<String>,
}

impl Service for Log {
    const NAME: &'static str = "log";

    // Each may look at many lines, and the monitor's lines are not to wait long behind them.
    const PER_TURN: usize = 4;

    fn needs() -> Needs {
        let limits = Limits { descriptors: 256, threads: 8, file_size: 1 << 40, memory: None };
        Needs { profile: Profile::Log, network: false, read: Vec::new(), limits }
    }

    fn open(file: Option<OwnedFd>, quotas: Quotas) -> Result<Self, OpenError> {
        let file = file.ok_or(OpenError::NoFile)?;
        Ok(Self::of(File::from(file), quotas))
    }

    fn serve(&mut self, asked: Vec<Asked>, clients: &mut Clients) {
        self.serve_all(&asked, clients);
    }
}

impl<D: Disk> Log<D> {
    /// On a disk, which is first looked at when somebody asks: a log that has no room yet is to be there
    /// when it has.
    fn of(disk: D, quotas: Quotas) -> Self {
        Self { book: Book::new(disk, quotas.log_bytes), fails: None }
    }

    fn serve_all(&mut self, asked: &[Asked], clients: &mut Clients) {
        for Asked { client, id, request } in asked {
            let right = clients.rights(*client).and_then(|rights| rights.log);
            let answer = match (serde_json::from_slice(request), right) {
                (Err(_), _) => refused("that is no question of this version"),
                (Ok(request), Some(right)) => self.answer(request, right),
                (Ok(_), None) => refused("you may not ask"),
            };
            let body =
                serde_json::to_vec(&answer).expect("our own answers are lists of text and numbers");
            clients.answer(Reply { client: *client, id: *id, more: false, body: &body });
        }
    }

    fn answer(&mut self, request: Request, right: LogRight) -> Answer {
        let done = match (request, right) {
            (Request::Next, LogRight::Write) => return self.write(Book::next),
            (Request::Keep(lines), LogRight::Write) => {
                return self.write(|book| book.keep(&lines));
            }
            (Request::Programs, LogRight::Read) => self.book.programs().map(Answer::Programs),
            (Request::Last { count, before, filter }, LogRight::Read) => {
                let count = usize::try_from(count).unwrap_or(MOST_LAST).min(MOST_LAST);
                self.book.last(count, before, &filter).map(|Part { from, found, before, end }| {
                    let found = u32::try_from(found).unwrap_or(u32::MAX);
                    Answer::Last { from, found, before, end }
                })
            }
            (Request::Read { from, filter }, LogRight::Read) => {
                let not_kept = self.fails.clone();
                let lines =
                    |Page { lines, next, end }| Answer::Lines { lines, next, end, not_kept };
                self.book.read(from, &filter).map(lines)
            }
            _ => return refused("you may not ask that"),
        };
        done.unwrap_or_else(|error| {
            refused(&match error.way_out(OURS) {
                Some(way_out) => format!("the log cannot be read: {error}; {way_out}"),
                None => format!("the log cannot be read: {error}"),
            })
        })
    }

    /// Does what the monitor asks; says once that it cannot, and once that it can again.
    fn write(&mut self, what: impl FnOnce(&mut Book<D>) -> Result<u64, DiskError>) -> Answer {
        match what(&mut self.book) {
            Ok(next) => {
                if self.fails.take().is_some() {
                    info!("the log is kept again; what is missing in it is said there");
                }
                Answer::Next(next)
            }
            Err(error) => {
                if self.fails.replace(error.to_string()).is_none() {
                    let hint = error.way_out(OURS);
                    let hint = hint
                        .as_deref()
                        .unwrap_or("it is tried again until it can; nothing else suffers");
                    error!(%error, hint, "the log could not be kept");
                }
                Answer::NotKept
            }
        }
    }
}

fn refused(why: &str) -> Answer {
    Answer::Refused { why: why.to_owned() }
}

#[cfg(test)]
mod tests;

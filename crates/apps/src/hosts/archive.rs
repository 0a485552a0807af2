//! Keeps the hosts in the storage, and restores the hosts that an earlier process has stored.
//!
//! Hosts are divided into [`SHELVES`] values of the app's storage: `hosts/`, then two hexadecimal digits. A change of a host
//! rewrites the value of its shelf, a moment later, so that many changes are few writes. Nothing is written before all values
//! are read.

#![expect(clippy::similar_names, reason = "`shelf` is the word, and `self` is near it")]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use rosemary_sdk::services::storage::{Answer, Expect};
use rosemary_sdk::services::{RequestId, Service};
use rosemary_sdk::{Event, MacAddr, Network};

use super::kept::{self, Clocks};
use super::tracker::Tracker;

/// Number of values.
pub(super) const SHELVES: usize = 256;

const PREFIX: &str = "hosts/";

/// Values that are read at a time: fewer than requests may wait for an answer.
const READS: usize = 32;

/// Values that are written at a time, and how long to wait before the next ones.
const WRITES: usize = 8;
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// How long to wait after a write that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Returns the shelf of a host.
pub(super) fn shelf_of(mac: MacAddr, vlan: u16) -> u8 {
    let bytes = mac.0.into_iter().chain(vlan.to_be_bytes());
    bytes.fold(0_u8, |sum, byte| sum.rotate_left(3) ^ byte)
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// Which values there are.
    List,
    Read(u8),
    Write(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The storage is not there yet, or did not answer.
    Begin,
    /// The values of an earlier process are being read.
    Reading,
    /// All values are read.
    Read,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Archive {
    stage: Stage,
    waiting: HashMap<RequestId, Waiting>,
    to_read: VecDeque<u8>,
    /// Whether the storage can be asked: it has not ended since it was announced.
    is_up: bool,
    next_write: Duration,
    /// Whether the log already says that hosts cannot be stored, or not all.
    said_failed: bool,
    said_full: bool,
}

impl Default for Archive {
    fn default() -> Self {
        Self {
            stage: Stage::Begin,
            waiting: HashMap::new(),
            to_read: VecDeque::new(),
            is_up: false,
            next_write: Duration::ZERO,
            said_failed: false,
            said_full: false,
        }
    }
}

impl Archive {
    /// Returns whether the storage has never answered.
    pub(super) fn is_missing(&self) -> bool {
        self.stage == Stage::Begin
    }

    /// Follows events of the storage.
    pub(super) fn on_event(
        &mut self,
        event: &Event<'_>,
        tracker: &mut Tracker,
        clocks: Clocks,
        network: &mut Network<'_>,
    ) {
        match event {
            Event::ServiceUp(Service::Storage) => {
                self.is_up = true;
                if self.stage == Stage::Begin {
                    self.list(network);
                }
            }
            Event::Storage { request, answer } => {
                if let Some(waiting) = self.waiting.remove(request) {
                    self.is_up &= answer.is_ok();
                    self.answered(waiting, answer.as_ref().ok(), tracker, clocks, network);
                }
            }
            _ => {}
        }
    }

    fn answered(
        &mut self,
        waiting: Waiting,
        answer: Option<&Answer<'_>>,
        tracker: &mut Tracker,
        clocks: Clocks,
        network: &mut Network<'_>,
    ) {
        match (waiting, answer) {
            (Waiting::List, Some(Answer::Keys(keys))) => {
                self.to_read = keys.iter().filter_map(|(key, _)| shelf(key)).collect();
                self.stage = Stage::Reading;
            }
            (Waiting::List, _) => self.stage = Stage::Begin, // `ServiceUp` follows
            (Waiting::Read(shelf), Some(Answer::Value { value, .. })) => {
                match kept::decode(value, clocks) {
                    Some(hosts) => tracker.restore(shelf, &hosts, clocks.now_s),
                    None => network.warn(&format!(
                        "ignored stored hosts that another version of the app has written, or that are damaged: {PREFIX}{shelf:02x}"
                    )),
                }
            }
            (Waiting::Read(_), Some(Answer::Nothing)) => {}
            (Waiting::Read(shelf), _) => self.to_read.push_back(shelf),
            (Waiting::Write(_), Some(Answer::Done { .. })) => self.said_failed = false,
            (Waiting::Write(shelf), answer) => {
                tracker.directory.dirty.insert(shelf);
                if let Some(answer) = answer {
                    self.failed(clocks, &format!("the storage answered {answer:?}"), network);
                }
            }
        }
    }

    /// Sends the requests that are due, and returns when more are.
    pub(super) fn go_on(
        &mut self,
        tracker: &mut Tracker,
        now: Duration,
        clocks: Clocks,
        network: &mut Network<'_>,
    ) -> Option<Duration> {
        if !self.is_up || self.stage == Stage::Begin {
            return None;
        }
        while self.waiting.len() < READS
            && let Some(shelf) = self.to_read.pop_front()
        {
            if let Ok(id) = network.storage().get(&key(shelf)) {
                self.waiting.insert(id, Waiting::Read(shelf));
            } else {
                self.to_read.push_front(shelf);
                break;
            }
        }
        let is_reading = |it: &Waiting| matches!(it, Waiting::Read(_));
        if self.to_read.is_empty() && !self.waiting.values().any(is_reading) {
            self.stage = Stage::Read;
        }
        if self.stage == Stage::Read && now >= self.next_write {
            self.write(tracker, now, clocks, network);
        }
        let is_due = self.stage == Stage::Read && !tracker.directory.dirty.is_empty();
        is_due.then_some(self.next_write)
    }

    fn write(
        &mut self,
        tracker: &mut Tracker,
        now: Duration,
        clocks: Clocks,
        network: &mut Network<'_>,
    ) {
        let is_under_way = |shelf: &u8| {
            self.waiting.values().any(|it| matches!(it, Waiting::Write(other) if other == shelf))
        };
        let dirty = tracker.directory.dirty.iter().copied();
        let shelves: BTreeSet<u8> =
            dirty.filter(|shelf| !is_under_way(shelf)).take(WRITES).collect();
        if !tracker.directory.dirty.is_empty() {
            self.next_write = now + WRITE_EVERY;
        }
        for shelf in shelves {
            let (value, left_out) = kept::encode(&tracker.directory.shelf(shelf), clocks);
            if left_out > 0 && !std::mem::replace(&mut self.said_full, true) {
                network.warn(&format!(
                    "the stored hosts have no room for {left_out} hosts or more: after a restart, these are known again only when \
                     they send something"
                ));
            }
            match network.storage().put(&key(shelf), &value, Expect::Anything) {
                Ok(id) => {
                    tracker.directory.dirty.remove(&shelf);
                    self.waiting.insert(id, Waiting::Write(shelf));
                }
                Err(error) => return self.failed(clocks, &error.to_string(), network),
            }
        }
    }

    /// Waits before the next write, and logs the first failure.
    fn failed(&mut self, clocks: Clocks, why: &str, network: &Network<'_>) {
        self.next_write = Duration::from_secs(clocks.now_s) + AFTER_FAILURE;
        if !std::mem::replace(&mut self.said_failed, true) {
            network.error(&format!(
                "could not store where the hosts are: {why}. After a restart, hosts are known again only when they send something"
            ));
        }
    }

    fn list(&mut self, network: &mut Network<'_>) {
        match network.storage().list(PREFIX.as_bytes(), b"") {
            Ok(id) => {
                self.waiting.insert(id, Waiting::List);
            }
            Err(error) => network.error(&format!("could not read the stored hosts: {error}")),
        }
    }
}

fn key(shelf: u8) -> Vec<u8> {
    format!("{PREFIX}{shelf:02x}").into_bytes()
}

/// Reads a key.
fn shelf(key: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(key.strip_prefix(PREFIX.as_bytes())?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

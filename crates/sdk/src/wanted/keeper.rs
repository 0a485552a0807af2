//! Keeps the wanted entries in the service `storage`.
//!
//! Entries share values of up to [`PAGE`] bytes, so that 10,000 of them take about a hundred keys:
//!
//! ```text
//! key     wanted/00000007
//! value   entry | entry | ...       see `entry.rs`
//! ```
//!
//! A change makes its page dirty. A page has one write underway at most, so changes that follow each other quickly are
//! written together.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::entry::{At, Key, WantedEntry};
use super::notice::Notice;
use super::set::{EntryId, WantedSet};
use crate::network::Network;
use crate::services::storage::{Answer, Expect};
use crate::services::wire::{Reader, Writer};
use crate::services::{AskError, RequestId, Unavailable};

/// The beginning of the library's keys.
const PREFIX: &[u8] = b"wanted/";

/// Most bytes of a page. An entry that is longer has a page of its own.
const PAGE: usize = 24 * 1024;

/// Most requests that wait for the storage at a time; an application may have others.
const AT_ONCE: usize = 16;

/// Time until the next attempt after the storage has refused something.
const RETRY: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Page {
    entries: Vec<EntryId>,
    size: usize,
    is_dirty: bool,
    is_written: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    List,
    Get(u32),
    Write(u32),
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is kept.
    Off,
    /// The keys must be listed, as soon as this time has come.
    Start(Duration),
    Loading,
    Ready,
}

/// The pages of the storage, and the requests that wait for it.
#[derive(Debug)]
pub(super) struct Keeper {
    phase: Phase,
    pages: BTreeMap<u32, Page>,
    of_entry: HashMap<EntryId, u32>,
    /// Entries without a page, with their sizes: those that were declared before all pages were read.
    unplaced: BTreeMap<EntryId, usize>,
    /// The page that has had room last.
    open: u32,
    pending: HashMap<RequestId, Task>,
    to_get: VecDeque<u32>,
    last_key: Vec<u8>,
    loaded: (usize, usize),
    /// Entries that the application no longer wants, though they have not been read yet.
    unwanted: Vec<(At, Key)>,
    write_at: Duration,
    /// Why the storage refused the last request, as a phrase.
    failure: Option<String>,
}

impl Keeper {
    pub(super) fn new(keeps: bool) -> Self {
        Self {
            phase: if keeps { Phase::Start(Duration::ZERO) } else { Phase::Off },
            pages: BTreeMap::new(),
            of_entry: HashMap::new(),
            unplaced: BTreeMap::new(),
            open: 0,
            pending: HashMap::new(),
            to_get: VecDeque::new(),
            last_key: Vec::new(),
            loaded: (0, 0),
            unwanted: Vec::new(),
            write_at: Duration::ZERO,
            failure: None,
        }
    }

    /// Whether all entries of earlier instances are known.
    pub(super) fn is_loaded(&self) -> bool {
        matches!(self.phase, Phase::Off | Phase::Ready)
    }

    /// Whether every change is in the storage.
    pub(super) fn is_saved(&self) -> bool {
        self.phase == Phase::Ready
            && self.pages.values().all(|page| !page.is_dirty && !page.is_written)
    }

    /// Why the storage refused the last request, as a phrase; `None` if it did not.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Notes an entry that must be kept.
    pub(super) fn add(&mut self, id: EntryId, size: usize) {
        match self.phase {
            Phase::Off => {}
            Phase::Start(_) | Phase::Loading => {
                self.unplaced.insert(id, size);
            }
            Phase::Ready => self.place(id, size),
        }
    }

    fn place(&mut self, id: EntryId, size: usize) {
        let has_room = |page: &Page| page.entries.is_empty() || page.size + size <= PAGE;
        let open = self.pages.entry(self.open).or_default();
        if !has_room(open) {
            let found = self.pages.iter().find(|(_, page)| page.size + size <= PAGE / 2);
            let after_last = self.pages.keys().next_back().map_or(0, |last| last.wrapping_add(1));
            self.open = found.map_or(after_last, |(number, _)| *number);
        }
        let page = self.pages.entry(self.open).or_default();
        page.entries.push(id);
        page.size += size;
        page.is_dirty = true;
        self.of_entry.insert(id, self.open);
    }

    /// Notes an entry that is kept no more.
    pub(super) fn remove(&mut self, id: EntryId, size: usize) {
        self.unplaced.remove(&id);
        let Some(number) = self.of_entry.remove(&id) else { return };
        if let Some(page) = self.pages.get_mut(&number) {
            page.entries.retain(|entry| *entry != id);
            page.size = page.size.saturating_sub(size);
            page.is_dirty = true;
        }
    }

    /// Notes that an entry is not wanted, which an earlier instance may have kept.
    pub(super) fn unwant(&mut self, at: At, key: &Key) {
        if !self.is_loaded() {
            self.unwanted.push((at, key.clone()));
        }
    }

    /// Handles the start of the storage: earlier requests are lost.
    pub(super) fn service_up(&mut self, now: Duration) {
        self.pending.clear();
        for page in self.pages.values_mut().filter(|page| page.is_written) {
            (page.is_written, page.is_dirty) = (false, true);
        }
        match self.phase {
            Phase::Off | Phase::Ready => {}
            Phase::Start(_) | Phase::Loading => self.restart(now),
        }
        self.write_at = now;
    }

    fn restart(&mut self, at: Duration) {
        self.phase = Phase::Start(at);
        self.to_get.clear();
        self.last_key.clear();
    }

    /// Handles an answer; returns whether it was for the library. `Some(true)`: all entries are known now.
    pub(super) fn answer(
        &mut self,
        request: RequestId,
        answer: &Result<Answer<'_>, Unavailable>,
        set: &mut WantedSet,
        is_marked: bool,
        (now, notices): (Duration, &mut Vec<Notice>),
    ) -> Option<bool> {
        let task = self.pending.remove(&request)?;
        match (task, answer) {
            (Task::List, Ok(Answer::Keys(keys))) => {
                for (key, _) in keys.iter() {
                    self.last_key = key.to_vec();
                    self.to_get.extend(number(key));
                }
                if keys.more {
                    self.phase = Phase::Start(now);
                } else if self.to_get.is_empty() {
                    return Some(self.finish(set, notices));
                }
            }
            (Task::Get(page), Ok(Answer::Value { value, .. })) => {
                self.load(page, value, set, is_marked);
                return Some(self.is_last() && self.finish(set, notices));
            }
            (Task::Get(_), Ok(Answer::Nothing)) => {
                return Some(self.is_last() && self.finish(set, notices));
            }
            (Task::Write(number), Ok(Answer::Done { .. })) => {
                self.written(number);
                self.failure = None;
            }
            (Task::Write(number), answer) => {
                if let Some(page) = self.pages.get_mut(&number) {
                    (page.is_written, page.is_dirty) = (false, true);
                }
                self.write_at = now + RETRY;
                self.report(answer, notices);
            }
            (Task::List | Task::Get(_), answer) => {
                self.pending.retain(|_, task| matches!(task, Task::Write(_)));
                self.restart(now + RETRY);
                self.report(answer, notices);
            }
        }
        Some(false)
    }

    fn is_last(&self) -> bool {
        self.to_get.is_empty() && !self.pending.values().any(|task| matches!(task, Task::Get(_)))
    }

    fn written(&mut self, number: u32) {
        let Some(page) = self.pages.get_mut(&number) else { return };
        page.is_written = false;
        if page.entries.is_empty() && !page.is_dirty {
            self.pages.remove(&number);
        }
    }

    /// Reports why the storage does not do its work, unless it was the reason before.
    fn report(&mut self, answer: &Result<Answer<'_>, Unavailable>, notices: &mut Vec<Notice>) {
        let why = match answer {
            Ok(Answer::Refused(why)) => why.to_string(),
            Ok(_) => "the storage gave an answer that does not belong to the request".into(),
            Err(Unavailable) => return, // it starts again soon
        };
        if self.failure.as_ref() != Some(&why) {
            notices.push(Notice::NotKept { why: why.clone() });
            self.failure = Some(why);
        }
    }

    /// Reads a page. A declaration since the application's start replaces an entry of the page.
    fn load(&mut self, number: u32, value: &[u8], set: &mut WantedSet, is_marked: bool) {
        let mut from = Reader(value);
        let mut page = self.pages.remove(&number).unwrap_or_default();
        while !from.0.is_empty() {
            let Some(entry) = WantedEntry::read(&mut from, is_marked) else {
                self.loaded.1 += 1;
                page.is_dirty = true;
                break; // the length of what follows is not known
            };
            let is_unwanted =
                self.unwanted.iter().any(|(at, key)| *at == entry.at && *key == entry.key);
            if is_unwanted {
                page.is_dirty = true;
                continue;
            }
            let size = entry.size();
            let id = if let Some(id) = set.find(entry.at, &entry.key) {
                let is_same = set.get(id).is_some_and(|present| present.is_same(&entry));
                if !is_same || self.unplaced.remove(&id).is_none() {
                    page.is_dirty = true;
                    continue;
                }
                id
            } else {
                self.loaded.0 += 1;
                set.insert(entry).0
            };
            page.size += size;
            page.entries.push(id);
            self.of_entry.insert(id, number);
        }
        self.pages.insert(number, page);
    }

    /// Ends the reading.
    fn finish(&mut self, set: &WantedSet, notices: &mut Vec<Notice>) -> bool {
        self.phase = Phase::Ready;
        self.unwanted.clear();
        for (id, size) in std::mem::take(&mut self.unplaced) {
            self.place(id, size);
        }
        let (entries, malformed) = self.loaded;
        if set.len() > 0 && entries + malformed > 0 {
            notices.push(Notice::Loaded { entries, malformed });
        }
        true
    }

    /// Sends requests that are due. Returns when to call it again.
    pub(super) fn drive(
        &mut self,
        set: &WantedSet,
        network: &mut Network<'_>,
        notices: &mut Vec<Notice>,
    ) -> Option<Duration> {
        let now = network.now();
        let done = match self.phase {
            Phase::Off => return None,
            Phase::Start(at) if now < at => return Some(at),
            Phase::Start(_) => network.storage().list(PREFIX, &self.last_key).map(|id| {
                self.pending.insert(id, Task::List);
                self.phase = Phase::Loading;
            }),
            Phase::Loading => self.get_pages(network),
            Phase::Ready if now < self.write_at => return Some(self.write_at),
            Phase::Ready => self.write_pages(set, network),
        };
        match done {
            Ok(()) => None,
            Err(AskError::NotNamed) => {
                self.phase = Phase::Off;
                let why = AskError::NotNamed.to_string();
                notices.push(Notice::NotKept { why });
                None
            }
            Err(AskError::TooMany | AskError::TooLong) => Some(now + Duration::from_millis(10)),
        }
    }

    fn get_pages(&mut self, network: &mut Network<'_>) -> Result<(), AskError> {
        while self.pending.len() < AT_ONCE
            && let Some(number) = self.to_get.front().copied()
        {
            let id = network.storage().get(&key(number))?;
            self.to_get.pop_front();
            self.pending.insert(id, Task::Get(number));
        }
        Ok(())
    }

    fn write_pages(&mut self, set: &WantedSet, network: &mut Network<'_>) -> Result<(), AskError> {
        for (number, page) in &mut self.pages {
            if self.pending.len() >= AT_ONCE {
                break;
            }
            if !page.is_dirty || page.is_written {
                continue;
            }
            let mut value = Writer::default();
            let entries = page.entries.iter().filter_map(|id| set.get(*id));
            entries.for_each(|entry| entry.write(&mut value));
            let id = if page.entries.is_empty() {
                network.storage().delete(&key(*number), Expect::Anything)?
            } else {
                network.storage().put(&key(*number), &value.0, Expect::Anything)?
            };
            (page.is_dirty, page.is_written) = (false, true);
            self.pending.insert(id, Task::Write(*number));
        }
        Ok(())
    }
}

fn key(number: u32) -> Vec<u8> {
    [PREFIX, format!("{number:08x}").as_bytes()].concat()
}

fn number(key: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(key.strip_prefix(PREFIX)?).ok()?;
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8)
}

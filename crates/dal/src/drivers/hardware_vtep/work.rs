//! Keeps the order of the controller's messages: flow-mods become transactions, one at a time, and what follows them waits for these.
//!
//! Flow-mods that add different flows share a transaction. If the database refuses it, each is sent alone, so that the error concerns the
//! flow-mod that caused it. A flow-mod that was refused alone is sent once more, since the rows may have changed since they were read.
//!
//! The queue is bounded by messages and bytes; further messages are refused.

use std::collections::{BTreeSet, VecDeque};

use openflow::FlowMod;
use ovsdb::Operation;

use super::device::Device;
use super::ownership::Owner;
use super::refusal::Refusal;
use super::rule::Rule;
use super::selection::Selection;
use super::transaction::{Builder, Edit};

/// Most messages that wait, and most of their bytes.
const MOST: usize = 16 * 1024;
const MOST_BYTES: usize = 4 << 20;

/// Most edits of a transaction. Each takes at most some 5 operations and tunnels.
const BATCH: usize = 256;

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) enum Work {
    /// Adds a flow.
    Put(Rule, Owner),
    /// Changes the instructions of flows. The bytes are the flow-mod.
    Modify(Selection, Vec<u8>),
    /// Removes flows.
    Delete(Selection),
    /// Is answered when all before it is done.
    Barrier,
    /// A multipart request.
    Request(Vec<u8>),
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Send this transaction; [`Queue::done`] or [`Queue::failed`] follows.
    Transact(Vec<Operation>),
    /// Answer a barrier request.
    Barrier(u32),
    /// Answer a multipart request.
    Answer(u32, Vec<u8>),
    /// Refuse a message.
    Refuse(u32, Refusal),
    /// Wait.
    Nothing,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Queue {
    works: VecDeque<(u32, Work)>,
    /// Bytes of the messages in `works`.
    size: usize,
    sizes: VecDeque<usize>,
    /// Edits of messages that were taken from `works`.
    edits: VecDeque<(u32, Edit)>,
    /// The edits of the transaction that was sent.
    sent: Vec<(u32, Edit)>,
    /// Number of edits that are sent alone, because their common transaction failed.
    alone: usize,
    /// Whether the next edit was refused alone once.
    is_retry: bool,
}

impl Queue {
    /// Appends a message of `size` bytes.
    ///
    /// # Errors
    /// [`Refusal::TooMany`].
    pub(super) fn push(&mut self, xid: u32, work: Work, size: usize) -> Result<(), Refusal> {
        if self.works.len() >= MOST || self.size + size > MOST_BYTES {
            return Err(Refusal::TooMany(self.works.len()));
        }
        self.size += size;
        self.sizes.push_back(size);
        self.works.push_back((xid, work));
        Ok(())
    }

    /// Whether nothing waits and nothing was sent.
    pub(super) fn is_idle(&self) -> bool {
        self.works.is_empty() && self.edits.is_empty() && self.sent.is_empty()
    }

    /// Decides what to do next, with the device as it is now.
    pub(super) fn step(&mut self, device: &Device) -> Step {
        while self.sent.is_empty() {
            if self.edits.is_empty() {
                let Some((xid, work)) = self.pop() else { return Step::Nothing };
                match work {
                    Work::Barrier => return Step::Barrier(xid),
                    Work::Request(message) => return Step::Answer(xid, message),
                    work => {
                        if let Err(refusal) = self.resolve(xid, work, device) {
                            return Step::Refuse(xid, refusal);
                        }
                    }
                }
            } else if let Some(step) = self.transact(device) {
                return step;
            }
        }
        Step::Nothing
    }

    /// Makes edits of a flow-mod.
    fn resolve(&mut self, xid: u32, work: Work, device: &Device) -> Result<(), Refusal> {
        match work {
            Work::Put(rule, owner) => self.gather(xid, Edit::Put(rule, owner)),
            Work::Delete(selection) => {
                // Another manager's flows stay.
                let covered = device.own_entries().filter(|(entry, _)| selection.covers(entry));
                self.edits.extend(covered.map(|(it, _)| (xid, Edit::Remove(it.rule.key()))));
            }
            Work::Modify(selection, message) => {
                return self.modify(xid, &selection, &message, device);
            }
            Work::Barrier | Work::Request(_) => {}
        }
        Ok(())
    }

    /// The transaction has succeeded.
    pub(super) fn done(&mut self) {
        self.sent.clear();
        self.is_retry = false;
    }

    /// The transaction has failed with `why`. Returns the message to refuse.
    pub(super) fn failed(&mut self, why: Refusal) -> Option<(u32, Refusal)> {
        let sent = std::mem::take(&mut self.sent);
        if let [(xid, _)] = &sent[..]
            && self.is_retry
        {
            self.is_retry = false;
            return Some((*xid, why));
        }
        if sent.len() > 1 {
            self.alone = sent.len();
        } else {
            self.is_retry = true;
            self.alone = self.alone.max(1);
        }
        for edit in sent.into_iter().rev() {
            self.edits.push_front(edit);
        }
        None
    }

    fn pop(&mut self) -> Option<(u32, Work)> {
        self.size -= self.sizes.pop_front().unwrap_or_default();
        self.works.pop_front()
    }

    /// Takes an addition, and those behind it that concern other flows.
    fn gather(&mut self, xid: u32, first: Edit) {
        let mut keys = BTreeSet::from([first.key()]);
        self.edits.push_back((xid, first));
        while keys.len() < BATCH {
            match self.works.front() {
                Some((_, Work::Put(rule, _))) if !keys.contains(&rule.key()) => {}
                _ => break,
            }
            let Some((xid, Work::Put(rule, owner))) = self.pop() else { break };
            keys.insert(rule.key());
            self.edits.push_back((xid, Edit::Put(rule, owner)));
        }
    }

    /// Gives the covered flows other instructions. Cookie, priority and flags stay (OpenFlow 1.3.5 §6.4).
    fn modify(
        &mut self,
        xid: u32,
        selection: &Selection,
        message: &[u8],
        device: &Device,
    ) -> Result<(), Refusal> {
        let flow_mod =
            FlowMod::decode(message).map_err(|error| Refusal::Malformed(error.to_string()))?;
        let mut edits = Vec::new();
        for (entry, owner) in device.own_entries().filter(|(it, _)| selection.covers(it)) {
            let edit = Edit::Put(Rule::new(entry.rule.key(), &flow_mod.instructions)?, owner);
            edit.check(device)?;
            edits.push((xid, edit));
        }
        self.edits.extend(edits);
        Ok(())
    }

    /// Makes a transaction of the next edits; `None` if there is nothing to send.
    fn transact(&mut self, device: &Device) -> Option<Step> {
        let most = if self.alone > 0 { 1 } else { BATCH };
        let mut builder = Builder::new(device);
        while self.sent.len() < most
            && let Some((xid, edit)) = self.edits.pop_front()
        {
            if let Err(refusal) = edit.check(device) {
                if self.sent.is_empty() {
                    return Some(Step::Refuse(xid, refusal));
                }
                self.edits.push_front((xid, edit)); // it is refused behind what precedes it
                break;
            }
            builder.add(&edit);
            self.sent.push((xid, edit));
        }
        self.alone = self.alone.saturating_sub(1);
        let operations = builder.finish();
        if operations.is_empty() {
            self.done(); // the flows are gone already
            return None;
        }
        Some(Step::Transact(operations))
    }
}

//! Copies an app's messages out of its ring, in portions, expands series, and checks each message.
//!
//! This is the boundary between the app's memory and the kernel's: behind it a message is a private copy that nobody
//! changes, and each message is alone. A series ([`series`]) is unknown behind it; its flow-mod is checked once.

use std::ops::Range;

use sdk::Refusal;
use series::{Expanded, ExpandedKind, Problem, Series};
use sys::ring::{Down, PeerFault};

use super::AppPort;
use super::tickets::Verdict;
use crate::check::{Checked, Rights};
use crate::rewrite::xid;

/// Most records of an app, and bytes of its messages, in one portion, about: they stay in the core's first cache.
const PORTION: usize = 128;
const PORTION_BYTES: usize = 16 * 1024;

/// Bytes of a record that cost as much time as another record.
const LONG: usize = 1024;

/// A portion of an app's messages. Emptied and filled again, so that nothing is allocated per message.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    list: Vec<Alike>,
    /// The number of messages.
    count: usize,
    /// The record of the series that is being expanded.
    record: Vec<u8>,
}

/// One message of an app, or several that lie side by side in the bytes of the portion and are decided about together:
/// of one size, for one connection, [alike](Checked::is_alike), and with transaction ids that count up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alike {
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
    /// At least 1.
    pub(crate) count: u32,
    /// Whether the app may send each, as far as the message itself says; why not, otherwise.
    pub(crate) checked: Result<Checked, Refusal>,
    /// The transaction id that the app gave the first.
    pub(crate) xid: u32,
    /// Where the first begins, and bytes of each.
    start: usize,
    pub(crate) size: usize,
}

impl Alike {
    /// One message for the connection `epoch` of the switch `dpid`, which begins at `start`.
    #[inline]
    pub(crate) fn one(
        (dpid, epoch): (u64, u32),
        checked: Result<Checked, Refusal>,
        (start, message): (usize, &[u8]),
    ) -> Self {
        Self { dpid, epoch, count: 1, checked, xid: xid(message), start, size: message.len() }
    }

    /// Each message by itself.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        let xids = (0..).map(move |number| self.xid.wrapping_add(number));
        self.ranges().zip(xids).map(move |(range, xid)| Self {
            count: 1,
            xid,
            start: range.start,
            ..self
        })
    }

    /// The place of each message in the bytes of the portion.
    #[inline]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Self { start, size, .. } = *self;
        (0..self.count as usize).map(move |number| {
            let start = start + number * size;
            start..start + size
        })
    }

    /// Adds messages; `false` if they do not follow these or are not like them.
    #[inline]
    fn extend(&mut self, next: &Self) -> bool {
        let is_alike = match (&self.checked, &next.checked) {
            (Ok(checked), Ok(next)) => checked.is_alike(next),
            _ => false,
        };
        let is_alike = is_alike
            && (self.dpid, self.epoch, self.size) == (next.dpid, next.epoch, next.size)
            && self.start + self.count as usize * self.size == next.start
            && self.xid.wrapping_add(self.count) == next.xid;
        if is_alike {
            self.count += next.count;
        }
        is_alike
    }
}

impl Messages {
    /// The messages, and the bytes in which they are.
    pub(crate) fn parts(&mut self) -> (&[Alike], &mut [u8]) {
        (&self.list, &mut self.bytes)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.count = 0;
    }

    /// Checks a message whose `size` bytes were appended.
    #[inline]
    fn push(&mut self, rights: &Rights, to: (u64, u32), size: usize) {
        let start = self.bytes.len() - size;
        let message = &self.bytes[start..];
        note(&mut self.list, Alike::one(to, rights.check_message(message), (start, message)));
        self.count += 1;
    }

    /// Replaces the record of `size` bytes that was appended, which claims to be a series of `count` flow-mods, by the
    /// messages of the series.
    fn expand(&mut self, rights: &Rights, to: (u64, u32), size: usize, count: u32) {
        let Self { bytes, list, record, count: messages } = self;
        let start = bytes.len() - size;
        record.clear();
        if start == 0 {
            std::mem::swap(record, bytes); // instead of a copy
        } else {
            record.extend_from_slice(&bytes[start..]);
            bytes.truncate(start);
        }
        let Some(series) = Series::read(record, count) else {
            bytes.extend_from_slice(record);
            *messages += 1;
            return note(list, Alike::one(to, Err(Refusal::Shape), (start, record)));
        };
        let flow_mod = rights.check_message(series.flow_mod());
        series.expand(rights, bytes, |expanded, bytes| {
            let Expanded { start, size, count, kind, problem } = expanded;
            let first = &bytes[..size];
            // Once for all: what else makes a difference between them is in the rights' limits.
            let checked = match (kind, problem) {
                (_, Some(Problem::Inexpressible)) => Err(Refusal::Shape),
                (ExpandedKind::FlowMod, None) => flow_mod,
                (ExpandedKind::FlowMod, Some(Problem::Forbidden)) => {
                    flow_mod.and(Err(Refusal::Capability))
                }
                (ExpandedKind::PacketOut, _) => rights.check_message(first),
            };
            note(list, Alike { count, ..Alike::one(to, checked, (start, first)) });
            *messages += count as usize;
        });
    }
}

/// Notes messages: with the last ones if they are like them.
#[inline]
fn note(list: &mut Vec<Alike>, message: Alike) {
    if !list.last_mut().is_some_and(|last| last.extend(&message)) {
        list.push(message);
    }
}

impl AppPort {
    /// Replaces `messages` by the next portion of the app's messages; what the app said about tickets is appended to
    /// `verdicts`. Returns how much work the portion was, in records; 0 if there is nothing more.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone broke its ring, behind what was taken.
    pub(crate) fn receive(
        &mut self,
        messages: &mut Messages,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<usize, PeerFault> {
        messages.clear();
        let mut taken = 0;
        while taken < PORTION && messages.bytes.len() <= PORTION_BYTES {
            match self.take(&mut messages.bytes, verdicts)? {
                Some(Down::Send { epoch, dpid, number, message }) => {
                    let (to, size, before) = ((dpid, epoch), message.len(), messages.count);
                    match number {
                        0 => messages.push(&self.rights, to, size),
                        count => messages.expand(&self.rights, to, size, count),
                    }
                    taken += messages.count - before + size / LONG;
                    self.throttle.note_message();
                }
                Some(Down::Done(count)) => {
                    self.throttle.note_done(count);
                    taken += 1;
                }
                Some(Down::Stop(_)) => taken += 1,
                None => return Ok(taken),
            }
        }
        Ok(taken)
    }
}

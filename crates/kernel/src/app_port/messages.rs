//! Copies an app's messages out of its ring, in portions, expands series, and checks each message.
//!
//! This is the boundary between the app's memory and the kernel's: behind it a message is a private copy that nobody
//! changes, and each message is alone. A series ([`series`]) is unknown behind it; its flow-mod is checked once.

use sdk::Refusal;
use series::Series;
use sys::ring::{Down, PeerFault};

use super::AppPort;
use super::tickets::Verdict;
use crate::check::{Checked, Rights};

/// Most records of an app, and bytes of its messages, in one portion, about: they stay in the core's first cache.
const PORTION: usize = 128;
const PORTION_BYTES: usize = 16 * 1024;

/// Bytes of a record that cost as much time as another record.
const LONG: usize = 1024;

/// A portion of an app's messages. Emptied and filled again, so that nothing is allocated per message.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    list: Vec<Message>,
    /// The record of the series that is being expanded.
    record: Vec<u8>,
}

/// A message of an app: its destination, and its place in the bytes of the portion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
    /// Whether the app may send it, as far as the message itself says; why not, otherwise.
    pub(crate) checked: Result<Checked, Refusal>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Messages {
    /// The messages, and the bytes in which they are.
    pub(crate) fn parts(&mut self) -> (&[Message], &mut [u8]) {
        (&self.list, &mut self.bytes)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    /// Checks a message whose `size` bytes were appended.
    #[inline]
    fn push(&mut self, rights: &Rights, (dpid, epoch): (u64, u32), size: usize) {
        let end = self.bytes.len();
        let start = end - size;
        let checked = rights.check_message(&self.bytes[start..]);
        self.list.push(Message { dpid, epoch, checked, start, end });
    }

    /// Replaces the record of `size` bytes that was appended, which claims to be a series of `count` flow-mods, by the
    /// messages of the series.
    fn expand(&mut self, rights: &Rights, (dpid, epoch): (u64, u32), size: usize, count: u32) {
        let Self { bytes, list, record } = self;
        let start = bytes.len() - size;
        record.clear();
        record.extend_from_slice(&bytes[start..]);
        let Some(series) = Series::read(record, count) else {
            let (checked, end) = (Err(Refusal::Shape), start + size);
            return list.push(Message { dpid, epoch, checked, start, end });
        };
        bytes.truncate(start);
        // Once for all: only buffers and ports can make a difference between them.
        let flow_mod = rights.check_message(series.flow_mod());
        series.expand(bytes, |expanded, message| {
            let checked = match &expanded.flow {
                _ if !expanded.is_expressible => Err(Refusal::Shape),
                Some(flow) => rights.check_filled(flow_mod, flow),
                None => rights.check_message(message),
            };
            let (start, end) = (expanded.range.start, expanded.range.end);
            list.push(Message { dpid, epoch, checked, start, end });
        });
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
                    let (to, size, before) = ((dpid, epoch), message.len(), messages.list.len());
                    match number {
                        0 => messages.push(&self.rights, to, size),
                        count => messages.expand(&self.rights, to, size, count),
                    }
                    taken += messages.list.len() - before + size / LONG;
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
